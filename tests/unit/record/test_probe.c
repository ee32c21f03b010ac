/* probe: made-up files of /proc as kernels write them, and this process and a child of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "record/probe.h"
#include "unit/machine.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#define MIB ((uint64_t)1 << 20)

static void a_process(void **state)
{
	struct machine *m = *state;
	struct probe_process p;
	put(m, "/proc/7/stat",
		"7 (a) b) (c) S 3 7 7 0 -1 4194560 1 2 3 4 150 50 8 9 20 0 3 0 98765 1000000 200 "
		"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 1 2 3 4 5 6 7 0\n");
	assert_true(probe_process_at(m->root, 7, &p));
	assert_int_equal(p.parent, 3);
	assert_int_equal(p.start_ticks, 98765);
	assert_int_equal(p.cpu_ticks, 200);
	assert_false(p.ended);
	put(m, "/proc/7/stat",
		"7 (x) Z 3 7 7 0 -1 4194560 1 2 3 4 150 50 8 9 20 0 3 0 98765 0 0 "
		"18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 2304\n");
	assert_true(probe_process_at(m->root, 7, &p));
	assert_true(p.ended);
	assert_true(WIFEXITED(p.status) && WEXITSTATUS(p.status) == 9);
	static const char *const rubbish[] = {"", "7", "7 (x", "7 (x)", "7 (x) S 1 2", "7 (x) S x",
		"7 (x) S 3 7 7 0 -1 1 1 2 3 4 many 50 8 9 20 0 3 0 98765 1"};
	for (size_t i = 0; i < UTIL_COUNT(rubbish); i++) {
		put(m, "/proc/7/stat", rubbish[i]);
		assert_false(probe_process_at(m->root, 7, &p));
	}
	assert_false(probe_process_at(m->root, 8, &p));
}

static void memory(void **state)
{
	struct machine *m = *state;
	struct record_memory memory;
	put(m, "/proc/7/status",
		"Name:\tVmRSS: 5\nVmPeak:\t 9999 kB\nVmHWM:\t    4096 kB\nVmRSS:\t    3072 kB\n"
		"RssAnon:\t    2048 kB\nRssFile:\t 0 kB\nRssShmem:\t    1024 kB\n");
	probe_memory_at(m->root, 7, &memory);
	assert_int_equal(memory.resident, 3 * MIB);
	assert_int_equal(memory.anonymous, 2 * MIB);
	assert_int_equal(memory.shared, MIB);
	assert_int_equal(memory.peak, 4 * MIB);
	assert_true(memory.swapped == UINT64_MAX);
	probe_memory_at(m->root, 8, &memory);
	assert_true(memory.resident == UINT64_MAX && memory.peak == UINT64_MAX);
}

static void commands(void **state)
{
	struct machine *m = *state;
	char text[16], path[PATH_MAX];
	put(m, "/proc/7/comm", "python3\n");
	put(m, "/proc/7/cmdline", "");
	probe_command_at(m->root, 7, text, sizeof text);
	assert_string_equal(text, "[python3]");
	/* Words end with a zero; a line break in one does not break the line. */
	(void)snprintf(path, sizeof path, "%s/proc/7/cmdline", m->root);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite("a\0b\nc\0\033[2J\0", 1, 11, file), 11);
	assert_int_equal(fclose(file), 0);
	probe_command_at(m->root, 7, text, sizeof text);
	assert_string_equal(text, "a b c  [2J");
	put(m, "/proc/7/cmdline", "a very long command line");
	probe_command_at(m->root, 7, text, sizeof text);
	assert_string_equal(text, "a very long com");
	probe_command_at(m->root, 8, text, sizeof text);
	assert_string_equal(text, "");
}

static void limits_in_time(void **state)
{
	struct machine *m = *state;
	char path[PATH_MAX];
	static const char environment[] = "A=SLURM_JOB_END_TIME=5\0XSLURM_JOB_END_TIME=6\0"
					  "SLURM_JOB_END_TIME=1790000000\0B=1";
	assert_int_equal(probe_deadline_at(m->root, 7), 0);
	put(m, "/proc/7/environ", "A=1");
	assert_int_equal(probe_deadline_at(m->root, 7), 0);
	put(m, "/proc/7/environ", "SLURM_JOB_END_TIME=soon");
	assert_int_equal(probe_deadline_at(m->root, 7), 0);
	(void)snprintf(path, sizeof path, "%s/proc/7/environ", m->root);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(environment, 1, sizeof environment, file), sizeof environment);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(probe_deadline_at(m->root, 7), 1790000000);

	assert_true(probe_cpu_limit_at(m->root, 7) == UINT64_MAX);
	put(m, "/proc/7/limits",
		"Limit                     Soft Limit           Hard Limit           Units     \n"
		"Max cpu time              3600                 unlimited            seconds   \n");
	assert_int_equal(probe_cpu_limit_at(m->root, 7), 3600);
	put(m, "/proc/7/limits", "Max cpu time              unlimited            unlimited\n");
	assert_true(probe_cpu_limit_at(m->root, 7) == UINT64_MAX);
}

static void a_machine(void **state)
{
	struct machine *m = *state;
	struct cgroup_view view;
	struct record_machine machine;
	put(m, "/proc/self/mountinfo",
		"31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
	put(m, "/proc/self/cgroup", "0::/job\n");
	put(m, "/sys/fs/cgroup/job/memory.max", "4194304\n");
	put(m, "/sys/fs/cgroup/job/memory.current", "1048576\n");
	put(m, "/sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 1\n");
	put(m, "/sys/fs/cgroup/job/memory.pressure",
		"some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n"
		"full avg10=3.25 avg60=0.00 avg300=0.00 total=1\n");
	put(m, "/proc/pressure/memory", "some avg10=99.00 avg60=0\n");
	put(m, "/proc/pressure/cpu", "some avg10=7.00 avg60=0.00 avg300=0.00 total=1\n");
	put(m, "/proc/meminfo", "MemTotal: 16384 kB\nMemAvailable: 8192 kB\nSwapFree: 0 kB\n");
	put(m, "/proc/vmstat", "nr_free_pages 7\noom_kill 41\n");
	cgroup_view_at(m->root, 0, &view);
	probe_machine_at(m->root, &view, m->root, &machine);
	assert_int_equal(machine.total, 16 * MIB);
	assert_int_equal(machine.available, 8 * MIB);
	assert_int_equal(machine.swap_free, 0);
	assert_int_equal(machine.oom_kills, 41);
	assert_true(machine.disk_free != UINT64_MAX && machine.disk_free > 0);
	assert_string_equal(machine.cgroup.path, "/job");
	assert_int_equal(machine.cgroup.limit, 4 * MIB);
	assert_int_equal(machine.cgroup.used, MIB);
	assert_int_equal(machine.cgroup.oom_kills, 1);
	assert_true(machine.pressure.memory_some == 12.5f && machine.pressure.memory_full == 3.25f);
	assert_true(machine.pressure.cpu_some == 7);
	assert_true(machine.pressure.io_some < 0 && machine.pressure.io_full < 0);
}

static void a_machine_that_tells_nothing(void **state)
{
	struct machine *m = *state;
	struct cgroup_view view;
	struct record_machine machine;
	cgroup_view_at(m->root, 0, &view);
	probe_machine_at(m->root, &view, NULL, &machine);
	assert_true(machine.total == UINT64_MAX && machine.available == UINT64_MAX);
	assert_true(machine.oom_kills == UINT64_MAX && machine.disk_free == UINT64_MAX);
	assert_true(machine.cgroup.used == UINT64_MAX && machine.cgroup.limit == UINT64_MAX);
	assert_true(machine.pressure.memory_some < 0 && machine.pressure.cpu_some < 0);
	assert_true(probe_oom_kills_at(m->root) == UINT64_MAX);
}

/* This kernel's files about this process, and about a child that is not reaped yet. */
static void this_machine(void **state)
{
	struct probe_process p;
	struct record_memory memory;
	char command[256];
	siginfo_t info;
	(void)state;
	assert_true(probe_process_at("", getpid(), &p));
	assert_int_equal(p.parent, getppid());
	assert_true(p.start_ticks > 0 && !p.ended);
	probe_memory_at("", getpid(), &memory);
	assert_true(memory.resident > 0 && memory.resident <= memory.peak);
	probe_command_at("", getpid(), command, sizeof command);
	assert_non_null(strstr(command, "unit_record_probe"));
	pid_t child = fork();
	if (child == 0)
		_exit(5);
	assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	assert_true(probe_process_at("", child, &p));
	assert_true(p.ended && WIFEXITED(p.status) && WEXITSTATUS(p.status) == 5);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_false(probe_process_at("", child, &p));
}

int main(void)
{
#define PROBE_TEST(name) cmocka_unit_test_setup_teardown(name, machine_init, machine_deinit)
	const struct CMUnitTest tests[] = {
		PROBE_TEST(a_process),
		PROBE_TEST(memory),
		PROBE_TEST(commands),
		PROBE_TEST(limits_in_time),
		PROBE_TEST(a_machine),
		PROBE_TEST(a_machine_that_tells_nothing),
		cmocka_unit_test(this_machine),
	};
	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}

/* cgroup: made-up machines below a temporary folder. Each writes /proc and /sys/fs/cgroup as one
 * kind of host or container shows them; the last tests read the real ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/cgroup.h"
#include "base/util.h"
#include "unit/machine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* 16 GiB, of which 4 GiB are free and 12 GiB available. */
static int init(void **state)
{
	if (machine_init(state))
		return -1;
	put(*state, "/proc/meminfo",
		"MemTotal:       16777216 kB\nMemFree:         4194304 kB\nMemAvailable:   "
		"12582912 kB\n"
		"Buffers:            3304 kB\nHugePages_Total:       0\n");
	return 0;
}

static const char unified[] =
	"24 1 0:20 / / rw - ext4 /dev/vda rw\n"
	"31 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:2 - cgroup2 cgroup2 rw,nsdelegate\n";

static void level_v2(
	struct machine *m, const char *dir, const char *max, const char *current, const char *stat)
{
	char path[256];
	(void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", dir);
	put(m, path, max);
	(void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", dir);
	put(m, path, current);
	(void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", dir);
	put(m, path, stat);
}

static void assert_source(
	const struct machine *m, const struct cgroup_memory *memory, const char *expected)
{
	assert_memory_equal(memory->source, m->root, strlen(m->root));
	assert_string_equal(memory->source + strlen(m->root), expected);
}

static void falls_back_to_meminfo(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, 16 * GIB);
	assert_int_equal(memory.used, 12 * GIB);
	assert_int_equal(memory.reclaimable, 8 * GIB);
	assert_int_equal(memory.available, 12 * GIB);
	assert_string_equal(memory.source, "MemTotal");
	assert_true(cgroup_cpus_at(m->root) == 0);
}

static void knows_nothing_without_proc(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	char nowhere[128];
	(void)snprintf(nowhere, sizeof nowhere, "%s/nowhere", m->root);
	cgroup_memory_read_at(nowhere, &memory);
	assert_int_equal(memory.limit, UINT64_MAX);
	assert_int_equal(memory.available, UINT64_MAX);
	assert_int_equal(memory.used, 0);
	assert_true(cgroup_cpus_at(nowhere) == 0);
}

/* The tightest limit is an ancestor's, and a larger limit above it has even less left. */
static void takes_the_tightest_ancestor_v2(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "0::/job/step/task\n");
	put(m, "/proc/self/mountinfo", unified);
	level_v2(m, "/job/step/task", "max\n", "104857600\n",
		"anon 1\nactive_file 10485760\ninactive_file 0\n");
	level_v2(m, "/job/step", "2147483648\n", "1073741824\n",
		"anon 1\nactive_file 104857600\ninactive_file 209715200\n");
	level_v2(m, "/job", "4294967296\n", "4194304000\n", "active_file 0\ninactive_file 0\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, 2 * GIB);
	assert_int_equal(memory.used, GIB);
	assert_int_equal(memory.reclaimable, 300 * MIB);
	assert_int_equal(memory.available, 96 * MIB);
	assert_source(m, &memory, "/sys/fs/cgroup/job/step/memory.max");
}

static void counts_memory_high(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "0::/a\n");
	put(m, "/proc/self/mountinfo", unified);
	level_v2(m, "/a", "2147483648\n", "0\n", "");
	put(m, "/sys/fs/cgroup/a/memory.high", "1073741824\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, GIB);
	assert_int_equal(memory.available, GIB);
	assert_source(m, &memory, "/sys/fs/cgroup/a/memory.high");
}

/* A limit that is used up leaves nothing, not a huge number. */
static void leaves_nothing_beyond_the_limit(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "0::/a\n");
	put(m, "/proc/self/mountinfo", unified);
	level_v2(m, "/a", "1073741824\n", "1073745920\n", "active_file 0\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.available, 0);
	level_v2(m, "/a", "1073741824\n", "4096\n",
		"active_file 999999999\n"); /* read at another moment */
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.available, GIB);
}

static void ignores_limits_beyond_the_machine(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "0::/a\n");
	put(m, "/proc/self/mountinfo", unified);
	level_v2(m, "/a", "1099511627776\n", "1024\n", "active_file 0\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, 16 * GIB);
	assert_int_equal(memory.available, 12 * GIB);
	assert_string_equal(memory.source, "MemTotal");
}

/* A container without a cgroup namespace: the path is the host's, the mount shows the container's
 * part as its root. */
static void strips_the_mounts_root_v1(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup",
		"9:memory:/docker/ab/inner\n4:cpu,cpuacct:/docker/ab\n1:name=systemd:/docker/ab\n");
	put(m, "/proc/self/mountinfo",
		"40 39 0:31 /docker/a /other rw - cgroup cgroup rw,memory\n"
		"41 39 0:31 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
		"42 39 0:32 /docker/ab /sys/fs/cgroup/cpu\\054cpuacct ro - cgroup cgroup "
		"rw,cpu,cpuacct\n");
	put(m, "/other/memory.limit_in_bytes",
		"1048576\n"); /* another container's, whose name begins in the same way */
	put(m, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
	put(m, "/sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n");
	put(m, "/sys/fs/cgroup/memory/memory.stat",
		"cache 7\nactive_file 1\ninactive_file 1\nhierarchical_memory_limit 1073741824\n"
		"total_active_file 1048576\ntotal_inactive_file 1048576\n");
	put(m, "/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
	put(m, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
	put(m, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, GIB);
	assert_int_equal(memory.used, 512 * MIB);
	assert_int_equal(memory.reclaimable, 2 * MIB);
	assert_int_equal(memory.available, 514 * MIB);
	assert_source(m, &memory, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
	assert_true(cgroup_cpus_at(m->root) == 2.5);
}

/* Only the host knows the path: the mount's root is the process's own cgroup. */
static void uses_the_mounts_root_where_the_path_is_unknown(void **state)
{
	static const char *const own[] = {
		"0::/kubepods/pod1/abc\n", "0::/../../sibling\n", "0::/..\n", "0::/\n"};
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/mountinfo", unified);
	level_v2(m, "", "1073741824\n", "0\n", "active_file 0\n");
	put(m, "/sys/fs/cgroup/cpu.max", "150000 100000\n");
	for (size_t i = 0; i < UTIL_COUNT(own); i++) {
		put(m, "/proc/self/cgroup", own[i]);
		cgroup_memory_read_at(m->root, &memory);
		assert_int_equal(memory.limit, GIB);
		assert_source(m, &memory, "/sys/fs/cgroup/memory.max");
		assert_true(cgroup_cpus_at(m->root) == 1.5);
	}
}

/* A mount that shows the process's own cgroup wins over one that does not, in any order. */
static void prefers_the_mount_that_shows_the_own_cgroup(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "0::/a\n");
	put(m, "/proc/self/mountinfo",
		"30 23 0:26 /elsewhere /host rw - cgroup2 none rw\n"
		"31 23 0:26 / /sys/my\\040cgroup rw - cgroup2 none rw\n");
	put(m, "/host/memory.max", "1048576\n");
	put(m, "/sys/my cgroup/a/memory.max", "1073741824\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, GIB);
	assert_source(m, &memory, "/sys/my cgroup/a/memory.max");
}

/* Both kinds mounted, the controllers in v1: an empty v2 hierarchy must not hide them. */
static void reads_hybrid_machines(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "4:memory:/api/1\n2:cpuacct:/\n1:cpu:/api\n0::/\n");
	put(m, "/proc/self/mountinfo",
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		"32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
		"33 31 0:30 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n"
		"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put(m, "/sys/fs/cgroup/unified/cgroup.controllers", "\n");
	put(m, "/sys/fs/cgroup/memory/api/1/memory.limit_in_bytes", "2147483648\n");
	put(m, "/sys/fs/cgroup/memory/api/memory.limit_in_bytes", "1073741824\n");
	put(m, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put(m, "/sys/fs/cgroup/cpu/api/cpu.cfs_quota_us", "-1\n");
	put(m, "/sys/fs/cgroup/cpu/api/cpu.cfs_period_us", "100000\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, GIB);
	assert_source(m, &memory, "/sys/fs/cgroup/memory/api/memory.limit_in_bytes");
	assert_true(cgroup_cpus_at(m->root) == 0);
}

/* v1 reports the tightest limit above the levels that the container sees. */
static void believes_the_hierarchical_limit(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	put(m, "/proc/self/cgroup", "4:memory:/\n");
	put(m, "/proc/self/mountinfo", "35 31 0:32 / /m rw - cgroup cgroup rw,memory\n");
	put(m, "/m/memory.limit_in_bytes", "9223372036854771712\n");
	put(m, "/m/memory.usage_in_bytes", "268435456\n");
	put(m, "/m/memory.stat", "total_inactive_file 0\nhierarchical_memory_limit 536870912\n");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, 512 * MIB);
	assert_int_equal(memory.available, 256 * MIB);
	assert_source(m, &memory, "/m/memory.stat");
}

static void takes_the_smallest_quota(void **state)
{
	static const struct {
		const char *inner, *outer;
		double cpus;
	} cases[] = {
		{"max 100000\n", "max 100000\n", 0},
		{"400000 100000\n", "max 100000\n", 4},
		{"max 100000\n", "50000 100000\n", 0.5},
		{"400000 100000\n", "100000 50000\n", 2},
		{"100000 100000\n", "300000 100000\n", 1},
		{"", "100000\n", 0},
		{"1 0\n", "junk\n", 0},
	};
	struct machine *m = *state;
	put(m, "/proc/self/cgroup", "0::/a/b\n");
	put(m, "/proc/self/mountinfo", unified);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		put(m, "/sys/fs/cgroup/a/b/cpu.max", cases[i].inner);
		put(m, "/sys/fs/cgroup/a/cpu.max", cases[i].outer);
		assert_true(cgroup_cpus_at(m->root) == cases[i].cpus);
	}
}

static void adds_no_levels_of_throttling(void **state)
{
	struct machine *m = *state;
	put(m, "/proc/self/cgroup", "0::/a/b\n");
	put(m, "/proc/self/mountinfo", unified);
	assert_int_equal(cgroup_throttled_us_at(m->root), 0);
	put(m, "/sys/fs/cgroup/a/cpu.stat",
		"usage_usec 90\nnr_throttled 7\nthrottled_usec 12345\n");
	put(m, "/sys/fs/cgroup/a/b/cpu.stat",
		"usage_usec 90\nnr_throttled 0\nthrottled_usec 345\n");
	assert_int_equal(cgroup_throttled_us_at(m->root), 12345);
	put(m, "/sys/fs/cgroup/a/cpu.stat", "throttled_usec many\n");
	assert_int_equal(cgroup_throttled_us_at(m->root), 345);
	put(m, "/proc/self/cgroup", "3:cpu,cpuacct:/old\n");
	put(m, "/proc/self/mountinfo",
		"30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
	put(m, "/sys/fs/cgroup/cpu/old/cpu.stat",
		"nr_periods 9\nnr_throttled 2\nthrottled_time 5000000\n"); /* ns */
	assert_int_equal(cgroup_throttled_us_at(m->root), 5000);
}

static void survives_rubbish(void **state)
{
	struct machine *m = *state;
	struct cgroup_memory memory;
	char *rubbish = malloc(300000);
	assert_non_null(rubbish);
	for (size_t i = 0; i < 299999; i++)
		rubbish[i] = "a/ -:\\0\n,"[(i * 2654435761u >> 7) % 9];
	rubbish[299999] = 0;
	put(m, "/proc/self/cgroup", "::\n:\n\n0:\n0::\n4:memory\n4:memory:/x\n0::/y\n");
	put(m, "/proc/self/mountinfo",
		" - \n - cgroup2\n1 2 3 4\n1 2 3 / / rw - cgroup2 a rw\n1 2 3 / /x - cgroup b\n");
	put(m, "/memory.max", "12x\n");
	put(m, "/memory.stat", "active_file many\n");
	put(m, "/memory.current", "");
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, 12);
	put(m, "/memory.max", "junk");
	put(m, "/proc/meminfo", rubbish);
	put(m, "/proc/self/mountinfo", rubbish);
	cgroup_memory_read_at(m->root, &memory);
	assert_int_equal(memory.limit, UINT64_MAX);
	put(m, "/proc/self/cgroup", rubbish);
	cgroup_memory_read_at(m->root, &memory);
	memset(rubbish, '/', 299999);
	memcpy(rubbish, "0::", 3);
	put(m, "/proc/self/cgroup", rubbish);
	put(m, "/proc/self/mountinfo", unified);
	cgroup_memory_read_at(m->root, &memory);
	assert_true(cgroup_cpus_at(m->root) == 0);
	free(rubbish);
}

static void reads_this_machine(void **state)
{
	struct cgroup_memory memory;
	(void)state;
	cgroup_memory_read(&memory);
	assert_in_range(memory.limit, MIB, (uint64_t)1 << 50);
	assert_true(memory.available <= memory.limit);
	assert_true(memory.source[0]);
	assert_true(cgroup_cpus() >= 0);
}

/* A file of this process's own cgroup has a number in it, or does not exist. */
static void finds_this_machines_files(void **state)
{
	(void)state;
	char path[PATH_MAX] = "unchanged";
	assert_false(cgroup_memory_file("no.such", "no.such", path, sizeof path));
	assert_string_equal(path, "unchanged");
	if (!cgroup_memory_file("memory.current", "memory.usage_in_bytes", path, sizeof path)) {
		assert_string_equal(path, "unchanged");
		return;
	}
	cleanup(close_file) FILE *file = fopen(path, "re");
	unsigned long long bytes = 0;
	assert_true(file && fscanf(file, "%llu", &bytes) == 1 && bytes > 0);
	assert_false(
		cgroup_memory_file("memory.current", "memory.usage_in_bytes", path, strlen(path)));
}

/* ---- views ---- */

static void views_another_process_v2(void **state)
{
	struct machine *m = *state;
	struct cgroup_view view;
	struct cgroup_usage usage;
	put(m, "/proc/self/mountinfo", unified);
	put(m, "/proc/77/cgroup", "0::/job/task\n");
	level_v2(m, "/job/task", "max\n", "104857600\n", "");
	level_v2(m, "/job", "2147483648\n", "1073741824\n", "");
	put(m, "/sys/fs/cgroup/job/task/memory.events",
		"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 9\n");
	cgroup_view_at(m->root, 77, &view);
	assert_true(view.has_memory && view.has_unified && view.memory.v2);
	assert_string_equal(view.path, "/job/task");
	cgroup_usage_read(&view, &usage);
	assert_int_equal(usage.limit, 2 * GIB);
	assert_int_equal(usage.used, GIB);
	assert_int_equal(usage.oom_kills, 2);
	/* Read again through the same view, and after the cgroup was removed. */
	level_v2(m, "/job/task", "52428800\n", "50331648\n", "");
	cgroup_usage_read(&view, &usage);
	assert_int_equal(usage.limit, 50 * MIB);
	assert_int_equal(usage.used, 48 * MIB);
	cgroup_view_at(m->root, 78, &view);
	assert_false(view.has_memory);
	cgroup_usage_read(&view, &usage);
	assert_true(usage.used == UINT64_MAX && usage.limit == UINT64_MAX &&
		    usage.oom_kills == UINT64_MAX);
	assert_string_equal(view.path, "");
}

/* Without a limit the usage is that of the process's own cgroup. */
static void views_without_a_limit(void **state)
{
	struct machine *m = *state;
	struct cgroup_view view;
	struct cgroup_usage usage;
	put(m, "/proc/self/mountinfo", unified);
	put(m, "/proc/self/cgroup", "0::/a/b\n");
	level_v2(m, "/a/b", "max\n", "1048576\n", "");
	level_v2(m, "/a", "max\n", "8388608\n", "");
	cgroup_view_at(m->root, 0, &view);
	cgroup_usage_read(&view, &usage);
	assert_true(usage.limit == UINT64_MAX);
	assert_int_equal(usage.used, MIB);
}

/* v1 beside an empty v2: the counter is in oom_control, and "no limit" is a large number. */
static void views_v1(void **state)
{
	struct machine *m = *state;
	struct cgroup_view view;
	struct cgroup_usage usage;
	put(m, "/proc/77/cgroup", "4:memory:/job/a\n1:cpu:/\n0::/\n");
	put(m, "/proc/self/mountinfo",
		"41 39 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
		"42 39 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put(m, "/sys/fs/cgroup/unified/cgroup.procs", "");
	put(m, "/sys/fs/cgroup/memory/job/a/memory.limit_in_bytes", "9223372036854771712\n");
	put(m, "/sys/fs/cgroup/memory/job/a/memory.usage_in_bytes", "1048576\n");
	put(m, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
	put(m, "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "536870912\n");
	put(m, "/sys/fs/cgroup/memory/job/a/memory.oom_control",
		"oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
	cgroup_view_at(m->root, 77, &view);
	cgroup_usage_read(&view, &usage);
	assert_false(view.memory.v2);
	assert_string_equal(view.path, "/job/a");
	assert_int_equal(usage.limit, GIB);
	assert_int_equal(usage.used, 512 * MIB);
	assert_int_equal(usage.oom_kills, 5);
	/* Kernels before 4.13 do not count. */
	put(m, "/sys/fs/cgroup/memory/job/a/memory.oom_control", "under_oom 0\n");
	assert_true(cgroup_oom_kills(&view) == UINT64_MAX);
}

/* A process of another container has no place that is visible from here. A process of the same
 * container is where this one is, although the path is the host's. */
static void views_no_strangers(void **state)
{
	struct machine *m = *state;
	struct cgroup_view view;
	put(m, "/proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put(m, "/proc/self/cgroup", "0::/host/only/knows\n");
	put(m, "/proc/77/cgroup", "0::/host/only/knows\n");
	put(m, "/proc/78/cgroup", "0::/../another\n");
	put(m, "/sys/fs/cgroup/memory.current", "1048576\n");
	cgroup_view_at(m->root, 77, &view);
	assert_true(view.has_memory);
	cgroup_view_at(m->root, 78, &view);
	assert_false(view.has_memory);
	assert_string_equal(view.path, "/../another");
}

#define MACHINE_TEST(f) cmocka_unit_test_setup_teardown(f, init, machine_deinit)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MACHINE_TEST(falls_back_to_meminfo),
		MACHINE_TEST(knows_nothing_without_proc),
		MACHINE_TEST(takes_the_tightest_ancestor_v2),
		MACHINE_TEST(counts_memory_high),
		MACHINE_TEST(leaves_nothing_beyond_the_limit),
		MACHINE_TEST(ignores_limits_beyond_the_machine),
		MACHINE_TEST(strips_the_mounts_root_v1),
		MACHINE_TEST(uses_the_mounts_root_where_the_path_is_unknown),
		MACHINE_TEST(prefers_the_mount_that_shows_the_own_cgroup),
		MACHINE_TEST(reads_hybrid_machines),
		MACHINE_TEST(believes_the_hierarchical_limit),
		MACHINE_TEST(takes_the_smallest_quota),
		MACHINE_TEST(adds_no_levels_of_throttling),
		MACHINE_TEST(survives_rubbish),
		MACHINE_TEST(views_another_process_v2),
		MACHINE_TEST(views_without_a_limit),
		MACHINE_TEST(views_v1),
		MACHINE_TEST(views_no_strangers),
		cmocka_unit_test(reads_this_machine),
		cmocka_unit_test(finds_this_machines_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

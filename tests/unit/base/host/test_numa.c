/* numa: lists of CPUs, topologies as kernels show them and as they must not be, how threads are
 * shared out, and what the kernel then does with threads and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/numa.h"
#include "base/util.h"
#include "unit/machine.h"

#include <unistd.h>

static struct numa numa; /* large */

/* CPUs that this process may use: the first two, or one twice. */
static unsigned allowed_cpus(unsigned ret[2])
{
	struct numa_set set = {0};
	unsigned count = 0;
	assert_true(sched_getaffinity(0, sizeof set, set.part) >= 0);
	for (unsigned cpu = 0; cpu < NUMA_CPUS && count < 2; cpu++)
		if (CPU_ISSET_S(cpu, sizeof set, set.part))
			ret[count++] = cpu;
	assert_true(count > 0);
	return count;
}

static void put_cpu(struct machine *m, const char *path, unsigned cpu, const char *more)
{
	char text[64];
	(void)snprintf(text, sizeof text, "%u%s\n", cpu, more);
	put(m, path, text);
}

static void parses_lists(void **state)
{
	static const struct {
		const char *text;
		unsigned cpus, first, last;
	} good[] = {{"0\n", 1, 0, 0}, {"0-3,8\n", 5, 0, 8}, {"1,3,5", 3, 1, 5}, {"7-7", 1, 7, 7},
		{"0-8191", 8192, 0, 8191}, {" 4-5\n", 2, 4, 5}, {"1,1", 1, 1, 1}};
	static const char *const bad[] = {"x", "-", "0-", "-3", "3-1", "0,", ",0", "0,,1", "0 1",
		"0-3-5", "8192", "0-8192", "99999999999999999999", "0x1", "0;1", "1-2:1/2"};
	struct numa_set set;
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(good); i++) {
		assert_int_equal(numa_parse(good[i].text, &set), 0);
		assert_int_equal(numa_set_count(&set), good[i].cpus);
		assert_true(CPU_ISSET_S(good[i].first, sizeof set, set.part));
		assert_true(CPU_ISSET_S(good[i].last, sizeof set, set.part));
	}
	assert_int_equal(numa_parse("", &set), 0);
	assert_int_equal(numa_set_count(&set), 0);
	assert_int_equal(numa_parse("\n", &set), 0);
	assert_int_equal(numa_set_count(&set), 0);
	for (size_t i = 0; i < UTIL_COUNT(bad); i++)
		if (numa_parse(bad[i], &set) != -EINVAL)
			fail_msg("\"%s\" was taken for a list", bad[i]);
}

static void reads_two_nodes(void **state)
{
	struct machine *m = *state;
	struct fault fault = {""};
	unsigned cpu[2];
	if (allowed_cpus(cpu) < 2)
		skip();
	put(m, "/online", "0-2,5,7\n");
	put_cpu(m, "/node0/cpulist", cpu[0], "");
	put(m, "/node1/cpulist", "\n"); /* only memory */
	put(m, "/node2/cpulist", "8100-8191\n"); /* CPUs of other processes */
	put_cpu(m, "/node5/cpulist", cpu[1], ",8000");
	put(m, "/node7/cpulist", "");
	assert_int_equal(numa_read(m->root, &numa, &fault), 0);
	assert_int_equal(numa.count, 2);
	assert_int_equal(numa.cpus, 2);
	assert_int_equal(numa.node[0].number, 0);
	assert_int_equal(numa.node[1].number, 5);
	assert_int_equal(numa_set_count(&numa.node[1].set), 1);
	assert_true(CPU_ISSET_S(cpu[1], sizeof numa.node[1].set, numa.node[1].set.part));
}

static void one_node_is_none(void **state)
{
	struct machine *m = *state;
	struct fault fault = {""};
	/* A kernel without NUMA, or a sandbox. */
	assert_int_equal(numa_read(m->root, &numa, &fault), 0);
	assert_int_equal(numa.count, 0);
	put(m, "/online", "0-1\n");
	put(m, "/node0/cpulist", "0-8191\n");
	put(m, "/node1/cpulist", "\n");
	assert_int_equal(numa_read(m->root, &numa, &fault), 0);
	assert_int_equal(numa.count, 0);
	/* The node went offline in between. */
	put(m, "/online", "0-3\n");
	assert_int_equal(numa_read(m->root, &numa, &fault), 0);
	assert_int_equal(numa.count, 0);
	put(m, "/online", "");
	assert_int_equal(numa_read(m->root, &numa, &fault), 0);
	assert_int_equal(numa.count, 0);
	assert_string_equal(fault.text, "");
}

static void refuses_what_it_cannot_understand(void **state)
{
	struct machine *m = *state;
	static const char *const online[] = {"garbage\n", "0-\n", "0-8192\n"};
	struct fault fault = {""};
	for (size_t i = 0; i < UTIL_COUNT(online); i++) {
		put(m, "/online", online[i]);
		assert_int_equal(numa_read(m->root, &numa, &fault), -EINVAL);
		assert_non_null(
			strstr(fault.text, "/online: expected a list of numbers below 8192"));
		assert_non_null(strstr(fault.text, "set `numa: off`"));
	}
	put(m, "/online", "0-1\n");
	put(m, "/node0/cpulist", "0-8191\n");
	put(m, "/node1/cpulist", "what?\n");
	assert_int_equal(numa_read(m->root, &numa, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "/node1/cpulist: expected a list"));
	assert_non_null(strstr(fault.text, "got \"what?\""));
	assert_int_equal(numa.count, 0);
	put(m, "/node1/cpulist", "0-8191\n");
	assert_int_equal(numa_read(m->root, &numa, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "the nodes 0 and 1 have CPUs in common"));
	assert_int_equal(numa.count, 0);
}

static void shares_by_cpus(void **state)
{
	static const struct {
		unsigned cpus[3], count, threads, expected[3];
	} cases[] = {
		{{4, 4, 0}, 2, 8, {4, 4, 0}},
		{{4, 4, 0}, 2, 7, {3, 4, 0}},
		{{6, 2, 0}, 2, 8, {6, 2, 0}},
		{{6, 2, 0}, 2, 4, {3, 1, 0}},
		{{1, 1, 0}, 2, 2, {1, 1, 0}},
		{{64, 64, 64}, 3, 190, {63, 64, 63}},
		{{1, 1, 1}, 3, 1024, {341, 342, 341}},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		unsigned got[3] = {0};
		numa = (struct numa){.count = cases[i].count};
		for (unsigned n = 0; n < numa.count; n++) {
			numa.node[n].cpus = cases[i].cpus[n];
			numa.cpus += cases[i].cpus[n];
		}
		for (unsigned t = 0; t < cases[i].threads; t++)
			got[numa_share(&numa, t, cases[i].threads)]++;
		assert_memory_equal(got, cases[i].expected, sizeof got);
	}
}

static void *wait_for_ever(void *argument)
{
	while (!argument)
		(void)pause();
	return argument;
}

static void binds_and_finds(void **state)
{
	unsigned cpu[2];
	struct numa_set now, before;
	pthread_t thread;
	(void)state;
	if (allowed_cpus(cpu) < 2)
		skip();
	numa = (struct numa){.count = 2, .cpus = 2};
	for (unsigned i = 0; i < 2; i++) {
		numa.node[i].cpus = 1;
		CPU_SET_S(cpu[i], sizeof now, numa.node[i].set.part);
	}
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(numa_bind(&numa, i, thread), 0);
		assert_int_equal(pthread_getaffinity_np(thread, sizeof now, now.part), 0);
		assert_memory_equal(&now, &numa.node[i].set, sizeof now);
	}
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* /proc/PID/status is that of the first thread, this one. */
	assert_int_equal(numa_of_process(&numa, getpid()), -1);
	assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof before, before.part), 0);
	assert_int_equal(numa_bind(&numa, 1, pthread_self()), 0);
	assert_int_equal(numa_of_process(&numa, getpid()), 1);
	assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof before, before.part), 0);
	assert_int_equal(numa_of_process(&numa, 0), -1);
	assert_int_equal(numa_of_process(&numa, -1), -1);
	assert_int_equal(numa_of_process(&numa, INT_MAX), -1);
}

/* A node that does not exist is an error; the first one is none where the kernel has NUMA and no
 * sandbox forbids the call. */
static void prefers_a_node(void **state)
{
	(void)state;
	numa = (struct numa){.count = 2};
	numa.node[1].number = NUMA_NUMBERS - 1;
	int first = numa_prefer(&numa, 0);
	assert_true(first == 0 || first == -EPERM || first == -ENOSYS);
	assert_true(numa_prefer(&numa, 1) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_lists),
		cmocka_unit_test_setup_teardown(reads_two_nodes, machine_init, machine_deinit),
		cmocka_unit_test_setup_teardown(one_node_is_none, machine_init, machine_deinit),
		cmocka_unit_test_setup_teardown(
			refuses_what_it_cannot_understand, machine_init, machine_deinit),
		cmocka_unit_test(shares_by_cpus),
		cmocka_unit_test(binds_and_finds),
		cmocka_unit_test(prefers_a_node),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

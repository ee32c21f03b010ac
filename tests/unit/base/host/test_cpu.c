/* cpu: the rule for quota and affinity; the mask of this thread counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/cpu.h"
#include "base/util.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static void rounds_a_quota_up(void **state)
{
	static const struct {
		unsigned cpus;
		double quota;
		unsigned expected;
	} cases[] = {
		{8, 0, 8},
		{8, 8, 8},
		{8, 100, 8},
		{8, 4, 4},
		{8, 3.2, 4},
		{8, 0.1, 1},
		{8, 1.0001, 2},
		{1, 0.5, 1},
		{1, 7, 1},
		{0, 0, 1},
		{0, 3, 1},
		{8, -1, 8},
		{4096, 1e300, 4096},
		{8, 1e-300, 1},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_int_equal(
			cpu_within_quota(cases[i].cpus, cases[i].quota), cases[i].expected);
}

/* One CPU is the trainer's. */
static void leaves_one_to_the_trainer(void **state)
{
	static const unsigned cases[][2] = {{0, 1}, {1, 1}, {2, 1}, {3, 2}, {16, 15}, {256, 255}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_int_equal(cpu_threads_of(cases[i][0]), cases[i][1]);
	assert_int_equal(cpu_threads(), cpu_threads_of(cpu_available()));
}

static void honours_the_mask(void **state)
{
	cpu_set_t before, one;
	unsigned all = cpu_affinity();
	(void)state;
	assert_in_range(all, 1, 1 << 20);
	assert_in_range(cpu_available(), 1, all);
	if (sched_getaffinity(0, sizeof before, &before) < 0)
		skip(); /* more processors than fit into this test's own mask */
	assert_int_equal(all, CPU_COUNT(&before));
	int first = 0;
	while (!CPU_ISSET(first, &before))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(cpu_affinity(), 1);
	assert_int_equal(cpu_available(), 1);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void tells_how_long_a_thread_waited(void **state)
{
	uint64_t delay = UINT64_MAX, later = 0;
	(void)state;
	assert_false(cpu_delay_ns(-1, &delay));
	assert_false(cpu_delay_ns(INT32_MAX, &delay));
	assert_true(delay == UINT64_MAX); /* not written where it is not known */
	if (!cpu_delay_ns(gettid(), &delay))
		skip(); /* a kernel without CONFIG_SCHED_INFO */
	assert_true(cpu_delay_ns(gettid(), &later) && later >= delay);
	assert_true(later < (uint64_t)3600 * 1000000000);
}

static void reads_how_long_a_cpu_was_idle(void **state)
{
	unsigned cpu = 77;
	uint64_t ticks = 77, idle = 0, later = 0;
	(void)state;
	assert_true(cpu_idle_ticks("cpu3 10 20 30 4000 500 6 7 8 9 0\n", &cpu, &ticks));
	assert_true(cpu == 3 && ticks == 4500);
	ticks = 77;
	static const char *const others[] = {"cpu  10 20 30 4000 500 6 7 8 9 0\n",
		"cpu3 10 20 30\n", "intr 1 2 3 4 5 6\n", "cpu3", "cpu", "", "\n", "cpux 1 2 3 4 5"};
	for (size_t i = 0; i < UTIL_COUNT(others); i++)
		assert_false(cpu_idle_ticks(others[i], &cpu, &ticks));
	assert_true(ticks == 77);
	if (!cpu_idle_ns(&idle))
		skip(); /* a sandbox without /proc/stat */
	assert_true(cpu_idle_ns(&later) && later >= idle);
}

/* Linux reports a thread's own slice since 6.12, where it began to obey it. */
static void asks_for_long_turns(void **state)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} before = {0}, after = {0};
	(void)state;
	if (syscall(SYS_sched_getattr, 0, &before, sizeof before, 0) < 0)
		skip(); /* a sandbox that forbids it */
	bool granted = cpu_lengthen_slice(20000000);
	assert_int_equal(syscall(SYS_sched_getattr, 0, &after, sizeof after, 0), 0);
	assert_int_equal(after.policy, before.policy);
	assert_int_equal(after.nice, before.nice);
	if (!granted || before.runtime == 0)
		skip(); /* another policy, or an older kernel */
	assert_int_equal(after.runtime, 20000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_a_quota_up),
		cmocka_unit_test(leaves_one_to_the_trainer),
		cmocka_unit_test(honours_the_mask),
		cmocka_unit_test(asks_for_long_turns),
		cmocka_unit_test(reads_how_long_a_cpu_was_idle),
		cmocka_unit_test(tells_how_long_a_thread_waited),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

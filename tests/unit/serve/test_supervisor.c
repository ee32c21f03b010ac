/* supervisor: what counts as progress, for systemd's watchdog. */
#include "serve/observe/account.h"
#include "serve/observe/observe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_gets_on(void **state)
{
	(void)state;
	const struct account_second seconds[] = {
		{.seconds = 1, .workers_cpu_s = 0.5},
		{.seconds = 1, .delay_s = 0.9}, /* other processes use the processor */
		{.seconds = 1, .read_delay_s = 0.9},
		{.seconds = 1, .throttled_s = 1},
		{.seconds = 1, .reads = 1, .read_bytes = 4096},
		{.seconds = 1, .read_busy_s = 1}, /* storage does not answer */
		{.seconds = 1, .read_depth_s = 4},
	};
	for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
		assert_true(supervisor_gets_on(&seconds[i]));
}

static void test_hangs(void **state)
{
	(void)state;
	const struct account_second seconds[] = {
		{.seconds = 1},
		{.seconds = 1, .cpu_s = 0.01}, /* the event loop's thread */
		{.seconds = 1, .workers_idle_s = 1},
		{.seconds = 1, .permit_wait_s = 2}, /* and no thread computes */
		{.seconds = 1, .buffers_full_s = 1},
		{.seconds = 1, .workers_cpu_s = 0.0001},
	};
	for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++)
		assert_false(supervisor_gets_on(&seconds[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gets_on),
		cmocka_unit_test(test_hangs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

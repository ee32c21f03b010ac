/* gauge: sums over made-up times, and times that come late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/gauge.h"

static void adds_up(void **state)
{
	struct gauge gauge = {0};
	(void)state;
	gauge_set(&gauge, 2, 1000); /* 0 until then */
	gauge_set(&gauge, 3, 1500); /* 2 for 500 */
	gauge_set(&gauge, 0, 1600); /* 3 for 100 */
	gauge_set(&gauge, 1, 9000); /* 0 for a long time */
	struct gauge now = gauge_at(&gauge, 9010);
	assert_int_equal(now.sum_ns, 2 * 500 + 3 * 100 + 10);
	assert_int_equal(now.some_ns, 500 + 100 + 10);
	assert_int_equal(now.value, 1);
	/* Reading changes nothing. */
	assert_int_equal(gauge.at_ns, 9000);
	assert_int_equal(gauge_at(&gauge, 9000).sum_ns, 1300);
}

static void time_does_not_go_back(void **state)
{
	struct gauge gauge = {0};
	(void)state;
	gauge_set(&gauge, 5, 1000);
	gauge_set(&gauge, 1, 900); /* a thread that read the clock before another one did */
	assert_int_equal(gauge.sum_ns, 0);
	assert_int_equal(gauge_at(&gauge, 1100).sum_ns, 100);
	assert_int_equal(gauge_at(&gauge, 0).sum_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_up),
		cmocka_unit_test(time_does_not_go_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

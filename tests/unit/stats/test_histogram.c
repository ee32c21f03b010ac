/* histogram: what falls where, what is added up, and quantiles that are what their bucket allows.
 */
#include "stats/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void bounds_grow_and_belong_to_their_bucket(void **state)
{
	(void)state;
	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		struct histogram h = {0};
		uint64_t bound = histogram_bound_ns(i);
		if (i)
			assert_true(bound > histogram_bound_ns(i - 1));
		histogram_add(&h, bound);
		histogram_add(&h, bound + 1);
		assert_int_equal(h.bucket[i], 1);
		assert_int_equal(h.bucket[i + 1], 1);
		assert_int_equal(h.sum_ns, 2 * bound + 1);
	}
	assert_int_equal(histogram_bound_ns(0), 100000);
	assert_int_equal(histogram_bound_ns(HISTOGRAM_BOUNDS - 1), 50000000000);
}

static void extremes_are_counted(void **state)
{
	struct histogram h = {0};
	(void)state;
	histogram_add(&h, 0);
	histogram_add(&h, (uint64_t)1 << 62);
	assert_int_equal(h.bucket[0], 1);
	assert_int_equal(h.bucket[HISTOGRAM_BOUNDS], 1);
	assert_int_equal(h.count, 2);
}

static void quantiles_lie_in_their_bucket(void **state)
{
	struct histogram h = {0};
	(void)state;
	assert_true(histogram_quantile_ns(&h, 0.99) == 0);
	for (int i = 0; i < 99; i++)
		histogram_add(&h, 700000); /* (0.5 ms, 1 ms] */
	histogram_add(&h, 3000000000); /* (2.5 s, 5 s] */
	double p50 = histogram_quantile_ns(&h, 0.5), p99 = histogram_quantile_ns(&h, 0.99);
	assert_true(p50 > 500000 && p50 < 1000000);
	assert_true(p99 > p50 && p99 <= 1000000);
	assert_true(histogram_quantile_ns(&h, 1) == 5e9);
	struct histogram late = {0};
	histogram_add(&late, (uint64_t)1 << 62);
	assert_true(histogram_quantile_ns(&late, 0.5) == 50e9);
}

static void merging_is_adding_all(void **state)
{
	struct histogram a = {0}, b = {0}, both = {0};
	(void)state;
	for (uint64_t ns = 1; ns < 100000000000; ns *= 3) {
		histogram_add(ns % 2 ? &a : &b, ns);
		histogram_add(&both, ns);
		histogram_add(&b, ns / 2);
		histogram_add(&both, ns / 2);
	}
	histogram_merge(&a, &b);
	assert_memory_equal(&a, &both, sizeof a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_grow_and_belong_to_their_bucket),
		cmocka_unit_test(extremes_are_counted),
		cmocka_unit_test(quantiles_lie_in_their_bucket),
		cmocka_unit_test(merging_is_adding_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

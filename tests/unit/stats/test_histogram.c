/* histogram: which bucket a duration belongs to, sums, and quantiles as exact as buckets and fine
 * classes allow. */
#include "stats/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- fine classes ---- */

static void fine_new(struct histogram *h, size_t count)
{
	static uint32_t fine[2][HISTOGRAM_FINE];
	memset(fine, 0, sizeof fine);
	for (size_t i = 0; i < count; i++)
		h[i] = (struct histogram){.fine = fine[i]};
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Compared with sorting: every quantile is within half a percent. */
static void test_quantiles(void **state)
{
	(void)state;
	enum { N = 10000 };
	static uint64_t values[N];
	struct histogram h[2];
	fine_new(h, 2);
	uint64_t x = 88172645463325252u;
	for (int i = 0; i < N; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		values[i] = (x & 0xffffff) << (x >> 60); /* nanoseconds to minutes */
		histogram_add(&h[i & 1], values[i]);
	}
	histogram_merge(&h[0], &h[1]);
	assert_int_equal(h[0].count, N);
	qsort(values, N, sizeof *values, compare);
	for (int step = 0; step < 77; step++) {
		double share = 0.001 + 0.013 * step;
		double exact = (double)values[(int)ceil(share * N) - 1];
		double got = histogram_quantile_ns(&h[0], share);
		assert_true(fabs(got - exact) <= exact * 0.005 + 1);
	}
}

static void test_quantiles_of_little(void **state)
{
	(void)state;
	struct histogram h[1];
	fine_new(h, 1);
	assert_true(histogram_quantile_ns(h, 0.5) == 0);
	histogram_add(h, 7);
	assert_true(histogram_quantile_ns(h, 0) == 7);
	assert_true(histogram_quantile_ns(h, 0.99) == 7);
	/* A duration beyond the last class counts as the last class. */
	histogram_add(h, UINT64_MAX);
	assert_true(histogram_quantile_ns(h, 1) > 1ull << 50);
}

static void test_quantiles_summed_up(void **state)
{
	(void)state;
	struct histogram h[2];
	fine_new(h, 2);
	struct histogram_summary none = histogram_sum_up(h);
	assert_true(none.total == 0 && none.p50_s == 0 && none.max_s == 0);
	for (int i = 1; i <= 2000; i++)
		histogram_add(&h[i & 1], (uint64_t)i * 1000000);
	histogram_merge(&h[0], &h[1]);
	struct histogram_summary s = histogram_sum_up(h);
	assert_int_equal(s.total, 2000);
	assert_true(s.p50_s < s.p90_s && s.p90_s < s.p95_s && s.p95_s < s.p99_s);
	assert_true(s.p99_s < s.p999_s && s.p999_s <= s.max_s);
	assert_true(fabs(s.p90_s - 1.8) < 0.01 && s.max_s == 2.0);
}

static void test_what_came_since(void **state)
{
	(void)state;
	struct histogram now = {0};
	histogram_add(&now, 1000000);
	const struct histogram before = now;
	histogram_add(&now, 400000000);
	histogram_add(&now, 70000000000);
	struct histogram since = histogram_since(&now, &before);
	assert_int_equal(since.count, 2);
	assert_true(since.sum_ns == 70400000000 && since.max_ns == now.max_ns);
	assert_true(histogram_quantile_ns(&since, 0.5) > 200e6);
	since = histogram_since(&now, &now);
	assert_true(since.count == 0 && histogram_quantile_ns(&since, 0.99) == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_grow_and_belong_to_their_bucket),
		cmocka_unit_test(extremes_are_counted),
		cmocka_unit_test(quantiles_lie_in_their_bucket),
		cmocka_unit_test(merging_is_adding_all),
		cmocka_unit_test(test_quantiles),
		cmocka_unit_test(test_quantiles_of_little),
		cmocka_unit_test(test_quantiles_summed_up),
		cmocka_unit_test(test_what_came_since),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

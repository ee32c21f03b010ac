/* alias: shares are exact for all weights, and draws follow them. */
#include "order/alias.h"

#include "base/util.h"
#include "proto/philox.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static alias_cell *made(const double *weight, uint64_t n)
{
	alias_cell *cell = calloc(n, sizeof *cell);
	assert_non_null(cell);
	for (uint64_t i = 0; i < n; i++)
		cell[i] = alias_weight(weight[i]);
	assert_true(alias_make(cell, n, NULL, NULL));
	return cell;
}

/* A sample's share of all columns, in units of 2^-32 columns. */
static uint64_t *shares(const alias_cell *cell, uint64_t n)
{
	uint64_t *share = calloc(n, sizeof *share);
	assert_non_null(share);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t threshold = (uint32_t)cell[i], other = cell[i] >> 32;
		assert_true(other < n);
		share[i] += threshold;
		share[other] += ((uint64_t)1 << 32) - threshold;
	}
	return share;
}

static void assert_shares(const double *weight, uint64_t n)
{
	alias_cell *cell = made(weight, n);
	uint64_t *share = shares(cell, n);
	long double sum = 0;
	for (uint64_t i = 0; i < n; i++)
		sum += weight[i];
	for (uint64_t i = 0; i < n; i++) {
		long double want = weight[i] / sum * (long double)n * 0x1p32L;
		/* One unit, plus the rounding error of the integer weights. */
		assert_true(fabsl((long double)share[i] - want) <= 2 + want * 0x1p-30L);
		if (weight[i] <= 0)
			assert_int_equal(share[i], 0);
	}
	free(share);
	free(cell);
}

static void test_shares_are_the_weights(void **state)
{
	(void)state;
	static const double lists[][6] = {
		{1, 1, 1, 1, 1, 1},
		{0, 0, 0, 5, 0, 0},
		{1, 2, 3, 4, 5, 6},
		{6, 5, 4, 3, 2, 1},
		{1e-300, 1, 1e300, 0, 1e299, 1e300},
		{DBL_MIN, DBL_MIN, 0, 0, DBL_MIN, DBL_MIN},
		{4.9e-324, 4.9e-324, 4.9e-324, 0, 0, 0},
		{DBL_MAX, DBL_MAX, DBL_MAX, 1, 0, DBL_MAX},
		{0.1, 0.2, 0.3, 0.4, 0, 1000},
	};
	for (size_t i = 0; i < UTIL_COUNT(lists); i++)
		for (uint64_t n = 4; n <= 6; n++)
			assert_shares(lists[i], n);
	assert_shares((double[]){0.25}, 1);
	assert_shares((double[]){0, 3}, 2);
}

/* Random lists of many sizes and kinds: a few heavy weights, a few light weights, zeros among
 * the rest. */
static void test_shares_of_random_weights(void **state)
{
	(void)state;
	static double weight[3000];
	for (uint32_t t = 0; t < 300; t++) {
		uint64_t n = 1 + t * 10 % UTIL_COUNT(weight);
		for (uint64_t i = 0; i < n; i++) {
			struct philox r = philox_draw(t, 0, i, PHILOX_WEIGHTED, 0);
			double unit = philox_unit(r.word[0], r.word[1]);
			weight[i] = t % 4 == 0   ? unit
				    : t % 4 == 1 ? exp(20 * unit)
				    : t % 4 == 2 ? (r.word[2] % 10 ? 1 : 100)
						 : (r.word[2] % 3 ? 0 : unit);
		}
		weight[n / 2] = 1; /* at least one weight is above 0 */
		assert_shares(weight, n);
	}
}

/* Many weights: each integer weight has fewer bits. */
static void test_large(void **state)
{
	(void)state;
	enum { SAMPLES = 3000000 };
	double *weight = calloc(SAMPLES, sizeof *weight);
	assert_non_null(weight);
	for (uint64_t i = 0; i < SAMPLES; i++)
		weight[i] = (double)(i % 1000);
	assert_shares(weight, SAMPLES);
	free(weight);
}

static void test_draws_follow_the_weights(void **state)
{
	(void)state;
	enum { SAMPLES = 10, DRAWS = 1000000 };
	static const double weight[SAMPLES] = {1, 2, 3, 4, 0, 10, 20, 0.5, 9.5, 50};
	static const double chi_999 = 26.12; /* 8 degrees of freedom, 0.001 */
	alias_cell *cell = made(weight, SAMPLES);
	uint64_t count[SAMPLES] = {0};
	for (uint64_t i = 0; i < DRAWS; i++) {
		struct philox r = philox_draw(7, 0, i, PHILOX_WEIGHTED, 0);
		count[alias_draw(cell, SAMPLES, r.word)]++;
	}
	double chi = 0;
	for (int i = 0; i < SAMPLES; i++) {
		double want = weight[i] / 100 * DRAWS;
		if (want > 0)
			chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
		else
			assert_int_equal(count[i], 0);
	}
	assert_true(chi < chi_999);
	free(cell);
}

static bool stop_third(void *context)
{
	return ++*(unsigned *)context == 3;
}

static void test_stops(void **state)
{
	(void)state;
	static alias_cell cell[200000];
	unsigned asked = 0;
	for (uint64_t i = 0; i < UTIL_COUNT(cell); i++)
		cell[i] = alias_weight(1);
	assert_false(alias_make(cell, UTIL_COUNT(cell), stop_third, &asked));
	assert_int_equal(asked, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares_are_the_weights),
		cmocka_unit_test(test_shares_of_random_weights),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_stops),
		cmocka_unit_test(test_draws_follow_the_weights),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

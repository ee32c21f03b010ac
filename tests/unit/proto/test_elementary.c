/* exp, log and cosine against libm's, in long double. */
#include "proto/elementary.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const double LOG_RATIO = 0.28768207245178092744; /* log(4/3) */

/* The numbers that rint gives. */
static void test_round(void **state)
{
	(void)state;
	static const double edges[] = {0, 0.5, 1.5, 2.5, 0.49999999999999994, 4503599627370495.5,
		4503599627370496.0, 4503599627370497.0, 1e300, INFINITY};
	for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
		assert_true(elementary_round(edges[i]) == rint(edges[i]));
		assert_true(elementary_round(-edges[i]) == rint(-edges[i]));
	}
	for (int i = -100000; i < 100000; i++) {
		double x = i * 0.0625 + i * 1e-9;
		assert_true(elementary_round(x) == rint(x));
	}
	assert_true(isnan(elementary_round(NAN)));
}

/* For the arguments of random crops the bound is tighter. */
static void test_exp_of_ratios(void **state)
{
	(void)state;
	double worst = 0;
	for (int i = -20000; i <= 20000; i++) {
		double x = LOG_RATIO * i / 20000, want = exp(x);
		worst = fmax(worst, fabs(elementary_exp(x) - want) / want);
	}
	/* One unit in the last place for our error, half a unit for libm's. */
	assert_true(worst <= 1.5 * 0x1p-52);
	assert_true(elementary_exp(0.0) == 1.0);
}

/* In units in the last place of the expected value. */
static double ulps(double got, long double want)
{
	int exponent;
	(void)frexpl(want, &exponent);
	return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - 53));
}

static void test_accuracy(void **state)
{
	const long double half_pi = 1.570796326794896619231321691639751442L;
	double worst = 0;
	(void)state;
	for (int i = -700000; i <= 700000; i++)
		worst = fmax(worst, ulps(elementary_exp(i * 1e-3), expl(i * 1e-3)));
	for (int i = 1; i <= 1000000; i++) {
		worst = fmax(worst, ulps(elementary_log(i * 1e-5), logl(i * 1e-5)));
		worst = fmax(worst, ulps(elementary_log(1 + i * 1e-9), logl(1 + i * 1e-9)));
		double t = (i - 1) * 1e-6;
		worst = fmax(worst, ulps(elementary_cosine(t), sinl(half_pi * (1 - t))));
	}
	assert_true(worst <= 3);
	assert_true(elementary_exp(0) == 1 && elementary_log(1) == 0 && elementary_cosine(0) == 1);
	assert_true(elementary_exp(-1e5) == 0 && isinf(elementary_exp(1e5)));
	assert_true(ulps(elementary_log(0x1p-1074), logl(0x1p-1074L)) <= 2);
	assert_true(
		ulps(elementary_log(0x1.fffffffffffffp1023), logl(0x1.fffffffffffffp1023L)) <= 2);
	assert_true(elementary_cosine(1 - 0x1p-53) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_exp_of_ratios),
		cmocka_unit_test(test_accuracy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

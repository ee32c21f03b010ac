/* Variates against their distributions: Kolmogorov-Smirnov distances from closed forms, and
 * moments of logarithms for small alpha; keys are fixed. */
#include "proto/variate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DRAWS = 40000, ATTEMPTS = 8 };

static double sample[DRAWS];

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* sqrt(n) times the distance is above 1.95 in one of 1,000 samples. */
static void check_distance(double (*distribution)(double), const char *what)
{
	double worst = 0;
	qsort(sample, DRAWS, sizeof(sample[0]), by_size);
	for (int i = 0; i < DRAWS; i++) {
		double want = distribution(sample[i]);
		worst = fmax(worst, fabs(want - (double)i / DRAWS));
		worst = fmax(worst, fabs(want - (double)(i + 1) / DRAWS));
	}
	if (worst * sqrt(DRAWS) > 1.95)
		fail_msg("%s: distance %g", what, worst * sqrt(DRAWS));
}

static struct philox draw(uint64_t seed, uint32_t position, uint32_t number)
{
	return philox_draw(seed, 0, position, PHILOX_AUG_MIX, number);
}

static double gamma_log(uint64_t seed, double alpha, uint32_t position)
{
	double log_of_it;
	for (uint32_t a = 0; a < ATTEMPTS; a++)
		if (variate_gamma_log(alpha, draw(seed, position, a), &log_of_it))
			return log_of_it;
	return variate_gamma_log_likely(alpha);
}

static double uniform(double x)
{
	return x;
}

static double arcsine(double x)
{
	return 2 / acos(-1) * asin(sqrt(x));
}

static double beta_2(double x)
{
	return x * x * (3 - 2 * x);
}

static double gamma_half(double x)
{
	return erf(sqrt(x));
}

static double gamma_1(double x)
{
	return 1 - exp(-x);
}

static double gamma_2(double x)
{
	return 1 - exp(-x) * (1 + x);
}

static double gamma_5(double x)
{
	return 1 - exp(-x) * (1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4))));
}

static void test_beta(void **state)
{
	static const struct {
		double alpha;
		double (*distribution)(double);
	} cases[] = {{1, uniform}, {0.5, arcsine}, {2, beta_2}};
	(void)state;
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		for (uint32_t i = 0; i < DRAWS; i++)
			sample[i] = variate_beta(cases[c].alpha, draw(1 + c, i, 0));
		check_distance(cases[c].distribution, "beta");
	}
}

static void test_gamma(void **state)
{
	static const struct {
		double alpha;
		double (*distribution)(double);
	} cases[] = {{0.5, gamma_half}, {1, gamma_1}, {2, gamma_2}, {5, gamma_5}};
	(void)state;
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		for (uint32_t i = 0; i < DRAWS; i++)
			sample[i] = exp(gamma_log(11 + c, cases[c].alpha, i));
		check_distance(cases[c].distribution, "gamma");
	}
}

/* E log G is the digamma function's value, its variance the trigamma function's. */
static void test_gamma_log(void **state)
{
	static const struct {
		double alpha, mean, variance;
	} cases[] = {{0.01, -100.5608854578687, 10001.621213528313},
		{0.1, -10.42375494041108, 101.4332991507928},
		{100, 4.600161852738087, 0.010050166663333571}};
	(void)state;
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		double sum = 0, squares = 0;
		for (uint32_t i = 0; i < DRAWS; i++) {
			double x = gamma_log(21 + c, cases[c].alpha, i) - cases[c].mean;
			sum += x;
			squares += x * x;
		}
		assert_true(fabs(sum / DRAWS) < 4 * sqrt(cases[c].variance / DRAWS));
		/* The square of a nearly exponential number has a variance of 8 times the square
		 * of the number's variance. */
		assert_true(fabs(squares / DRAWS / cases[c].variance - 1) < 4 * sqrt(8.0 / DRAWS));
	}
}

static void test_rejected(void **state)
{
	static const double alphas[] = {0.01, 0.5, 1, 3, 100};
	double log_of_it;
	(void)state;
	for (unsigned c = 0; c < sizeof(alphas) / sizeof(alphas[0]); c++) {
		int rejected = 0;
		for (uint32_t i = 0; i < DRAWS; i++)
			rejected += !variate_gamma_log(alphas[c], draw(31, i, c), &log_of_it);
		assert_in_range(rejected, 0, DRAWS / 20);
	}
	assert_true(fabs(variate_gamma_log_likely(1) - log(2.0 / 3)) < 1e-15);
}

/* One of three shares is Beta(1, 2); vanishing shares are 0, and a share that takes all is 1. */
static double beta_1_2(double x)
{
	return x * (2 - x);
}

static void test_shares(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < DRAWS; i++) {
		double shares[3];
		for (uint32_t k = 0; k < 3; k++)
			shares[k] = gamma_log(41 + k, 1, i);
		variate_shares(shares, 3);
		assert_true(fabs(shares[0] + shares[1] + shares[2] - 1) < 1e-15);
		sample[i] = shares[1];
	}
	check_distance(beta_1_2, "share");
	double far[2] = {-1e6, -2e5}, alone = -1e5;
	variate_shares(far, 2);
	variate_shares(&alone, 1);
	assert_true(far[0] == 0 && far[1] == 1 && alone == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beta),
		cmocka_unit_test(test_gamma),
		cmocka_unit_test(test_gamma_log),
		cmocka_unit_test(test_rejected),
		cmocka_unit_test(test_shares),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

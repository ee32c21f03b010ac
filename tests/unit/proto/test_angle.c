/* Sine, cosine, tangent and arctangent: against libm's long double functions, whose 64 bits
 * nearly always decide which double is nearest; exact values; and how rarely libm's doubles,
 * which CPython uses, differ. */
#include "proto/angle.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const double DEGREE = 3.14159265358979323846 / 180.0; /* CPython's math.radians */

/* In units in the last place of the expected value. */
static double ulps(double got, long double want)
{
	int exponent;
	if ((long double)got == want)
		return 0;
	(void)frexpl(want, &exponent);
	return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - DBL_MANT_DIG));
}

struct worst {
	double sine, cosine, tangent, arctangent;
	unsigned count, other; /* how many were computed, and how many of libm's doubles differ */
};

static void worst_look(struct worst *worst, double x)
{
	double sine = angle_sine(x), cosine = angle_cosine(x), tangent = angle_tangent(x);
	worst->sine = fmax(worst->sine, ulps(sine, sinl(x)));
	worst->cosine = fmax(worst->cosine, ulps(cosine, cosl(x)));
	worst->tangent = fmax(worst->tangent, ulps(tangent, tanl(x)));
	double arc = angle_arctangent(x);
	worst->arctangent = fmax(worst->arctangent, ulps(arc, atanl(x)));
	worst->count += 4;
	worst->other +=
		(sine != sin(x)) + (cosine != cos(x)) + (tangent != tan(x)) + (arc != atan(x));
	assert_true(angle_sine(-x) == -sine && angle_cosine(-x) == cosine);
	assert_true(angle_tangent(-x) == -tangent && angle_arctangent(-x) == -arc);
}

/* Rounding costs half a unit; long double may be off by one of its own units, 2^-11 of ours.
 */
static void worst_check(const struct worst *worst)
{
	double most = 0.5 + 0x1p-10;
	if (worst->sine > most || worst->cosine > most || worst->tangent > most ||
		worst->arctangent > most)
		fail_msg("worst of sine %.5f, cosine %.5f, tangent %.5f, arctangent %.5f units",
			worst->sine, worst->cosine, worst->tangent, worst->arctangent);
	/* glibc's are within 0.55 units or so; another libm may do worse, but not by much. */
	print_message("%u of %u differ from libm's\n", worst->other, worst->count);
	assert_true(worst->other < worst->count / 20);
}

static void test_degrees(void **state)
{
	struct worst worst = {0};
	(void)state;
	for (int i = 0; i <= 36000; i++)
		worst_look(&worst, i * 0.1 * DEGREE);
	worst_check(&worst);
}

static void test_anywhere(void **state)
{
	struct worst worst = {0};
	uint64_t random = 1;
	(void)state;
	for (int i = 0; i < 40000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		worst_look(&worst, ldexp((double)(random >> 11), -53 - (int)(random >> 3 & 15)));
		worst_look(&worst, ldexp((double)(random >> 11), -50 + (int)(random >> 3 & 7)));
	}
	worst_check(&worst);
}

/* Near the zeros of sine and cosine the argument's last bit decides, and almost everything
 * else cancels. */
static void test_zeros(void **state)
{
	struct worst worst = {0};
	(void)state;
	for (int i = 1; i < 20000; i++) {
		double x = i * 1.57079632679489661923;
		worst_look(&worst, x);
		worst_look(&worst, nextafter(x, 0));
	}
	worst_check(&worst);
}

static void test_edges(void **state)
{
	(void)state;
	assert_true(angle_sine(0) == 0 && !signbit(angle_sine(0)) && signbit(angle_sine(-0.0)));
	assert_true(angle_tangent(0) == 0 && signbit(angle_tangent(-0.0)));
	assert_true(angle_arctangent(0) == 0 && signbit(angle_arctangent(-0.0)));
	assert_true(angle_cosine(0) == 1 && angle_cosine(-0.0) == 1);
	assert_true(angle_cosine(0x1p-1074) == 1 && angle_sine(0x1p-1074) == 0x1p-1074);
	assert_true(isnan(angle_sine(1.1e5)) && isnan(angle_cosine(-INFINITY)));
	assert_true(isnan(angle_tangent(NAN)) && isnan(angle_sine(INFINITY)));
	assert_true(angle_arctangent(1) == 0x1.921fb54442d18p-1);
	assert_true(angle_arctangent(1e300) == 0x1.921fb54442d18p+0);
	assert_true(angle_arctangent(-INFINITY) == -0x1.921fb54442d18p+0);
	assert_true(ulps(angle_arctangent(0x1p59), atanl(0x1p59)) <= 0.5);
	/* CPython's math.cos(math.radians(90)), which Pillow's rotate computes */
	assert_true(angle_cosine(90 * DEGREE) == 0x1.1a62633145c07p-54);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_degrees),
		cmocka_unit_test(test_anywhere),
		cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_edges),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

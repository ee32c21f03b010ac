/* elementary: see elementary.h. */
#include "proto/elementary.h"

#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

/* log 2 in two parts: the first has 21 zeros at its end, so that its product with an exponent is
 * exact. */
static const double ELEMENTARY_LOG2_HIGH = 0x1.62e42feep-1,
		    ELEMENTARY_LOG2_LOW = 0x1.a39ef35793c76p-33;
static const double ELEMENTARY_HALF_PI = 0x1.921fb54442d18p+0;

/* sum of coefficient[i] x^i, highest first, by Horner's rule. */
static double elementary_polynomial(const double *coefficient, unsigned count, double x)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum = sum * x + coefficient[i];
	return sum;
}
#define ELEMENTARY_POLYNOMIAL(table, x) \
	elementary_polynomial(table, sizeof(table) / sizeof(table)[0], x)

/* x = k log 2 + rest, |rest| <= 0.35: Taylor's polynomial of degree 13, cut off below 1e-17. */
double elementary_exp(double x)
{
	static const double inverse_factorial[] = {
		1.0 / 6227020800.0,
		1.0 / 479001600.0,
		1.0 / 39916800.0,
		1.0 / 3628800.0,
		1.0 / 362880.0,
		1.0 / 40320.0,
		1.0 / 5040.0,
		1.0 / 720.0,
		1.0 / 120.0,
		1.0 / 24.0,
		1.0 / 6.0,
		0.5,
		1.0,
		1.0,
	};
	double k = elementary_round(x / ELEMENTARY_LOG2_HIGH);
	double rest = x - k * ELEMENTARY_LOG2_HIGH - k * ELEMENTARY_LOG2_LOW;
	return ldexp(ELEMENTARY_POLYNOMIAL(inverse_factorial, rest), (int)k);
}

/* x = 2^k m, sqrt(1/2) <= m < sqrt(2), and log m = 2 artanh s with s = (m - 1) / (m + 1), |s| <
 * 0.172: its series up to s^23, cut off below 1e-19. */
double elementary_log(double x)
{
	static const double series[] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
		1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
	int k;
	double m = frexp(x, &k);
	if (m < 0x1.6a09e667f3bcdp-1) {
		m *= 2;
		k--;
	}
	double s = (m - 1) / (m + 1);
	return k * ELEMENTARY_LOG2_HIGH +
	       (k * ELEMENTARY_LOG2_LOW + 2 * s * ELEMENTARY_POLYNOMIAL(series, s * s));
}

/* Taylor's polynomial of the cosine up to t = 1/2, of the sine of the complement after it, so that
 * the relative error stays small near the zero. */
double elementary_cosine(double t)
{
	static const double cosine[] = {1.0 / 20922789888000.0, -1.0 / 87178291200.0,
		1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0, -0.5,
		1.0};
	static const double sine[] = {1.0 / 355687428096000.0, -1.0 / 1307674368000.0,
		1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0,
		-1.0 / 6.0, 1.0};
	if (t <= 0.5) {
		double x = ELEMENTARY_HALF_PI * t;
		return ELEMENTARY_POLYNOMIAL(cosine, x * x);
	}
	double x = ELEMENTARY_HALF_PI * (1 - t); /* exact difference */
	return x * ELEMENTARY_POLYNOMIAL(sine, x * x);
}

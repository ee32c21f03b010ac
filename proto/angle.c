/* angle: see angle.h. Sums and products of pairs (Dekker, "A floating-point technique for extending
 * the available precision", 1971) need every operation rounded to double, none fused. */
#include "proto/angle.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

/* high + low, |low| at most half a unit in high's last place. */
struct pair {
	double high, low;
};

static const double ANGLE_MOST = 1e5;

/* pi/2 in four parts; the first three have 33 bits each, so that their products with a number of
 * quarters of up to 20 bits are exact. */
static const double ANGLE_QUARTER[] = {
	0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104};
static const struct pair ANGLE_RIGHT = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
static const double ANGLE_2_BY_PI = 0x1.45f306dc9c883p-1;

/* a + b, exactly. */
static struct pair pair_sum(double a, double b)
{
	double high = a + b, other = high - a;
	return (struct pair){high, (a - (high - other)) + (b - other)};
}

/* The same where |a| >= |b|. */
static struct pair pair_normal(double a, double b)
{
	double high = a + b;
	return (struct pair){high, b - (high - a)};
}

/* a's upper 26 bits. */
static double pair_upper(double a)
{
	double wide = a * 0x1.000002p+27;
	return wide - (wide - a);
}

/* a b, exactly. */
static struct pair pair_product(double a, double b)
{
	double high = a * b, a1 = pair_upper(a), a2 = a - a1, b1 = pair_upper(b), b2 = b - b1;
	return (struct pair){high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2};
}

static struct pair pair_add(struct pair a, struct pair b)
{
	struct pair high = pair_sum(a.high, b.high), low = pair_sum(a.low, b.low);
	high = pair_normal(high.high, high.low + low.high);
	return pair_normal(high.high, high.low + low.low);
}

static struct pair pair_negative(struct pair a)
{
	return (struct pair){-a.high, -a.low};
}

static struct pair pair_times(struct pair a, struct pair b)
{
	struct pair product = pair_product(a.high, b.high);
	return pair_normal(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static struct pair pair_by(struct pair a, struct pair b)
{
	double first = a.high / b.high;
	struct pair rest = pair_add(a, pair_negative(pair_times(b, (struct pair){first, 0})));
	double second = rest.high / b.high;
	rest = pair_add(rest, pair_negative(pair_times(b, (struct pair){second, 0})));
	struct pair sum = pair_normal(first, second);
	return pair_normal(sum.high, sum.low + rest.high / b.high);
}

/* 1 - s / (n (n+1)) (1 - s / ((n+2) (n+3)) (1 - ...)): of Taylor's series, 14 terms, cut off below
 * 2^-105 for s <= (pi/4)^2. */
static struct pair angle_series(struct pair square, int n)
{
	const struct pair one = {1, 0};
	struct pair sum = one;
	for (int term = 13; term >= 0; term--) {
		double factors = (double)(n + 2 * term) * (n + 2 * term + 1);
		struct pair share = pair_by(square, (struct pair){factors, 0});
		sum = pair_add(one, pair_negative(pair_times(share, sum)));
	}
	return sum;
}

struct angle {
	struct pair sine, cosine;
};

static struct angle angle_small(struct pair x)
{
	struct pair square = pair_times(x, x);
	return (struct angle){
		.sine = pair_times(x, angle_series(square, 2)),
		.cosine = angle_series(square, 1),
	};
}

/* x less `quarters` quarters of a circle. */
static struct pair angle_rest(double x, double quarters)
{
	struct pair rest = {x, 0};
	for (int part = 0; part < 4; part++)
		rest = pair_add(rest, pair_product(-quarters, ANGLE_QUARTER[part]));
	return rest;
}

static struct angle angle_make(double x)
{
	double quarters = rint(x * ANGLE_2_BY_PI);
	struct angle small = angle_small(angle_rest(x, quarters));
	unsigned quadrant = (unsigned)(int)quarters & 3;
	if (quadrant & 1)
		small = (struct angle){small.cosine, pair_negative(small.sine)};
	if (quadrant & 2)
		small = (struct angle){pair_negative(small.sine), pair_negative(small.cosine)};
	return small;
}

/* Whether x is its own sine: the smallest arguments, whose squares would vanish; -0 stays -0. A NaN
 * is not. */
static bool angle_known(double x)
{
	return fabs(x) <= ANGLE_MOST;
}

static bool angle_tiny(double x)
{
	return fabs(x) < 0x1p-28;
}

double angle_sine(double x)
{
	if (!angle_known(x))
		return NAN;
	return angle_tiny(x) ? x : angle_make(x).sine.high;
}

double angle_cosine(double x)
{
	return angle_known(x) ? angle_make(x).cosine.high : NAN;
}

double angle_tangent(double x)
{
	if (!angle_known(x))
		return NAN;
	struct angle angle = angle_make(x);
	return angle_tiny(x) ? x : pair_by(angle.sine, angle.cosine).high;
}

/* Improves an approximation t of arctan x: the rest is exactly arctan((x cos t - sin t) / (cos t +
 * x sin t)), and for a small argument arctan is its series. */
static struct pair angle_improve(struct pair t, struct pair x)
{
	struct angle known = angle_small(t);
	struct pair above = pair_add(pair_times(x, known.cosine), pair_negative(known.sine));
	struct pair below = pair_add(known.cosine, pair_times(x, known.sine));
	struct pair rest = pair_by(above, below);
	double r = rest.high;
	return pair_add(t, pair_add(rest, (struct pair){-r * r * r / 3, 0}));
}

double angle_arctangent(double x)
{
	static const struct pair one = {1, 0};
	if (angle_tiny(x))
		return x;
	double size = fabs(x);
	/* pi/2 is off by less than half a unit, and pairs must not overflow. */
	if (size > 0x1p60)
		return copysign(ANGLE_RIGHT.high, x);
	struct pair slope = {size, 0};
	if (size > 1)
		slope = pair_by(one, slope);
	/* Within 0.004, then within 1e-12, then done. */
	double start = slope.high * (0.7854 + 0.273 * (1 - slope.high));
	struct pair result = angle_improve((struct pair){start, 0}, slope);
	result = angle_improve(result, slope);
	if (size > 1)
		result = pair_add(ANGLE_RIGHT, pair_negative(result));
	return copysign(result.high, x);
}

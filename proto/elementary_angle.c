/* elementary_angle: sine, cosine, tangent and its inverse; see elementary.h.
 *
 * Numbers are carried in two doubles, the second less than half a unit in the last place of the
 * first (Dekker, "A floating-point technique for extending the available precision", 1971), where
 * one would not do: an angle's rest and the two largest terms of each series. fma is rounded once,
 * as C and IEEE 754 have it, with or without instructions for it. */
#include "proto/elementary.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

struct angle_pair {
	double high, low;
};

/* pi/2 in three parts, the first two of 33 bits, so that their products with a number of quarters
 * below 2^20 are exact. */
static const double ANGLE_QUARTER_HIGH = 0x1.921fb544p+0, ANGLE_QUARTER_MIDDLE = 0x1.0b4611a6p-34,
		    ANGLE_QUARTER_LOW = 0x1.3198a2e037073p-69;
static const double ANGLE_QUARTERS = 0x1.45f306dc9c883p-1; /* 2 / pi */

static struct angle_pair angle_sum(double a, double b)
{
	double sum = a + b, b_of_it = sum - a;
	return (struct angle_pair){sum, (a - (sum - b_of_it)) + (b - b_of_it)};
}

static struct angle_pair angle_add(struct angle_pair a, struct angle_pair b)
{
	struct angle_pair sum = angle_sum(a.high, b.high);
	return angle_sum(sum.high, sum.low + (a.low + b.low));
}

static struct angle_pair angle_times(struct angle_pair a, struct angle_pair b)
{
	double product = a.high * b.high;
	double rest = fma(a.high, b.high, -product) + (a.high * b.low + a.low * b.high);
	return angle_sum(product, rest);
}

static struct angle_pair angle_over(struct angle_pair a, double divisor)
{
	double quotient = a.high / divisor;
	return angle_sum(quotient, (fma(-quotient, divisor, a.high) + a.low) / divisor);
}

static struct angle_pair angle_minus(struct angle_pair a)
{
	return (struct angle_pair){-a.high, -a.low};
}

/* x = k pi/2 + rest, |rest| <= pi/4; what is returned of k are its last two bits. */
static unsigned angle_reduce(double x, struct angle_pair *ret_rest)
{
	assert(fabs(x) <= 1e5);
	double k = rint(x * ANGLE_QUARTERS);
	struct angle_pair rest = angle_sum(x - k * ANGLE_QUARTER_HIGH, -(k * ANGLE_QUARTER_MIDDLE));
	*ret_rest = angle_sum(rest.high, rest.low - k * ANGLE_QUARTER_LOW);
	return (unsigned)(long)k & 3;
}

/* The series from the third term on, whose rounding is far below what is left of the first two:
 * sum of coefficient[i] x^i, highest first. */
static double angle_tail(const double *coefficient, unsigned count, double x)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum = sum * x + coefficient[i];
	return sum;
}
#define ANGLE_TAIL(table, x) angle_tail(table, sizeof(table) / sizeof(table)[0], x)

/* r - r^3/3! + r^5/5! - ... */
static struct angle_pair angle_sine(struct angle_pair r)
{
	static const double tail[] = {1.0 / 355687428096000.0, -1.0 / 1307674368000.0,
		1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0};
	struct angle_pair square = angle_times(r, r), cube = angle_times(square, r);
	struct angle_pair fifth = angle_times(cube, square);
	struct angle_pair sum = {ANGLE_TAIL(tail, square.high) * fifth.high * square.high, 0};
	sum = angle_add(angle_over(fifth, 120), sum);
	sum = angle_add(angle_minus(angle_over(cube, 6)), sum);
	return angle_add(r, sum);
}

/* 1 - r^2/2! + r^4/4! - ... */
static struct angle_pair angle_cosine(struct angle_pair r)
{
	static const double tail[] = {1.0 / 20922789888000.0, -1.0 / 87178291200.0,
		1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0};
	struct angle_pair square = angle_times(r, r), fourth = angle_times(square, square);
	struct angle_pair sum = {ANGLE_TAIL(tail, square.high) * fourth.high * square.high, 0};
	sum = angle_add(angle_over(fourth, 24), sum);
	sum = angle_add(angle_minus(angle_over(square, 2)), sum);
	return angle_add((struct angle_pair){1, 0}, sum);
}

/* Sine and cosine, as the quarter of the circle has them. */
static void angle_both(double x, struct angle_pair *ret_sine, struct angle_pair *ret_cosine)
{
	struct angle_pair rest;
	unsigned quarter = angle_reduce(x, &rest);
	struct angle_pair sine = angle_sine(rest), cosine = angle_cosine(rest);
	*ret_sine = quarter & 1 ? cosine : sine;
	*ret_cosine = quarter & 1 ? sine : cosine;
	if (quarter & 2)
		*ret_sine = angle_minus(*ret_sine);
	if (quarter == 1 || quarter == 2)
		*ret_cosine = angle_minus(*ret_cosine);
}

double elementary_sin(double x)
{
	struct angle_pair sine, cosine;
	if (x == 0)
		return x;
	angle_both(x, &sine, &cosine);
	return sine.high;
}

double elementary_cos(double x)
{
	struct angle_pair sine, cosine;
	angle_both(x, &sine, &cosine);
	return cosine.high;
}

double elementary_tan(double x)
{
	struct angle_pair sine, cosine;
	if (x == 0)
		return x;
	angle_both(x, &sine, &cosine);
	double quotient = sine.high / cosine.high;
	double rest = fma(-quotient, cosine.high, sine.high) + sine.low - quotient * cosine.low;
	return quotient + rest / cosine.high;
}

/* Up to 1, to some 1e-13: three times halved, atan x = 2 atan(x / (1 + sqrt(1 + x^2))), then the
 * series. */
static double angle_near(double x)
{
	static const double series[] = {
		-1.0 / 15, 1.0 / 13, -1.0 / 11, 1.0 / 9, -1.0 / 7, 1.0 / 5, -1.0 / 3, 1.0};
	for (int i = 0; i < 3; i++)
		x = x / (1 + sqrt(1 + x * x));
	return 8 * x * ANGLE_TAIL(series, x * x);
}

/* With y near the angle, the tangent of what is missing is (x cos y - sin y) / (cos y + x sin y).
 */
double elementary_atan(double x)
{
	struct angle_pair sine, cosine, product = {fabs(x), 0};
	assert(fabs(x) <= 1e15);
	if (x == 0)
		return x;
	double size = fabs(x);
	bool steep = size > 1;
	double y = angle_near(steep ? 1 / size : size);
	if (steep)
		y = ANGLE_QUARTER_HIGH - y;
	angle_both(y, &sine, &cosine);
	product = angle_times(product, cosine);
	struct angle_pair missing = angle_add(product, angle_minus(sine));
	y += missing.high / (cosine.high + size * sine.high);
	return x < 0 ? -y : y;
}

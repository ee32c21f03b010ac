/* elementary: exp, log and cosine with the same bits on every machine.
 *
 * libm's differ between libraries, and between the variants that one library chooses by the
 * processor; where a last bit decides a rectangle's side, a run would go on differently elsewhere.
 * Here are only additions, multiplications and divisions in double, frexp and ldexp: all
 * exact, or rounded as IEEE 754 says. Each is within three units in the last place
 * (tests/unit/proto/test_elementary.c), and
 * exp of what random crops draw, |x| <= log(4/3), within one. Part of the contract as philox.h is:
 * what is drawn on either side is drawn alike. Pure functions; any thread. */
#pragma once

/* The nearest whole number, halves to even. Not rint, which not every compiler has without libm,
 * and libpenstock needs none. */
static inline double elementary_round(double x)
{
	const double whole = 0x1p52; /* from here on every double is one */
	if (!(x < whole && x > -whole))
		return x;
	return x < 0 ? (x - whole) + whole : (x + whole) - whole;
}

/* e^x, |x| up to 1e5: 0 or infinity where it leaves double's range. */
double elementary_exp(double x);

/* The natural logarithm of a positive, finite number. */
double elementary_log(double x);

/* cos(pi t / 2) for 0 <= t < 1: above 0. */
double elementary_cosine(double t);

/* elementary: exp, log and cosine with the same bits on every machine.
 *
 * The functions of libm differ between libraries, and between the variants that one library chooses
 * by the processor. Where the last bit decides a rectangle's side, a run would continue differently
 * on another machine. These functions use only additions, multiplications and divisions of doubles,
 * frexp and ldexp, which are exact or rounded as IEEE 754 says. Each is within three units in the
 * last place (tests/unit/proto/test_elementary.c), and exp within one for the arguments of random
 * crops, |x| <= log(4/3). Part of the contract, as philox.h is: daemon and clients draw the same.
 * Pure functions; any thread. */
#pragma once

/* The nearest whole number, halves to even. Not rint, which some compilers have only in libm:
 * libpenstock does not need libm. */
static inline double elementary_round(double x)
{
	const double whole = 0x1p52; /* from here on every double is a whole number */
	if (!(x < whole && x > -whole))
		return x;
	return x < 0 ? (x - whole) + whole : (x + whole) - whole;
}

/* e^x for |x| up to 1e5: 0 or infinity where the result leaves the range of double. */
double elementary_exp(double x);

/* The natural logarithm of a positive, finite number. */
double elementary_log(double x);

/* cos(pi t / 2) for 0 <= t < 1: above 0. */
double elementary_cosine(double t);

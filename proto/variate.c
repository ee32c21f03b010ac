/* variate: see variate.h. */
#include "proto/variate.h"

#include "proto/elementary.h"

#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

/* sqrt(n (U^(-2/n) - 1)) cos(2 pi V) has Student's t distribution with n degrees of freedom
 * (Bailey, "Polar generation of random variates with the t-distribution", Mathematics of
 * Computation 62, 1994), and 1/2 + t / (2 sqrt(n + t^2)) then has Beta(n/2, n/2) (Devroye, "Random
 * variate generation in one line of code", 1996). Written with q = U^(1/alpha) and the square c of
 * the cosine, so that small results keep their precision and nothing overflows for a small alpha.
 * Words 0 and 1: 1 - U; 2 and 3: V, folded into a quarter of the circle and a sign. */
double variate_beta(double alpha, struct philox r)
{
	double u = 1 - philox_unit(r.word[0], r.word[1]); /* above 0 */
	double v = 2 * philox_unit(r.word[2], r.word[3]);
	bool high = v >= 1;
	double cosine = elementary_cosine(high ? v - 1 : v), c = cosine * cosine;
	double q = elementary_exp(elementary_log(u) / alpha);
	double whole = q + (1 - q) * c; /* above 0, as c is */
	double low = 0.5 * (q / whole) / (1 + sqrt((1 - q) * c / whole));
	return high ? 1 - low : low;
}

/* Above 0, up to 1. */
static double variate_unit(uint32_t word)
{
	return ((double)word + 1) * 0x1p-32;
}

/* Box and Muller's method, with the cosine of a quarter of the circle and a sign. */
double variate_normal(uint32_t size, uint32_t angle)
{
	double v = 2 * philox_unit(angle, 0);
	bool high = v >= 1;
	double x =
		sqrt(-2 * elementary_log(variate_unit(size))) * elementary_cosine(high ? v - 1 : v);
	return high ? -x : x;
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables", ACM Transactions on
 * Mathematical Software 26, 2000: d v with d = alpha - 1/3 and the cube v = (1 + x / sqrt(9
 * d))^3 of a normal x. That is for alpha >= 1; below 1, a Gamma(alpha + 1) number times
 * U^(1/alpha), with U from word 3, has the distribution. */
static double variate_raised(double alpha)
{
	return (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
}

bool variate_gamma_log(double alpha, struct philox r, double *ret_log)
{
	double d = variate_raised(alpha), x = variate_normal(r.word[0], r.word[1]);
	double root = 1 + x / sqrt(9 * d), v = root * root * root;
	if (root <= 0)
		return false;
	double log_v = elementary_log(v);
	if (elementary_log(variate_unit(r.word[2])) >= 0.5 * x * x + d * (1 - v + log_v))
		return false;
	double boost = alpha < 1 ? elementary_log(variate_unit(r.word[3])) / alpha : 0;
	*ret_log = elementary_log(d) + log_v + boost;
	return true;
}

double variate_gamma_log_likely(double alpha)
{
	return elementary_log(variate_raised(alpha));
}

void variate_shares(double *numbers, unsigned count)
{
	double most = numbers[0], sum = 0;
	for (unsigned i = 1; i < count; i++)
		most = numbers[i] > most ? numbers[i] : most;
	for (unsigned i = 0; i < count; i++) {
		/* A number far below the largest has no share; elementary_exp could not take it. */
		double below = numbers[i] - most;
		numbers[i] = below < -800 ? 0 : elementary_exp(below);
		sum += numbers[i];
	}
	for (unsigned i = 0; i < count; i++)
		numbers[i] /= sum;
}

/* variate: random numbers of other distributions than the uniform one, out of Philox's words.
 *
 * The same on every machine: no libm's exp, log or cosine (elementary.h); square roots are rounded
 * as IEEE 754 says. Part of the contract as philox.h is: daemon and clients draw alike. Pure
 * functions; any thread. */
#pragma once

#include "proto/philox.h"

#include <stdbool.h>

/* Beta(alpha, alpha), 0.01 <= alpha <= 100, out of one draw and without rejection. Words 0 and 1:
 * size; 2 and 3: angle. */
double variate_beta(double alpha, struct philox r);

/* The logarithm of a Gamma(alpha) number with scale 1, 0.01 <= alpha <= 100: its logarithm, since
 * where alpha is small the number itself is often below what a double holds. One draw is one
 * attempt: false where it is rejected, which less than one in twenty is; ask again with another
 * draw. Words 0 and 1: a normal number, 2: whether it is taken, 3: see variate.c. */
bool variate_gamma_log(double alpha, struct philox r, double *ret_log);

/* What a rejected one may be replaced by after many: the logarithm of a number near the mode. */
double variate_gamma_log_likely(double alpha);

/* Logarithms of `count` (1 or more) positive numbers become each number's share of their sum:
 * Dirichlet(alpha, ... alpha), if they are Gamma(alpha)'s. */
void variate_shares(double *numbers, unsigned count);

/* variate: random numbers with beta, gamma and Dirichlet distributions, from Philox's words.
 *
 * The same on every machine: the code does not use libm's exp, log or cosine (elementary.h), and
 * square roots are rounded as IEEE 754 says. Part of the contract, as philox.h is: daemon and
 * clients draw the same. Pure functions; any thread. */
#pragma once

#include "proto/philox.h"

#include <stdbool.h>

/* Normal, with a mean of 0 and a standard deviation of 1, from two words. */
double variate_normal(uint32_t size, uint32_t angle);

/* Beta(alpha, alpha), 0.01 <= alpha <= 100, from one draw and without rejection. Words 0 and 1:
 * size; 2 and 3: angle. */
double variate_beta(double alpha, struct philox r);

/* The logarithm of a Gamma(alpha) number with scale 1, 0.01 <= alpha <= 100. (For a small alpha the
 * number itself is often too small for a double.) One draw is one attempt: false where it is
 * rejected, which fewer than one in twenty are; then try another draw. Words 0 and 1: a normal
 * number; 2: whether to accept it; 3: see variate.c. */
bool variate_gamma_log(double alpha, struct philox r, double *ret_log);

/* A substitute after many rejections: the logarithm of a number near the mode. */
double variate_gamma_log_likely(double alpha);

/* Turns the logarithms of `count` (at least 1) positive numbers into each number's share of their
 * sum. From Gamma(alpha) numbers that makes Dirichlet(alpha, ... alpha). */
void variate_shares(double *numbers, unsigned count);

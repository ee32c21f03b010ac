/* schedule: the learning rate of each step. */
#pragma once

#include <stdint.h>

struct schedule {
	uint64_t steps; /* of the whole run */
	uint64_t warmup; /* those in which the rate rises evenly from 0; at most `steps` */
	double rate; /* the highest */
};

/* The rate of step 0, 1, ...: after the rise, half a cosine down to 0 (Loshchilov, Hutter, "SGDR:
 * Stochastic gradient descent with warm restarts", ICLR 2017, equation 5, without a restart). 0
 * after the end. */
double schedule_rate(const struct schedule *schedule, uint64_t step);

/* histogram: how often something took how long, in fixed buckets: constant memory, and a few
 * nanoseconds for each time that is added.
 *
 * The buckets are 1, 2.5 and 5 times each power of ten from 0.1 ms to 50 s, and one for what took
 * longer: wide enough that a metric of them is short, narrow enough to tell a cache from a disk.
 * What is between two bounds is taken as evenly spread. No lock: one thread adds and reads. */
#pragma once

#include <stdint.h>

enum { HISTOGRAM_BOUNDS = 18 };

struct histogram { /* zeroed is empty */
	uint64_t bucket[HISTOGRAM_BOUNDS + 1]; /* those up to each bound, and above the last */
	uint64_t count, sum_ns;
};

/* The upper bound of a bucket, `i` below HISTOGRAM_BOUNDS; what is equal to it belongs to it. */
uint64_t histogram_bound_ns(unsigned i);

void histogram_add(struct histogram *histogram, uint64_t ns);

/* Adds all that `other` counted. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* What the share `q` (0 to 1) of all took at most, in nanoseconds: in the bucket where that falls,
 * as far as its share of the bucket; the last bound where it took longer. 0 for an empty one. */
double histogram_quantile_ns(const struct histogram *histogram, double q);

/* histogram: how often something took how long, in constant memory, at a few nanoseconds for each
 * duration that is added.
 *
 * The buckets end at 1, 2.5 and 5 times each power of ten from 0.1 ms to 50 s, and one bucket takes
 * longer durations. There are few of them, so the metrics made of them are short, and yet they
 * distinguish a cache from a disk. Quantiles assume that durations are spread evenly within a
 * bucket.
 *
 * A histogram may also count in fine classes: HISTOGRAM_PARTS equal ones between each power of two
 * of nanoseconds and the next. Its quantiles are then exact within half a percent. The owner
 * provides the memory of these counters.
 *
 * No lock: one thread adds, and others read only what no longer changes. Pure otherwise. */
#pragma once

#include <stdint.h>

enum {
	HISTOGRAM_BOUNDS = 18,
	HISTOGRAM_PARTS = 128,
	HISTOGRAM_OCTAVES = 48,
	HISTOGRAM_FINE = HISTOGRAM_PARTS * HISTOGRAM_OCTAVES, /* counters of the fine classes */
};

struct histogram { /* zeroed is empty */
	uint64_t bucket[HISTOGRAM_BOUNDS + 1]; /* up to each bound; above the last bound */
	uint64_t count, sum_ns, max_ns;
	uint32_t *fine; /* HISTOGRAM_FINE counters, zero at first; NULL: only the buckets count */
};

/* The upper bound of a bucket, `i` below HISTOGRAM_BOUNDS; it belongs to the bucket. */
uint64_t histogram_bound_ns(unsigned i);

void histogram_add(struct histogram *histogram, uint64_t ns);

/* Adds everything that `other` has counted. Where `histogram` has fine classes, so must `other`. */
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* What `now` has counted since it was as `before`, a copy. The longest duration is that of `now`;
 * without fine classes. */
struct histogram histogram_since(const struct histogram *now, const struct histogram *before);

/* The duration, in nanoseconds, that the share `q` (0 to 1) of all durations did not exceed; 0 for
 * an empty histogram. Without fine classes at most the last bound. */
double histogram_quantile_ns(const struct histogram *histogram, double q);

/* What reports show of a histogram. All 0 where it is empty. */
struct histogram_summary {
	uint64_t total;
	double p50_s, p90_s, p95_s, p99_s, p999_s, max_s; /* max is exact */
};
struct histogram_summary histogram_sum_up(const struct histogram *histogram);

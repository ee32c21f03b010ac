/* histogram: how long things took, with half a per cent of resolution and constant memory.
 *
 * Logarithmic classes: HISTOGRAM_PARTS equal ones between each power of two of nanoseconds and the
 * next. Plain counters that lie in memory shared by two processes: one writes, the other reads once
 * the writer has ended. */
#pragma once

#include <stdint.h>

enum {
	HISTOGRAM_PARTS = 128,
	HISTOGRAM_OCTAVES = 48,
	HISTOGRAM_CLASSES = HISTOGRAM_PARTS * HISTOGRAM_OCTAVES
};

struct histogram {
	uint64_t total, max_ns;
	uint32_t count[HISTOGRAM_CLASSES];
};

void histogram_add(struct histogram *histogram, uint64_t ns);
void histogram_merge(struct histogram *histogram, const struct histogram *other);

/* The duration that `share` (0 .. 1) of those added do not exceed; 0 when there are none. */
uint64_t histogram_quantile_ns(const struct histogram *histogram, double share);

/* What is told of one. All 0 where nothing was added. */
struct histogram_summary {
	uint64_t total;
	double p50_s, p90_s, p95_s, p99_s, p999_s, max_s; /* max is exact */
};
struct histogram_summary histogram_sum_up(const struct histogram *histogram);

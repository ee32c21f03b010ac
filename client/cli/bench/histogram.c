/* histogram: see histogram.h. */
#include "client/cli/bench/histogram.h"

#include "base/util.h"

enum { HISTOGRAM_SHIFT = 7 };
_Static_assert(1 << HISTOGRAM_SHIFT == HISTOGRAM_PARTS, "parts are a power of two");

/* Values below HISTOGRAM_PARTS have a class each; above, the top HISTOGRAM_SHIFT bits below the
 * leading one choose. */
static unsigned histogram_class(uint64_t ns)
{
	if (ns < HISTOGRAM_PARTS)
		return (unsigned)ns;
	unsigned top = 63 - (unsigned)__builtin_clzll(ns), octave = top - HISTOGRAM_SHIFT + 1;
	unsigned part = (unsigned)(ns >> (top - HISTOGRAM_SHIFT)) & (HISTOGRAM_PARTS - 1);
	unsigned class = octave * HISTOGRAM_PARTS + part;
	return UTIL_MIN(class, HISTOGRAM_CLASSES - 1u);
}

/* The middle of a class. */
static uint64_t histogram_value(unsigned class)
{
	unsigned octave = class / HISTOGRAM_PARTS;
	uint64_t part = class % HISTOGRAM_PARTS;
	if (octave == 0)
		return part;
	return ((HISTOGRAM_PARTS + part) << (octave - 1)) + ((1ull << (octave - 1)) >> 1);
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
	histogram->count[histogram_class(ns)]++;
	histogram->total++;
	histogram->max_ns = UTIL_MAX(histogram->max_ns, ns);
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	for (unsigned i = 0; i < HISTOGRAM_CLASSES; i++)
		histogram->count[i] += other->count[i];
	histogram->total += other->total;
	histogram->max_ns = UTIL_MAX(histogram->max_ns, other->max_ns);
}

uint64_t histogram_quantile_ns(const struct histogram *histogram, double share)
{
	/* The nearest rank: the smallest duration that at least `share` of all do not exceed. */
	double exact = share * (double)histogram->total;
	uint64_t rank = (uint64_t)exact, seen = 0;
	rank += (double)rank < exact || rank == 0;
	for (unsigned i = 0; i < HISTOGRAM_CLASSES; i++) {
		seen += histogram->count[i];
		if (seen >= rank && seen)
			return histogram_value(i);
	}
	return 0;
}

/* The middle of the last class may lie above the longest time of it. */
static double histogram_quantile_s(const struct histogram *histogram, double share)
{
	uint64_t ns = histogram_quantile_ns(histogram, share);
	return (double)UTIL_MIN(ns, histogram->max_ns) / 1e9;
}

struct histogram_summary histogram_sum_up(const struct histogram *histogram)
{
	return (struct histogram_summary){
		.total = histogram->total,
		.p50_s = histogram_quantile_s(histogram, 0.5),
		.p90_s = histogram_quantile_s(histogram, 0.9),
		.p95_s = histogram_quantile_s(histogram, 0.95),
		.p99_s = histogram_quantile_s(histogram, 0.99),
		.p999_s = histogram_quantile_s(histogram, 0.999),
		.max_s = (double)histogram->max_ns / 1e9,
	};
}

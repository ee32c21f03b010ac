/* histogram: see histogram.h. */
#include "stats/histogram.h"

#include "base/util.h"

#include <assert.h>

enum { HISTOGRAM_SHIFT = 7 };
_Static_assert(1 << HISTOGRAM_SHIFT == HISTOGRAM_PARTS, "parts are a power of two");

static const uint64_t histogram_bounds_ns[HISTOGRAM_BOUNDS] = {
	100000,
	250000,
	500000,
	1000000,
	2500000,
	5000000,
	10000000,
	25000000,
	50000000,
	100000000,
	250000000,
	500000000,
	1000000000,
	2500000000,
	5000000000,
	10000000000,
	25000000000,
	50000000000,
};

uint64_t histogram_bound_ns(unsigned i)
{
	return histogram_bounds_ns[i];
}

/* Durations below HISTOGRAM_PARTS ns have a class each. Above, the HISTOGRAM_SHIFT bits below the
 * leading one choose the class. */
static unsigned histogram_class(uint64_t ns)
{
	if (ns < HISTOGRAM_PARTS)
		return (unsigned)ns;
	unsigned top = 63 - (unsigned)__builtin_clzll(ns), octave = top - HISTOGRAM_SHIFT + 1;
	unsigned part = (unsigned)(ns >> (top - HISTOGRAM_SHIFT)) & (HISTOGRAM_PARTS - 1);
	unsigned class = octave * HISTOGRAM_PARTS + part;
	return UTIL_MIN(class, HISTOGRAM_FINE - 1u);
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
	unsigned i = 0;
	while (i < HISTOGRAM_BOUNDS && ns > histogram_bounds_ns[i])
		i++;
	histogram->bucket[i]++;
	histogram->count++;
	histogram->sum_ns += ns;
	histogram->max_ns = UTIL_MAX(histogram->max_ns, ns);
	if (histogram->fine)
		histogram->fine[histogram_class(ns)]++;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
		histogram->bucket[i] += other->bucket[i];
	histogram->count += other->count;
	histogram->sum_ns += other->sum_ns;
	histogram->max_ns = UTIL_MAX(histogram->max_ns, other->max_ns);
	assert(!histogram->fine || other->fine);
	for (unsigned i = 0; histogram->fine && i < HISTOGRAM_FINE; i++)
		histogram->fine[i] += other->fine[i];
}

struct histogram histogram_since(const struct histogram *now, const struct histogram *before)
{
	struct histogram since = *now;
	since.fine = NULL;
	for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
		since.bucket[i] -= before->bucket[i];
	since.count -= before->count;
	since.sum_ns -= before->sum_ns;
	return since;
}

/* The nearest rank: the smallest duration that at least the share `q` of all did not exceed. */
static double histogram_quantile_fine(const struct histogram *histogram, double q)
{
	double exact = q * (double)histogram->count;
	uint64_t rank = (uint64_t)exact, seen = 0;
	rank += (double)rank < exact || rank == 0;
	for (unsigned i = 0; i < HISTOGRAM_FINE; i++) {
		seen += histogram->fine[i];
		if (seen >= rank)
			/* The middle of a class may be above the longest duration in it. */
			return (double)UTIL_MIN(histogram_value(i), histogram->max_ns);
	}
	return (double)histogram->max_ns;
}

double histogram_quantile_ns(const struct histogram *histogram, double q)
{
	double wanted = q * (double)histogram->count, before = 0;
	if (!histogram->count)
		return 0;
	if (histogram->fine)
		return histogram_quantile_fine(histogram, q);
	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		double here = (double)histogram->bucket[i];
		if (here > 0 && before + here >= wanted) {
			double low = i ? (double)histogram_bounds_ns[i - 1] : 0;
			double high = (double)histogram_bounds_ns[i];
			return low + (high - low) * (wanted - before) / here;
		}
		before += here;
	}
	return (double)histogram_bounds_ns[HISTOGRAM_BOUNDS - 1];
}

struct histogram_summary histogram_sum_up(const struct histogram *histogram)
{
	return (struct histogram_summary){
		.total = histogram->count,
		.p50_s = histogram_quantile_ns(histogram, 0.5) / 1e9,
		.p90_s = histogram_quantile_ns(histogram, 0.9) / 1e9,
		.p95_s = histogram_quantile_ns(histogram, 0.95) / 1e9,
		.p99_s = histogram_quantile_ns(histogram, 0.99) / 1e9,
		.p999_s = histogram_quantile_ns(histogram, 0.999) / 1e9,
		.max_s = (double)histogram->max_ns / 1e9,
	};
}

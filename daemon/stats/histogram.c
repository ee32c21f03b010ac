/* histogram: see histogram.h. Pure functions over a struct of the caller's. */
#include "stats/histogram.h"

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

void histogram_add(struct histogram *histogram, uint64_t ns)
{
	unsigned i = 0;
	while (i < HISTOGRAM_BOUNDS && ns > histogram_bounds_ns[i])
		i++;
	histogram->bucket[i]++;
	histogram->count++;
	histogram->sum_ns += ns;
}

void histogram_merge(struct histogram *histogram, const struct histogram *other)
{
	for (unsigned i = 0; i <= HISTOGRAM_BOUNDS; i++)
		histogram->bucket[i] += other->bucket[i];
	histogram->count += other->count;
	histogram->sum_ns += other->sum_ns;
}

double histogram_quantile_ns(const struct histogram *histogram, double q)
{
	double wanted = q * (double)histogram->count, before = 0;
	if (!histogram->count)
		return 0;
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

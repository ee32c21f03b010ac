/* spread: see spread.h. */
#include "client/cli/bench/sweep/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void spread_add(struct spread *spread, double value)
{
	if (spread->count < SPREAD_MAX)
		spread->value[spread->count++] = value;
}

static int spread_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The value at `share` (0, 1/2 or 1) of the sorted values; between two, their mean. */
static double spread_at(const struct spread *spread, double share)
{
	double sorted[SPREAD_MAX];
	if (!spread->count)
		return 0;
	memcpy(sorted, spread->value, spread->count * sizeof *sorted);
	qsort(sorted, spread->count, sizeof *sorted, spread_compare);
	double place = share * (double)(spread->count - 1);
	size_t low = (size_t)floor(place), high = (size_t)ceil(place);
	return (sorted[low] + sorted[high]) / 2;
}

double spread_median(const struct spread *spread)
{
	return spread_at(spread, 0.5);
}

double spread_least(const struct spread *spread)
{
	return spread_at(spread, 0);
}

double spread_most(const struct spread *spread)
{
	return spread_at(spread, 1);
}

size_t spread_middle(const struct spread *spread)
{
	double median = spread_median(spread);
	size_t best = 0;
	for (size_t i = 1; i < spread->count; i++)
		if (fabs(spread->value[i] - median) < fabs(spread->value[best] - median))
			best = i;
	return best;
}

/* spread: what repeated measurements of one thing say: the median, and how far they are apart.
 * Pure. */
#pragma once

#include <stddef.h>

enum { SPREAD_MAX = 15 };

struct spread {
	double value[SPREAD_MAX]; /* in the order of measuring */
	size_t count;
};

/* Beyond SPREAD_MAX nothing is added. */
void spread_add(struct spread *spread, double value);

/* 0 where there are none. Of an even number, the mean of the two in the middle. */
double spread_median(const struct spread *spread);
double spread_least(const struct spread *spread);
double spread_most(const struct spread *spread);

/* Which value lies nearest to the median; 0 where there are none. */
size_t spread_middle(const struct spread *spread);

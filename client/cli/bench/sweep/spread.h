/* spread: repeated measurements of one thing: their median, and how far apart they are. Pure. */
#pragma once

#include <stddef.h>

enum { SPREAD_MAX = 15 };

struct spread {
	double value[SPREAD_MAX]; /* in the order of measuring */
	size_t count;
};

/* Adds nothing beyond SPREAD_MAX. */
void spread_add(struct spread *spread, double value);

/* 0 if there are none. With an even number, the mean of the two in the middle. */
double spread_median(const struct spread *spread);
double spread_least(const struct spread *spread);
double spread_most(const struct spread *spread);

/* Which value is nearest to the median; 0 if there are none. */
size_t spread_middle(const struct spread *spread);

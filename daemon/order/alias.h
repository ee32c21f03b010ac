/* alias: draws by weights in O(1), from a table of 8 bytes per sample.
 *
 * Walker's method ("An efficient method for generating discrete random variables with general
 * distributions", ACM TOMS 1977): n columns of equal height, each shared by at most two samples. It
 * is made by one sweep over light and heavy samples (Huebschle-Schneider and Sanders, "Parallel
 * weighted random sampling", ESA 2019) in the table itself, so making it needs no memory besides.
 * Heights are integers of 2^-32 of a column, and shares add up exactly: every machine draws the
 * same, a sample's share is off by at most 2^-32 of the mean one, and one with weight 0 is never
 * drawn.
 *
 *   alias_measure for every weight, alias_scale; alias_put for every weight again, in the same
 *   order; alias_make.
 *
 * Pure functions over the caller's memory; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ALIAS_SAMPLES_MAX ((uint64_t)1 << 31) /* less than so many: a bit of each cell is a mark \
					       */

/* A cell of the table: while it is made a sample's height, then a column: its threshold in the low
 * half (its own sample below, the other one above), the other sample in the high half. */
typedef uint64_t alias_cell;

/* What the weights are together. Zeroed is that of none. */
struct alias_sum {
	uint64_t samples;
	double most; /* the largest weight */
};
static inline void alias_measure(struct alias_sum *sum, double weight)
{
	sum->samples++;
	sum->most = weight > sum->most ? weight : sum->most;
}

/* How weights, finite and not negative, become integers: times a power of two. */
struct alias_scale {
	uint64_t samples;
	int shift;
};
/* Of 1 to ALIAS_SAMPLES_MAX - 1 weights, one of them above 0. */
struct alias_scale alias_scale(const struct alias_sum *sum);
uint64_t alias_units(const struct alias_scale *scale, double weight); /* at least 1 if above 0 */

__extension__ typedef unsigned __int128 alias_wide;

/* The second walk, zeroed but for cell, samples and total: `total` is the sum of alias_units. */
struct alias_fill {
	alias_cell *cell;
	uint64_t samples, at, reached;
	alias_wide total, before;
};
void alias_put(struct alias_fill *fill, uint64_t units);

/* Turns heights into columns. */
void alias_make(alias_cell *cell, uint64_t samples);

/* The sample that four random words draw. */
uint64_t alias_draw(const alias_cell *cell, uint64_t samples, const uint32_t word[4]);

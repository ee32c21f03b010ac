/* alias: draws samples by weights in O(1), from a table of 8 bytes per sample.
 *
 * Walker's method ("An efficient method for generating discrete random variables with general
 * distributions", ACM TOMS 1977): n columns of equal height, each shared by at most two samples.
 * One sweep over light and heavy samples makes them (Huebschle-Schneider and Sanders, "Parallel
 * weighted random sampling", ESA 2019) in the table itself and needs no other memory. Heights are
 * integers in units of 2^-32 of a column, and shares add up exactly. So every machine draws the
 * same samples, a sample's share is off by at most 2^-32 of the mean share, and a sample of weight
 * 0 is never drawn. Weights become integers in units of 2^-62 of the largest weight (with n > 2^16
 * samples, of n^2 x 2^-95 of it), at least 1: where a few weights are millions of times as large as
 * all others together, shares are off by that much.
 *
 * Pure functions over the caller's memory; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A table has fewer samples than this, because one bit of each cell is a mark. */
#define ALIAS_SAMPLES_MAX ((uint64_t)1 << 31)

/* A cell of the table. At first it holds the bits of a sample's weight, a double. Later it holds a
 * column: the threshold in the low half (the cell's own sample below it, the other sample above
 * it), and the other sample in the high half. */
typedef uint64_t alias_cell;

static inline alias_cell alias_weight(double weight)
{
	alias_cell cell;
	memcpy(&cell, &weight, sizeof cell);
	return cell;
}

/* Turns weights (1 to ALIAS_SAMPLES_MAX - 1 of them, finite, not negative, at least one above 0)
 * into columns. Calls `stop` (may be NULL) now and then; where that returns true, gives up and
 * returns false, and the table is useless. */
bool alias_make(alias_cell *cell, uint64_t samples, bool (*stop)(void *context), void *context);

/* The sample that four random words draw. */
uint64_t alias_draw(const alias_cell *cell, uint64_t samples, const uint32_t word[4]);

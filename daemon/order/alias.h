/* alias: draws by weights in O(1), from a table of 8 bytes per sample.
 *
 * Walker's method ("An efficient method for generating discrete random variables with general
 * distributions", ACM TOMS 1977): n columns of equal height, each shared by at most two samples. It
 * is made by one sweep over light and heavy samples (Huebschle-Schneider and Sanders, "Parallel
 * weighted random sampling", ESA 2019) in the table itself, so making it needs no memory besides.
 * Heights are integers of 2^-32 of a column, and shares add up exactly: every machine draws the
 * same, a sample's share is off by at most 2^-32 of the mean one, and one with weight 0 is never
 * drawn. Weights become integers of 2^-62 of the largest, of more than 2^16 samples n of n^2 x
 * 2^-95 of it, at least 1: where a few weights are millions of times all the others together,
 * shares are off by as much.
 *
 * Pure functions over the caller's memory; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ALIAS_SAMPLES_MAX \
	((uint64_t)1 << 31) /* less than so many: a bit of each cell is a mark \
			     */

/* A cell of the table: the bits of a sample's weight, a double; then a column: its threshold in the
 * low half (its own sample below, the other one above), the other sample in the high half. */
typedef uint64_t alias_cell;

static inline alias_cell alias_weight(double weight)
{
	alias_cell cell;
	memcpy(&cell, &weight, sizeof cell);
	return cell;
}

/* Turns weights (1 to ALIAS_SAMPLES_MAX - 1 of them, finite, not negative, one above 0) into
 * columns. `stop` (may be NULL) is asked now and then: where it says true the table is of no use,
 * and so does this. */
bool alias_make(alias_cell *cell, uint64_t samples, bool (*stop)(void *context), void *context);

/* The sample that four random words draw. */
uint64_t alias_draw(const alias_cell *cell, uint64_t samples, const uint32_t word[4]);

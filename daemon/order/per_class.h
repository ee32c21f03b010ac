/* per_class: batches of P classes with K samples of each (`sampling: {classes: P, per_class: K}`),
 * as trainers with triplet and contrastive losses read them.
 *
 * The rows of a stream come in blocks of P x K: P distinct classes, then K samples of each, next to
 * each other. Blocks are numbered through all epochs.
 *
 *   classes   A pass takes floor(C / P) blocks from one permutation of the C classes; the next pass
 *             takes another permutation, in which other classes are left over. So no block has a
 *             class twice, and all classes come equally often.
 *   samples   In each pass, a class with n samples shows the next K of a permutation of them. After
 *             floor(n / K) passes comes another permutation, in which other samples are left over.
 *             So its K samples are distinct. A class with fewer than K samples shows each of them
 *             floor(K / n) times or once more.
 *
 * Only (seed, block, row) decides which sample comes. The caller owns the table: 4 or 8 bytes for
 * each sample, and 8 for each class.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 per_class_wide;

struct per_class {
	uint32_t classes, each; /* P and K; 0: the stream is not sampled so */
	uint64_t all; /* C, at least P */
	const uint64_t *first; /* C + 1: where each class begins in the numbers; none is empty */
	const uint32_t *narrow; /* the samples' numbers, class by class; NULL: `wide` has them */
	const uint64_t *wide;
};

/* P x K, 0 where the stream is not sampled so. */
static inline uint64_t per_class_block(const struct per_class *table)
{
	return (uint64_t)table->classes * table->each;
}

/* The sample at `row` (below P x K) of a block. */
uint64_t per_class_sample(
	const struct per_class *table, uint64_t seed, per_class_wide block, uint64_t row);

/* The sample that replaces a broken one, attempt 1, 2, ...: another of its class, at first those
 * that the block does not show. False: the class has no more; the caller takes a sample of another
 * class. */
bool per_class_substitute(const struct per_class *table, uint64_t seed, per_class_wide block,
	uint64_t row, uint32_t attempt, uint64_t *ret_sample);

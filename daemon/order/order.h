/* order: the sample at a position in an epoch, with O(1) memory.
 *
 * A map of this folder:
 *   permutation.[ch]  a keyed permutation of [0, n) without a table
 *   blocks.[ch]       a permutation that keeps neighbors close, for sequential reads
 *   order.[ch]        the samples of one dataset in order; an epoch's batches, and ranks' slices
 *   sampler.[ch]      the sample at a position of a stream: weights, repeats, a mix of datasets
 *   alias.[ch]        a table that draws samples by weights
 *   per_class.[ch]    batches of P classes with K samples of each
 *   members.[ch]      which samples belong to which class, and the r-th of a class
 *   buckets.[ch]      batches of one shape each: their order, and the rows of each
 *   course.[ch]       the batches of a stream, numbered over all epochs
 *
 * A full shuffle is a permutation keyed by (seed, epoch), and so is a shuffle by blocks. Nothing is
 * stored per sample, except the list of a subset where a user asks for one. Only (seed, epoch,
 * position) decides which sample comes, so threads, ranks and restarts cannot change the order.
 *
 * Pure functions; any thread. */
#pragma once

#include "order/buckets.h"

#include <stdbool.h>
#include <stdint.h>

/* Which samples of the dataset an epoch has, where it does not have all. The shuffle permutes their
 * places in the subset. A subset is either a list, in which a number may appear several times, or a
 * split: a part of a fixed permutation of the dataset. That permutation is the same for every seed,
 * so splits that do not overlap share no sample, and each is a mix of the whole dataset. */
struct order_subset {
	const uint32_t *narrow; /* the numbers; NULL: `wide` has them */
	const uint64_t *wide;
	/* A split of a dataset of `of` samples, from place `from` on; `of` 0: none. */
	uint64_t of, from;
};

struct order {
	uint64_t samples; /* n, at least 1: of the subset, or of the dataset where there is none */
	uint64_t seed;
	bool shuffle; /* false: the position is the sample, or its place in the subset */
	struct order_subset subset; /* zeroed: the whole dataset */
	uint32_t part; /* below 2^16: its number among parts that are read together */
	/* With shuffle: how many blocks are open at once (blocks.h), and the samples of a block. A
	 * list of the subset is then in the order of the dataset. 0: a full shuffle. */
	uint32_t window;
	uint64_t block;
};

/* The sample at a place of the subset; without a subset, the place is the sample. */
uint64_t order_pick(const struct order *order, uint64_t place);

/* The sample at `position` (below n) of `epoch`. */
uint64_t order_sample(const struct order *order, uint32_t epoch, uint64_t position);

/* The position of `sample` (of its place in the subset, where there is one) in `epoch`: the inverse
 * of order_sample. */
uint64_t order_position(const struct order *order, uint32_t epoch, uint64_t sample);

/* The sample that replaces the one at `position` where that is broken: attempt 1, 2, ...
 * Deterministic, and uniform over [0, n) or the subset's places. */
uint64_t order_substitute(
	const struct order *order, uint32_t epoch, uint64_t position, uint32_t attempt);

/* A hash of seed, shuffle and window (not of the dataset, the subset or the size of a block), for
 * states and refusals. */
uint64_t order_hash(const struct order *order);

/* How an epoch is cut into global batches, and a global batch into the slices of the ranks. */
struct order_epoch {
	uint64_t samples; /* of the dataset, or of its subset */
	uint32_t batch_size; /* per rank */
	uint32_t world_size; /* 1 where all trainers share every batch */
	bool drop_last;
	/* NULL: any samples may be in one batch. Otherwise the two below order the batches. */
	const struct buckets *buckets;
	uint64_t seed;
	bool shuffle;
};

/* Samples in a global batch, of all ranks together. */
uint64_t order_global(const struct order_epoch *epoch);

/* Batches per rank from `position` (0: the whole epoch) to the epoch's end; with drop_last only the
 * full ones. With buckets, this and order_left take the position 0 only: a course (course.h) knows
 * the others. */
uint64_t order_batches(const struct order_epoch *epoch, uint64_t position);

/* How many samples of the epoch from `position` on are in batches, of all ranks together. */
uint64_t order_left(const struct order_epoch *epoch, uint64_t position);

/* A rank's part of one global batch. */
struct order_slice {
	uint64_t position; /* of its first row */
	uint32_t count; /* rows, at least 1 */
	bool padded; /* its only row is the epoch's last sample, which another rank also has */
	bool last; /* of the epoch */
	uint64_t next; /* where the next global batch begins; 0 after the last */
};

/* The slice of `rank` in the global batch that begins at `position`, where order_batches is not 0.
 * A short last batch is divided evenly; the first ranks get one row more. */
struct order_slice order_slice(const struct order_epoch *epoch, uint64_t position, uint32_t rank);

/* The part of `rank` in a global batch of `rows` rows that begins at `position`; `last` and `next`
 * are not set. */
struct order_slice order_share(
	const struct order_epoch *epoch, uint64_t position, uint64_t rows, uint32_t rank);

/* Where the epoch's first batch begins at `start`: how many batches come before the one that begins
 * at `position`. False where no batch begins there. The end of the epoch counts as the beginning of
 * a batch. */
bool order_steps(
	const struct order_epoch *epoch, uint64_t start, uint64_t position, uint64_t *ret_batches);

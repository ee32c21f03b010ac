/* order: position in an epoch -> sample, with O(1) memory.
 *
 * A map of this folder:
 *   permutation.[ch]  a keyed permutation of [0, n) without a table
 *   order.[ch]        the samples of one dataset in order; how an epoch is cut into batches
 *   sampler.[ch]      what stands at a position of a stream: weights, repeats, a mix of datasets
 *   alias.[ch]        a table that draws by weights
 *   course.[ch]       the batches of a stream that begins somewhere
 *
 * A full shuffle is a permutation keyed by (seed, epoch). Nothing is stored per sample, but the
 * list of a subset that somebody asks for, and nothing but (seed, epoch, position) decides:
 * threads, ranks and restarts cannot change it.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The samples that an epoch consists of, where it is not all of the dataset: what is shuffled are
 * their places here. Either a list, in which any number may come several times, or a split: a fixed
 * permutation of the dataset from one place on, the same for every seed, so that splits that do not
 * overlap share no sample and each is mixed over all of the dataset. */
struct order_subset {
	const uint32_t *narrow; /* the numbers; NULL: `wide` has them */
	const uint64_t *wide;
	uint64_t of, from; /* a split: of so many samples, from there on; `of` 0: none */
};

struct order {
	uint64_t samples; /* n, at least 1: of the dataset, or how many the subset has */
	uint64_t seed;
	bool shuffle; /* false: position is the sample, or its place in the subset */
	struct order_subset subset; /* zeroed: all of the dataset */
	uint32_t part; /* below 2^16: which of several that are read together shuffles */
};

/* The sample at a place of the subset; without one, the place is the sample. */
uint64_t order_pick(const struct order *order, uint64_t place);

/* The sample at `position` (below n) of `epoch`. */
uint64_t order_sample(const struct order *order, uint32_t epoch, uint64_t position);

/* Where `sample` (its place in the subset, where there is one) comes in `epoch`: the inverse. */
uint64_t order_position(const struct order *order, uint32_t epoch, uint64_t sample);

/* The sample shown when the one at `position` is broken: attempt 1, 2, ... Deterministic, uniform
 * over [0, n), or over the subset's places. */
uint64_t order_substitute(
	const struct order *order, uint32_t epoch, uint64_t position, uint32_t attempt);

/* A hash of what fixes the order (not the dataset, nor the subset): for states and refusals. */
uint64_t order_hash(const struct order *order);

/* How an epoch is cut into global batches, and those into the slices of the ranks. */
struct order_epoch {
	uint64_t samples; /* of the dataset, or of its subset */
	uint32_t batch_size; /* per rank */
	uint32_t world_size; /* 1 where all share every batch */
	bool drop_last;
};

/* Batches per rank from `position` (0: the whole epoch) to the epoch's end; with drop_last the ones
 * that are whole. */
uint64_t order_batches(const struct order_epoch *epoch, uint64_t position);

/* Samples of the epoch from `position` on that come into batches, all ranks together. */
uint64_t order_left(const struct order_epoch *epoch, uint64_t position);

/* What a rank gets of one global batch. */
struct order_slice {
	uint64_t position; /* of its first row */
	uint32_t count; /* rows, at least 1 */
	bool padded; /* its only row is the epoch's last sample, which another rank has too */
	bool last; /* of the epoch */
	uint64_t next; /* where the next global batch begins; 0 after the last */
};

/* The slice of `rank` in the global batch that begins at `position`, where order_batches is not 0.
 * A short last batch is shared out evenly, the first ranks getting one more. */
struct order_slice order_slice(const struct order_epoch *epoch, uint64_t position, uint32_t rank);

/* Where an epoch's batches lie when its first one begins at `start`: true and how many come before
 * `position`, or false where none begins there. The end of the epoch is where one would begin. */
bool order_steps(
	const struct order_epoch *epoch, uint64_t start, uint64_t position, uint64_t *ret_batches);

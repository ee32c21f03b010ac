/* sampler: which sample is at each position of each epoch of a stream.
 *
 * Everything that needs to know which sample comes where asks here: the code that fills rows, and
 * `penstock plan`, `replay` and `state`. It is a pure function of (seed, epoch, position) and needs
 * O(1) memory, apart from the tables that a user asks for (a subset's list, weights). So a state of
 * two numbers is exact at any world size, batch size and number of threads.
 *
 * The sequence, with D = ceil(length / repeats) items in each epoch:
 *
 *   plain     Epoch e is the e-th permutation of the n samples, and item i is its place i. Where
 *             `repeats` is above 1, an epoch ends after D items.
 *   endless   (`epoch_length`) Item i of epoch e is item e x D + i of all permutations, one after
 *             the other: each sample comes once before any comes a second time, across the ends of
 *             epochs.
 *   weighted  Each item is drawn independently, with replacement, keyed by (epoch, item).
 *   buckets   The places of the epoch's samples are divided into buckets (buckets.h). Position p
 *             counts the rows of all buckets, one bucket after the other. In each, item i of epoch
 *             e is the member at place i of the bucket's own e-th permutation.
 *   parts     (`sources`) Items e x D + i, in blocks of SAMPLER_BLOCK. In each block a part has
 *             exactly its quota, at places given by a permutation that is keyed by the block's
 *             number. A part's own items are numbered through all blocks and epochs, and come from
 *             its own permutations, one after the other.
 *
 *   classes   (`sampling`) Blocks of P classes with K samples of each, numbered through all epochs
 *             (per_class.h). An epoch has whole blocks.
 *
 * Each item comes `repeats` times in a row: position p is item p / repeats (of its bucket).
 *
 * Pure functions; any thread. */
#pragma once

#include "order/alias.h"
#include "order/members.h"
#include "order/order.h"
#include "order/per_class.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SAMPLER_PARTS = 16,
	SAMPLER_BLOCK = 1000, /* items: weights of three digits are exact */
	SAMPLER_REPEATS = 16,
};
#define SAMPLER_LENGTH_MAX ((uint64_t)1 << 48) /* a position has 48 bits of a draw's counter */

struct sampler {
	uint64_t length; /* samples of an epoch, repeats included */
	uint32_t repeats; /* at least 1 */
	bool endless; /* see above; always set where there are several parts or classes */
	const alias_cell *weights; /* of order[0].samples; NULL: all equal */
	struct per_class per_class; /* of order[0]; `length` is whole blocks */
	uint32_t parts; /* at least 1 */
	/* Where parts > 1: how many items of a block each part has, SAMPLER_BLOCK together. */
	uint32_t quota[SAMPLER_PARTS];
	/* All have the same seed and the same shuffle. */
	struct order order[SAMPLER_PARTS];
	/* Where buckets.count is not 0: one part, neither endless nor weighted; `members` says
	 * which bucket each place belongs to, and `member_count` how many places each has. */
	struct buckets buckets;
	struct members members;
	uint64_t member_count[BUCKETS_MAX];
};

struct sampler_pick {
	uint32_t part;
	uint64_t number; /* in that part's dataset */
};

/* Divides a plain sampler's places into `count` buckets by a table that members_count has counted
 * as `members_of`. */
void sampler_divide(struct sampler *sampler, uint32_t count, const struct members *members,
	const uint64_t members_of[BUCKETS_MAX]);

/* A plain sampler: one part, n samples, no repeats. */
struct sampler sampler_plain(const struct order *order);

/* The sample at `position` (below length) of `epoch`. */
struct sampler_pick sampler_pick(const struct sampler *sampler, uint32_t epoch, uint64_t position);

/* The sample that replaces a broken one: attempt 1, 2, ... It has the same weights, comes from the
 * same part and, where batches have classes, is of the same class as long as that has another
 * sample. All copies of a repeated sample get the same replacement. */
struct sampler_pick sampler_substitute(
	const struct sampler *sampler, uint32_t epoch, uint64_t position, uint32_t attempt);

/* With buckets and without repeats: the position that the sample at `place` of the dataset or
 * subset has in an epoch. */
uint64_t sampler_position(const struct sampler *sampler, uint32_t epoch, uint64_t place);

/* Divides SAMPLER_BLOCK places by weights (finite, above 0), rounded by the largest remainder; of
 * equal remainders the first part wins. False: a part would get no place; its number is in
 * *ret_part. */
bool sampler_quotas(const double *weight, uint32_t parts, uint32_t *ret_quota, uint32_t *ret_part);

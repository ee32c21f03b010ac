/* sampler: what stands at each position of each epoch of a stream.
 *
 * The one door for everything that decides which sample comes where: whoever fills rows, and
 * `penstock plan`, `replay` and `state`, ask here. A pure function of (seed, epoch, position), with
 * O(1) memory but for the tables that somebody asks for (a subset's list, weights), so a state of
 * two numbers is exact at any world size, batch size and number of threads.
 *
 * The sequence that it gives out, with D = ceil(length / repeats) items for each epoch:
 *
 *   plain        epoch e is the e-th permutation of the n samples; item i its place i. Where
 *                `repeats` is above 1 an epoch is cut off after D of them.
 *   endless      (`epoch_length`) item i of epoch e is item e x D + i of all permutations in a row:
 *                every sample comes once before any comes twice as often, over the epochs' ends.
 *   weighted     every item is drawn by itself, with replacement; keyed by (epoch, item).
 *   parts        (`sources`) items e x D + i in blocks of SAMPLER_BLOCK; in each a part has exactly
 *                its quota, at places that a permutation keyed by the block's number gives. A
 * part's own items are numbered through over blocks and epochs, and taken from its own permutations
 * in a row.
 *
 * Each item is given `repeats` times in a row: position p is item p / repeats.
 *
 * Pure functions; any thread. */
#pragma once

#include "order/alias.h"
#include "order/order.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SAMPLER_PARTS = 16,
	SAMPLER_BLOCK = 1000, /* items: weights of three digits come out exactly */
	SAMPLER_REPEATS = 16,
};
#define SAMPLER_LENGTH_MAX ((uint64_t)1 << 48) /* a position has 48 bits of a draw's counter */

struct sampler {
	uint64_t length; /* samples of an epoch, repeats counted */
	uint32_t repeats; /* at least 1 */
	bool endless; /* see above; always where there are several parts */
	const alias_cell *weights; /* of order[0].samples; NULL: all the same */
	uint32_t parts; /* at least 1 */
	uint32_t quota[SAMPLER_PARTS]; /* of a block, SAMPLER_BLOCK together; where parts > 1 */
	/* Seed and shuffle are those of order[0]; the others have the same. */
	struct order order[SAMPLER_PARTS];
};

struct sampler_pick {
	uint32_t part;
	uint64_t number; /* in that part's dataset */
};

/* All there is to say where none of the keys above is given: `order` in one part, n samples. */
struct sampler sampler_plain(const struct order *order);

/* What comes at `position` (below length) of `epoch`. */
struct sampler_pick sampler_pick(const struct sampler *sampler, uint32_t epoch, uint64_t position);

/* Instead of a broken one: attempt 1, 2, ... By the same weights, and of the same part; the copies
 * of a repeated sample get the same one. */
struct sampler_pick sampler_substitute(
	const struct sampler *sampler, uint32_t epoch, uint64_t position, uint32_t attempt);

/* Shares SAMPLER_BLOCK places out by weights (finite, above 0), rounded by largest remainder, the
 * first of equal ones first. False: one would get none; its number is in *ret_part. */
bool sampler_quotas(const double *weight, uint32_t parts, uint32_t *ret_quota, uint32_t *ret_part);

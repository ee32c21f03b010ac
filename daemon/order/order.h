/* order: position in an epoch -> sample, with O(1) memory.
 *
 * A full shuffle is a keyed pseudo-random permutation of [0, n): a balanced Feistel network over
 * the smallest even number of bits that holds n - 1, with Philox as its round function, walking the
 * cycle until the value falls below n (Black and Rogaway, "Ciphers with arbitrary finite domains",
 * CT-RSA 2002: at most 4 steps expected), and a coin that makes odd permutations as likely as even
 * ones. The key is (seed, epoch). Nothing is stored per sample, and nothing but (seed, epoch,
 * position) decides: threads, ranks and restarts cannot change it.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct order {
	uint64_t samples; /* n, at least 1 */
	uint64_t seed;
	bool shuffle; /* false: position is the sample */
};

/* The sample at `position` (below n) of `epoch`. */
uint64_t order_sample(const struct order *order, uint32_t epoch, uint64_t position);

/* Where `sample` comes in `epoch`: the inverse. */
uint64_t order_position(const struct order *order, uint32_t epoch, uint64_t sample);

/* The sample shown when the one at `position` is broken: attempt 1, 2, ... Deterministic, uniform
 * over [0, n). */
uint64_t order_substitute(
	const struct order *order, uint32_t epoch, uint64_t position, uint32_t attempt);

/* A hash of what fixes the order (not the dataset): for states and refusals. */
uint64_t order_hash(const struct order *order);

/* How an epoch is cut into batches. */
struct order_epoch {
	uint64_t samples; /* of the dataset */
	uint32_t batch_size; /* per rank */
	uint32_t world_size; /* 1 where all share every batch */
	bool drop_last;
};

/* Batches per rank and epoch: floor or ceiling of samples / (batch_size * world_size); 0 when
 * nothing is left. */
uint64_t order_batches(const struct order_epoch *epoch);

/* Position of rank `rank`'s first row of batch `batch`, and how many of its rows are valid (0 ..
 * batch_size). */
void order_batch(const struct order_epoch *epoch, uint64_t batch, uint32_t rank,
	uint64_t *ret_position, uint32_t *ret_count);

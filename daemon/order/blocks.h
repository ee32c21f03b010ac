/* blocks: a shuffle that reads whole neighborhoods of the dataset (`shuffle: blocks`).
 *
 * The samples, in the order in which they are stored, are cut into blocks of the same number of
 * samples; only the last block may have fewer. An epoch puts the blocks in the order of a keyed
 * permutation and has `window` of them open at once. It has as many periods as there are blocks. In
 * each period one block is opened, and every open block gives a window-th part of its samples,
 * which a keyed permutation chooses. The samples of a period are permuted. A block is closed after
 * `window` periods, when it has given all.
 *
 *   blocks of the dataset      0 1 2 3 4 5
 *   slots: blocks permuted     5 0 3 2 4 1
 *   period 0, window 3         a third each of 5, 1 and 4
 *   period 1                   a third each of 0, 5 and 1
 *   period 2                   a third each of 3, 0 and 5, and so on
 *
 * Before the first slot come the last ones: so all periods are alike, and the blocks of the last
 * window - 1 slots are open at the beginning of the epoch and again at its end. With no more blocks
 * than `window`, the whole epoch is one period, and all of it is permuted: a full shuffle.
 *
 * Blocks have equal numbers of samples, not of bytes, for three reasons. A position then needs no
 * table, whatever the size of the dataset. No index has to be read at opening. And the order
 * depends on the number and the total size of the samples only, which the dataset's fingerprint
 * covers: a dataset that is packed into other shards keeps its order and its states.
 *
 * Each step is a permutation, so the whole is one: it has an inverse, and the sample at a position
 * depends on seed, epoch and position only.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdint.h>

/* A block has at most this many bytes, where samples have the dataset's mean size. */
#define BLOCKS_BYTES ((uint64_t)16 << 20)

struct blocks {
	uint64_t samples; /* at least 1 */
	uint64_t block; /* samples in a block, at least 1 */
	uint32_t window; /* blocks that are open at once, at least 1 */
};

/* What an order of blocks is drawn from. */
struct blocks_key {
	uint64_t seed;
	uint32_t epoch;
	uint32_t part; /* below 2^16: its number among parts that are read together */
};

/* The samples of a block for a dataset of that many samples and bytes: the largest power of two
 * whose samples have BLOCKS_BYTES or less, on average; at least 1. Above half of BLOCKS_BYTES,
 * where a sample is not larger than that. A power of two stays the same when images are rewritten
 * in about the same size. */
uint64_t blocks_size(uint64_t samples, uint64_t bytes);

/* The number of blocks; of those that are open at once; and of periods. */
uint64_t blocks_count(const struct blocks *blocks);
uint64_t blocks_open(const struct blocks *blocks);
uint64_t blocks_periods(const struct blocks *blocks);

/* The position at which a period (below blocks_periods) begins; the end of the epoch, for the
 * period after the last. */
uint64_t blocks_begin(const struct blocks *blocks, const struct blocks_key *key, uint64_t period);

/* The period that a position (below `samples`) belongs to. */
uint64_t blocks_period_of(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t position);

/* The block at a slot (below blocks_count) of an epoch. It has the samples from `block` times its
 * number on. */
uint64_t blocks_at(const struct blocks *blocks, const struct blocks_key *key, uint64_t slot);
/* The inverse: the slot of a block. */
uint64_t blocks_slot_of(const struct blocks *blocks, const struct blocks_key *key, uint64_t block);

/* The sample at a position (below `samples`), and the position of a sample. */
uint64_t blocks_sample(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t position);
uint64_t blocks_position(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t sample);

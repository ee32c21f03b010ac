/* blocks: a shuffle that reads whole neighborhoods of the dataset (`shuffle: blocks`).
 *
 * The samples, in the order in which they are stored, are cut into blocks of the same number of
 * samples; only the last block may have fewer. An epoch has the blocks in the order of a keyed
 * permutation, cut into groups of at most `window` blocks, all groups as equal as they can be. The
 * samples of a group are permuted together. So a reader has at most `window` blocks open at a time,
 * and reads each block once in an epoch.
 *
 *   blocks of the dataset      0 1 2 3 4 5 6 7 8
 *   permuted                   5 0 7 | 2 8 3 | 6 1 4      window 3: three groups
 *   samples of the epoch       all of 5, 0 and 7 in any order, then all of 2, 8 and 3, ...
 *
 * Blocks have equal numbers of samples, not of bytes, for three reasons. A position then needs no
 * table, whatever the size of the dataset. No index has to be read at opening. And the order
 * depends on the number and the total size of the samples only, which the dataset's fingerprint
 * covers: a dataset that is packed into other shards keeps its order and its states.
 *
 * Each group is a permutation of its positions, so the whole is one: it has an inverse, and the
 * sample at a position depends on seed, epoch and position only.
 *
 * Pure functions; any thread. */
#pragma once

#include <stdint.h>

/* A block has at most this many bytes, where samples have the dataset's mean size. */
#define BLOCKS_BYTES ((uint64_t)16 << 20)

struct blocks {
	uint64_t samples; /* at least 1 */
	uint64_t block; /* samples in a block, at least 1 */
	uint32_t window; /* blocks in a group, at least 1 */
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

/* The number of blocks, and of groups. */
uint64_t blocks_count(const struct blocks *blocks);
uint64_t blocks_groups(const struct blocks *blocks);

/* The blocks of a group (below blocks_groups): slots `first` to `end` of the permuted blocks, and
 * the positions that their samples have in the epoch. */
struct blocks_group {
	uint64_t first, end;
	uint64_t position, count;
};
struct blocks_group blocks_group(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t group);

/* The group that a position (below `samples`) belongs to. */
uint64_t blocks_group_of(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t position);

/* The block at a slot (below blocks_count) of an epoch. It has the samples from `block` times its
 * number on. */
uint64_t blocks_at(const struct blocks *blocks, const struct blocks_key *key, uint64_t slot);

/* The sample at a position (below `samples`), and the position of a sample. */
uint64_t blocks_sample(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t position);
uint64_t blocks_position(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t sample);

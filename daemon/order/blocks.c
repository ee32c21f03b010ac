/* blocks: see blocks.h. Pure functions. */
#include "order/blocks.h"

#include "order/permutation.h"
#include "proto/philox.h"

#include <assert.h>

__extension__ typedef unsigned __int128 blocks_wide;

uint64_t blocks_size(uint64_t samples, uint64_t bytes)
{
	uint64_t size = 1;
	assert(samples);
	while (size < samples &&
		(blocks_wide)bytes * size * 2 <= (blocks_wide)BLOCKS_BYTES * samples)
		size *= 2;
	return size;
}

uint64_t blocks_count(const struct blocks *blocks)
{
	assert(blocks->samples && blocks->block && blocks->window);
	return (blocks->samples - 1) / blocks->block + 1;
}

uint64_t blocks_groups(const struct blocks *blocks)
{
	return (blocks_count(blocks) - 1) / blocks->window + 1;
}

/* An epoch's blocks in their order. */
struct blocks_epoch {
	struct permutation slots; /* the block of each slot */
	uint64_t block; /* samples in each, */
	uint64_t missing; /* except that the last block has so many fewer, */
	uint64_t last; /* and that one is in this slot */
};

static struct blocks_epoch blocks_epoch(const struct blocks *blocks, const struct blocks_key *key)
{
	const uint64_t count = blocks_count(blocks);
	struct blocks_epoch epoch = {
		.slots = permutation_make(
			count, key->seed, PHILOX_BLOCKS, key->epoch | (uint64_t)key->part << 32),
		.block = blocks->block,
		.missing = (uint64_t)((blocks_wide)count * blocks->block - blocks->samples),
		.last = count,
	};
	if (epoch.missing)
		epoch.last = permutation_find(&epoch.slots, count - 1);
	return epoch;
}

/* The position of the first sample of a slot; of the end of the epoch, for the slot after the
 * last. */
static uint64_t blocks_begin(const struct blocks_epoch *epoch, uint64_t slot)
{
	const blocks_wide all = (blocks_wide)slot * epoch->block;
	return (uint64_t)(slot > epoch->last ? all - epoch->missing : all);
}

/* The slot that has an element of the epoch's blocks, one after the other. */
static uint64_t blocks_slot(const struct blocks_epoch *epoch, uint64_t element)
{
	const uint64_t slot = element / epoch->block;
	if (slot < epoch->last || element < blocks_begin(epoch, epoch->last + 1))
		return slot;
	return (uint64_t)(((blocks_wide)element + epoch->missing) / epoch->block);
}

/* Group g begins at slot g x count / groups, rounded down. */
static uint64_t blocks_first(const struct blocks *blocks, uint64_t group)
{
	return (uint64_t)((blocks_wide)group * blocks_count(blocks) / blocks_groups(blocks));
}

static uint64_t blocks_group_at(const struct blocks *blocks, uint64_t slot)
{
	return (uint64_t)((((blocks_wide)slot + 1) * blocks_groups(blocks) - 1) /
			  blocks_count(blocks));
}

static struct blocks_group blocks_make_group(
	const struct blocks *blocks, const struct blocks_epoch *epoch, uint64_t group)
{
	const uint64_t first = blocks_first(blocks, group), end = blocks_first(blocks, group + 1);
	const uint64_t position = blocks_begin(epoch, first);
	return (struct blocks_group){first, end, position, blocks_begin(epoch, end) - position};
}

/* The order of a group's samples. */
static struct permutation blocks_mix(
	const struct blocks_key *key, uint64_t group, const struct blocks_group *range)
{
	const struct philox words =
		philox_draw(key->seed, key->epoch, group, PHILOX_WINDOW, key->part);
	const uint64_t seed = (uint64_t)words.word[0] << 32 | words.word[1];
	return permutation_make(range->count, seed, PHILOX_WINDOW, 0);
}

struct blocks_group blocks_group(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t group)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	assert(group < blocks_groups(blocks));
	return blocks_make_group(blocks, &epoch, group);
}

uint64_t blocks_group_of(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t position)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	assert(position < blocks->samples);
	return blocks_group_at(blocks, blocks_slot(&epoch, position));
}

uint64_t blocks_at(const struct blocks *blocks, const struct blocks_key *key, uint64_t slot)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	return permutation_at(&epoch.slots, slot);
}

uint64_t blocks_sample(const struct blocks *blocks, const struct blocks_key *key, uint64_t position)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	assert(position < blocks->samples);
	const uint64_t group = blocks_group_at(blocks, blocks_slot(&epoch, position));
	const struct blocks_group range = blocks_make_group(blocks, &epoch, group);
	const struct permutation mix = blocks_mix(key, group, &range);
	const uint64_t element = range.position + permutation_at(&mix, position - range.position);
	const uint64_t slot = blocks_slot(&epoch, element);
	return permutation_at(&epoch.slots, slot) * blocks->block + element -
	       blocks_begin(&epoch, slot);
}

uint64_t blocks_position(const struct blocks *blocks, const struct blocks_key *key, uint64_t sample)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	assert(sample < blocks->samples);
	const uint64_t slot = permutation_find(&epoch.slots, sample / blocks->block);
	const uint64_t element = blocks_begin(&epoch, slot) + sample % blocks->block;
	const uint64_t group = blocks_group_at(blocks, slot);
	const struct blocks_group range = blocks_make_group(blocks, &epoch, group);
	const struct permutation mix = blocks_mix(key, group, &range);
	return range.position + permutation_find(&mix, element - range.position);
}

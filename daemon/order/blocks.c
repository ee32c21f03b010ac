/* blocks: see blocks.h. Pure functions. */
#include "order/blocks.h"

#include "order/permutation.h"
#include "proto/philox.h"

#include <assert.h>
#include <stdbool.h>

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

uint64_t blocks_open(const struct blocks *blocks)
{
	const uint64_t count = blocks_count(blocks);
	return count < blocks->window ? count : blocks->window;
}

/* Whether all blocks are open all the time. */
static bool blocks_are_all(const struct blocks *blocks)
{
	return blocks_count(blocks) <= blocks->window;
}

uint64_t blocks_periods(const struct blocks *blocks)
{
	return blocks_are_all(blocks) ? 1 : blocks_count(blocks);
}

/* An epoch's blocks in their order. */
struct blocks_epoch {
	struct permutation slots; /* the block of each slot */
	uint64_t count, block, window;
	uint64_t shorter; /* samples of the last block, if it has fewer; otherwise 0 */
	uint64_t last; /* its slot */
};

static struct blocks_epoch blocks_epoch(const struct blocks *blocks, const struct blocks_key *key)
{
	struct blocks_epoch epoch = {.count = blocks_count(blocks),
		.block = blocks->block,
		.window = blocks->window,
		.shorter = blocks->samples % blocks->block};
	epoch.slots = permutation_make(
		epoch.count, key->seed, PHILOX_BLOCKS, key->epoch | (uint64_t)key->part << 32);
	if (epoch.shorter)
		epoch.last = permutation_find(&epoch.slots, epoch.count - 1);
	return epoch;
}

/* ---- parts of a block ---- */

/* How many of `samples` the first `parts` parts of a block have. */
static uint64_t blocks_parts(const struct blocks_epoch *epoch, uint64_t samples, uint64_t parts)
{
	return (uint64_t)((blocks_wide)parts * samples / epoch->window);
}

/* The part that has sample `at` of so many. */
static uint64_t blocks_part_of(const struct blocks_epoch *epoch, uint64_t samples, uint64_t at)
{
	return (uint64_t)((((blocks_wide)at + 1) * epoch->window - 1) / samples);
}

/* How many fewer the first `parts` parts of the last block have. */
static uint64_t blocks_missing(const struct blocks_epoch *epoch, uint64_t parts)
{
	if (!epoch->shorter)
		return 0;
	return blocks_parts(epoch, epoch->block, parts) -
	       blocks_parts(epoch, epoch->shorter, parts);
}

/* ---- periods ---- */

/* The slot whose part `part` is in a period, and the part of a slot that is in a period: `window`
 * or more where the slot is not open. */
static uint64_t blocks_slot(const struct blocks_epoch *epoch, uint64_t period, uint64_t part)
{
	return period >= part ? period - part : period + epoch->count - part;
}

static uint64_t blocks_part(const struct blocks_epoch *epoch, uint64_t period, uint64_t slot)
{
	return blocks_slot(epoch, period, slot);
}

static uint64_t blocks_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* All periods have the samples of a block, but those in which the last block is open: it may be
 * open at the end of the epoch, and at the beginning before that. */
static uint64_t blocks_start(const struct blocks_epoch *epoch, uint64_t period)
{
	const uint64_t after = period > epoch->last ? period - epoch->last : 0;
	const uint64_t wrapped = epoch->count - epoch->last;
	uint64_t missing = blocks_missing(epoch, blocks_least(after, epoch->window));
	if (wrapped < epoch->window)
		missing += blocks_missing(epoch, blocks_least(wrapped + period, epoch->window)) -
			   blocks_missing(epoch, wrapped);
	return (uint64_t)((blocks_wide)period * epoch->block - missing);
}

/* Less than a block is missing before any period, or more than usual is there where the shorter
 * block's part has the larger remainder: so the period is this one or a neighbor. */
static uint64_t blocks_find_period(const struct blocks_epoch *epoch, uint64_t position)
{
	uint64_t period = position / epoch->block;
	while (position < blocks_start(epoch, period))
		period--;
	while (period + 1 < epoch->count && position >= blocks_start(epoch, period + 1))
		period++;
	return period;
}

/* The order of the samples of a period, or of a block. */
static struct permutation blocks_mix(const struct blocks_key *key, enum philox_operation operation,
	uint64_t number, uint64_t count)
{
	const struct philox words =
		philox_draw(key->seed, key->epoch, number, operation, key->part);
	const uint64_t seed = (uint64_t)words.word[0] << 32 | words.word[1];
	return permutation_make(count, seed, operation, 0);
}

static struct permutation blocks_mix_period(
	const struct blocks_epoch *epoch, const struct blocks_key *key, uint64_t period)
{
	return blocks_mix(key, PHILOX_WINDOW, period,
		blocks_start(epoch, period + 1) - blocks_start(epoch, period));
}

static uint64_t blocks_samples(const struct blocks_epoch *epoch, uint64_t block)
{
	return epoch->shorter && block == epoch->count - 1 ? epoch->shorter : epoch->block;
}

uint64_t blocks_begin(const struct blocks *blocks, const struct blocks_key *key, uint64_t period)
{
	assert(period <= blocks_periods(blocks));
	if (blocks_are_all(blocks))
		return period ? blocks->samples : 0;
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	return blocks_start(&epoch, period);
}

uint64_t blocks_period_of(
	const struct blocks *blocks, const struct blocks_key *key, uint64_t position)
{
	assert(position < blocks->samples);
	if (blocks_are_all(blocks))
		return 0;
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	return blocks_find_period(&epoch, position);
}

uint64_t blocks_at(const struct blocks *blocks, const struct blocks_key *key, uint64_t slot)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	return permutation_at(&epoch.slots, slot);
}

uint64_t blocks_slot_of(const struct blocks *blocks, const struct blocks_key *key, uint64_t block)
{
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	return permutation_find(&epoch.slots, block);
}

/* ---- samples ---- */

/* A sample of a period: in which part, and where in it. The parts of a period follow each other,
 * the block that was opened last first. Where the shorter block is open, the parts after its part
 * begin elsewhere than in other periods. */
struct blocks_place {
	uint64_t part, at;
};

/* The part of the shorter block in a period; `window` or more if it is not open. */
static uint64_t blocks_shorter_part(const struct blocks_epoch *epoch, uint64_t period)
{
	return epoch->shorter ? blocks_part(epoch, period, epoch->last) : epoch->window;
}

static struct blocks_place blocks_split(
	const struct blocks_epoch *epoch, uint64_t period, uint64_t place)
{
	const uint64_t odd = blocks_shorter_part(epoch, period);
	if (odd < epoch->window) {
		const uint64_t begin = blocks_parts(epoch, epoch->block, odd);
		const uint64_t has = blocks_parts(epoch, epoch->shorter, odd + 1) -
				     blocks_parts(epoch, epoch->shorter, odd);
		if (place >= begin && place < begin + has)
			return (struct blocks_place){odd, place - begin};
		if (place >= begin)
			place = place - begin - has + blocks_parts(epoch, epoch->block, odd + 1);
	}
	const uint64_t part = blocks_part_of(epoch, epoch->block, place);
	return (struct blocks_place){part, place - blocks_parts(epoch, epoch->block, part)};
}

static uint64_t blocks_join(
	const struct blocks_epoch *epoch, uint64_t period, struct blocks_place place)
{
	const uint64_t odd = blocks_shorter_part(epoch, period);
	const uint64_t join = blocks_parts(epoch, epoch->block, place.part) + place.at;
	if (odd >= epoch->window || place.part <= odd)
		return join;
	return join + blocks_missing(epoch, odd) - blocks_missing(epoch, odd + 1);
}

uint64_t blocks_sample(const struct blocks *blocks, const struct blocks_key *key, uint64_t position)
{
	assert(position < blocks->samples);
	if (blocks_are_all(blocks)) {
		const struct permutation all = blocks_mix(key, PHILOX_WINDOW, 0, blocks->samples);
		return permutation_at(&all, position);
	}
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	const uint64_t period = blocks_find_period(&epoch, position);
	const struct permutation mix = blocks_mix_period(&epoch, key, period);
	const struct blocks_place place = blocks_split(
		&epoch, period, permutation_at(&mix, position - blocks_start(&epoch, period)));
	const uint64_t block =
		permutation_at(&epoch.slots, blocks_slot(&epoch, period, place.part));
	const uint64_t samples = blocks_samples(&epoch, block);
	const struct permutation inner = blocks_mix(key, PHILOX_BLOCK, block, samples);
	return block * epoch.block +
	       permutation_at(&inner, blocks_parts(&epoch, samples, place.part) + place.at);
}

uint64_t blocks_position(const struct blocks *blocks, const struct blocks_key *key, uint64_t sample)
{
	assert(sample < blocks->samples);
	if (blocks_are_all(blocks)) {
		const struct permutation all = blocks_mix(key, PHILOX_WINDOW, 0, blocks->samples);
		return permutation_find(&all, sample);
	}
	const struct blocks_epoch epoch = blocks_epoch(blocks, key);
	const uint64_t block = sample / epoch.block, samples = blocks_samples(&epoch, block);
	const struct permutation inner = blocks_mix(key, PHILOX_BLOCK, block, samples);
	const uint64_t at = permutation_find(&inner, sample % epoch.block);
	const uint64_t part = blocks_part_of(&epoch, samples, at);
	const uint64_t slot = permutation_find(&epoch.slots, block);
	const uint64_t period = slot + part < epoch.count ? slot + part : slot + part - epoch.count;
	const struct blocks_place place = {part, at - blocks_parts(&epoch, samples, part)};
	const struct permutation mix = blocks_mix_period(&epoch, key, period);
	return blocks_start(&epoch, period) +
	       permutation_find(&mix, blocks_join(&epoch, period, place));
}

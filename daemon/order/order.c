/* order: see order.h. Pure functions. */
#include "order/order.h"

#include "base/hash.h"
#include "base/util.h"
#include "order/blocks.h"
#include "order/permutation.h"
#include "proto/philox.h"

#include <assert.h>

/* Each of several parts that are read together has its own permutations. */
static struct permutation order_permutation(const struct order *order, uint32_t epoch)
{
	return permutation_make(
		order->samples, order->seed, PHILOX_SHUFFLE, epoch | (uint64_t)order->part << 32);
}

static struct blocks order_blocks(const struct order *order)
{
	return (struct blocks){
		.samples = order->samples, .block = order->block, .window = order->window};
}

static struct blocks_key order_blocks_key(const struct order *order, uint32_t epoch)
{
	return (struct blocks_key){.seed = order->seed, .epoch = epoch, .part = order->part};
}

/* A split does not depend on the seed: all streams agree on its samples. */
static uint64_t order_split(const struct order_subset *subset, uint64_t place)
{
	struct permutation fixed = permutation_make(subset->of, 0, PHILOX_SPLIT, 0);
	return permutation_at(&fixed, subset->from + place);
}

uint64_t order_pick(const struct order *order, uint64_t place)
{
	assert(place < order->samples);
	if (order->subset.narrow)
		return order->subset.narrow[place];
	if (order->subset.wide)
		return order->subset.wide[place];
	return order->subset.of ? order_split(&order->subset, place) : place;
}

uint64_t order_sample(const struct order *order, uint32_t epoch, uint64_t position)
{
	assert(position < order->samples);
	if (!order->shuffle)
		return order_pick(order, position);
	if (order->window) {
		const struct blocks blocks = order_blocks(order);
		const struct blocks_key key = order_blocks_key(order, epoch);
		return order_pick(order, blocks_sample(&blocks, &key, position));
	}
	struct permutation p = order_permutation(order, epoch);
	return order_pick(order, permutation_at(&p, position));
}

uint64_t order_position(const struct order *order, uint32_t epoch, uint64_t sample)
{
	assert(sample < order->samples);
	if (!order->shuffle)
		return sample;
	if (order->window) {
		const struct blocks blocks = order_blocks(order);
		const struct blocks_key key = order_blocks_key(order, epoch);
		return blocks_position(&blocks, &key, sample);
	}
	struct permutation p = order_permutation(order, epoch);
	return permutation_find(&p, sample);
}

uint64_t order_substitute(
	const struct order *order, uint32_t epoch, uint64_t position, uint32_t attempt)
{
	struct philox r = philox_draw(order->seed, epoch, position, PHILOX_SUBSTITUTE, attempt);
	return order_pick(order, philox_below(r.word[0], r.word[1], order->samples));
}

uint64_t order_hash(const struct order *order)
{
	uint64_t h = hash_bytes(HASH_SEED, "order 1", 7);
	h = hash_u64(h, order->seed);
	h = hash_u64(h, order->shuffle);
	if (order->shuffle && order->window)
		h = hash_u64(hash_bytes(h, "window", 6), order->window);
	return hash_mix(h);
}

uint64_t order_global(const struct order_epoch *epoch)
{
	assert(epoch->batch_size && epoch->world_size);
	return (uint64_t)epoch->batch_size * epoch->world_size;
}

uint64_t order_left(const struct order_epoch *epoch, uint64_t position)
{
	uint64_t left = position < epoch->samples ? epoch->samples - position : 0, rows = 0;
	if (!epoch->buckets)
		return epoch->drop_last ? left - left % order_global(epoch) : left;
	assert(!position);
	for (uint32_t i = 0; i < epoch->buckets->count; i++) {
		left = epoch->buckets->rows[i];
		rows += epoch->drop_last ? left - left % order_global(epoch) : left;
	}
	return rows;
}

uint64_t order_batches(const struct order_epoch *epoch, uint64_t position)
{
	uint64_t global = order_global(epoch);
	if (epoch->buckets) {
		assert(!position);
		return buckets_stretch(epoch->buckets, NULL, global, epoch->drop_last).total;
	}
	uint64_t left = order_left(epoch, position);
	return left / global + (left % global != 0);
}

struct order_slice order_share(
	const struct order_epoch *epoch, uint64_t position, uint64_t rows, uint32_t rank)
{
	uint64_t each = rows / epoch->world_size, more = rows % epoch->world_size;
	assert(rank < epoch->world_size && rows > 0);
	struct order_slice slice = {
		.position = position + rank * each + UTIL_MIN((uint64_t)rank, more),
		.count = (uint32_t)(each + (rank < more)),
	};
	if (!slice.count) {
		slice.padded = true;
		slice.position = position + rows - 1;
		slice.count = 1;
	}
	return slice;
}

struct order_slice order_slice(const struct order_epoch *epoch, uint64_t position, uint32_t rank)
{
	uint64_t global = order_global(epoch), left = order_left(epoch, position);
	struct order_slice slice = order_share(epoch, position, UTIL_MIN(left, global), rank);
	slice.last = left <= global;
	slice.next = slice.last ? 0 : position + global;
	return slice;
}

bool order_steps(
	const struct order_epoch *epoch, uint64_t start, uint64_t position, uint64_t *ret_batches)
{
	uint64_t global = order_global(epoch);
	if (position < start || (position - start) % global != 0)
		return false;
	*ret_batches = (position - start) / global;
	return *ret_batches <= order_batches(epoch, start);
}

/* order: see order.h. Pure functions. */
#include "order/order.h"

#include "base/hash.h"
#include "base/util.h"
#include "proto/philox.h"

#include <assert.h>

/* Ten rounds put distance between neighbours for every width; below that, tiny domains show
 * structure. */
enum { ORDER_ROUNDS = 10 };

struct order_key {
	uint32_t key[2];
	uint32_t epoch;
	unsigned half_bits;
	uint64_t mask;
};

static struct order_key order_key_make(const struct order *order, uint32_t epoch)
{
	unsigned bits =
		order->samples > 1 ? 64u - (unsigned)__builtin_clzll(order->samples - 1) : 1;
	unsigned half = (bits + 1) / 2;
	return (struct order_key){
		.key = {(uint32_t)order->seed, (uint32_t)(order->seed >> 32)},
		.epoch = epoch,
		.half_bits = half,
		.mask = ((uint64_t)1 << half) - 1,
	};
}

static uint64_t order_round(const struct order_key *k, uint64_t half, unsigned round)
{
	uint32_t counter[4] = {(uint32_t)half, round, k->epoch, PHILOX_SHUFFLE};
	struct philox r = philox_4x32(counter, k->key);
	return r.word[0] & k->mask;
}

static uint64_t order_encrypt(const struct order_key *k, uint64_t x)
{
	uint64_t left = x >> k->half_bits, right = x & k->mask;
	for (unsigned round = 0; round < ORDER_ROUNDS; round++) {
		uint64_t next = left ^ order_round(k, right, round);
		left = right;
		right = next;
	}
	return left << k->half_bits | right;
}

static uint64_t order_decrypt(const struct order_key *k, uint64_t x)
{
	uint64_t left = x >> k->half_bits, right = x & k->mask;
	for (unsigned round = ORDER_ROUNDS; round-- > 0;) {
		uint64_t previous = right ^ order_round(k, left, round);
		right = left;
		left = previous;
	}
	return left << k->half_bits | right;
}

/* A Feistel round over more than two bits is an even permutation, and so is a network of them;
 * walking the cycle turns that into a bias of small domains (of 15 samples, 15 orders in 16 would
 * be odd). Swapping samples 0 and 1 on the toss of a coin gives even and odd the same share. Its
 * own inverse. */
static uint64_t order_toss(const struct order *order, const struct order_key *k, uint64_t sample)
{
	if (sample > 1 || order->samples < 2)
		return sample;
	uint32_t counter[4] = {0, ORDER_ROUNDS, k->epoch, PHILOX_SHUFFLE};
	return sample ^ (philox_4x32(counter, k->key).word[0] & 1);
}

/* The number that stands at a place of the subset; without one, the place is the number. */
static uint64_t order_pick(const struct order *order, uint64_t place)
{
	if (order->subset.narrow)
		return order->subset.narrow[place];
	return order->subset.wide ? order->subset.wide[place] : place;
}

static uint64_t order_place(const struct order *order, uint32_t epoch, uint64_t position)
{
	assert(position < order->samples);
	if (!order->shuffle)
		return position;
	struct order_key k = order_key_make(order, epoch);
	uint64_t x = position;
	do
		x = order_encrypt(&k, x);
	while (x >= order->samples);
	return order_toss(order, &k, x);
}

uint64_t order_sample(const struct order *order, uint32_t epoch, uint64_t position)
{
	return order_pick(order, order_place(order, epoch, position));
}

uint64_t order_position(const struct order *order, uint32_t epoch, uint64_t sample)
{
	assert(sample < order->samples);
	if (!order->shuffle)
		return sample;
	struct order_key k = order_key_make(order, epoch);
	uint64_t x = order_toss(order, &k, sample);
	do
		x = order_decrypt(&k, x);
	while (x >= order->samples);
	return x;
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
	return hash_mix(h);
}

/* Samples that all ranks together take per step. */
static uint64_t order_global(const struct order_epoch *epoch)
{
	assert(epoch->batch_size && epoch->world_size);
	return (uint64_t)epoch->batch_size * epoch->world_size;
}

uint64_t order_left(const struct order_epoch *epoch, uint64_t position)
{
	uint64_t left = position < epoch->samples ? epoch->samples - position : 0;
	return epoch->drop_last ? left - left % order_global(epoch) : left;
}

uint64_t order_batches(const struct order_epoch *epoch, uint64_t position)
{
	uint64_t global = order_global(epoch), left = order_left(epoch, position);
	return left / global + (left % global != 0);
}

struct order_slice order_slice(const struct order_epoch *epoch, uint64_t position, uint32_t rank)
{
	uint64_t global = order_global(epoch), left = order_left(epoch, position);
	assert(rank < epoch->world_size && left > 0);
	uint64_t rows = UTIL_MIN(left, global);
	uint64_t each = rows / epoch->world_size, more = rows % epoch->world_size;
	struct order_slice slice = {
		.position = position + rank * each + UTIL_MIN((uint64_t)rank, more),
		.count = (uint32_t)(each + (rank < more)),
		.last = left <= global,
	};
	slice.next = slice.last ? 0 : position + global;
	if (!slice.count) {
		slice.padded = true;
		slice.position = position + rows - 1;
		slice.count = 1;
	}
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

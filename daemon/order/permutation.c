/* permutation: see permutation.h. Pure functions. */
#include "order/permutation.h"

#include <assert.h>

/* With ten rounds, neighbors end up far apart for every width. With fewer, tiny domains show
 * structure. */
enum { PERMUTATION_ROUNDS = 10 };

struct permutation permutation_make(
	uint64_t count, uint64_t seed, enum philox_operation operation, uint64_t number)
{
	assert(count && number >> 48 == 0);
	unsigned bits = count > 1 ? 64u - (unsigned)__builtin_clzll(count - 1) : 1;
	unsigned half = (bits + 1) / 2;
	return (struct permutation){
		.count = count,
		.mask = ((uint64_t)1 << half) - 1,
		.half_bits = half,
		.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
		.number = {(uint32_t)number, (uint32_t)(number >> 32) << 16},
		.operation = (uint32_t)operation,
	};
}

static uint32_t permutation_word(const struct permutation *p, uint64_t half, unsigned round)
{
	uint32_t counter[4] = {(uint32_t)half, round | p->number[1], p->number[0], p->operation};
	return philox_4x32(counter, p->key).word[0];
}

static uint64_t permutation_encrypt(const struct permutation *p, uint64_t x)
{
	uint64_t left = x >> p->half_bits, right = x & p->mask;
	for (unsigned round = 0; round < PERMUTATION_ROUNDS; round++) {
		uint64_t next = left ^ (permutation_word(p, right, round) & p->mask);
		left = right;
		right = next;
	}
	return left << p->half_bits | right;
}

static uint64_t permutation_decrypt(const struct permutation *p, uint64_t x)
{
	uint64_t left = x >> p->half_bits, right = x & p->mask;
	for (unsigned round = PERMUTATION_ROUNDS; round-- > 0;) {
		uint64_t previous = right ^ (permutation_word(p, left, round) & p->mask);
		right = left;
		left = previous;
	}
	return left << p->half_bits | right;
}

/* A Feistel round over more than two bits is an even permutation, and so is a network of rounds.
 * Walking the cycle turns that into a bias for small domains (of 15 values, 15 orders in 16 would
 * be odd). Swapping 0 and 1 by the toss of a coin makes even and odd equally likely. This is its
 * own inverse. */
static uint64_t permutation_toss(const struct permutation *p, uint64_t value)
{
	if (value > 1 || p->count < 2)
		return value;
	return value ^ (permutation_word(p, 0, PERMUTATION_ROUNDS) & 1);
}

uint64_t permutation_at(const struct permutation *permutation, uint64_t place)
{
	uint64_t x = place;
	assert(place < permutation->count);
	do
		x = permutation_encrypt(permutation, x);
	while (x >= permutation->count);
	return permutation_toss(permutation, x);
}

uint64_t permutation_find(const struct permutation *permutation, uint64_t value)
{
	assert(value < permutation->count);
	uint64_t x = permutation_toss(permutation, value);
	do
		x = permutation_decrypt(permutation, x);
	while (x >= permutation->count);
	return x;
}

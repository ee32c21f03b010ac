/* permutation: a keyed pseudo-random permutation of [0, n) without a table.
 *
 * It is a balanced Feistel network over the smallest even number of bits that n - 1 fits into, with
 * Philox as its round function. It walks the cycle until the value is below n (Black and Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002: at most 4 steps expected). A coin makes odd
 * permutations as likely as even ones. The key is (seed, operation, number).
 *
 * Pure functions; any thread. */
#pragma once

#include "proto/philox.h"

#include <stdint.h>

struct permutation {
	uint64_t count; /* n, at least 1 */
	uint64_t mask;
	unsigned half_bits;
	uint32_t key[2];
	uint32_t number
		[2]; /* its low 32 bits; the 16 bits above them, in their place in the counter */
	uint32_t operation;
};

/* The permutation number `number` (below 2^48) of a seed for an operation. */
struct permutation permutation_make(
	uint64_t count, uint64_t seed, enum philox_operation operation, uint64_t number);

/* The value at `place` (below n), and the inverse: the place of `value`. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t place);
uint64_t permutation_find(const struct permutation *permutation, uint64_t value);

/* permutation: a keyed pseudo-random permutation of [0, n) without a table.
 *
 * A balanced Feistel network over the smallest even number of bits that holds n - 1, with Philox as
 * its round function, walking the cycle until the value falls below n (Black and Rogaway, "Ciphers
 * with arbitrary finite domains", CT-RSA 2002: at most 4 steps expected), and a coin that makes odd
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
	uint32_t number[2]; /* its low 32 bits; the 16 above them, shifted to where they go */
	uint32_t operation;
};

/* Number `number` (below 2^48) of those that a seed has for an operation. */
struct permutation permutation_make(
	uint64_t count, uint64_t seed, enum philox_operation operation, uint64_t number);

/* What stands at `place` (below n); and where `value` stands: the inverse. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t place);
uint64_t permutation_find(const struct permutation *permutation, uint64_t value);

/* digest: a running value over a list of samples that does not depend on its division into shards.
 *
 * Each sample gives a 64-bit hash of key, size and label. The digest of a list is the polynomial
 * h1*B^(n-1) + ... + hn modulo the prime 2^61 - 1, so the digest of two lists one after the other
 * follows from their digests and the second one's length. That lets each shard's index hold its own
 * digest. Not secure against an adversary. Pure. */
#pragma once

#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

#define DIGEST_PRIME ((UINT64_C(1) << 61) - 1)
/* Any number below the prime; this one has no pattern. */
#define DIGEST_BASE UINT64_C(0x0b5ad4eceda1ce2a)

static inline uint64_t digest_multiply(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	/* since 2^61 is 1 modulo the prime */
	uint64_t sum = (uint64_t)(product & DIGEST_PRIME) + (uint64_t)(product >> 61);
	return sum >= DIGEST_PRIME ? sum - DIGEST_PRIME : sum;
}

static inline uint64_t digest_plus(uint64_t a, uint64_t b)
{
	uint64_t sum = a + b;
	return sum >= DIGEST_PRIME ? sum - DIGEST_PRIME : sum;
}

/* The hash of one sample, below the prime. `label` is -1 if it has none. */
static inline uint64_t digest_sample(const void *key, size_t key_size, uint64_t size, int64_t label)
{
	uint64_t h = hash_u64(hash_bytes(HASH_SEED, key, key_size), size);
	return hash_mix(hash_u64(h, (uint64_t)label)) % DIGEST_PRIME;
}

/* The digest of a list with one more sample at its end. */
static inline uint64_t digest_append(uint64_t digest, uint64_t sample)
{
	return digest_plus(digest_multiply(digest, DIGEST_BASE), sample);
}

/* The digest of a list followed by another list of `count` samples, whose digest is `after`. */
static inline uint64_t digest_concat(uint64_t digest, uint64_t after, uint64_t count)
{
	uint64_t power = 1, square = DIGEST_BASE;
	for (; count; count >>= 1) {
		if (count & 1)
			power = digest_multiply(power, square);
		square = digest_multiply(square, square);
	}
	return digest_plus(digest_multiply(digest, power), after);
}

static inline uint64_t digest_finish(uint64_t digest, uint64_t count)
{
	return hash_mix(hash_u64(hash_u64(HASH_SEED, digest), count));
}

/* hash: 64-bit hashes for fingerprints and tables. An adversary can find collisions.
 *
 * FNV-1a (Fowler, Noll, Vo; offset basis and prime of the 64-bit variant) finished by the mixer of
 * SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), so that short keys spread over all bits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HASH_SEED 0xcbf29ce484222325u

static inline uint64_t hash_mix(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Feeds bytes into a running FNV-1a value, which starts as HASH_SEED. Finish with hash_mix. */
static inline uint64_t hash_bytes(uint64_t h, const void *data, size_t size)
{
	const uint8_t *p = (const uint8_t *)data; /* C++ users of this header need the cast */
	for (size_t i = 0; i < size; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

static inline uint64_t hash_u64(uint64_t h, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		h = (h ^ (value >> (8 * i) & 0xff)) * 0x100000001b3u;
	return h;
}

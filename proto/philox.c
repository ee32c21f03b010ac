/* philox: see philox.h. Pure functions. */
#include "proto/philox.h"

#include <assert.h>

enum { PHILOX_ROUNDS = 10 };

struct philox philox_4x32(const uint32_t counter[4], const uint32_t key[2])
{
	/* Multipliers and Weyl increments of the paper, table 2. */
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
		 k1 = key[1];
	for (int round = 0; round < PHILOX_ROUNDS; round++) {
		uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
		k0 += 0x9e3779b9u;
		k1 += 0xbb67ae85u;
	}
	return (struct philox){{c0, c1, c2, c3}};
}

struct philox philox_draw(uint64_t seed, uint32_t epoch, uint64_t position,
	enum philox_operation operation, uint32_t step)
{
	assert(position >> 48 == 0 && step >> 16 == 0); /* two draws would share a counter */
	uint32_t counter[4] = {
		(uint32_t)position,
		(uint32_t)(position >> 32 & 0xffff) | step << 16,
		epoch,
		(uint32_t)operation,
	};
	uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	return philox_4x32(counter, key);
}

uint64_t philox_salted(uint64_t seed, uint32_t salt)
{
	if (!salt)
		return seed;
	struct philox r = philox_draw(seed, salt, 0, PHILOX_SALT, 0);
	return (uint64_t)r.word[1] << 32 | r.word[0];
}

double philox_unit(uint32_t high, uint32_t low)
{
	uint64_t bits = ((uint64_t)high << 32 | low) >> 11;
	return (double)bits * 0x1p-53;
}

uint64_t philox_below(uint32_t high, uint32_t low, uint64_t bound)
{
	uint64_t x = (uint64_t)high << 32 | low;
	return (uint64_t)((unsigned __int128)x * bound >> 64);
}

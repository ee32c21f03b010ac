/* random: numbers from a seed, always the same on every machine. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct random {
	uint64_t state;
};

/* SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t random_64(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline uint32_t draw(struct random *random, uint32_t below)
{
	return (uint32_t)((random_64(random) >> 32) * below >> 32);
}

static inline bool one_in(struct random *random, uint32_t n)
{
	return draw(random, n) == 0;
}

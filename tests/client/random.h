/* random: numbers that look random and are the same in every run (xorshift). */
#pragma once

#include <stdint.h>

static uint64_t random_state = 0x9e3779b97f4a7c15;

static inline uint32_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

static inline uint32_t random_below(uint32_t n)
{
	return (uint32_t)((uint64_t)random_bits() * n >> 32);
}

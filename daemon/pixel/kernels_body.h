/* kernels_body: the code that the variants of the kernels share; see kernels.h. The compiler
 * flags of the including file make the difference. */
#pragma once

#include "pixel/kernels.h"

#define KERNELS_INLINE static inline __attribute__((always_inline))

KERNELS_INLINE uint8_t body_clip(uint32_t sum)
{
	int32_t whole = (int32_t)sum >> WEIGHTS_BITS;
	return (uint8_t)(whole < 0 ? 0 : whole > 255 ? 255 : whole);
}

#ifndef KERNELS_DOTS
/* Sums of a multiple of KERNELS_RUN taps of three rows; an including file may define its own. */
KERNELS_INLINE void body_dots(uint32_t sums[3], const uint8_t *const from[3], size_t first,
	const int32_t *value, uint32_t taps)
{
	for (int c = 0; c < 3; c++) {
		sums[c] = 0;
		for (uint32_t t = 0; t < taps; t++)
			sums[c] += from[c][first + t] * (uint32_t)value[t];
	}
}
#endif

static void body_across_many(
	uint8_t *const to[3], const uint8_t *const from[3], const struct kernels_many *many)
{
	const struct weights *w = many->weights;
	const int32_t *value = many->value;
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t taps = (w->taps[i] + KERNELS_RUN - 1) / KERNELS_RUN * KERNELS_RUN;
		uint32_t sums[3];
		body_dots(sums, from, w->first[i], value, taps);
		for (int c = 0; c < 3; c++)
			to[c][i] = body_clip(WEIGHTS_HALF + sums[c]);
		value += taps;
	}
}

static void body_down_add(
	uint32_t *restrict sums, const uint8_t *restrict row, int32_t value, size_t bytes)
{
	for (size_t j = 0; j < bytes; j++)
		sums[j] += row[j] * (uint32_t)value;
}

static void body_down_end(uint8_t *restrict to, const uint32_t *restrict sums, size_t bytes)
{
	for (size_t j = 0; j < bytes; j++)
		to[j] = body_clip(sums[j]);
}

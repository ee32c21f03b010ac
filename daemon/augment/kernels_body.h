/* kernels_body: what compilers turn into vectors by themselves, for each instruction set once; see
 * kernels.h. Floats are rounded as IEEE 754 says, step by step (no fused multiply-add), so that all
 * these twins are equal. */
#include "augment/kernels.h"

#include <math.h>
#include <string.h>

/* Image.blend of one channel (Pillow's Blend.c: floats of 32 bits, cut to a whole number). */
static inline uint8_t body_blend_one(int first, int second, float amount)
{
	float sum = (float)first + amount * (float)(second - first);
	sum = sum < 0.0f ? 0.0f : sum;
	sum = sum > 255.0f ? 255.0f : sum;
	return (uint8_t)(int)sum;
}

static inline void body_blend(
	uint8_t *to, const uint8_t *from, size_t bytes, uint8_t level, float amount)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = body_blend_one(level, from[i], amount);
}

static inline void body_fold(
	uint8_t *to, const uint8_t *from, size_t bytes, uint32_t least, uint8_t mask)
{
	uint8_t most_kept = (uint8_t)(least - 1), all = least == 0 ? UINT8_MAX : 0;
	for (size_t i = 0; i < bytes; i++) {
		uint8_t inverted = from[i] > most_kept ? UINT8_MAX : 0;
		to[i] = (uint8_t)((from[i] ^ (inverted | all)) & mask);
	}
}

static inline void body_map(
	uint8_t *to, const uint8_t *from, size_t pixels, const uint8_t table[3][AUGMENT_LEVELS])
{
	for (size_t i = 0; i < pixels; i++, to += 3, from += 3)
		for (int c = 0; c < 3; c++)
			to[c] = table[c][from[c]];
}

/* Bytes that are a multiple of 3 apart are taken together, as many as fill vectors of any width. */
enum { BODY_PERIOD = 3 * 64 };

static inline void body_extremes(
	const uint8_t *from, size_t pixels, uint8_t ret_least[3], uint8_t ret_most[3])
{
	uint8_t least[BODY_PERIOD], most[BODY_PERIOD];
	memset(least, UINT8_MAX, BODY_PERIOD);
	memset(most, 0, BODY_PERIOD);
	size_t bytes = 3 * pixels, at = 0;
	for (; at + BODY_PERIOD <= bytes; at += BODY_PERIOD)
		for (size_t i = 0; i < BODY_PERIOD; i++) {
			least[i] = from[at + i] < least[i] ? from[at + i] : least[i];
			most[i] = from[at + i] > most[i] ? from[at + i] : most[i];
		}
	for (size_t i = 0; at + i < bytes; i++) {
		least[i] = from[at + i] < least[i] ? from[at + i] : least[i];
		most[i] = from[at + i] > most[i] ? from[at + i] : most[i];
	}
	memcpy(ret_least, least, 3);
	memcpy(ret_most, most, 3);
	for (size_t i = 3; i < BODY_PERIOD; i++) {
		ret_least[i % 3] = least[i] < ret_least[i % 3] ? least[i] : ret_least[i % 3];
		ret_most[i % 3] = most[i] > ret_most[i % 3] ? most[i] : ret_most[i % 3];
	}
}

/* SMOOTH: one thirteenth of the eight around and five times the one in the middle. Pillow adds up
 * floats; what they come to is at least 1/26 away from where it would be cut elsewhere. */
static inline uint8_t body_smooth_one(const uint8_t *const rows[3], size_t i)
{
	uint32_t sum = 4u * rows[1][i + 3];
	for (int r = 0; r < 3; r++)
		sum += (uint32_t)rows[r][i] + rows[r][i + 3] + rows[r][i + 6];
	return (uint8_t)((2 * sum + 13) / 26);
}

static inline void body_sharpen(
	uint8_t *to, const uint8_t *const rows[3], size_t bytes, float amount)
{
	const uint8_t *const by[3] = {rows[0], rows[1], rows[2]};
	for (size_t i = 0; i < bytes; i++)
		to[i] = body_blend_one(body_smooth_one(by, i), by[1][i + 3], amount);
}

/* A stretch at a time, so that the sums stay in registers or near them. */
enum { BODY_STRETCH = 64 };

static inline void body_blur_down(
	float *to, const uint8_t *const *rows, const float *weight, uint32_t taps, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += BODY_STRETCH) {
		size_t count = bytes - at < BODY_STRETCH ? bytes - at : BODY_STRETCH;
		float sums[BODY_STRETCH] = {0};
		for (uint32_t t = 0; t < taps; t++)
			for (size_t i = 0; i < count; i++)
				sums[i] += weight[t] * (float)rows[t][at + i];
		for (size_t i = 0; i < count; i++)
			to[at + i] = sums[i];
	}
}

static inline void body_blur_across(
	uint8_t *to, const float *from, const float *weight, uint32_t taps, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += BODY_STRETCH) {
		size_t count = bytes - at < BODY_STRETCH ? bytes - at : BODY_STRETCH;
		float sums[BODY_STRETCH] = {0};
		for (uint32_t t = 0; t < taps; t++)
			for (size_t i = 0; i < count; i++)
				sums[i] += weight[t] * from[at + i + 3 * (size_t)t];
		/* Weights add up to about 1: not beyond 255.5. */
		for (size_t i = 0; i < count; i++)
			to[at + i] = (uint8_t)(int)rintf(sums[i]);
	}
}

static inline void body_box_down(uint8_t *to, uint32_t *sums, const uint8_t *const rows[4],
	uint32_t weight, uint32_t edge_weight, size_t bytes)
{
	const uint8_t *leave = rows[AUGMENT_LEAVE], *enter = rows[AUGMENT_ENTER];
	const uint8_t *before = rows[AUGMENT_BEFORE], *behind = rows[AUGMENT_BEHIND];
	for (size_t i = 0; i < bytes; i++) {
		sums[i] += (uint32_t)enter[i] - leave[i];
		uint32_t sum = sums[i] * weight + ((uint32_t)before[i] + behind[i]) * edge_weight;
		to[i] = (uint8_t)((sum + (1u << 23)) >> 24);
	}
}

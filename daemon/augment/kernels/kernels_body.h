/* kernels_body: loops that compilers vectorize, compiled once per instruction set; see
 * kernels.h. Floats are rounded as IEEE 754 says, step by step (no fused multiply-add), so that
 * all instruction sets give equal results. */
#include "augment/kernels/kernels.h"

#include <string.h>

/* Image.blend of one channel (Pillow's Blend.c: 32-bit floats, truncated to an integer). */
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

/* Processes bytes that are a multiple of 3 apart together, enough of them to fill vectors of any
 * width. */
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

/* Works on one stretch at a time, so that the values between two steps stay in registers or in
 * the nearest cache, and the compiler knows the number of bytes. The last stretch overlaps the
 * one before it. */
enum { BODY_STRETCH = 64 };

/* Where the stretch for `at` begins. There is at least one stretch. */
static inline size_t body_first(size_t at, size_t bytes)
{
	return at + BODY_STRETCH <= bytes ? at : bytes - BODY_STRETCH;
}

#define BODY_INLINE static inline __attribute__((always_inline))

/* SMOOTH: one thirteenth of the sum of the eight neighbors and five times the middle pixel.
 * Pillow adds floats; their sum is at least 1/26 away from any value that would truncate
 * differently. The division by 26 is a 16-bit product, exact for all possible sums. */
BODY_INLINE void body_sharpen_part(
	uint8_t *to, const uint8_t *const rows[3], size_t at, size_t count, float amount)
{
	const uint8_t *above = rows[0] + at, *row = rows[1] + at, *below = rows[2] + at;
	uint8_t smooth[BODY_STRETCH];
	for (size_t i = 0; i < count; i++) {
		uint16_t sum = (uint16_t)(4 * row[i + 3]);
		sum = (uint16_t)(sum + above[i] + above[i + 3] + above[i + 6]);
		sum = (uint16_t)(sum + row[i] + row[i + 3] + row[i + 6]);
		sum = (uint16_t)(sum + below[i] + below[i + 3] + below[i + 6]);
		smooth[i] = (uint8_t)((uint16_t)((uint16_t)(2 * sum + 13) * 20165u >> 16) >> 3);
	}
	for (size_t i = 0; i < count; i++)
		to[at + i] = body_blend_one(smooth[i], row[i + 3], amount);
}

static inline void body_sharpen(
	uint8_t *to, const uint8_t *const rows[3], size_t bytes, float amount)
{
	for (size_t at = 0; at < bytes; at += BODY_STRETCH)
		if (bytes < BODY_STRETCH)
			body_sharpen_part(to, rows, at, bytes, amount);
		else
			body_sharpen_part(to, rows, body_first(at, bytes), BODY_STRETCH, amount);
}

BODY_INLINE void body_blur_down_part(float *to, const uint8_t *const *rows, const float *weight,
	uint32_t taps, size_t at, size_t count)
{
	float sums[BODY_STRETCH] = {0};
	for (uint32_t t = 0; t < taps; t++)
		for (size_t i = 0; i < count; i++)
			sums[i] += weight[t] * (float)rows[t][at + i];
	for (size_t i = 0; i < count; i++)
		to[at + i] = sums[i];
}

static inline void body_blur_down(
	float *to, const uint8_t *const *rows, const float *weight, uint32_t taps, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += BODY_STRETCH)
		if (bytes < BODY_STRETCH)
			body_blur_down_part(to, rows, weight, taps, at, bytes);
		else
			body_blur_down_part(
				to, rows, weight, taps, body_first(at, bytes), BODY_STRETCH);
}

/* Weights add up to about 1, so no value is above 255.5. Adding 2^23 rounds, halves to even. */
BODY_INLINE void body_blur_across_part(
	uint8_t *to, const float *from, const float *weight, uint32_t taps, size_t at, size_t count)
{
	float sums[BODY_STRETCH] = {0};
	for (uint32_t t = 0; t < taps; t++)
		for (size_t i = 0; i < count; i++)
			sums[i] += weight[t] * from[at + i + 3 * (size_t)t];
	for (size_t i = 0; i < count; i++)
		to[at + i] = (uint8_t)(int)((sums[i] + 8388608.0f) - 8388608.0f);
}

static inline void body_blur_across(
	uint8_t *to, const float *from, const float *weight, uint32_t taps, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += BODY_STRETCH)
		if (bytes < BODY_STRETCH)
			body_blur_across_part(to, from, weight, taps, at, bytes);
		else
			body_blur_across_part(
				to, from, weight, taps, body_first(at, bytes), BODY_STRETCH);
}

static inline void body_box_down(uint8_t *to, uint32_t *sums, const uint8_t *const rows[4],
	const struct augment_box *box, size_t bytes)
{
	const uint8_t *leave = rows[AUGMENT_LEAVE], *enter = rows[AUGMENT_ENTER];
	const uint8_t *before = rows[AUGMENT_BEFORE], *behind = rows[AUGMENT_BEHIND];
	for (size_t i = 0; i < bytes; i++) {
		sums[i] += (uint32_t)enter[i] - leave[i];
		uint32_t sum = sums[i] * box->weight +
			       ((uint32_t)before[i] + behind[i]) * box->edge_weight;
		to[i] = (uint8_t)((sum + (1u << 23)) >> 24);
	}
}

static inline void body_walk(uint8_t *to, const struct augment_walk *walk, size_t count)
{
	uint32_t x = (uint32_t)walk->x, y = (uint32_t)walk->y;
	for (; count; count--, to += 3, x += (uint32_t)walk->dx, y += (uint32_t)walk->dy)
		memcpy(to, walk->from + (size_t)(y >> 16) * walk->row + (size_t)(x >> 16) * 3, 3);
}

static inline void body_box_across(uint8_t *to, uint32_t sums[3], const uint8_t *from,
	uint32_t width, const struct augment_box *box)
{
	int64_t last = (int64_t)width - 1;
	for (int64_t x = 0; x <= last; x++, to += 3) {
		int64_t before = x - box->radius - 1, enter = x + box->radius, behind = enter + 1;
		const uint8_t *leave = from + 3 * (before < 0 ? 0 : before);
		const uint8_t *const rows[4] = {
			[AUGMENT_LEAVE] = leave,
			[AUGMENT_ENTER] = from + 3 * (enter > last ? last : enter),
			[AUGMENT_BEFORE] = leave,
			[AUGMENT_BEHIND] = from + 3 * (behind > last ? last : behind),
		};
		body_box_down(to, sums, rows, box, 3);
	}
}

/* kernels_c: plain C, for every CPU; see kernels.h. */
#include "pixel/kernels_body.h"

/* Keeps the layout. */
static bool c_pack(const struct weights *weights, uint8_t *table)
{
	(void)weights, (void)table;
	return true;
}

static void c_across(uint8_t *const to[3], const uint8_t *const from[3],
	const struct weights *weights, const uint8_t *table)
{
	(void)table;
	for (int c = 0; c < 3; c++)
		for (uint32_t i = 0; i < weights->count; i++) {
			const int32_t *value = weights->value + (size_t)i * weights->stride;
			const uint8_t *p = from[c] + weights->first[i];
			uint32_t sum = WEIGHTS_HALF;
			for (uint32_t t = 0; t < weights->taps[i]; t++)
				sum += p[t] * (uint32_t)value[t];
			to[c][i] = body_clip(sum);
		}
}

/* Works on a stretch at a time, so that the sums stay in the L1 cache. */
static void c_down(
	uint8_t *to, const uint8_t *const *rows, const int32_t *value, uint32_t taps, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += KERNELS_GRAIN) {
		uint32_t sums[KERNELS_GRAIN];
		for (size_t j = 0; j < KERNELS_GRAIN; j++)
			sums[j] = WEIGHTS_HALF;
		for (uint32_t t = 0; t < taps; t++)
			body_down_add(sums, rows[t] + at, value[t], KERNELS_GRAIN);
		body_down_end(to + at, sums, KERNELS_GRAIN);
	}
}

static void c_weave(uint8_t *to, const uint8_t *const from[3], size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < 3; c++)
			*to++ = from[c][i];
}

const struct kernels kernels_c = {
	.name = "c",
	.pack = c_pack,
	.across = c_across,
	.across_many = body_across_many,
	.down = c_down,
	.down_add = body_down_add,
	.down_end = body_down_end,
	.weave = c_weave,
};

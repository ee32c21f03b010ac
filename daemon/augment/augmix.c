/* augmix: see augmix.h.
 *
 * OP_AUGMIX is torchvision's AugMix: the weighted sum of the image and the results of its chains,
 * added in this order as 32-bit floats and truncated to integers. timm's sums up the chains in the
 * same way, truncates, and blends the image with that; or it blends the image with one chain after
 * the other (Image.blend: 32-bit floats, truncated). */
#include "augment/augmix.h"

#include "base/util.h"

#include <string.h>

static void augmix_add(float *sums, const uint8_t *pixels, size_t bytes, float weight)
{
	for (size_t i = 0; i < bytes; i++)
		sums[i] += weight * pixels[i];
}

/* The result of a chain. */
static const uint8_t *augmix_chain(
	const struct apply *apply, const struct op *chain, const struct op_image *from)
{
	return apply_ops(apply, chain + 1, chain->length, from, apply->chain, NULL);
}

/* Adds the chains to the sums of the bytes. */
static void augmix_chains(
	const struct apply *apply, const struct op *ops, const struct op_image *from, size_t bytes)
{
	const struct op *chain = ops + 1;
	for (uint32_t c = 0; c < ops->chains; c++, chain += 1 + chain->length)
		augmix_add(
			apply->sums, augmix_chain(apply, chain, from), bytes, (float)chain->amount);
}

static uint8_t augmix_blend_one(int first, int second, float amount)
{
	float sum = (float)first + amount * (float)(second - first);
	return (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
}

static void timm_mix(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to)
{
	size_t bytes = (size_t)3 * from->width * from->height;
	memset(apply->sums, 0, bytes * sizeof *apply->sums);
	augmix_chains(apply, ops, from, bytes);
	for (size_t i = 0; i < bytes; i++) {
		int mixed = (int)UTIL_MIN(apply->sums[i], 255.0f);
		to[i] = augmix_blend_one(from->pixels[i], mixed, (float)ops->amount);
	}
}

static void timm_blend(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to)
{
	size_t bytes = (size_t)3 * from->width * from->height;
	const struct op *chain = ops + 1;
	memcpy(to, from->pixels, bytes);
	for (uint32_t c = 0; c < ops->chains; c++, chain += 1 + chain->length) {
		const uint8_t *made = augmix_chain(apply, chain, from);
		for (size_t i = 0; i < bytes; i++)
			to[i] = augmix_blend_one(to[i], made[i], (float)chain->amount);
	}
}

static void torchvision_mix(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to)
{
	size_t bytes = (size_t)3 * from->width * from->height;
	for (size_t i = 0; i < bytes; i++)
		apply->sums[i] = (float)ops->amount * from->pixels[i];
	augmix_chains(apply, ops, from, bytes);
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)apply->sums[i];
}

void augmix_apply(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to)
{
	if (ops->kind == OP_TIMM_MIX)
		timm_mix(apply, ops, from, to);
	else if (ops->kind == OP_TIMM_BLEND)
		timm_blend(apply, ops, from, to);
	else
		torchvision_mix(apply, ops, from, to);
}

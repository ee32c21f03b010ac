/* augmix: see augmix.h, and torchvision's AugMix: the weighted sum of the image and the results
 * of its chains, added in this order as 32-bit floats and truncated to integers. */
#include "augment/augmix.h"

static void augmix_add(float *sums, const uint8_t *pixels, size_t bytes, float weight)
{
	for (size_t i = 0; i < bytes; i++)
		sums[i] += weight * pixels[i];
}

void augmix_apply(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to)
{
	size_t bytes = (size_t)3 * from->width * from->height;
	for (size_t i = 0; i < bytes; i++)
		apply->sums[i] = (float)ops->amount * from->pixels[i];
	const struct op *chain = ops + 1;
	for (uint32_t c = 0; c < ops->chains; c++, chain += 1 + chain->length)
		augmix_add(apply->sums,
			apply_ops(apply, chain + 1, chain->length, from, apply->chain, NULL), bytes,
			(float)chain->amount);
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)apply->sums[i];
}

/* apply: see apply.h. */
#include "augment/apply.h"

#include "augment/color.h"
#include "augment/filter.h"
#include "augment/warp.h"

#include <assert.h>
#include <string.h>

static apply_one *const apply_families[OP_KINDS] = {
	[OP_FLIP_HORIZONTAL] = warp_apply,
	[OP_FLIP_VERTICAL] = warp_apply,
	[OP_BRIGHTNESS] = color_apply,
	[OP_CONTRAST] = color_apply,
	[OP_SATURATION] = color_apply,
	[OP_HUE] = color_apply,
	[OP_GRAYSCALE] = color_apply,
	[OP_INVERT] = color_apply,
	[OP_POSTERIZE] = color_apply,
	[OP_SOLARIZE] = color_apply,
	[OP_EQUALIZE] = color_apply,
	[OP_AUTOCONTRAST] = color_apply,
	[OP_SHARPNESS] = filter_apply,
	[OP_BLUR] = filter_apply,
	[OP_PILLOW_BLUR] = filter_apply,
	[OP_AFFINE] = warp_apply,
	[OP_PERSPECTIVE] = warp_apply,
	[OP_ROTATE_QUARTERS] = warp_apply,
	[OP_SOLARIZE_ADD] = color_apply,
};

/* A buffer that an op other than the last may write to. */
static uint8_t *apply_next(const struct op *op, const uint8_t *pixels, uint8_t *const buffers[2])
{
	unsigned now = pixels == buffers[1];
	bool kept = pixels != buffers[now];
	if (kept || apply_families[op->kind] == color_apply)
		return buffers[now];
	return buffers[1 - now];
}

static apply_one *apply_family(const struct apply *apply, const struct op *op)
{
	apply_one *family = op_mixes(op->kind) ? apply->mix : apply_families[op->kind];
	assert(family);
	return family;
}

const uint8_t *apply_ops(const struct apply *apply, const struct op *ops, uint32_t count,
	const struct op_image *from, uint8_t *const buffers[2], uint8_t *to)
{
	struct op_image image = *from;
	size_t bytes = (size_t)3 * image.width * image.height;
	for (uint32_t i = 0, length; i < count; i += length) {
		length = op_length(&ops[i]);
		bool last = to && i + length == count;
		uint8_t *next = last ? to : apply_next(&ops[i], image.pixels, buffers);
		apply_family(apply, &ops[i])(apply, &ops[i], &image, next);
		image.pixels = next;
	}
	if (to && image.pixels != to)
		memcpy(to, image.pixels, bytes);
	return to ? to : image.pixels;
}

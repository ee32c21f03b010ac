/* apply: see apply.h. */
#include "augment/apply.h"

#include "augment/color.h"
#include "augment/filter.h"
#include "augment/size.h"
#include "augment/warp.h"
#include "base/util.h"

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
	[OP_WINDOW] = size_apply,
	[OP_RESIZE] = size_apply,
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

static uint64_t apply_bytes(struct pixel_size size)
{
	return (uint64_t)3 * size.height * size.width;
}

static uint64_t apply_scratch(const struct op *op, struct pixel_size size)
{
	apply_one *family = apply_families[op->kind];
	if (family == filter_apply)
		return filter_scratch(size.width, size.height);
	if (family == warp_apply)
		return warp_scratch(op_size(op, size).width);
	return family == size_apply ? size_scratch(op) : 0;
}

struct apply_room apply_room(const struct op *ops, uint32_t count, struct pixel_size size)
{
	struct apply_room room = {.buffer[0] = apply_bytes(size)};
	unsigned now = 0;
	for (uint32_t i = 0, length; i < count; i += length) {
		length = op_length(&ops[i]);
		for (uint32_t k = i; k < i + length; k++)
			room.scratch = UTIL_MAX(room.scratch, apply_scratch(&ops[k], size));
		if (op_mixes(ops[i].kind))
			room.chain = UTIL_MAX(room.chain, apply_bytes(size));
		size = op_size(&ops[i], size);
		if (i + length == count)
			break;
		if (apply_families[ops[i].kind] != color_apply)
			now = 1 - now;
		room.buffer[now] = UTIL_MAX(room.buffer[now], apply_bytes(size));
	}
	return room;
}

const uint8_t *apply_ops(const struct apply *apply, const struct op *ops, uint32_t count,
	const struct op_image *from, uint8_t *const buffers[2], uint8_t *to)
{
	struct op_image image = *from;
	for (uint32_t i = 0, length; i < count; i += length) {
		length = op_length(&ops[i]);
		bool last = to && i + length == count;
		uint8_t *next = last ? to : apply_next(&ops[i], image.pixels, buffers);
		apply_family(apply, &ops[i])(apply, &ops[i], &image, next);
		struct pixel_size size =
			op_size(&ops[i], (struct pixel_size){image.height, image.width});
		image = (struct op_image){next, size.width, size.height};
	}
	if (to && image.pixels != to)
		memcpy(to, image.pixels, (size_t)3 * image.width * image.height);
	return to ? to : image.pixels;
}

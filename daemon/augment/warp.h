/* warp: Image.transform and Image.transpose of Pillow 13 on RGB images, byte for byte:
 * OP_FLIP_HORIZONTAL, OP_FLIP_VERTICAL, OP_AFFINE, OP_PERSPECTIVE, OP_ROTATE_QUARTERS (by one or
 * three quarters, the result of a rectangle has the sides exchanged, as Pillow's shortcut makes
 * it).
 *
 * With any matrix (also a singular one, or with NaN or infinity) the code reads no byte outside
 * `from` and writes all of `to`. */
#pragma once

#include "augment/apply.h"

#include <stdint.h>

/* The scratch in bytes for results of up to this width. */
uint64_t warp_scratch(uint32_t width);

/* `to` is not from->pixels. */
void warp_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to);

/* filter: ops on a pixel and its neighbors: OP_SHARPNESS, OP_BLUR, OP_PILLOW_BLUR. */
#pragma once

#include "augment/apply.h"

/* `to` does not overlap from->pixels. */
void filter_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to);

/* Scratch for images of up to this width and height. */
uint64_t filter_scratch(uint32_t width, uint32_t height);

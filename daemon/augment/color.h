/* color: ops that change each pixel by itself, some after a pass over all pixels: OP_BRIGHTNESS to
 * OP_AUTOCONTRAST. */
#pragma once

#include "augment/apply.h"

/* `to` may be from->pixels. */
void color_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to);

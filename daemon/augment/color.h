/* color: ops on each pixel by itself, or after one look at all of them: OP_BRIGHTNESS to
 * OP_AUTOCONTRAST. */
#pragma once

#include "augment/apply.h"

/* `to` may be from->pixels. */
void color_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to);

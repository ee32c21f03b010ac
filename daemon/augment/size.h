/* size: ops that change the size of an image: OP_WINDOW, OP_RESIZE. */
#pragma once

#include "augment/apply.h"

/* `to` does not overlap from->pixels. */
void size_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to);

/* The scratch of one of them, in bytes. */
uint64_t size_scratch(const struct op *op);

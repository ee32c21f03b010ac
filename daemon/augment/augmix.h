/* augmix: OP_AUGMIX with the chains behind it. */
#pragma once

#include "augment/apply.h"

/* How many ops belong to the OP_AUGMIX that `ops` begins with, itself included. */
uint32_t augmix_length(const struct op *ops);

/* `to` does not overlap from->pixels. */
void augmix_apply(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to);

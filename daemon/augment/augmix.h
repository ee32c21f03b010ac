/* augmix: OP_AUGMIX with the chains that follow it. */
#pragma once

#include "augment/apply.h"

/* `ops` begins with the OP_AUGMIX; `to` does not overlap from->pixels. */
void augmix_apply(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to);

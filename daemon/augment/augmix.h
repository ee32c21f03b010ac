/* augmix: the ops that mix chains, with the chains that follow them. */
#pragma once

#include "augment/apply.h"

/* `ops` begins with the op that mixes; `to` does not overlap from->pixels. */
void augmix_apply(
	const struct apply *apply, const struct op *ops, const struct op_image *from, uint8_t *to);

/* scratch: the working memory of one decoder.
 *
 * A block that is allocated once and dealt out from its start, image by image; libjpeg and libpng
 * get all their memory from it, so that decoding an ordinary image calls malloc not at all and an
 * image's need is known before it is met. What does not fit is borrowed whole for that image, under
 * a permit of the pool that all decoders share: one permit per image, taken before any of it is
 * used, because waiting for a second one while holding the first could stop two decoders for good.
 * Thread: the decoder's. */
#pragma once

#include "base/permit.h"

#include <stddef.h>
#include <stdint.h>

enum { SCRATCH_ALIGN = 64 }; /* a cache line, and twice what libjpeg-turbo's widest SIMD asks for */

struct scratch {
	uint8_t *own; /* the decoder's block */
	size_t jpegdec_bytes;
	uint8_t *base; /* where the next piece comes from: `own` or `loan` */
	size_t size, used;
	uint8_t *loan; /* borrowed block or NULL */
	uint64_t handout_bytes;
	struct permit *pool; /* NULL: loans are not limited */
};

/* 0 or -ENOMEM. */
int scratch_init(struct scratch *scratch, size_t jpegdec_bytes, struct permit *pool);
void scratch_deinit(struct scratch *scratch);

/* Makes `bytes` available in one run: what is left of the own block, else a loan, for which it may
 * wait. A second loan before scratch_reset is a mistake of the caller. 0, PERMIT_E_TOO_LARGE, or
 * -ENOMEM. */
int scratch_provide(struct scratch *scratch, uint64_t bytes);

/* The same without waiting: -EAGAIN when others hold too much of the pool. */
int scratch_try(struct scratch *scratch, uint64_t bytes);

/* Whether scratch_provide(bytes) would borrow. */
int scratch_would_borrow(const struct scratch *scratch, uint64_t bytes);

/* All that is left of the own block, for a use that ends before the next scratch_take. */
uint8_t *scratch_rest(const struct scratch *scratch, size_t *ret_bytes);

/* The next piece, aligned to SCRATCH_ALIGN and not cleared; NULL when it does not fit. */
void *scratch_take(struct scratch *scratch, size_t bytes);

/* Takes everything back and gives back the loan. */
void scratch_reset(struct scratch *scratch);

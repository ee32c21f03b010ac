/* scratch: the working memory of one decoder.
 *
 * A block is allocated once and handed out from its start, image by image. libjpeg and libpng take
 * all their memory from it, so decoding an ordinary image never calls malloc, and what an image
 * needs is known in advance. If that does not fit, all of it is borrowed for this image, under a
 * permit of the pool that all decoders share. An image takes one permit, before it uses any memory:
 * two decoders that each hold a permit and wait for a second one could wait for ever. Thread: the
 * decoder's.
 *
 * An image that needs more than the pool ever has is given all of the pool, and a file (spill.h)
 * for the rest: jpegmem.c and decode_png.c keep there what they do not have in memory. Images that
 * spill wait for each other, so that the daemon never has more than one such file. */
#pragma once

#include "base/host/spill.h"
#include "base/permit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCRATCH_ALIGN = 64 }; /* a cache line, and twice what libjpeg-turbo's widest SIMD needs */

struct scratch {
	uint8_t *block; /* allocated once */
	size_t block_bytes;
	uint8_t *base; /* where the next piece comes from: `block` or `borrowed` */
	size_t size, used;
	uint8_t *borrowed; /* for the present image, or NULL */
	uint64_t borrowed_bytes;
	struct permit *pool; /* NULL: borrowing is not limited */
	const struct spill *spill; /* NULL: nothing is spilled */
	/* The file that the present image spills to, and its shares: */
	int file; /* -1: it does not spill */
	uint64_t file_at; /* where the image's part of the file begins */
	uint64_t spare; /* bytes of memory beyond the least that it needs */
	uint64_t permitted; /* bytes of the pool */
	bool mapped; /* `borrowed` is memory of the file */
};

/* 0 or -ENOMEM. */
int scratch_init(struct scratch *scratch, size_t block_bytes, struct permit *pool,
	const struct spill *spill);
void scratch_deinit(struct scratch *scratch);

/* Makes `bytes` available in one piece: in the rest of the block, or else borrowed, for which it
 * may wait. Borrowing twice before scratch_reset is an error of the caller. 0, PERMIT_E_TOO_LARGE,
 * or -ENOMEM. */
int scratch_provide(struct scratch *scratch, uint64_t bytes);

/* The same without waiting: -EAGAIN when other decoders hold too much of the pool. */
int scratch_try(struct scratch *scratch, uint64_t bytes);

/* After PERMIT_E_TOO_LARGE, where there is a spill: makes all of the pool available, for which it
 * may wait, and a file for the rest. `least` bytes are memory in any case; where the pool has less,
 * the file's first bytes are mapped. 0 or -errno. */
int scratch_spill(struct scratch *scratch, uint64_t least);

/* Whether scratch_provide(bytes) would borrow. */
int scratch_would_borrow(const struct scratch *scratch, uint64_t bytes);

/* The rest of the block, for a use that ends before the next scratch_take. */
uint8_t *scratch_rest(const struct scratch *scratch, size_t *ret_bytes);

/* The next piece, aligned to SCRATCH_ALIGN and not cleared; NULL when it does not fit. */
void *scratch_take(struct scratch *scratch, size_t bytes);

/* Bytes that were written to the file, and their sum, which is never 0. Reading them back checks
 * the sum: 0, or -errno (-EIO: the file gave back other bytes). */
uint64_t scratch_sum(const void *bytes, size_t size);
int scratch_read_back(
	const struct scratch *scratch, void *to, size_t size, uint64_t at, uint64_t sum);

/* Takes all pieces back, and returns borrowed memory. */
void scratch_reset(struct scratch *scratch);

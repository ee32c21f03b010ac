/* raster: memory for decoded images of any size.
 *
 * Rows are small, and their memory is made when a stream opens. Two kinds of streams also need
 * memory for what was decoded, whose size each sample decides: lists of operations that work on
 * whole images before they are sized, and streams that make several views from one decoding. They
 * take it here:
 *
 *   - up to `own` bytes from a block that is made when the raster is made, and is counted by the
 *     ledger (raster_bytes); nearly all samples fit;
 *   - more from the pool that large images share, under a permit;
 *   - if the pool never has that much, or has not enough now and waiting is not allowed: memory of
 *     an unlinked temporary file (base/host/spill.h).
 *
 * The bytes are the same in all three cases: what a row becomes does not depend on the budget.
 *
 * Deadlock: a decoder may wait for a permit of the same pool. So a thread takes a raster's memory
 * only after the decoder has what it needs (when the first row arrives), gives it back before the
 * next image starts (row.c does both), and waits only if the decoder has borrowed nothing.
 *
 * A raster belongs to one thread and serves one sample at a time. raster_take may block. */
#pragma once

#include "base/host/spill.h"
#include "base/permit.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What all rasters of a thread's streams share; both outlive them. */
struct raster_beyond {
	struct permit *pool; /* NULL: memory is not limited */
	const struct spill *spill; /* NULL: nothing is spilled */
};

struct raster {
	uint8_t *block; /* of `own` bytes; NULL if that is 0 */
	size_t own;
	uint8_t *memory; /* the sample's: `block`, or memory that was borrowed; NULL: none */
	uint64_t bytes;
	struct permit *pool; /* that the memory was borrowed from, or NULL */
	int file; /* that the memory belongs to, or -1 */
};

/* The bytes of the block that streams usually ask for: two images of 1.3 megapixels. */
enum { RASTER_OWN = 8 << 20, RASTER_ALIGN = 64 };

/* Bytes that raster_init allocates, for the ledger. Pages that no sample needs are not touched. */
static inline uint64_t raster_bytes(size_t own)
{
	return own;
}

/* 0 or -ENOMEM. */
int raster_init(struct raster *raster, size_t own);
void raster_deinit(struct raster *raster); /* takes a zeroed one */

/* Takes `bytes` (1 or more) bytes in one piece, aligned to RASTER_ALIGN and not cleared, and first
 * gives back what was taken before. With `wait` it may wait until other threads have given back
 * what they borrowed. 0; -ENOMEM; or the negative errno for which the temporary file could not be
 * made, if the memory had to come from it (raster_text). */
int raster_take(struct raster *raster, const struct raster_beyond *beyond, uint64_t bytes,
	bool wait, uint8_t **ret);

/* Gives the memory back; does nothing if none is taken. */
void raster_give_back(struct raster *raster);

/* The sentence for an error of raster_take other than -ENOMEM. Returns `buffer`. */
enum { RASTER_TEXT = 512 };
const char *raster_text(
	const struct raster_beyond *beyond, uint64_t bytes, int error, char buffer[RASTER_TEXT]);

/* ---- a region of an image as planar rows, which pixel_sink_row takes ---- */

struct raster_rows {
	uint8_t *memory; /* raster_rows_bytes of it */
	uint32_t width, height; /* of the region */
	uint32_t rows; /* that have arrived */
	size_t pitch; /* bytes from one plane to the next */
};

uint64_t raster_rows_bytes(uint32_t width, uint32_t height);
void raster_rows_init(struct raster_rows *rows, uint8_t *memory, uint32_t width, uint32_t height);

/* Appends the next row of the region: copies its three planes. Has the signature of decode_row_fn;
 * `rows` is a struct raster_rows. */
void raster_rows_add(void *rows, const uint8_t *const rgb[3]);

/* The three planes of row `y` from column `x` on, with PIXEL_ROW_SLACK readable bytes after the
 * region's last column. Any number of sinks may read them, in any order. */
void raster_rows_get(const struct raster_rows *rows, uint32_t x, uint32_t y, const uint8_t *ret[3]);

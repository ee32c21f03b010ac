/* pngdec: penstock's PNG decoder: the rows of an image that is not interlaced.
 *
 * A map of this folder:
 *   pngdec.[ch]    this file: from chunks of pixels to unfiltered rows
 *   inflate.[ch]   inflates a zlib stream piece by piece
 *   kernels/       the inner loops, once per instruction set
 *
 * It inflates into a window, unfilters a few rows at a time while they are in the nearest cache,
 * only as far to the right as they are wanted, and stops after the last row that is wanted. At the
 * first irregularity it gives up: libpng then decides whether the image is one, from its beginning.
 * The rows that were made before that are libpng's.
 *
 * An image that is decoded to its last row has a complete stream with the right checksum, as libpng
 * and Pillow want it; where these two do not look, libpng is asked. One thread; no memory but the
 * scratch. */
#pragma once

#include "decode/png/inflate.h"
#include "decode/png/kernels/png_kernels.h"
#include "decode/pngwalk.h"
#include "decode/stages.h"

/* What to make of an image whose walk is at its first pixels. */
struct pngdec_rows {
	const struct png_kernels *kernels;
	struct pngwalk *walk;
	size_t stride; /* bytes of a row, without its filter type */
	size_t bytes; /* of it that are wanted, from its left */
	unsigned pixel; /* bytes of a pixel, at least 1 */
	uint32_t rows; /* wanted, from the top */
	/* Takes a row; it is valid during the call. PNG_ROW_SLACK bytes after it are readable. */
	void (*give)(void *context, const uint8_t *row);
	/* Called after bytes of the file were read, up to walk->pixels. */
	void (*read)(void *context);
	void *context;
	struct stages *stages;
};

/* Scratch that pngdec_make takes for rows of that many bytes. */
uint64_t pngdec_scratch_bytes(uint64_t stride);

/* Makes and gives the rows. False: it gave up; *ret_given: how many rows were given. Then the walk
 * is anywhere, and has to be begun again. */
bool pngdec_make(const struct pngdec_rows *rows, struct scratch *scratch, uint32_t *ret_given);

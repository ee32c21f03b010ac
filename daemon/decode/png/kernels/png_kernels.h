/* png_kernels: the inner loops of penstock's PNG decoder, as a table that is chosen once at start.
 *
 * A map of this folder:
 *   png_kernels.[ch]   the table, and which one this processor runs
 *   inflate_body.h     the loop over deflate's symbols
 *   png_c.c            in plain C: the reference
 *   unfilter_body.h    unfiltering with vectors of 16 bytes, for AVX2 and NEON
 *   png_avx2.c         for x86-64, with BMI2's shifts
 *   png_neon.c         for 64-bit ARM
 *
 * Plain C is the reference; the others give the same bytes for every input. Pure functions; any
 * thread. */
#pragma once

#include "base/fault.h"
#include "decode/png/inflate.h"

/* What a row begins with (PNG, "Filter types for filter method 0"). */
enum png_filter {
	PNG_FILTER_TYPE_NONE,
	PNG_FILTER_TYPE_SUB,
	PNG_FILTER_TYPE_UP,
	PNG_FILTER_TYPE_AVERAGE,
	PNG_FILTER_TYPE_PAETH,
	PNG_FILTER_TYPES,
};

enum {
	/* Rows that are unfiltered together, at most: Average and Paeth wait for the pixel before,
	 * so that rows that lag behind each other by a pixel take hardly longer than one. */
	PNG_ROWS = 4,
	/* Bytes before and after every row, filtered or not, that may be read; those of rows that
	 * are written may be written, too. */
	PNG_ROW_SLACK = 64,
};

struct png_kernels {
	const char *name; /* "c", "avx2", "neon" */

	/* Unfilters `count` rows, 1 to PNG_ROWS, of `bytes` bytes each. from[i] begins with the
	 * row's filter type, which is one of enum png_filter. `above` is the row above the first:
	 * zeros for an image's first row. A pixel has `pixel` bytes: 1, 2, 3, 4, 6 or 8. */
	void (*unfilter)(uint8_t *const to[], const uint8_t *const from[], const uint8_t *above,
		unsigned count, size_t bytes, unsigned pixel);

	/* Continues an Adler-32 (RFC 1950, 9), which begins with 1. */
	uint32_t (*adler)(uint32_t sum, const uint8_t *from, size_t size);

	/* A row of pixels of 4 bytes into three rows, without the fourth; touches nothing beyond
	 * them. */
	void (*split4)(uint8_t *const to[3], const uint8_t *from, size_t count);

	inflate_coded_fn *coded;
};

extern const struct png_kernels png_kernels_c, png_kernels_avx2, png_kernels_neon;
inflate_coded_fn inflate_coded_c, inflate_coded_avx2;

/* The best table for this processor, or the one that the environment variable PENSTOCK_KERNELS
 * names. 0, or -EINVAL for an unknown name, -ENOTSUP for one that this processor cannot run. */
int png_kernels_choose(const struct png_kernels **ret, struct fault *fault);

/* The i-th table that this processor can run, slowest first; NULL after the last. */
const struct png_kernels *png_kernels_at(unsigned i);

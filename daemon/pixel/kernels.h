/* kernels: the inner loops of the resampler, behind a table that is chosen once at start.
 *
 * One C text (kernels_body.h), compiled once per instruction set: plain C is the truth, a
 * hand-written twin later replaces an entry and is proven equal. Bytes travel four to a 32-bit word
 * and are taken out by shift and mask, never widened across lanes: every compiler turns that into
 * full-width vector code, whatever the instruction set.
 *
 * Pixels of a row lie in the order R G B R G B. For the horizontal pass KERNELS_ROWS rows are
 * turned, so that the same byte of all of them lies together: then both passes are weighted sums of
 * contiguous bytes. Pure functions; any thread. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum {
	KERNELS_ROWS = 32, /* rows that are turned together */
	KERNELS_PIXEL =
		3 *
		KERNELS_ROWS, /* bytes of one pixel of a turned block: 32 of R, 32 of G, 32 of B */
	KERNELS_TAPS = 8, /* most rows that `down` adds up */
	KERNELS_ALIGN = 64, /* of every buffer and pitch handed in, unless a function says less */
};

struct kernels {
	const char *name; /* "c", "avx2", "avx512" */

	/* to[c][r] = from[r][c] for bytes; rows and columns are multiples of 16. */
	void (*turn)(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t from_pitch,
		size_t rows, size_t columns);

	/* Horizontal pass over a turned block: output pixel i = clip(sum over t < stride of value[i
	 * x stride + t] x from[first[i] + t]), KERNELS_PIXEL bytes each. */
	void (*across)(uint8_t *to, const uint8_t *from, const uint32_t *first,
		const uint32_t *value, uint32_t stride, uint32_t count);

	/* Vertical pass: one row out of 1 .. KERNELS_TAPS rows, `words` x 4 bytes each. Of
	 * `to`, here and in down_end, no more than 4-byte alignment is promised. */
	void (*down)(uint8_t *to, const uint8_t *const *rows, const uint32_t *value, uint32_t taps,
		size_t words);

	/* The same in steps, for more rows: sums are four planes of `words` each, byte 0 of each
	 * word first. */
	void (*down_add)(uint32_t *sums, const uint8_t *row, uint32_t value, size_t words);
	void (*down_end)(uint8_t *to, const uint32_t *sums, size_t words);
};

extern const struct kernels kernels_c, kernels_avx2, kernels_avx512;

/* The best table for this processor, or the one that the environment variable PENSTOCK_KERNELS
 * names. 0, or -EINVAL for an unknown name, -ENOTSUP for one that this processor cannot run. */
int kernels_choose(const struct kernels **ret, struct fault *fault);

/* The i-th table that this processor can run, slowest first; NULL behind the last. */
const struct kernels *kernels_at(unsigned i);

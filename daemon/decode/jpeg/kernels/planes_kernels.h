/* planes_kernels: the inner loops of planes, as a table that is chosen once at start.
 *
 * A map of this folder:
 *   planes_kernels.[ch]   the table of planes' kernels, and which one this processor runs
 *   planes_c.c            in plain C: the reference
 *   planes_body.h         the common code of the vector variants
 *   planes_avx2.c         for x86-64: vectors of 32 bytes
 *   planes_avx512.c       for x86-64: vectors of 64 bytes
 *   planes_neon.c         for 64-bit ARM: vectors of 16 bytes
 *   lanes_ref.c           entropy decoding, the reference: one lane, bit by bit (lane.h)
 *   lanes_scalar_body.h   the common code of the drivers with four scalar lanes
 *   lanes_scalar.c        that in plain C
 *   lanes_avx2.c          that with BMI2's shifts
 *   lanes_avx512.c        32 lanes in two vectors
 *   unstuff_avx2.c        removes stuffing, 32 bytes at a time (unstuff.h)
 *   unstuff_avx512.c      removes stuffing, 64 bytes at a time
 *   checksum_c.c          the checksum of kept entry points, as the library has it (checksum.h)
 *   checksum_avx2.c       that with vectors of 32 bytes
 *   checksum_avx512.c     that with vectors of 64 bytes
 *
 * Plain C is the reference; the vector variants give the same bytes and the same verdicts for every
 * input of any value.
 *
 * The transform computes as jidctint.c does, and differs where libjpeg-turbo's C and SIMD differ.
 * Its C works with 32 bits and more. Its SIMD wraps dequantized coefficients to 16 bits, saturates
 * the first pass's results to 16 bits, and adds pairs of either in 16 bits. And its C finds the
 * pixel in a table of 1,024 entries where its SIMD saturates. Here coefficients wrap, the first
 * pass saturates, and sums have 32 bits, which inputs of 16 bits cannot exceed. A block is `odd` if
 * a product does not fit into 16 bits, or if a pixel before the clamp is not in [-512, 511]. All
 * other blocks come out the same in every way: with all 8 pixels of a row inside that range, the
 * squares of the first pass's 8 results sum up to at most (32 x 512.5)^2 x 1.001, since both passes
 * preserve the sum of squares except for a factor. So none of them was saturated, nor does the sum
 * of any two reach 2^15. The same holds for the coefficients before the first pass.
 *
 * The transforms to fewer pixels compute as jidctred.c does, in the same widths; sums that do not
 * fit into 32 bits wrap. `odd` has the same meaning there, but guarantees less: values that these
 * transforms leave out, or that cancel each other, are not checked.
 *
 * Row kernels work in grains of PLANES_GRAIN output pixels: they may write and read up to the end
 * of a grain. Pure functions; any thread. */
#pragma once

#include "base/fault.h"
#include "decode/jpeg/planes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a block contains; for several blocks the largest value applies. */
enum planes_kind {
	PLANES_DC, /* no AC coefficient */
	PLANES_SPARSE, /* none after the first ten: all in the first four rows and columns */
	PLANES_FULL,
};

enum { PLANES_SMALLER = 3 }; /* transforms to fewer than 8 x 8 pixels */

enum { PLANES_SPARSE_LENGTH = 10 }; /* four diagonals; the fifth begins in row 4 */

/* The ready order: eight units of 16 bytes, for the pairs of rows (7,1), (3,5), (2,6), (0,4), and
 * for each pair columns 7 1 3 5, then 2 6 0 4; the two rows of a pair alternate, as multiply-add of
 * pairs needs them. PLANES_READY_DC is the index of coefficient (0,0). */
enum { PLANES_READY_DC = 60 };

/* Zigzag index to place. */
extern const uint8_t planes_ready_order[64];

/* The units' numbers and coefficients, by their places in zigzag order. */
/* clang-format off */
#define PLANES_READY_UNITS(_) \
	_(0, 63, 42, 36, 4, 49, 13, 58, 26) \
	_(1, 48, 7, 62, 29, 35, 2, 57, 16) \
	_(2, 53, 60, 11, 22, 24, 38, 40, 51) \
	_(3, 18, 33, 44, 55, 9, 20, 31, 46) \
	_(4, 43, 61, 8, 34, 17, 47, 30, 56) \
	_(5, 12, 37, 41, 59, 3, 21, 25, 50) \
	_(6, 28, 54, 1, 19, 6, 32, 15, 45) \
	_(7, 5, 23, 27, 52, 0, 10, 14, 39)
/* clang-format on */

/* In ready order. */
struct planes_quant {
	_Alignas(64) int16_t step[64];
	_Alignas(64) uint16_t limit[64]; /* largest |coefficient| whose product fits */
	/* The products of all coefficients up to BLOCKS_DC and BLOCKS_AC fit, so that no product
	 * needs to be checked. */
	bool fits;
};

struct planes_kernels {
	const char *name; /* "c", "avx2", "avx512", "neon" */

	/* Zigzag order to ready order, and what kind of block each is (planes_kind, exactly). All
	 * blocks are aligned to 64 bytes. */
	void (*sort)(int16_t (*to)[64], uint8_t *kinds, const int16_t *const *from, size_t count);

	/* `count` blocks in ready order, at least 1, side by side into 8 rows; writes no byte
	 * outside them. Returns whether one of them is odd. */
	bool (*transform)(uint8_t *to, size_t pitch, const int16_t *const *blocks,
		const uint8_t *kinds, size_t count, const struct planes_quant *quant);

	/* The same into 1, 2 or 4 rows of 1, 2 or 4 pixels per block (smaller[0], [1], [2]), by
	 * jidctred.c. */
	bool (*smaller[PLANES_SMALLER])(uint8_t *to, size_t pitch, const int16_t *const *blocks,
		size_t count, const struct planes_quant *quant);

	/* Triangle filters (jdsample.c): 2 `count` samples out of `count` and their two neighbors
	 * at from[-1] and from[count]; a row between two, by 3/4 near and 1/4 far, with bias 1 (far
	 * is above) or 2; and both. */
	void (*wider)(uint8_t *to, const uint8_t *from, size_t count);
	void (*between)(
		uint8_t *to, const uint8_t *near, const uint8_t *far, unsigned bias, size_t count);
	void (*both)(uint8_t *to, const uint8_t *near, const uint8_t *far, size_t count);

	/* Y, Cb, Cr to R, G, B (jdcolor.c). */
	void (*planar)(uint8_t *const to[3], const uint8_t *const from[3], size_t count);

	/* A row of triples into three rows; touches nothing beyond them. */
	void (*split)(uint8_t *const to[3], const uint8_t *from, size_t count);
};

extern const struct planes_kernels planes_kernels_c, planes_kernels_avx2, planes_kernels_avx512,
	planes_kernels_neon;

/* The best table for this processor, or the one that the environment variable PENSTOCK_KERNELS
 * names. 0, or -EINVAL for an unknown name, -ENOTSUP for one that this processor cannot run. */
int planes_kernels_choose(const struct planes_kernels **ret, struct fault *fault);

/* The i-th table that this processor can run, slowest first; NULL after the last. */
const struct planes_kernels *planes_kernels_at(unsigned i);

/* The transform to one pixel, which is the same in all tables: vectors would not help. */
bool planes_kernels_one(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant);

/* Transforms one block in ready order in plain C, and returns whether it is odd. */
bool planes_kernels_block(
	uint8_t to[8][8], const int16_t block[64], const struct planes_quant *quant);

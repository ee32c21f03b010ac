/* planes_kernels: the inner loops of planes, behind a table that is chosen once at start.
 *
 * Plain C is the truth; the vector twins give the same bytes for every input, of any value, and the
 * same verdicts.
 *
 * The transform computes as jidctint.c does, and differs where libjpeg-turbo differs from itself:
 * its C works with 32 bits and more, its SIMD wraps dequantised coefficients to 16 bits, saturates
 * the first pass's results to 16 bits and adds pairs of either in 16 bits; and its C finds the
 * pixel in a table of 1,024 entries where its SIMD saturates. Here coefficients wrap, the first
 * pass saturates, sums have 32 bits, which inputs of 16 bits cannot exceed. A block is `odd` if a
 * product does not fit into 16 bits, or if a pixel before the clamp is not in [-512, 511]. All
 * other blocks come out the same in every way: with all 8 pixels of a row inside that range, the
 * squares of the first pass's 8 results sum up to at most (32 x 512.5)^2 x 1.001, since both passes
 * preserve the sum of squares but for a factor; so neither one of them was saturated nor does the
 * sum of any two reach 2^15. The same holds for the coefficients before the first pass.
 *
 * The transforms to fewer pixels compute as jidctred.c does, in the same widths; sums that 32 bits
 * cannot hold wrap. `odd` has the same meaning there, but promises less: values that these
 * transforms leave out, or that cancel each other, are not looked at.
 *
 * Row kernels work in grains of PLANES_GRAIN output pixels: they may write up to a full grain, and
 * read as far. Pure functions; any thread. */
#pragma once

#include "base/fault.h"
#include "decode/jpeg/planes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a block holds; of several at once the largest holds. */
enum planes_kind {
	PLANES_DC, /* no AC coefficient */
	PLANES_SPARSE, /* none behind the first ten: all in the first four rows and columns */
	PLANES_FULL,
};

enum { PLANES_SMALLER = 3 }; /* transforms to fewer than 8 x 8 pixels */

enum { PLANES_SPARSE_LENGTH = 10 }; /* four diagonals; the fifth begins in row 4 */

/* The ready order: eight units of 16 bytes, for the pairs of rows (7,1), (3,5), (2,6), (0,4) and
 * for each pair columns 7 1 3 5, then 2 6 0 4; the two rows of a pair alternate, as multiply-add of
 * pairs wants them. This is where coefficient (0,0) comes to lie. */
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
	bool fits; /* the products of all coefficients up to BLOCKS_DC and BLOCKS_AC do, and none
		      exceeds these: nothing to look for */
};

struct planes_kernels {
	const char *name; /* "c", "avx2", "avx512", "neon" */

	/* Zigzag order to ready order, and what kind of block each is (planes_kind, exactly). All
	 * blocks are aligned to 64 bytes. */
	void (*sort)(int16_t (*to)[64], uint8_t *kinds, const int16_t *const *from, size_t count);

	/* `count` blocks in ready order, at least 1, side by side into 8 rows; not a byte
	 * beside them is written. Whether one of them is odd. */
	bool (*transform)(uint8_t *to, size_t pitch, const int16_t *const *blocks,
		const uint8_t *kinds, size_t count, const struct planes_quant *quant);

	/* The same into 1, 2 or 4 rows of as many pixels per block (smaller[0], [1], [2]): the
	 * means of what a block shows, by jidctred.c. */
	bool (*smaller[PLANES_SMALLER])(uint8_t *to, size_t pitch, const int16_t *const *blocks,
		size_t count, const struct planes_quant *quant);

	/* Triangle filters (jdsample.c): 2 `count` samples out of `count` and their two
	 * neighbours at from[-1] and from[count]; a row between two, by 3/4 near and 1/4 far,
	 * with its bias 1 (far is above) or 2; and both ways. */
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

/* The i-th table that this processor can run, slowest first; NULL behind the last. */
const struct planes_kernels *planes_kernels_at(unsigned i);

/* The transform to one pixel, which is the same in all tables: there is nothing to do side by side.
 */
bool planes_kernels_one(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant);

/* Whether one block in ready order is odd, and where to: the C twin for a single block. */
bool planes_kernels_block(
	uint8_t to[8][8], const int16_t block[64], const struct planes_quant *quant);

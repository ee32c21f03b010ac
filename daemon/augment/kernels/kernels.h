/* kernels: the inner loops of the ops, in one table per instruction set. One table is chosen at
 * start.
 *
 * A map of this folder:
 *   kernels.[ch]               this file: the table, and which one this processor runs
 *   kernels_c.c                the reference, in plain C: what Pillow computes, step by step
 *   kernels_body.h             plain C that compilers vectorize, compiled once per instruction set:
 *                              for loops that do not need intrinsics
 *   kernels_vec_body.h         hue, saturation and lightness in vectors of any width, for AVX2,
 *                              AVX-512 and NEON
 *   kernels_walk_body.h        `walk`, for x86-64
 *   kernels_place_body.h       `bilinear` and `bicubic` in plain C, also for NEON
 *   kernels_place_avx2_body.h  the same for AVX2
 *   kernels_place_avx512_body.h
 *                              the same for AVX-512
 *   kernels_avx2.c             the table for AVX2
 *   kernels_avx512.c, kernels_avx512_body.h
 *                              the table for AVX-512, and the code that it shares with the next one
 *   kernels_vnni.c             the same, with tables of 256 bytes held in registers (VBMI)
 *   kernels_neon.c             the table for NEON
 *
 * Pixels are R, G, B in a row. `to` and `from` may be the same memory unless a function says
 * otherwise. A function reads and writes only the bytes that its arguments name. Pure functions;
 * any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUGMENT_LEVELS = 256 };

/* The path of an output row through an image: the pixels at (x + i dx, y + i dy), in fixed point
 * with 16 fractional bits. */
enum { AUGMENT_WALK_ROW = 1 << 15 }; /* only plain C takes rows of as many bytes or more */

struct augment_walk {
	const uint8_t *from;
	uint32_t row; /* bytes, below AUGMENT_WALK_ROW */
	int32_t x, y, dx, dy;
};

/* An image and a matrix from output to source, as Pillow takes it: 6 numbers, or 8 with
 * perspective. */
struct augment_warp {
	const uint8_t *from;
	uint32_t width, height; /* 1 .. 32,767 */
	const double *matrix;
	bool perspective;
	uint8_t fill[3]; /* the color outside the image */
};

/* A box whose ends are within pixels; weights have 24 bits. */
struct augment_box {
	int64_t radius; /* whole pixels on either side; the next ones count `edge_weight` */
	uint32_t weight, edge_weight;
};

struct augment_kernels {
	const char *name; /* "c", "avx2", "avx512", "avx512-vnni", "neon" */

	/* Image.blend of an image of only `level` with this one. */
	void (*blend)(uint8_t *to, const uint8_t *from, size_t bytes, uint8_t level, float amount);
	/* Inverts bytes of at least `least` (0 .. 256), then keeps the bits of `mask`. */
	void (*fold)(uint8_t *to, const uint8_t *from, size_t bytes, uint32_t least, uint8_t mask);
	/* Looks up each channel in its own table. */
	void (*map)(uint8_t *to, const uint8_t *from, size_t pixels,
		const uint8_t table[3][AUGMENT_LEVELS]);

	/* convert("L"), three times. */
	void (*gray)(uint8_t *to, const uint8_t *from, size_t pixels);
	/* Image.blend of the gray image with the image. */
	void (*saturate)(uint8_t *to, const uint8_t *from, size_t pixels, float amount);
	/* convert("HSV"), `turn` added to H, and back. */
	void (*hue)(uint8_t *to, const uint8_t *from, size_t pixels, uint8_t turn);

	/* The sum of convert("L"). */
	uint64_t (*light)(const uint8_t *from, size_t pixels);
	/* The minimum and the maximum of each channel. */
	void (*extremes)(
		const uint8_t *from, size_t pixels, uint8_t ret_least[3], uint8_t ret_most[3]);

	/* Image.blend of ImageFilter.SMOOTH with the middle of three rows, for all pixels except
	 * the first and the last: the rows have 6 bytes more than the output. `to` is other
	 * memory. */
	void (*sharpen)(uint8_t *to, const uint8_t *const rows[3], size_t bytes, float amount);
	/* to[i] = the sum of weight[t] x rows[t][i], added as floats of 32 bits in this order. */
	void (*blur_down)(float *to, const uint8_t *const *rows, const float *weight, uint32_t taps,
		size_t bytes);
	/* The sum of weight[t] x from[i + 3 t], likewise, rounded, halves to even. */
	void (*blur_across)(
		uint8_t *to, const float *from, const float *weight, uint32_t taps, size_t bytes);
	/* `count` pixels of a walk. All are inside the image, and the byte after each pixel is
	 * readable. */
	void (*walk)(uint8_t *to, const struct augment_walk *walk, size_t count);
	/* `count` pixels of output row y, from x on, interpolated between 4 (bicubic: 16) pixels of
	 * the image. The matrix may hold any numbers. */
	void (*bilinear)(
		uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count);
	void (*bicubic)(
		uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count);
	/* One row of Pillow's vertical box blur: `sums` moves by one row (without AUGMENT_LEAVE,
	 * with AUGMENT_ENTER), and is weighted together with the rows at either end; 24 bits. */
	void (*box_down)(uint8_t *to, uint32_t *sums, const uint8_t *const rows[4],
		const struct augment_box *box, size_t bytes);
	/* The same along a row, whose outermost pixels repeat endlessly. `sums` belong to the
	 * box around the pixel before the first. `to` is other memory. */
	void (*box_across)(uint8_t *to, uint32_t sums[3], const uint8_t *from, uint32_t width,
		const struct augment_box *box);
};

/* The rows of box_down. */
enum { AUGMENT_LEAVE, AUGMENT_ENTER, AUGMENT_BEFORE, AUGMENT_BEHIND };

extern const struct augment_kernels augment_kernels_c, augment_kernels_avx2, augment_kernels_avx512,
	augment_kernels_vnni, augment_kernels_neon;

/* The table with the widest vectors that this processor has, or the one that the environment
 * variable PENSTOCK_KERNELS names. 0; -EINVAL for an unknown name, -ENOTSUP for one that this
 * processor cannot run. */
int augment_kernels_choose(const struct augment_kernels **ret, struct fault *fault);

/* The i-th table that this processor can run, plain C first; NULL after the last. */
const struct augment_kernels *augment_kernels_at(unsigned i);

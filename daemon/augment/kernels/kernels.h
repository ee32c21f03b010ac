/* kernels: the inner loops of the ops, behind a table that is chosen once at start.
 *
 *   kernels_c.c       the truth, in plain C: what Pillow computes, step by step
 *   kernels_body.h    plain C that every compiler turns into vectors, compiled once per instruction
 *                     set: what is not worth more
 *   kernels_vec_body.h
 *                     hue, saturation and lightness in vectors of any width; for kernels_avx2.c,
 *                     kernels_avx512_body.h and kernels_neon.c
 *   kernels_walk_body.h
 *                     `walk`, for all files of x86-64
 *   kernels_place_body.h
 *                     `bilinear` and `bicubic` in plain C, also NEON's
 *   kernels_place_avx2_body.h, kernels_place_avx512_body.h
 *                     the same for the files of x86-64
 *   kernels_vnni.c    the same as AVX-512, and tables of 256 looked up in registers (VBMI)
 *
 * Pixels are R, G, B, one behind the other. Where `to` and `from` are both given they may be the
 * same memory, unless a function says otherwise; not a byte more than told is read or written. Pure
 * functions; any thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUGMENT_LEVELS = 256 };

/* A row's way through an image: the pixels at (x + i dx, y + i dy), 16 bits of each behind the
 * point.
 */
struct augment_walk {
	const uint8_t *from;
	uint32_t row; /* bytes, below 2^15 */
	int32_t x, y, dx, dy;
};

/* An image seen through a matrix, as Pillow takes it: 6 numbers, or 8 with perspective. */
struct augment_warp {
	const uint8_t *from;
	uint32_t width, height; /* 1 .. 2048 */
	const double *matrix;
	bool perspective;
	uint8_t fill[3]; /* what is outside */
};

/* A box that ends within pixels; weights of 24 bits. */
struct augment_box {
	int64_t radius; /* whole pixels on either side; those behind them count `edge_weight` */
	uint32_t weight, edge_weight;
};

struct augment_kernels {
	const char *name; /* "c", "avx2", "avx512", "avx512-vnni", "neon" */

	/* Image.blend of an image that is `level` all over with this one. */
	void (*blend)(uint8_t *to, const uint8_t *from, size_t bytes, uint8_t level, float amount);
	/* Bytes of `least` and more (0 .. 256) are inverted; then `mask` is what remains. */
	void (*fold)(uint8_t *to, const uint8_t *from, size_t bytes, uint32_t least, uint8_t mask);
	/* Each channel by its own table. */
	void (*map)(uint8_t *to, const uint8_t *from, size_t pixels,
		const uint8_t table[3][AUGMENT_LEVELS]);

	/* convert("L"), three times. */
	void (*grey)(uint8_t *to, const uint8_t *from, size_t pixels);
	/* Image.blend of that with the image. */
	void (*saturate)(uint8_t *to, const uint8_t *from, size_t pixels, float amount);
	/* convert("HSV"), `turn` added to H, and back. */
	void (*hue)(uint8_t *to, const uint8_t *from, size_t pixels, uint8_t turn);

	/* The sum of convert("L"). */
	uint64_t (*light)(const uint8_t *from, size_t pixels);
	/* The least and the most of each channel. */
	void (*extremes)(
		const uint8_t *from, size_t pixels, uint8_t ret_least[3], uint8_t ret_most[3]);

	/* Image.blend of ImageFilter.SMOOTH with the middle one of three rows, for all pixels but
	 * the first and the last; the rows have 6 bytes more than what is written. `to` is another
	 * memory. */
	void (*sharpen)(uint8_t *to, const uint8_t *const rows[3], size_t bytes, float amount);
	/* to[i] = the sum of weight[t] x rows[t][i], floats of 32 bits added in that order. */
	void (*blur_down)(float *to, const uint8_t *const *rows, const float *weight, uint32_t taps,
		size_t bytes);
	/* The sum of weight[t] x from[i + 3 t], likewise, rounded, halves to even. */
	void (*blur_across)(
		uint8_t *to, const float *from, const float *weight, uint32_t taps, size_t bytes);
	/* `count` pixels of a walk, all of them in the image; the byte behind each one is readable.
	 */
	void (*walk)(uint8_t *to, const struct augment_walk *walk, size_t count);
	/* `count` pixels of row y of what is seen, from x on, between 4 or 16 pixels of the image;
	 * any numbers may be in the matrix. */
	void (*bilinear)(
		uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count);
	void (*bicubic)(
		uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count);
	/* A row of Pillow's box blur down: `sums` moves on by one row, from `leave` to `enter`, and
	 * is weighed together with `before` and `behind`, the rows at either end; 24 bits. */
	void (*box_down)(uint8_t *to, uint32_t *sums, const uint8_t *const rows[4],
		const struct augment_box *box, size_t bytes);
	/* The same along a row, whose outermost pixels go on for ever; `sums` are those of the box
	 * around the pixel before the first. `to` is another memory. */
	void (*box_across)(uint8_t *to, uint32_t sums[3], const uint8_t *from, uint32_t width,
		const struct augment_box *box);
};

/* In box_down. */
enum { AUGMENT_LEAVE, AUGMENT_ENTER, AUGMENT_BEFORE, AUGMENT_BEHIND };

extern const struct augment_kernels augment_kernels_c, augment_kernels_avx2, augment_kernels_avx512,
	augment_kernels_vnni, augment_kernels_neon;

/* The table of the widest vectors that this processor has, or the one that the environment variable
 * PENSTOCK_KERNELS names. 0, or -EINVAL for an unknown name, -ENOTSUP for one that this processor
 * cannot run. */
int augment_kernels_choose(const struct augment_kernels **ret, struct fault *fault);

/* The i-th table that this processor can run, plain C first; NULL behind the last. */
const struct augment_kernels *augment_kernels_at(unsigned i);

/* kernels: the inner loops of the resampler, in tables of which one is chosen at start.
 *
 * Rows are planar: one byte per pixel. Both passes compute sums of bytes times weights of 22 bits
 * and a sign, in 32 bits. Partial sums may wrap, because the whole sum fits; Pillow relies on that
 * too. The result is shifted and clipped at both ends. The tables differ in how they do that:
 *
 *   kernels_c.c        the reference, in plain C
 *   kernels_body.h     plain C that compilers vectorize, compiled once per instruction set: for
 *                      loops that are not worth more
 *   kernels_madd_body.h
 *                      passes with few taps by multiply-add of pairs of 16 bits, where each weight
 *                      is two halves of 11 bits; for kernels_avx2.c and kernels_avx512.c
 *   kernels_vnni.c     the same by sums of four bytes (VNNI), where each weight is three digits of
 *                      8 bits in [-128, 127], and bytes are gathered from 64 or 128 (VBMI)
 *   kernels_neon.c     the same by multiply-add of 32 bits, for 64-bit ARM
 *
 * Vertical passes read and write whole grains. Horizontal passes write whole KERNELS_OUTPUTS and
 * read up to KERNELS_SLACK bytes after a row. Pure functions; any thread. */
#pragma once

#include "base/fault.h"
#include "pixel/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KERNELS_GRAIN = 64, /* also the alignment of all buffers and tables */
	KERNELS_OUTPUTS = 32, /* horizontal passes write multiples of it */
	KERNELS_SLACK = 256,
	/* What `pack` needs for each output, counted in whole grains of outputs. A grain of it is
	 * the table's own. */
	KERNELS_PACKED = 145,
	KERNELS_RUN = 16, /* weights of many taps are padded to multiples of it */
};

/* Weights of outputs with many taps, one output after the other, each padded with zeros. */
struct kernels_many {
	const struct weights *weights; /* first, taps, count */
	const int32_t *value;
};

struct kernels {
	const char *name; /* "c", "avx2", "avx512", "avx512-vnni", "neon" */

	/* Arranges weights with few taps for `across`. False: impossible, because outputs are too
	 * far apart; then across_many is used. */
	bool (*pack)(const struct weights *weights, uint8_t *table);

	/* Horizontal pass over the rows R, G, B: output i is the clipped sum of value[i][t] x
	 * from[first[i] + t]. */
	void (*across)(uint8_t *const to[3], const uint8_t *const from[3],
		const struct weights *weights, const uint8_t *table);
	void (*across_many)(uint8_t *const to[3], const uint8_t *const from[3],
		const struct kernels_many *many);

	/* Vertical pass: a row of `bytes` from 1 to WEIGHTS_FEW rows. */
	void (*down)(uint8_t *to, const uint8_t *const *rows, const int32_t *value, uint32_t taps,
		size_t bytes);

	/* The same in steps, for more rows. */
	void (*down_add)(uint32_t *sums, const uint8_t *row, int32_t value, size_t bytes);
	void (*down_end)(uint8_t *to, const uint32_t *sums, size_t bytes);

	/* Interleaves rows R, G, B into pixels of three bytes; writes nothing beyond them. */
	void (*weave)(uint8_t *to, const uint8_t *const from[3], size_t count);
};

extern const struct kernels kernels_c, kernels_avx2, kernels_avx512, kernels_vnni, kernels_neon;

/* The table that is fastest on this processor, as a race finds once (2 ms), or the one that the
 * environment variable PENSTOCK_KERNELS names. 0; -EINVAL for an unknown name, -ENOTSUP for one
 * that this processor cannot run. */
int kernels_choose(const struct kernels **ret, struct fault *fault);

/* The i-th table that this processor can run, plain C first; NULL after the last. */
const struct kernels *kernels_at(unsigned i);

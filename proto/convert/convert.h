/* convert: uint8 pixels to the values that trainers compute with: (x / 255 - mean) / std, rounded
 * as torchvision's ToTensor and Normalize round it in float32, and once more (to nearest, ties to
 * even) to a shorter type. The daemon's for streams whose dtype is not uint8, and libpenstock's
 * (penstock.h).
 *
 * The table is the law: 256 values for each of three channels, computed in float32 as torchvision
 * computes them, rounded once more to a shorter dtype. Kernels compute instead of looking up, which
 * is faster, and divide by multiplying: with a quotient's reciprocal in two parts, the second one
 * what rounding took from the first, the sum of both products is nearly always the quotient as
 * division rounds it. Whether it is, for the mean and std at hand, is tried with all 256 values
 * when a converter is made; where it is not, the table is looked up.
 *
 * A map of this folder:
 *   convert.[ch]      this file: the choice of kernels, and cutting rows into runs
 *   convert_table.c   the table, and plain C that looks values up: the truth
 *   convert_body.h    the loop of the kernels, compiled once per instruction set
 *   convert_x86.h     what convert_avx2.c and convert_avx512.c have in common
 *   convert_avx2.c, convert_avx512.c, convert_neon.c
 *                     sixteen pixels at a time */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbered as enum penstock_dtype and enum penstock_layout. */
enum convert_dtype { CONVERT_UINT8, CONVERT_FLOAT32, CONVERT_FLOAT16, CONVERT_BFLOAT16 };
enum convert_layout { CONVERT_NHWC, CONVERT_NCHW };

struct convert_options {
	uint32_t dtype, layout;
	float mean[3], std[3]; /* finite; std not 0 */
};

struct convert;

enum {
	CONVERT_GROUP = 16, /* pixels */
	CONVERT_LINE = 64, /* bytes: alignment of streaming stores */
	CONVERT_DTYPES = 4,
	CONVERT_LAYOUTS = 2,
};

/* Converts `pixels` in a row, whole groups of them except in plain C; channels lie next to each
 * other in `out` (NHWC) or `plane_bytes` apart (NCHW). */
typedef void convert_run(const struct convert *convert, const uint8_t *from, size_t pixels,
	void *out, size_t plane_bytes);

struct convert_kernels {
	convert_run *run[CONVERT_DTYPES][CONVERT_LAYOUTS];

	/* Past the caches, to `out` (and planes) aligned to CONVERT_LINE; NULL: there is nothing to
	 * gain. */
	convert_run *stream[CONVERT_DTYPES][CONVERT_LAYOUTS];
};

extern const struct convert_kernels convert_c, convert_avx2, convert_avx512, convert_neon;

/* The widest kernels that this processor runs, or those that PENSTOCK_KERNELS names. 0; -EINVAL for
 * an unknown name, -ENOTSUP for one that this processor cannot run: dispatch_refusal has the
 * sentence. */
int convert_choose(const struct convert_kernels **ret);

/* Prepares, in memory aligned to CONVERT_LINE; a few microseconds. Results as of convert_choose. */
int convert_init(struct convert *convert, const struct convert_options *options);

/* The same in memory of its own; also -ENOMEM. free() frees it. */
int convert_new(const struct convert_options *options, struct convert **ret);

/* Bytes of one row of what is written. */
size_t convert_row_bytes(const struct convert *convert, uint32_t height, uint32_t width);

/* `count` rows of uint8 (height, width, 3), to `out`, aligned or not, not overlapping. Reads and
 * writes nothing beyond them. Thread: any, several at once. */
void convert_rows(const struct convert *convert, const void *rows, uint32_t count, uint32_t height,
	uint32_t width, void *out);

/* uint8 as it is. */
convert_run convert_copy;

struct convert {
	/* What is taken from and multiplied with each of 3 x 16 values in a row, in the layout's
	 * order of channels. */
	_Alignas(CONVERT_LINE) struct {
		float mean[3][CONVERT_GROUP];
		float scale[3][CONVERT_GROUP], rest[3][CONVERT_GROUP]; /* 1 / std, in two parts */
	} constants;
	const struct convert_kernels *kernels;
	size_t stream_from; /* bytes of output from which on it is written past the caches */
	uint32_t dtype, layout;
	uint32_t element_bytes;
	union {
		uint8_t u8[3][256];
		uint16_t u16[3][256]; /* float16, bfloat16 */
		float f32[3][256];
	} table;
};

/* Fills the table. `options` are valid ones. */
void convert_fill_table(struct convert *convert, const struct convert_options *options);

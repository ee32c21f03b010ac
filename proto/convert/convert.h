/* convert: uint8 pixels to the values that trainers compute with: (x / 255 - mean) / std, rounded
 * in float32 as torchvision's ToTensor and Normalize round it, and for shorter types once more (to
 * nearest, ties to even). For the daemon's streams whose dtype is not uint8, and for libpenstock
 * (penstock.h).
 *
 * A table defines the result: 256 values for each of three channels, computed in float32 as
 * torchvision computes them, rounded once more for a shorter dtype. The kernels compute instead of
 * looking values up, which is faster, and multiply instead of dividing: the reciprocal has two
 * parts, of which the second is the rounding error of the first, and the sum of both products is
 * nearly always the correctly rounded quotient. When a converter is made, it checks all 256 values
 * for its mean and std; if one differs, it looks values up in the table.
 *
 * A map of this folder:
 *   convert.[ch]      this file: the choice of kernels, and cutting rows into runs
 *   convert_table.c   the table, and plain C that looks values up: the reference
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

/* Converts `pixels` adjacent pixels: whole groups, except in plain C. In `out` the channels of a
 * pixel are adjacent (NHWC) or `plane_bytes` apart (NCHW). */
typedef void convert_run(const struct convert *convert, const uint8_t *from, size_t pixels,
	void *out, size_t plane_bytes);

struct convert_kernels {
	convert_run *run[CONVERT_DTYPES][CONVERT_LAYOUTS];

	/* The same with stores that bypass the caches, to `out` (and planes) aligned to
	 * CONVERT_LINE; NULL: not faster. */
	convert_run *stream[CONVERT_DTYPES][CONVERT_LAYOUTS];
};

extern const struct convert_kernels convert_c, convert_avx2, convert_avx512, convert_neon;

/* The widest kernels that this processor runs, or those that PENSTOCK_KERNELS names. 0; -EINVAL for
 * an unknown name, -ENOTSUP for one that this processor cannot run: dispatch_refusal has the
 * sentence. */
int convert_choose(const struct convert_kernels **ret);

/* Prepares a converter, in memory aligned to CONVERT_LINE; a few microseconds. Errors as of
 * convert_choose. */
int convert_init(struct convert *convert, const struct convert_options *options);

/* The same in allocated memory, for free(); also -ENOMEM. */
int convert_new(const struct convert_options *options, struct convert **ret);

/* Bytes of one converted image. */
size_t convert_row_bytes(const struct convert *convert, uint32_t height, uint32_t width);

/* Converts `count` images of uint8 (height, width, 3) to `out`, which needs no alignment and does
 * not overlap. Reads and writes nothing beyond them. Any thread, several at once. */
void convert_rows(const struct convert *convert, const void *rows, uint32_t count, uint32_t height,
	uint32_t width, void *out);

/* Copies uint8. */
convert_run convert_copy;

struct convert {
	/* The mean and the factors for 3 x 16 adjacent values, in the layout's order of
	 * channels. */
	_Alignas(CONVERT_LINE) struct {
		float mean[3][CONVERT_GROUP];
		float scale[3][CONVERT_GROUP], rest[3][CONVERT_GROUP]; /* 1 / std, in two parts */
	} constants;
	const struct convert_kernels *kernels;
	size_t stream_from; /* output of at least this many bytes bypasses the caches */
	uint32_t dtype, layout;
	uint32_t element_bytes;
	union {
		uint8_t u8[3][256];
		uint16_t u16[3][256]; /* float16, bfloat16 */
		float f32[3][256];
	} table;
};

/* Fills the table; `options` are valid. */
void convert_fill_table(struct convert *convert, const struct convert_options *options);

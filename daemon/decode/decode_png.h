/* decode_png: decodes PNGs by libpng, judged as Pillow judges them. Only decode.c calls it. */
#pragma once

#include "decode/decode.h"
#include "decode/scratch.h"
#include "decode/sentence.h"

struct decode_png;
struct planes_kernels;

/* `scratch` and `sentence` outlive it. 0 or -ENOMEM. */
int decode_png_new(struct scratch *scratch, struct sentence *sentence,
	const struct planes_kernels *kernels, struct decode_png **ret);
void decode_png_free(struct decode_png *png);

/* Bytes that it holds outside the scratch. */
uint64_t decode_png_bytes(void);

/* As decoder_begin, _rows and _abort. */
int decode_png_begin(struct decode_png *png, const struct decode_limits *limits,
	const uint8_t *data, size_t size, struct decode_info *ret);
int decode_png_rows(struct decode_png *png, struct decode_region region, bool to_end,
	decode_row_fn *row, void *context);
void decode_png_end(struct decode_png *png);

/* Scratch that the rows of the present image will take, or at least if it spills. */
uint64_t decode_png_need(const struct decode_png *png, bool spilled);

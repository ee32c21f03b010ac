/* decode_jpeg: decodes JPEGs by libjpeg-turbo, read the way Pillow reads them. Only decode.c calls
 * it. */
#pragma once

#include "decode/decode.h"
#include "decode/scratch.h"
#include "decode/sentence.h"

struct decode_jpeg;
struct planes_kernels;

/* `scratch` and `sentence` outlive it. 0 or -ENOMEM. */
int decode_jpeg_new(struct scratch *scratch, struct sentence *sentence,
	const struct planes_kernels *kernels, struct decode_jpeg **ret);
void decode_jpeg_free(struct decode_jpeg *jpeg);

/* Bytes that it holds outside the scratch. */
uint64_t decode_jpeg_bytes(void);

/* As decoder_begin, _rows, _shrink and _abort. */
int decode_jpeg_begin(struct decode_jpeg *jpeg, const struct decode_limits *limits,
	const uint8_t *data, size_t size, struct decode_info *ret);
int decode_jpeg_rows(struct decode_jpeg *jpeg, struct decode_region region, bool to_end,
	decode_row_fn *row, void *context);
void decode_jpeg_shrink(struct decode_jpeg *jpeg, uint8_t shrink);
void decode_jpeg_end(struct decode_jpeg *jpeg);

/* Scratch that the rows of the present image will take, or at least if it spills. */
uint64_t decode_jpeg_need(struct decode_jpeg *jpeg, bool spilled);

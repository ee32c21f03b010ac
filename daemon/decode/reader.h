/* reader: what decode.c asks of the code that reads one type of images.
 *
 * Each type has one struct reader, in the file that calls its library. To add a type: that file in
 * types/, its number in enum decode_format (decode.h), and its line in decode.c's table. `self` is
 * what `make` made; it belongs to the decoder's thread. */
#pragma once

#include "decode/decode.h"
#include "decode/scratch.h"
#include "decode/sentence.h"

struct planes_kernels;
struct png_kernels;
struct stages;

/* What a decoder lends its readers; all of it outlives them. */
struct reader_tools {
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	const struct png_kernels *png_kernels; /* NULL: libpng decodes all PNGs */
	struct stages *stages;
};

struct reader {
	enum decode_format format;
	const char *name, *library; /* "PNG", "libpng"; "penstock" where none is called;
				     NULL: not in this build */
	/* Whether a file is of this type, by its first bytes. Pure. */
	bool (*sniff)(const uint8_t *data, size_t size);
	/* 0 or -ENOMEM. */
	int (*make)(const struct reader_tools *tools, void **ret);
	void (*unmake)(void *self); /* takes NULL */
	uint64_t (*bytes)(void); /* that `make` takes, outside the scratch */
	/* As decoder_begin, _rows and _abort. */
	int (*begin)(void *self, const struct decode_limits *limits, const uint8_t *data,
		size_t size, struct decode_info *ret);
	int (*rows)(void *self, struct decode_region region, bool to_end, decode_row_fn *row,
		void *context);
	void (*end)(void *self);
	/* Scratch that the rows of the present image will take, or at least if it spills. */
	uint64_t (*need)(void *self, bool spilled);
};

/* Refuses an image of no pixels, or of more than the limits allow. `type` is its name: "BMP". 0 or
 * an enum decode_outcome. */
static inline int reader_check_size(struct sentence *sentence, const struct decode_limits *limits,
	const char *type, uint64_t width, uint64_t height)
{
	if (!width || !height)
		return sentence_set(sentence, DECODE_E_CORRUPT,
			"%s: %llu x %llu pixels; an image has at least one", type,
			(unsigned long long)width, (unsigned long long)height);
	if (width > DECODE_SIDE_MAX || height > DECODE_SIDE_MAX)
		return sentence_set(sentence, DECODE_E_PIXELS,
			"%s: %llu x %llu pixels; a side may have at most %d", type,
			(unsigned long long)width, (unsigned long long)height, DECODE_SIDE_MAX);
	if (width * height > limits->pixels)
		return sentence_set(sentence, DECODE_E_PIXELS,
			"%s: %llu x %llu pixels; the limit max_image_pixels is %llu", type,
			(unsigned long long)width, (unsigned long long)height,
			(unsigned long long)limits->pixels);
	return DECODE_OK;
}

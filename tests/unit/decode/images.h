/* images: images for the decoder's tests, made in memory by libjpeg and libpng; decoders, and what
 * they return. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/decode.h"

#include "base/util.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

enum { SLACK = 64 };

struct bytes {
	uint8_t *data; /* malloc'ed, with exactly the slack after `size` that decode.h asks for */
	size_t size;
};

static inline struct bytes bytes_copy(const void *data, size_t size)
{
	struct bytes copy = {malloc(size + SLACK), size};
	assert_non_null(copy.data);
	memcpy(copy.data, data, size);
	memset(copy.data + size, 0xff, SLACK);
	return copy;
}

struct jpeg_kind {
	uint32_t width, height;
	int components; /* 1, 3 or 4 */
	int h, v; /* sampling of the first component; the others have 1 x 1 */
	bool progressive, arithmetic, optimized;
	bool noise; /* pixels of noise, as much data as an image can have */
	unsigned restart_rows;
	int quality; /* 0: 85 */
	unsigned scans; /* so many scans of one coefficient each; 0: libjpeg's own script */
};

/* A smooth gradient with some noise, always the same for the same place. */
static inline uint8_t image_sample(uint32_t x, uint32_t y, int channel)
{
	uint32_t noise =
		(x * 2654435761u ^ y * 2246822519u ^ (uint32_t)channel * 3266489917u) >> 27;
	return (uint8_t)(x * 3 + y * 2 + (uint32_t)channel * 60 + noise);
}

static inline void make_scan_script(
	struct jpeg_compress_struct *cinfo, jpeg_scan_info *script, unsigned scans)
{
	/* DC once, then each AC coefficient by itself, again and again one bit deeper. */
	script[0] = (jpeg_scan_info){1, {0}, 0, 0, 0, 0};
	unsigned made = 1;
	for (int k = 1; k < 64 && made < scans; k++)
		for (int bit = 8; bit >= 0 && made < scans; bit--)
			script[made++] =
				(jpeg_scan_info){1, {0}, k, k, bit == 8 ? 0 : bit + 1, bit};
	cinfo->scan_info = script;
	cinfo->num_scans = (int)made;
}

static inline struct bytes make_jpeg(const struct jpeg_kind *kind)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	unsigned char *out = NULL;
	unsigned long size = 0;
	static jpeg_scan_info script[600];
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &out, &size);
	cinfo.image_width = kind->width;
	cinfo.image_height = kind->height;
	cinfo.input_components = kind->components;
	cinfo.in_color_space = kind->components == 1   ? JCS_GRAYSCALE
			       : kind->components == 3 ? JCS_RGB
						       : JCS_CMYK;
	jpeg_set_defaults(&cinfo);
	jpeg_set_quality(&cinfo, kind->quality ? kind->quality : 85, TRUE);
	cinfo.comp_info[0].h_samp_factor = kind->h ? kind->h : 1;
	cinfo.comp_info[0].v_samp_factor = kind->v ? kind->v : 1;
	cinfo.arith_code = kind->arithmetic;
	cinfo.optimize_coding = kind->optimized;
	cinfo.restart_in_rows = (int)kind->restart_rows;
	if (kind->scans)
		make_scan_script(&cinfo, script, kind->scans);
	else if (kind->progressive)
		jpeg_simple_progression(&cinfo);
	jpeg_start_compress(&cinfo, TRUE);
	uint8_t *row = malloc((size_t)kind->width * (size_t)kind->components);
	assert_non_null(row);
	uint32_t random = 1;
	while (cinfo.next_scanline < cinfo.image_height) {
		for (uint32_t x = 0; x < kind->width; x++)
			for (int c = 0; c < kind->components; c++) {
				random = random * 1664525 + 1013904223; /* Numerical Recipes */
				row[x * (uint32_t)kind->components + (uint32_t)c] =
					kind->noise ? (uint8_t)(random >> 24)
						    : image_sample(x, cinfo.next_scanline, c);
			}
		jpeg_write_scanlines(&cinfo, &row, 1);
	}
	free(row);
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	struct bytes copy = bytes_copy(out, size);
	free(out);
	return copy;
}

static inline void png_append(png_structp png, png_bytep data, size_t size)
{
	struct bytes *bytes = png_get_io_ptr(png);
	bytes->data = realloc(bytes->data, bytes->size + size + SLACK);
	assert_non_null(bytes->data);
	memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
	memset(bytes->data + bytes->size, 0xff, SLACK);
}

static inline void png_flushed(png_structp png)
{
	(void)png;
}

/* `color` is a PNG_COLOR_TYPE of 8 or 16 bits. */
static inline struct bytes make_png(
	uint32_t width, uint32_t height, int color, int depth, bool interlaced)
{
	static const int channels[7] = {1, 0, 3, 0, 2, 0, 4};
	struct bytes bytes = {NULL, 0};
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	png_set_write_fn(png, &bytes, png_append, png_flushed);
	png_set_IHDR(png, info, width, height, depth, color,
		interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
		PNG_FILTER_TYPE_BASE);
	png_write_info(png, info);
	size_t samples = (size_t)width * (size_t)channels[color];
	uint8_t *row = calloc(samples, 2);
	assert_non_null(row);
	for (int pass = 0; pass < (interlaced ? png_set_interlace_handling(png) : 1); pass++)
		for (uint32_t y = 0; y < height; y++) {
			for (size_t i = 0; i < samples; i++)
				row[i * (size_t)(depth / 8)] =
					image_sample((uint32_t)(i / (size_t)channels[color]), y,
						(int)(i % (size_t)channels[color]));
			png_write_row(png, row);
		}
	free(row);
	png_write_end(png, info);
	png_destroy_write_struct(&png, &info);
	return bytes;
}

static inline struct decoder *make_decoder(const struct decode_limits *limits)
{
	struct decode_limits standard = decode_limits_default();
	struct decoder *decoder = NULL;
	struct fault fault;
	assert_int_equal(decoder_new(limits ? limits : &standard, &decoder, &fault), 0);
	return decoder;
}

/* A decoder that uses penstock's decoder ("own") or only libjpeg-turbo ("libjpeg") for JPEGs. */
static inline struct decoder *make_decoder_by(const char *which)
{
	assert_int_equal(setenv("PENSTOCK_DECODER", which, 1), 0);
	struct decoder *decoder = make_decoder(NULL);
	assert_int_equal(unsetenv("PENSTOCK_DECODER"), 0);
	return decoder;
}

/* The outcome and the region's pixels, one row after the other. */
struct result {
	int outcome;
	struct decode_info info;
	uint8_t *rgb;
	size_t width, rows;
	char message[256];
};

static inline void result_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct result *result = context;
	decode_weave(result->rgb + result->rows++ * result->width * 3, rgb, result->width);
}

static inline void result_free(struct result *result)
{
	free(result->rgb);
	*result = (struct result){0};
}

/* A JPEG's region, shrunk. `region` NULL: the whole image. */
static inline struct result decode_smaller(struct decoder *decoder, struct bytes bytes,
	uint8_t shrink, const struct decode_region *region, bool to_end)
{
	struct result result = {0};
	result.outcome = decoder_begin(decoder, bytes.data, bytes.size, &result.info);
	if (result.outcome == DECODE_OK) {
		struct decode_region all = {0, 0, decode_shrunk(result.info.width, shrink),
			decode_shrunk(result.info.height, shrink)};
		if (shrink)
			decoder_shrink(decoder, shrink);
		const struct decode_region *r = region ? region : &all;
		result.width = r->x1 - r->x0;
		result.rgb = malloc(result.width * 3 * (r->y1 - r->y0));
		assert_non_null(result.rgb);
		result.outcome = decoder_rows(decoder, *r, to_end, result_row, &result);
		if (result.outcome == DECODE_OK)
			assert_int_equal(result.rows, r->y1 - r->y0);
	}
	assert_true(result.outcome >= 0 && result.outcome < DECODE_OUTCOMES);
	(void)snprintf(result.message, sizeof(result.message), "%s", decoder_message(decoder));
	assert_int_equal(result.outcome == DECODE_OK, result.message[0] == 0);
	return result;
}

/* `region` NULL: the whole image. */
static inline struct result decode_bytes(struct decoder *decoder, struct bytes bytes,
	const struct decode_region *region, bool to_end)
{
	return decode_smaller(decoder, bytes, 0, region, to_end);
}

static inline void assert_same(const struct result *a, const struct result *b)
{
	assert_int_equal(a->outcome, b->outcome);
	assert_string_equal(a->message, b->message);
	if (a->outcome != DECODE_OK)
		return;
	assert_int_equal(a->width, b->width);
	assert_int_equal(a->rows, b->rows);
	assert_memory_equal(a->rgb, b->rgb, a->width * a->rows * 3);
}

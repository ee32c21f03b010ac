/* planes_images: JPEGs that libjpeg has taken apart, for tests of planes: the blocks in MCU order,
 * as an entropy decoder delivers them, and libjpeg-turbo's pixels. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/jpeg/planes.h"

#include "base/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct image {
	struct planes_frame frame;
	uint8_t quant[PLANES_COMPONENTS][64]; /* zigzag order */
	struct blocks blocks; /* all MCUs */
	bool tame; /* all values are within the limits of blocks.h */
	int16_t *memory;
	uint32_t *where;
	uint8_t *rgb; /* libjpeg-turbo's pixels, of the image as it shrunk */
};

static const uint8_t zigzag_to_natural[64] = {0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4,
	5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43,
	36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,
	62, 63};

struct image_errors {
	struct jpeg_error_mgr base;
	jmp_buf escape;
};

static inline void image_exit(j_common_ptr cinfo)
{
	longjmp(((struct image_errors *)cinfo->err)->escape, 1);
}

static inline void image_quiet(j_common_ptr cinfo, int level)
{
	(void)cinfo, (void)level;
}

static inline void image_free(struct image *image)
{
	free(image->memory);
	free(image->where);
	free(image->rgb);
}

/* Whether penstock's decoder may take the image. */
static inline bool image_wanted(const struct jpeg_decompress_struct *cinfo)
{
	if (cinfo->progressive_mode || cinfo->arith_code || cinfo->data_precision != 8)
		return false;
	if (cinfo->num_components == 1)
		return cinfo->jpeg_color_space == JCS_GRAYSCALE;
	return cinfo->num_components == 3 && cinfo->comps_in_scan == 3 &&
	       (cinfo->jpeg_color_space == JCS_YCbCr || cinfo->jpeg_color_space == JCS_RGB);
}

/* A small generator of pseudo-random numbers (Marsaglia, "Xorshift RNGs", 2003). */
static inline uint32_t random_next(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* In [0, below). */
static inline uint32_t random_below(uint32_t *state, uint32_t below)
{
	return random_next(state) % below;
}

/* False for a quantizer of 16 bits. */
static inline bool image_component(struct image *image, int i, const jpeg_component_info *info)
{
	bool gray = image->frame.color == PLANES_GRAY;
	uint8_t h = gray ? 1 : (uint8_t)info->h_samp_factor;
	uint8_t v = gray ? 1 : (uint8_t)info->v_samp_factor;
	struct blocks *blocks = &image->blocks;
	image->frame.component[i] = (struct planes_component){h, v, image->quant[i]};
	blocks->component[i] =
		(struct blocks_component){.h = h, .v = v, .first = (uint8_t)blocks->in_mcu};
	blocks->in_mcu += (unsigned)h * v;
	for (int k = 0; k < 64; k++) {
		unsigned step = info->quant_table->quantval[zigzag_to_natural[k]];
		if (step > UINT8_MAX)
			return false;
		image->quant[i][k] = (uint8_t)step;
	}
	return true;
}

static inline bool image_frame(struct image *image, const struct jpeg_decompress_struct *cinfo)
{
	bool gray = cinfo->num_components == 1;
	enum planes_color color = cinfo->jpeg_color_space == JCS_YCbCr ? PLANES_YCC : PLANES_RGB;
	image->frame = (struct planes_frame){
		.width = cinfo->image_width,
		.height = cinfo->image_height,
		.color = gray ? PLANES_GRAY : color,
	};
	uint32_t side_x = 8u * (gray ? 1 : (unsigned)cinfo->max_h_samp_factor);
	uint32_t side_y = 8u * (gray ? 1 : (unsigned)cinfo->max_v_samp_factor);
	struct blocks *blocks = &image->blocks;
	blocks->columns = (cinfo->image_width + side_x - 1) / side_x;
	blocks->rows = (cinfo->image_height + side_y - 1) / side_y;
	blocks->components = (unsigned)cinfo->num_components;
	for (int i = 0; i < cinfo->num_components; i++)
		if (!image_component(image, i, &cinfo->comp_info[i]))
			return false;
	return true;
}

/* Places for all MCUs, in random order if `dealt`. Blocks outside a component's edge, which libjpeg
 * does not have, are noise: no code may read them. */
static inline void image_places(struct image *image, bool dealt)
{
	struct blocks *blocks = &image->blocks;
	size_t mcus = (size_t)blocks->columns * blocks->rows;
	size_t bytes = mcus * blocks->in_mcu * 64 * sizeof(int16_t);
	image->memory = aligned_alloc(64, bytes);
	image->where = malloc(mcus * sizeof(*image->where));
	assert_non_null(image->memory);
	assert_non_null(image->where);
	memset(image->memory, 0x5a, bytes);
	for (size_t i = 0; i < mcus; i++)
		image->where[i] = (uint32_t)(i * blocks->in_mcu);
	uint32_t random = 1;
	for (size_t i = mcus - 1; dealt && i > 0; i--) {
		size_t other = random_below(&random, (uint32_t)i + 1);
		uint32_t where = image->where[i];
		image->where[i] = image->where[other];
		image->where[other] = where;
	}
	blocks->coefficients = image->memory;
	blocks->where = image->where;
}

static inline void image_copy(
	struct image *image, struct jpeg_decompress_struct *cinfo, jvirt_barray_ptr *arrays)
{
	image->tame = true;
	for (int i = 0; i < cinfo->num_components; i++) {
		const jpeg_component_info *info = &cinfo->comp_info[i];
		for (uint32_t y = 0; y < info->height_in_blocks; y++) {
			JBLOCKARRAY row = cinfo->mem->access_virt_barray(
				(j_common_ptr)cinfo, arrays[i], y, 1, FALSE);
			for (uint32_t x = 0; x < info->width_in_blocks; x++) {
				int16_t *block =
					(int16_t *)blocks_at(&image->blocks, (unsigned)i, x, y);
				for (int k = 0; k < 64; k++) {
					block[k] = row[0][x][zigzag_to_natural[k]];
					image->tame &= abs(block[k]) <= (k ? BLOCKS_AC : BLOCKS_DC);
				}
			}
		}
	}
}

static inline void image_pixels(struct image *image, struct jpeg_decompress_struct *cinfo)
{
	cinfo->out_color_space = JCS_RGB;
	cinfo->scale_num = 1;
	cinfo->scale_denom = 1u << image->frame.shrink;
	(void)jpeg_start_decompress(cinfo);
	assert_int_equal(
		cinfo->output_width, decode_shrunk(image->frame.width, image->frame.shrink));
	assert_int_equal(
		cinfo->output_height, decode_shrunk(image->frame.height, image->frame.shrink));
	size_t pitch = (size_t)cinfo->output_width * 3;
	image->rgb = malloc(pitch * cinfo->output_height);
	assert_non_null(image->rgb);
	while (cinfo->output_scanline < cinfo->output_height) {
		JSAMPROW row = image->rgb + cinfo->output_scanline * pitch;
		(void)jpeg_read_scanlines(cinfo, &row, 1);
	}
}

/* `dealt`: MCUs are in random order. False where penstock's decoder would not take the file, or it
 * is broken. */
static inline bool image_read(
	const uint8_t *data, size_t size, uint8_t shrink, bool dealt, struct image *ret)
{
	struct jpeg_decompress_struct cinfo;
	struct image_errors errors;
	memset(ret, 0, sizeof(*ret));
	cinfo.err = jpeg_std_error(&errors.base);
	errors.base.error_exit = image_exit;
	errors.base.emit_message = image_quiet;
	jpeg_create_decompress(&cinfo);
	if (setjmp(errors.escape)) {
		jpeg_destroy_decompress(&cinfo);
		image_free(ret);
		return false;
	}
	for (int pass = 0; pass < 2; pass++) {
		jpeg_mem_src(&cinfo, data, size);
		(void)jpeg_read_header(&cinfo, TRUE);
		if (!image_wanted(&cinfo))
			longjmp(errors.escape, 1);
		if (pass == 0) {
			jvirt_barray_ptr *arrays = jpeg_read_coefficients(&cinfo);
			if (!image_frame(ret, &cinfo))
				longjmp(errors.escape, 1);
			ret->frame.shrink = shrink;
			image_places(ret, dealt);
			image_copy(ret, &cinfo, arrays);
		} else {
			image_pixels(ret, &cinfo);
		}
		jpeg_abort_decompress(&cinfo);
	}
	jpeg_destroy_decompress(&cinfo);
	return true;
}

static inline uint8_t *read_file(const char *path, size_t *ret_size)
{
	cleanup(close_file) FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0)
		return NULL;
	long size = ftell(file);
	rewind(file);
	uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
	assert_non_null(data);
	if (fread(data, 1, (size_t)size, file) != (size_t)size) {
		free(data);
		return NULL;
	}
	*ret_size = (size_t)size;
	return data;
}

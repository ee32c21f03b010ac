/* PNGs, through decode.h: valid ones (png_make.h), valid ones with changed bytes, and any bytes
 * after a signature.
 *
 * Expected: a valid PNG decodes, whole and in any region, to the pixels that it was made of. For
 * any other PNG: a region equals the same columns and rows of the whole; if the decoder accepts
 * a file, and libpng accepts it without a warning, the pixels are the same; the decoder obeys
 * its limits; and every refusal has a sentence. */
#include "fuzz/drive.h"
#include "fuzz/image.h"
#include "fuzz/png_make.h"
#include "fuzz/recipe.h"

#include <png.h>
#include <setjmp.h>

enum { INPUT_ROOM = 4096, SLACK = 64, POOL = 1 << 20 };

static struct png_made made;

static void side(struct recipe *recipe, uint32_t size, uint32_t *from, uint32_t *to)
{
	*from = (uint32_t)recipe_number(recipe, 2) % size;
	*to = *from + 1 + (uint32_t)recipe_number(recipe, 2) % (size - *from);
}

/* Checks that the region equals the same part of the whole. */
static void check_part(struct recipe *recipe, const uint8_t *bytes, size_t size)
{
	struct decode_region region;
	side(recipe, whole.info.width, &region.x0, &region.x1);
	side(recipe, whole.info.height, &region.y0, &region.y1);
	decode(&part, bytes, size, region, recipe_byte(recipe) & 1);
	if (whole.outcome == DECODE_OK)
		want(part.outcome == DECODE_OK, "the whole decodes, and a region does not");
	if (part.outcome || whole.rows < region.y1)
		return;
	const size_t width = region.x1 - region.x0;
	for (uint32_t y = region.y0; y < region.y1; y++)
		want(memcmp(part.rgb + (y - region.y0) * width * 3,
			     whole.rgb + ((size_t)y * whole.info.width + region.x0) * 3,
			     width * 3) == 0,
			"a region has other pixels than the whole");
}

static void check_pixels(const struct png_form *form, const uint8_t *row, uint32_t y)
{
	for (uint32_t x = 0; x < form->width; x++) {
		uint8_t rgb[3];
		png_pixel(form, row, x, rgb);
		want(memcmp(rgb, whole.rgb + ((size_t)y * form->width + x) * 3, 3) == 0,
			"not the pixel that was drawn");
	}
}

static void check_sound(void)
{
	want(whole.outcome == DECODE_OK, "a valid file is refused");
	want(whole.info.width == made.form.width && whole.info.height == made.form.height &&
			whole.info.progressive == made.interlaced &&
			whole.info.format == DECODE_PNG,
		"not the image that was drawn");
	for (uint32_t y = 0; y < made.form.height; y++)
		check_pixels(&made.form, made.raw[y], y);
}

/* ---- libpng by itself ---- */

struct library {
	jmp_buf escape;
	const uint8_t *bytes;
	size_t left;
	unsigned warnings;
};

static void library_error(png_structp lib, png_const_charp text)
{
	(void)text;
	longjmp(((struct library *)png_get_error_ptr(lib))->escape, 1);
}

static void library_warning(png_structp lib, png_const_charp text)
{
	(void)text;
	((struct library *)png_get_error_ptr(lib))->warnings++;
}

static void library_read(png_structp lib, png_bytep to, size_t bytes)
{
	struct library *library = png_get_io_ptr(lib);
	if (bytes > library->left)
		png_error(lib, "cut");
	memcpy(to, library->bytes, bytes);
	library->bytes += bytes;
	library->left -= bytes;
}

static void library_compare(const struct library *library, png_structp lib, png_infop info)
{
	struct png_form form = {.width = png_get_image_width(lib, info),
		.height = png_get_image_height(lib, info),
		.depth = png_get_bit_depth(lib, info),
		.color = png_get_color_type(lib, info)};
	png_colorp colors = NULL;
	int count = 0;
	if (form.color == PNG_COLOR_TYPE_PALETTE && png_get_PLTE(lib, info, &colors, &count))
		for (int i = 0; i < count; i++)
			memcpy(form.palette[i], &colors[i], 3);
	if (library->warnings)
		return;
	want(form.width == whole.info.width && form.height == whole.info.height,
		"another size than libpng's");
	png_bytepp rows = png_get_rows(lib, info);
	for (uint32_t y = 0; y < form.height; y++)
		check_pixels(&form, rows[y], y);
}

/* Checks that the pixels are the same as libpng's, if it reads the file without a warning. */
static void check_library(const uint8_t *bytes, size_t size)
{
	static struct library library;
	static png_structp lib;
	static png_infop info;
	library = (struct library){.bytes = bytes, .left = size};
	lib = png_create_read_struct(
		PNG_LIBPNG_VER_STRING, &library, library_error, library_warning);
	info = lib ? png_create_info_struct(lib) : NULL;
	want(info != NULL, "no memory");
	if (!setjmp(library.escape)) {
		png_set_user_limits(lib, PIXELS_MOST, PIXELS_MOST);
		png_set_read_fn(lib, &library, library_read);
		png_read_png(lib, info, PNG_TRANSFORM_IDENTITY, NULL);
		library_compare(&library, lib, info);
	}
	png_destroy_read_struct(&lib, &info, NULL);
}

/* ---- inputs ---- */

enum { HOW_RAW = 1, HOW_MEND = 2, HOW_SPOIL = 12 };

static void spoil(struct recipe *recipe, unsigned changes)
{
	for (; changes && made.size > 9; changes--) {
		const size_t at = 8 + recipe_number(recipe, 2) % (made.size - 8);
		const uint8_t how = recipe_byte(recipe);
		if (how == 255)
			made.size = at;
		else if (how & 1)
			made.bytes[at] ^= (uint8_t)(1 << how / 2 % 8);
		else
			made.bytes[at] = recipe_byte(recipe);
	}
}

/* Returns whether it is valid. */
static bool make(struct recipe *recipe)
{
	const uint8_t how = recipe_byte(recipe);
	if (how & HOW_RAW) {
		memcpy(made.bytes, "\x89PNG\r\n\x1a\n", 8);
		made.size = 8 + recipe_copy(recipe, made.bytes + 8, INPUT_ROOM);
	} else {
		png_make(&made, recipe);
		spoil(recipe, (how & HOW_SPOIL) / 4);
	}
	if (how & HOW_MEND)
		png_mend(made.bytes, made.size);
	return !(how & (HOW_RAW | HOW_SPOIL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recipe recipe = {data, size, 0};
	if (size > INPUT_ROOM)
		return 0;
	if (!decoder)
		prepare(POOL);
	const bool sound = make(&recipe);
	/* The file ends where its memory does, except for the slack. */
	uint8_t *exact = malloc(made.size + SLACK);
	want(exact != NULL, "no memory");
	memcpy(exact, made.bytes, made.size);
	memset(exact + made.size, 0xa5, SLACK);
	decode(&whole, exact, made.size, (struct decode_region){0}, true);
	if (sound)
		check_sound();
	else if (whole.outcome == DECODE_OK)
		check_library(exact, made.size);
	if (whole.info.width && (whole.rows || whole.outcome == DECODE_OK))
		check_part(&recipe, exact, made.size);
	free(exact);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	size_t size = 12 + draw(random, one_in(random, 8) ? 300 : 40);
	(void)room;
	(void)drive_noise(bytes, size, random);
	bytes[0] &= one_in(random, 16) ? 0xff : (uint8_t)~HOW_RAW;
	return size;
}

const struct drive fuzz_drive = {"fuzz_png", INPUT_ROOM, compose, NULL};
#endif

/* png_make: makes PNGs from choices (recipe.h): every color type and depth, interlaced or not,
 * filtered in every way, with ancillary chunks in between; and computes their pixels as RGB, by
 * Pillow's rules, from the raw rows. For fuzz_png.c. Not thread-safe. */
#pragma once

#include "fuzz/number.h"
#include "fuzz/random.h"
#include "fuzz/recipe.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <zlib.h>

enum { PNG_MAKE_SIDE = 40, PNG_MAKE_ROOM = 64 << 10, PNG_MAKE_STRIDE = PNG_MAKE_SIDE * 8 };

/* The format of pixels, and their colors. */
struct png_form {
	uint32_t width, height;
	uint8_t depth, color; /* as in IHDR */
	uint8_t palette[256][3]; /* missing colors are black */
};

struct png_made {
	struct png_form form;
	bool interlaced;
	uint8_t raw[PNG_MAKE_SIDE][PNG_MAKE_STRIDE]; /* rows before filtering, not interlaced */
	size_t size;
	uint8_t bytes[PNG_MAKE_ROOM];
};

static inline unsigned png_channels(const struct png_form *form)
{
	static const uint8_t channels[7] = {1, 0, 3, 1, 2, 0, 4};
	return channels[form->color];
}

static inline unsigned png_sample(const uint8_t *row, size_t sample, unsigned depth)
{
	if (depth == 16)
		return (unsigned)row[2 * sample] << 8 | row[2 * sample + 1];
	const size_t bit = sample * depth;
	return row[bit / 8] >> (8 - depth - bit % 8) & ((1u << depth) - 1);
}

/* The result of Pillow's convert("RGB") for pixel x of a raw row. */
static inline void png_pixel(
	const struct png_form *form, const uint8_t *row, uint32_t x, uint8_t ret[3])
{
	const unsigned channels = png_channels(form), depth = form->depth;
	for (unsigned c = 0; c < 3; c++) {
		const size_t at =
			(size_t)x * channels + (form->color & 2 && form->color != 3 ? c : 0);
		const unsigned value = png_sample(row, at, depth);
		if (form->color == 3)
			ret[c] = form->palette[value][c];
		else if (depth == 16 && form->color == 0)
			ret[c] = (uint8_t)UTIL_MIN(value, 255u);
		else if (depth == 16)
			ret[c] = (uint8_t)(value >> 8);
		else
			ret[c] = (uint8_t)(value * (255 / ((1u << depth) - 1)));
	}
}

/* ---- chunks ---- */

static inline void png_chunk(
	struct png_made *made, const char *name, const uint8_t *data, size_t size)
{
	if (size + 12 > PNG_MAKE_ROOM - made->size)
		return;
	uint8_t *to = made->bytes + made->size;
	(void)number_big(to, (uint32_t)size, 4);
	memcpy(to + 4, name, 4);
	if (size)
		memcpy(to + 8, data, size);
	(void)number_big(to + 8 + size, (uint32_t)crc32(0, to + 4, (uInt)size + 4), 4);
	made->size += size + 12;
}

/* Gives every chunk whose length fits its checksum. */
static inline void png_mend(uint8_t *bytes, size_t size)
{
	for (size_t at = 8; at + 12 <= size;) {
		const uint64_t length = (uint64_t)bytes[at] << 24 | bytes[at + 1] << 16 |
					bytes[at + 2] << 8 | bytes[at + 3];
		if (length > size - at - 12)
			return;
		(void)number_big(bytes + at + 8 + length,
			(uint32_t)crc32(0, bytes + at + 4, (uInt)length + 4), 4);
		at += length + 12;
	}
}

static inline size_t png_deflate(
	const uint8_t *from, size_t size, uint8_t *to, size_t room, int level)
{
	static z_stream streams[3];
	static bool ready[3];
	z_stream *z = &streams[level];
	if (!ready[level])
		want(deflateInit2(z, level * 3, Z_DEFLATED, 9, 1, Z_DEFAULT_STRATEGY) == Z_OK,
			"no memory");
	ready[level] = true;
	want(deflateReset(z) == Z_OK, "zlib");
	z->next_in = (z_const Bytef *)(uintptr_t)from;
	z->avail_in = (uInt)size;
	z->next_out = to;
	z->avail_out = (uInt)room;
	want(deflate(z, Z_FINISH) == Z_STREAM_END, "a stream does not fit");
	return room - z->avail_out;
}

/* Chunks that Pillow looks into, and others. A valid image with any of them decodes. */
static inline void png_ancillary(struct png_made *made, struct recipe *recipe)
{
	static const char *const names[] = {
		"tEXt", "gAMA", "pHYs", "tIME", "prVt", "sRGB", "bKGD", "zTXt", "iTXt", "iCCP"};
	uint8_t data[256] = "key";
	const uint8_t which = recipe_byte(recipe) % UTIL_COUNT(names);
	size_t size = 4 + recipe_byte(recipe) % 64;
	for (size_t i = 4; i < size; i++)
		data[i] = recipe_byte(recipe);
	if (which == 1 || which == 2 || which == 5)
		size = (const uint8_t[]){0, 4, 9, 0, 0, 1}[which];
	if (which == 7 || which == 9) {
		data[4] = 0;
		size = 5 +
		       png_deflate((const uint8_t *)"some text", 9, data + 5, sizeof data - 5, 1);
	}
	if (which == 8)
		size = 3; /* no zero byte: passed over */
	png_chunk(made, names[which], data, size);
}

static inline void png_palette(struct png_made *made, struct recipe *recipe, struct random *random)
{
	uint8_t colors[256][3], clear[256];
	const size_t count = 1 + recipe_byte(recipe) % 256u;
	memset(made->form.palette, 0, sizeof made->form.palette);
	for (size_t i = 0; i < count; i++) {
		const uint64_t value = random_64(random);
		memcpy(colors[i], &value, 3);
		clear[i] = (uint8_t)(value >> 24);
	}
	memcpy(made->form.palette, colors, count * 3);
	png_chunk(made, "PLTE", colors[0], count * 3);
	if (recipe_byte(recipe) & 1)
		png_chunk(made, "tRNS", clear, count);
}

/* ---- rows ---- */

static inline uint8_t png_paeth(int a, int b, int c)
{
	const int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
	return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

/* Filters a row against the one above; the same channel is `pixel` bytes before. */
static inline void png_filter(uint8_t *to, uint8_t type, const uint8_t *row, const uint8_t *above,
	size_t bytes, size_t pixel)
{
	to[0] = type;
	for (size_t i = 0; i < bytes; i++) {
		const uint8_t a = i >= pixel ? row[i - pixel] : 0, b = above[i];
		const uint8_t c = i >= pixel ? above[i - pixel] : 0;
		const uint8_t guess[] = {0, a, b, (uint8_t)((a + b) / 2), png_paeth(a, b, c)};
		to[1 + i] = (uint8_t)(row[i] - guess[type]);
	}
}

/* Pixel x of a row becomes pixel `at` of another. */
static inline void png_move(
	const struct png_form *form, uint8_t *to, uint32_t at, const uint8_t *from, uint32_t x)
{
	const unsigned bits = png_channels(form) * form->depth;
	if (bits >= 8) {
		memcpy(to + (size_t)at * bits / 8, from + (size_t)x * bits / 8, bits / 8);
		return;
	}
	const unsigned shift = 8 - bits - at * bits % 8;
	to[at * bits / 8] |= (uint8_t)(png_sample(from, x, form->depth) << shift);
}

/* One of the passes: pixels (x0 + i dx, y0 + j dy). */
static inline size_t png_pass(
	const struct png_made *made, const uint8_t pass[4], struct random *random, uint8_t *to)
{
	const struct png_form *form = &made->form;
	const unsigned bits = png_channels(form) * form->depth;
	uint8_t rows[2][PNG_MAKE_STRIDE] = {{0}};
	size_t size = 0;
	if (form->width <= pass[0])
		return 0;
	const uint32_t width = (form->width - pass[0] + pass[2] - 1) / pass[2];
	const size_t bytes = ((size_t)width * bits + 7) / 8;
	for (uint32_t y = pass[1]; y < form->height; y += pass[3]) {
		memcpy(rows[0], rows[1], sizeof rows[0]);
		memset(rows[1], 0, sizeof rows[1]);
		for (uint32_t x = 0; x < width; x++)
			png_move(form, rows[1], x, made->raw[y], pass[0] + x * pass[2]);
		png_filter(to + size, (uint8_t)draw(random, 5), rows[1], rows[0], bytes,
			(bits + 7) / 8);
		size += 1 + bytes;
	}
	return size;
}

static inline size_t png_rows(const struct png_made *made, struct random *random, uint8_t *to)
{
	static const uint8_t all[4] = {0, 0, 1, 1};
	static const uint8_t passes[7][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
		{0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}};
	size_t size = 0;
	if (!made->interlaced)
		return png_pass(made, all, random, to);
	for (size_t i = 0; i < UTIL_COUNT(passes); i++)
		size += png_pass(made, passes[i], random, to + size);
	return size;
}

static inline void png_data(struct png_made *made, struct recipe *recipe, struct random *random)
{
	static uint8_t plain[PNG_MAKE_ROOM / 2], packed[PNG_MAKE_ROOM / 2 + 1024];
	const uint8_t how = recipe_byte(recipe);
	size_t size = png_rows(made, random, plain);
	size = png_deflate(plain, size, packed, sizeof packed, how % 3);
	const size_t piece = how & 0x80 ? size : 12 + (how & 0x3f) * (size_t)4;
	for (size_t at = 0; at < size; at += piece) {
		if (how & 0x40 && at)
			png_chunk(made, "IDAT", packed, 0);
		png_chunk(made, "IDAT", packed + at, UTIL_MIN(piece, size - at));
	}
}

static inline void png_header(struct png_made *made, struct recipe *recipe, struct random *random)
{
	static const uint8_t forms[][2] = {{1, 0}, {2, 0}, {4, 0}, {8, 0}, {16, 0}, {8, 2}, {16, 2},
		{1, 3}, {2, 3}, {4, 3}, {8, 3}, {8, 4}, {16, 4}, {8, 6}, {16, 6}};
	const uint8_t form = recipe_byte(recipe);
	uint8_t data[13] = {0};
	made->form.depth = forms[form % UTIL_COUNT(forms)][0];
	made->form.color = forms[form % UTIL_COUNT(forms)][1];
	made->form.width = 1 + recipe_byte(recipe) % PNG_MAKE_SIDE;
	made->form.height = 1 + recipe_byte(recipe) % PNG_MAKE_SIDE;
	made->interlaced = form >= 128;
	for (uint32_t y = 0; y < made->form.height; y++)
		for (size_t i = 0; i < PNG_MAKE_STRIDE; i += 8) {
			const uint64_t value = random_64(random);
			memcpy(made->raw[y] + i, &value, 8);
		}
	(void)number_big(data, made->form.width, 4);
	(void)number_big(data + 4, made->form.height, 4);
	data[8] = made->form.depth;
	data[9] = made->form.color;
	data[12] = made->interlaced;
	memcpy(made->bytes, "\x89PNG\r\n\x1a\n", 8);
	made->size = 8;
	png_chunk(made, "IHDR", data, sizeof data);
}

/* The image is the first frame of an animation, or before it; `number` counts its chunks. */
static inline void png_frame(struct png_made *made, uint32_t number)
{
	uint8_t data[26] = {0};
	(void)number_big(data, number, 4);
	(void)number_big(data + 4, made->form.width, 4);
	(void)number_big(data + 8, made->form.height, 4);
	png_chunk(made, "fcTL", data, sizeof data);
}

static inline void png_animation(struct png_made *made, uint8_t how)
{
	uint8_t data[8] = {0, 0, 0, (uint8_t)(1 + how % 3)};
	png_chunk(made, "acTL", data, sizeof data);
	if (how & 4)
		png_frame(made, 0);
}

static inline void png_animation_rest(struct png_made *made, uint8_t how)
{
	uint8_t data[16] = "";
	uint32_t number = how & 4 ? 1 : 0;
	png_frame(made, number);
	(void)number_big(data, number + 1, 4);
	png_chunk(made, "fdAT", data, 4 + how % 12);
}

/* A valid PNG. */
static inline void png_make(struct png_made *made, struct recipe *recipe)
{
	struct random random = {recipe_number(recipe, 2)};
	png_header(made, recipe, &random);
	for (uint8_t more = recipe_byte(recipe) % 4; more; more--)
		png_ancillary(made, recipe);
	const uint8_t animated = recipe_byte(recipe);
	if (animated < 32)
		png_animation(made, animated);
	if (made->form.color == 3)
		png_palette(made, recipe, &random);
	png_data(made, recipe, &random);
	if (animated < 32)
		png_animation_rest(made, animated);
	for (uint8_t more = recipe_byte(recipe) % 4; more > 1; more--)
		png_ancillary(made, recipe);
	png_chunk(made, "IEND", NULL, 0);
}

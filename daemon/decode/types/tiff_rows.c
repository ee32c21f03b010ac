/* tiff_rows: see tiff_rows.h. What each kind of pixels becomes is what Pillow 13.0.0 makes of it
 * (libImaging/Unpack.c and Convert.c): colors of 16 bits lose their lower byte, gray of more than 8
 * bits is a number that is clipped at 255. */
#include "decode/types/tiff_rows.h"

#include "base/util.h"
#include "decode/jpeg/kernels/planes_kernels.h"

#include <string.h>

enum { WHITE = 255 };

static uint8_t clip(int64_t value)
{
	return (uint8_t)UTIL_MIN(UTIL_MAX(value, (int64_t)0), (int64_t)WHITE);
}

static uint8_t reverse(uint8_t byte)
{
	unsigned value = byte;
	value = (value & 0x55u) << 1 | (value >> 1 & 0x55u);
	value = (value & 0x33u) << 2 | (value >> 2 & 0x33u);
	return (uint8_t)(value << 4 | value >> 4);
}

/* The value of a sample of 1, 2, 4 or 8 bits. */
static unsigned small_value(const struct tiff_layout *layout, const uint8_t *from, uint32_t x)
{
	uint64_t bit = (uint64_t)x * layout->bits * (layout->separate ? 1 : layout->samples);
	uint8_t byte = from[bit / 8];
	if (layout->reversed)
		byte = reverse(byte);
	return (unsigned)byte >> (8 - layout->bits - bit % 8) & ((1u << layout->bits) - 1);
}

/* The first plane's samples of up to 8 bits through a table for each color. */
static void through_tables(const struct tiff_layout *layout, const uint8_t *from, uint32_t x,
	uint32_t count, const uint8_t *const table[DECODE_PLANES],
	uint8_t *const rgb[DECODE_PLANES])
{
	for (uint32_t i = 0; i < count; i++) {
		unsigned value = small_value(layout, from, x + i);
		for (int c = 0; c < DECODE_PLANES; c++)
			rgb[c][i] = table[c][value];
	}
}

/* Gray as it is. */
static bool is_plain_gray(const struct tiff_layout *layout)
{
	return layout->bits == 8 && !layout->inverted && !layout->reversed &&
	       (layout->samples == 1 || layout->separate);
}

static bool is_plain_rgb(const struct tiff_layout *layout)
{
	return layout->pixel == TIFF_AS_RGB && layout->bits == 8 &&
	       layout->samples == DECODE_PLANES && !layout->separate && !layout->reversed;
}

static void gray(const struct tiff_layout *layout, const uint8_t *from, uint32_t x, uint32_t count,
	uint8_t *const rgb[DECODE_PLANES])
{
	uint8_t table[TIFF_COLORS];
	const uint8_t *const tables[DECODE_PLANES] = {table, table, table};
	const unsigned most = (1u << layout->bits) - 1;
	if (is_plain_gray(layout)) {
		for (int c = 0; c < DECODE_PLANES; c++)
			memcpy(rgb[c], from + x, count);
		return;
	}
	for (unsigned i = 0; i <= most; i++)
		table[i] = (uint8_t)((layout->inverted ? most - i : i) * (WHITE / most));
	through_tables(layout, from, x, count, tables, rgb);
}

static uint8_t number_at(const struct tiff_layout *layout, const uint8_t *from, uint32_t x)
{
	uint8_t bytes[4] = {0};
	uint32_t value = 0;
	const unsigned wide = layout->bits / 8;
	if (layout->bits == 12) {
		const uint8_t *pair = from + (uint64_t)x / 2 * 3;
		return clip(x % 2 ? (pair[1] & 15) << 8 | pair[2] : pair[0] << 4 | pair[1] >> 4);
	}
	memcpy(bytes, from + (size_t)x * wide, wide);
	for (unsigned i = 0; i < wide; i++) {
		uint8_t byte = bytes[layout->big ? i : wide - 1 - i];
		value = value << 8 | (layout->reversed ? reverse(byte) : byte);
	}
	if (layout->pixel == TIFF_AS_FLOAT) {
		float number;
		memcpy(&number, &value, sizeof(number));
		/* Not a number: 0. */
		return number > 0 ? (uint8_t)UTIL_MIN(number, (float)WHITE) : 0;
	}
	if (layout->is_signed)
		return clip(wide == 2 ? (int64_t)(int16_t)value : (int64_t)(int32_t)value);
	return clip(value);
}

static void numbers(const struct tiff_layout *layout, const uint8_t *from, uint32_t x,
	uint32_t count, uint8_t *const rgb[DECODE_PLANES])
{
	for (uint32_t i = 0; i < count; i++)
		rgb[0][i] = number_at(layout, from, x + i);
	for (int c = 1; c < DECODE_PLANES; c++)
		memcpy(rgb[c], rgb[0], count);
}

static void palette(const struct tiff_layout *layout, const uint8_t *from, uint32_t x,
	uint32_t count, uint8_t *const rgb[DECODE_PLANES])
{
	const uint8_t *const tables[DECODE_PLANES] = {
		layout->palette[0], layout->palette[1], layout->palette[2]};
	through_tables(layout, from, x, count, tables, rgb);
}

/* Where the samples of a pixel are: of those of 16 bits the high byte. */
struct colors {
	const uint8_t *from[TIFF_PLANES];
	size_t step; /* to the next pixel */
	unsigned count;
};

static struct colors find_colors(const struct tiff_layout *layout,
	const uint8_t *const plane[TIFF_PLANES], uint32_t x, unsigned count)
{
	const size_t wide = layout->bits / 8;
	struct colors colors = {.step = wide * (layout->separate ? 1 : layout->samples)};
	for (unsigned c = 0; c < count; c++)
		colors.from[c] = (layout->separate ? plane[c] : plane[0] + c * wide) +
				 x * colors.step + (layout->big ? 0 : wide - 1);
	return colors;
}

static void rgb_colors(const struct colors *colors, uint32_t count,
	uint8_t *const rgb[DECODE_PLANES], bool reversed)
{
	for (int c = 0; c < DECODE_PLANES; c++) {
		const uint8_t *from = colors->from[c];
		for (uint32_t i = 0; i < count; i++, from += colors->step)
			rgb[c][i] = reversed ? reverse(*from) : *from;
	}
}

static void premultiplied(
	const struct colors *colors, uint32_t count, uint8_t *const rgb[DECODE_PLANES])
{
	for (int c = 0; c < DECODE_PLANES; c++) {
		const uint8_t *from = colors->from[c], *alpha = colors->from[3];
		for (uint32_t i = 0; i < count; i++, from += colors->step, alpha += colors->step)
			rgb[c][i] = *alpha ? clip(*from * WHITE / *alpha) : 0;
	}
}

static void cmyk(const struct colors *colors, uint32_t count, uint8_t *const rgb[DECODE_PLANES])
{
	for (int c = 0; c < DECODE_PLANES; c++) {
		const uint8_t *from = colors->from[c], *black = colors->from[3];
		for (uint32_t i = 0; i < count; i++, from += colors->step, black += colors->step) {
			int rest = WHITE - *black, part = *from * rest + 128;
			rgb[c][i] = clip(rest - ((part >> 8) + part) / 256);
		}
	}
}

/* By JFIF's formulas, with 6 bits after the point, terms rounded as Pillow's tables are. */
static int term(double factor, int value)
{
	return (int)(factor * (value - 128) * 64 + 0.5);
}

static void ycbcr(const struct colors *colors, uint32_t count, uint8_t *const rgb[DECODE_PLANES])
{
	for (uint32_t i = 0; i < count; i++) {
		int y = colors->from[0][i * colors->step];
		int cb = colors->from[1][i * colors->step], cr = colors->from[2][i * colors->step];
		rgb[0][i] = clip(y + (term(1.40200, cr) >> 6));
		rgb[1][i] = clip(y + ((term(-0.34414, cb) + term(-0.71414, cr)) >> 6));
		rgb[2][i] = clip(y + (term(1.77200, cb) >> 6));
	}
}

void tiff_rows_unpack(const struct tiff_layout *layout, const struct planes_kernels *kernels,
	const uint8_t *const plane[TIFF_PLANES], uint32_t x, uint32_t count,
	uint8_t *const rgb[DECODE_PLANES])
{
	struct colors colors;
	if (is_plain_rgb(layout)) {
		kernels->split(rgb, plane[0] + (size_t)x * DECODE_PLANES, count);
		return;
	}
	switch (layout->pixel) {
	case TIFF_AS_GRAY:
		gray(layout, plane[0], x, count, rgb);
		break;
	case TIFF_AS_NUMBER:
	case TIFF_AS_FLOAT:
		numbers(layout, plane[0], x, count, rgb);
		break;
	case TIFF_AS_PALETTE:
		palette(layout, plane[0], x, count, rgb);
		break;
	case TIFF_AS_RGB:
		colors = find_colors(layout, plane, x, 3);
		rgb_colors(&colors, count, rgb, layout->reversed);
		break;
	case TIFF_AS_PREMULTIPLIED:
		colors = find_colors(layout, plane, x, 4);
		premultiplied(&colors, count, rgb);
		break;
	case TIFF_AS_CMYK:
		colors = find_colors(layout, plane, x, 4);
		cmyk(&colors, count, rgb);
		break;
	case TIFF_AS_YCBCR:
		colors = find_colors(layout, plane, x, 3);
		ycbcr(&colors, count, rgb);
		break;
	}
}

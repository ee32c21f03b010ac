/* color: see color.h. The kernels compute what Pillow's ImageEnhance, ImageOps and conversions
 * make of a pixel; this file computes what is the same for all pixels of an image. Pure. */
#include "augment/color.h"

#include "augment/kernels/kernels.h"
#include "base/util.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static size_t color_pixels(const struct op_image *image)
{
	return (size_t)image->width * image->height;
}

#define COLOR_PIECE ((size_t)1 << 22)

/* ImageEnhance.Contrast: int(mean of L + 0.5), the mean a quotient of doubles. */
static uint8_t contrast_level(const struct augment_kernels *k, const struct op_image *from)
{
	size_t pixels = color_pixels(from);
	uint64_t light = 0;
	/* In pieces, since kernels sum in 32 bits. */
	for (size_t at = 0; at < pixels; at += COLOR_PIECE)
		light += k->light(from->pixels + 3 * at, UTIL_MIN(pixels - at, COLOR_PIECE));
	return (uint8_t)((double)light / (double)pixels + 0.5);
}

/* What torchvision's adjust_hue adds to H: np.int32(hue_factor * 255).astype(np.uint8). */
static uint8_t hue_turn(double factor)
{
	return (uint8_t)(int32_t)(factor * 255);
}

/* The first level that changes: the first integer not below the threshold. */
static uint32_t solarize_least(double threshold)
{
	return threshold <= 0 ? 0 : threshold > 255 ? AUGMENT_LEVELS : (uint32_t)ceil(threshold);
}

/* ImageOps.autocontrast without cutoff. */
static void autocontrast_table(uint8_t *table, uint8_t least, uint8_t most)
{
	bool flat = most <= least;
	double scale = flat ? 1.0 : 255.0 / (most - least), offset = flat ? 0.0 : -least * scale;
	for (int i = 0; i < AUGMENT_LEVELS; i++) {
		int level = (int)(i * scale + offset);
		table[i] = (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
	}
}

static void color_autocontrast(
	const struct augment_kernels *k, const struct op_image *from, uint8_t *to)
{
	uint8_t table[3][AUGMENT_LEVELS], least[3], most[3];
	k->extremes(from->pixels, color_pixels(from), least, most);
	for (int c = 0; c < 3; c++)
		autocontrast_table(table[c], least[c], most[c]);
	k->map(to, from->pixels, color_pixels(from), table);
}

/* ImageOps.equalize; all levels except the brightest share the 255 steps. */
static void equalize_table(uint8_t *table, const uint32_t count[AUGMENT_LEVELS], size_t pixels)
{
	int brightest = AUGMENT_LEVELS - 1;
	while (!count[brightest])
		brightest--;
	size_t step = (pixels - count[brightest]) / 255, sum = step / 2;
	for (int i = 0; i < AUGMENT_LEVELS; i++) {
		size_t level = step ? sum / step : (size_t)i;
		table[i] = (uint8_t)UTIL_MIN(level, 255);
		sum += count[i];
	}
}

static void color_equalize(
	const struct augment_kernels *k, const struct op_image *from, uint8_t *to)
{
	uint32_t count[3][AUGMENT_LEVELS] = {0};
	uint8_t table[3][AUGMENT_LEVELS];
	size_t pixels = color_pixels(from);
	for (size_t i = 0; i < 3 * pixels; i += 3)
		for (int c = 0; c < 3; c++)
			count[c][from->pixels[i + c]]++;
	for (int c = 0; c < 3; c++)
		equalize_table(table[c], count[c], pixels);
	k->map(to, from->pixels, pixels, table);
}

/* timm's solarize_add: values from 128 on stay. */
static void color_solarize_add(
	const struct augment_kernels *k, const struct op_image *from, uint8_t *to, unsigned added)
{
	uint8_t table[3][AUGMENT_LEVELS];
	assert(added <= 128);
	for (unsigned i = 0; i < AUGMENT_LEVELS; i++)
		table[0][i] = (uint8_t)(i < 128 ? UTIL_MIN(i + added, 255u) : i);
	memcpy(table[1], table[0], sizeof table[0]);
	memcpy(table[2], table[0], sizeof table[0]);
	k->map(to, from->pixels, color_pixels(from), table);
}

void color_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	const struct augment_kernels *k = apply->kernels;
	size_t pixels = color_pixels(from), bytes = 3 * pixels;
	switch (op->kind) {
	case OP_BRIGHTNESS:
		k->blend(to, from->pixels, bytes, 0, (float)op->amount);
		break;
	case OP_CONTRAST:
		k->blend(to, from->pixels, bytes, contrast_level(k, from), (float)op->amount);
		break;
	case OP_SATURATION:
		k->saturate(to, from->pixels, pixels, (float)op->amount);
		break;
	case OP_HUE:
		k->hue(to, from->pixels, pixels, hue_turn(op->amount));
		break;
	case OP_GRAYSCALE:
		k->gray(to, from->pixels, pixels);
		break;
	case OP_INVERT:
		k->fold(to, from->pixels, bytes, 0, UINT8_MAX);
		break;
	case OP_POSTERIZE:
		k->fold(to, from->pixels, bytes, AUGMENT_LEVELS,
			(uint8_t)(UINT8_MAX << (8 - (int)op->amount)));
		break;
	case OP_SOLARIZE:
		k->fold(to, from->pixels, bytes, solarize_least(op->amount), UINT8_MAX);
		break;
	case OP_SOLARIZE_ADD:
		color_solarize_add(k, from, to, (unsigned)op->amount);
		break;
	case OP_EQUALIZE:
		color_equalize(k, from, to);
		break;
	case OP_AUTOCONTRAST:
		color_autocontrast(k, from, to);
		break;
	default:
		assert(!"an op on colors");
	}
}

/* kernels_c: plain C for the build's baseline processor; see kernels.h. */
#include "augment/kernels/kernels_body.h"
#include "augment/kernels/kernels_place_body.h"

#include <math.h>

/* ITU-R 601-2 in 16 bits (Pillow's Convert.c: L24). */
static inline uint8_t c_light_one(const uint8_t *rgb)
{
	return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

static void c_gray(uint8_t *to, const uint8_t *from, size_t pixels)
{
	for (size_t i = 0; i < pixels; i++, to += 3, from += 3)
		memset(to, c_light_one(from), 3);
}

static void c_saturate(uint8_t *to, const uint8_t *from, size_t pixels, float amount)
{
	for (size_t i = 0; i < pixels; i++, to += 3, from += 3) {
		uint8_t light = c_light_one(from);
		for (int c = 0; c < 3; c++)
			to[c] = body_blend_one(light, from[c], amount);
	}
}

static uint64_t c_light(const uint8_t *from, size_t pixels)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < pixels; i++, from += 3)
		sum += c_light_one(from);
	return sum;
}

static void c_extremes(
	const uint8_t *from, size_t pixels, uint8_t ret_least[3], uint8_t ret_most[3])
{
	memset(ret_least, UINT8_MAX, 3);
	memset(ret_most, 0, 3);
	for (size_t i = 0; i < pixels; i++, from += 3)
		for (int c = 0; c < 3; c++) {
			ret_least[c] = from[c] < ret_least[c] ? from[c] : ret_least[c];
			ret_most[c] = from[c] > ret_most[c] ? from[c] : ret_most[c];
		}
}

/* --- hue: Pillow's Convert.c, which stores 32-bit floats and computes in 64 bits within an
 * expression that has a literal --- */

struct hsv {
	uint8_t h, s, v;
};

static inline uint8_t c_clip(int value)
{
	return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* The hue in sixths of the circle, starting at -1. */
static float c_sixths(const uint8_t *rgb, int most, float range)
{
	float red = (float)(most - rgb[0]) / range;
	float green = (float)(most - rgb[1]) / range;
	float blue = (float)(most - rgb[2]) / range;
	if (rgb[0] == most)
		return blue - green;
	if (rgb[1] == most)
		return (float)(2.0 + red - blue);
	return (float)(4.0 + green - red);
}

static struct hsv c_hsv(const uint8_t *rgb)
{
	int most = rgb[0] > rgb[1] ? rgb[0] : rgb[1], least = rgb[0] < rgb[1] ? rgb[0] : rgb[1];
	most = rgb[2] > most ? rgb[2] : most;
	least = rgb[2] < least ? rgb[2] : least;
	if (most == least)
		return (struct hsv){0, 0, (uint8_t)most};
	float range = (float)(most - least);
	float saturation = range / (float)most;
	float hue = (float)fmod(c_sixths(rgb, most, range) / 6.0 + 1.0, 1.0);
	return (struct hsv){
		c_clip((int)(hue * 255.0)), c_clip((int)(saturation * 255.0)), (uint8_t)most};
}

static void c_rgb(uint8_t *to, struct hsv hsv)
{
	/* Which of v, p, q, t each channel is, for each sixth. */
	static const uint8_t turns[6][3] = {
		{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
	int sixth = (int)floor((float)hsv.h * 6.0 / 255.0);
	float part = (float)((float)hsv.h * 6.0 / 255.0 - (float)sixth);
	float saturation = (float)((float)hsv.s / 255.0), value = hsv.v;
	const uint8_t vpqt[4] = {hsv.v, c_clip((int)round(value * (1.0 - saturation))),
		c_clip((int)round(value * (1.0 - saturation * part))),
		c_clip((int)round(value * (1.0 - saturation * (1.0 - part))))};
	for (int c = 0; c < 3; c++)
		to[c] = vpqt[turns[sixth % 6][c]];
}

static void c_hue(uint8_t *to, const uint8_t *from, size_t pixels, uint8_t turn)
{
	for (size_t i = 0; i < pixels; i++, to += 3, from += 3) {
		struct hsv hsv = c_hsv(from);
		hsv.h = (uint8_t)(hsv.h + turn);
		c_rgb(to, hsv);
	}
}

const struct augment_kernels augment_kernels_c = {
	.name = "c",
	.blend = body_blend,
	.fold = body_fold,
	.map = body_map,
	.gray = c_gray,
	.saturate = c_saturate,
	.hue = c_hue,
	.light = c_light,
	.extremes = c_extremes,
	.sharpen = body_sharpen,
	.blur_down = body_blur_down,
	.blur_across = body_blur_across,
	.box_down = body_box_down,
	.box_across = body_box_across,
	.walk = body_walk,
	.bilinear = body_bilinear,
	.bicubic = body_bicubic,
};

/* filter: see filter.h. Pure except for the scratch. */
#include "augment/filter.h"

#include "augment/kernels/kernels.h"
#include "base/util.h"
#include "proto/elementary.h"

#include <assert.h>
#include <math.h>

/* ---- OP_SHARPNESS: Pillow does not change the pixels at the edges ---- */

enum { SMOOTH_SIDE = 3 };

static void filter_sharpness(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	size_t pitch = (size_t)3 * from->width;
	memcpy(to, from->pixels, pitch * from->height);
	if (from->width < SMOOTH_SIDE || from->height < SMOOTH_SIDE)
		return;
	for (size_t y = 1; y + 1 < from->height; y++) {
		const uint8_t *row = from->pixels + y * pitch;
		apply->kernels->sharpen(to + y * pitch + 3,
			(const uint8_t *const[]){row - pitch, row, row + pitch}, pitch - 6,
			(float)op->amount);
	}
}

/* ---- OP_BLUR ---- */

/* The source of a position at any distance, by mirroring that does not repeat the outermost
 * pixels. */
static uint32_t blur_mirror(int64_t place, uint32_t side)
{
	int64_t period = side > 1 ? 2 * ((int64_t)side - 1) : 1;
	place %= period;
	place += place < 0 ? period : 0;
	return (uint32_t)(place < side ? place : period - place);
}

/* Far from the center the value is 0, and elementary_exp does not accept the numbers that a
 * small sigma makes there. */
enum { BLUR_NOTHING = -800 };

/* exp(-x^2 / (2 sigma^2)) at the integers around 0, normalized to a sum of 1. */
static void blur_weights(float *weight, uint32_t taps, double sigma)
{
	double sum = 0;
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t t = 0; t < taps; t++) {
			double x = (t - (taps - 1) / 2.0) / sigma, power = -x * x / 2,
			       value = power < BLUR_NOTHING ? 0 : elementary_exp(power);
			sum += pass ? 0 : value;
			weight[t] = (float)(value / sum);
		}
}

/* The memory of one blur, taken from the scratch. */
struct blur {
	const uint8_t **rows;
	float *down, *across, *line;
};

static uint64_t blur_scratch(uint32_t width, uint32_t height)
{
	uint64_t taps = (uint64_t)2 * UTIL_MAX(width, height), line = 3 * (width + taps);
	return taps * (sizeof(uint8_t *) + 2 * sizeof(float)) + line * sizeof(float);
}

static struct blur blur_cut(void *scratch, const struct op *op)
{
	struct blur blur = {.rows = scratch};
	blur.down = (float *)(blur.rows + op->kernel[1]);
	blur.across = blur.down + op->kernel[1];
	blur.line = blur.across + op->kernel[0];
	return blur;
}

/* Extends the line to both sides by mirroring. */
static void blur_extend(float *line, uint32_t width, uint32_t half)
{
	float *first = line + (size_t)3 * half;
	for (uint32_t i = 1; i <= half; i++) {
		memcpy(first - (size_t)3 * i, first + (size_t)3 * blur_mirror(-(int64_t)i, width),
			3 * sizeof(*line));
		memcpy(first + 3 * ((size_t)width - 1 + i),
			first + (size_t)3 * blur_mirror((int64_t)width - 1 + i, width),
			3 * sizeof(*line));
	}
}

static void filter_blur(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	struct blur blur = blur_cut(apply->scratch, op);
	size_t pitch = (size_t)3 * from->width;
	uint32_t half[2] = {op->kernel[0] / 2, op->kernel[1] / 2};
	blur_weights(blur.across, op->kernel[0], op->sigma[0]);
	blur_weights(blur.down, op->kernel[1], op->sigma[1]);
	for (uint32_t y = 0; y < from->height; y++) {
		for (uint32_t t = 0; t < op->kernel[1]; t++)
			blur.rows[t] = from->pixels +
				       pitch * blur_mirror((int64_t)y + t - half[1], from->height);
		apply->kernels->blur_down(blur.line + (size_t)3 * half[0], blur.rows, blur.down,
			op->kernel[1], pitch);
		blur_extend(blur.line, from->width, half[0]);
		apply->kernels->blur_across(
			to + y * pitch, blur.line, blur.across, op->kernel[0], pitch);
	}
}

/* ---- OP_PILLOW_BLUR: three box blurs in each direction (Pillow's BoxBlur.c), whose boxes end
 * inside pixels; the outermost pixels extend the image ---- */

enum { BOX_PASSES = 3, BOX_BITS = 24 };

/* The radius of the box for a Gaussian blur (Gwosdek et al.: "Theoretical foundations of Gaussian
 * convolution by extended box filtering", SSVM 2011), in floats as in Pillow. */
static float box_radius(float sigma)
{
	float variance = sigma * sigma / BOX_PASSES;
	float length = (float)sqrt(12.0 * variance + 1.0);
	float whole = (float)floor((length - 1.0) / 2.0);
	float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
	part /= 6 * (variance - (whole + 1) * (whole + 1));
	return whole + part;
}

static struct augment_box box_make(float radius)
{
	struct augment_box box = {.radius = (int)radius};
	box.weight = (uint32_t)((float)(1u << BOX_BITS) / (radius * 2 + 1));
	box.edge_weight = ((1u << BOX_BITS) - (uint32_t)(box.radius * 2 + 1) * box.weight) / 2;
	return box;
}

static uint32_t box_clamp(int64_t place, uint32_t side)
{
	return place < 0 ? 0 : (uint32_t)UTIL_MIN(place, (int64_t)side - 1);
}

/* The sums of the box around the position before the first: of a pixel (3 values), or of a row. */
static void box_begin(uint32_t *sums, const uint8_t *from, size_t bytes, uint32_t side,
	const struct augment_box *box)
{
	memset(sums, 0, bytes * sizeof(*sums));
	for (uint32_t n = 0; n < side; n++) {
		/* How often the n-th pixel occurs between -radius - 1 and radius - 1. */
		int64_t times = n < box->radius;
		times += n == 0 ? box->radius + 1 : 0;
		times += n == side - 1 ? UTIL_MAX(box->radius - (int64_t)side, 0) : 0;
		for (size_t i = 0; times && i < bytes; i++)
			sums[i] += (uint32_t)times * from[n * bytes + i];
	}
}

/* One pass down an image, or along a row. */
static void box_down(const struct apply *apply, uint8_t *to, const uint8_t *from, size_t pitch,
	uint32_t height, const struct augment_box *box)
{
	uint32_t *sums = apply->scratch;
	box_begin(sums, from, pitch, height, box);
	for (uint32_t n = 0; n < height; n++) {
		int64_t first = (int64_t)n - box->radius - 1, last = (int64_t)n + box->radius;
		const uint8_t *before = from + pitch * box_clamp(first, height);
		const uint8_t *const rows[4] = {
			[AUGMENT_LEAVE] = before,
			[AUGMENT_ENTER] = from + pitch * box_clamp(last, height),
			[AUGMENT_BEFORE] = before,
			[AUGMENT_BEHIND] = from + pitch * box_clamp(last + 1, height),
		};
		apply->kernels->box_down(to + n * pitch, sums, rows, box, pitch);
	}
}

static void box_across(const struct apply *apply, uint8_t *to, const uint8_t *from, uint32_t width,
	const struct augment_box *box)
{
	uint32_t sums[3];
	box_begin(sums, from, 3, width, box);
	apply->kernels->box_across(to, sums, from, width, box);
}

static uint64_t box_line_bytes(uint32_t side)
{
	return util_align((uint64_t)3 * side, sizeof(uint32_t));
}

static uint64_t box_scratch(uint32_t width, uint32_t height)
{
	return box_line_bytes(width) * (sizeof(uint32_t) + 1) + (uint64_t)3 * width * height;
}

static void filter_pillow_blur(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	float radius = box_radius((float)op->amount);
	size_t pitch = (size_t)3 * from->width;
	if (op->amount == 0 || radius == 0) {
		memcpy(to, from->pixels, pitch * from->height);
		return;
	}
	struct augment_box box = box_make(radius);
	uint8_t *line = (uint8_t *)apply->scratch + sizeof(uint32_t) * box_line_bytes(from->width);
	uint8_t *between = line + box_line_bytes(from->width);
	for (size_t y = 0; y < from->height; y++) {
		uint8_t *row = between + y * pitch;
		box_across(apply, row, from->pixels + y * pitch, from->width, &box);
		box_across(apply, line, row, from->width, &box);
		box_across(apply, row, line, from->width, &box);
	}
	box_down(apply, to, between, pitch, from->height, &box);
	box_down(apply, between, to, pitch, from->height, &box);
	box_down(apply, to, between, pitch, from->height, &box);
}

/* ---- the public functions ---- */

uint64_t filter_scratch(uint32_t width, uint32_t height)
{
	return UTIL_MAX(blur_scratch(width, height), box_scratch(width, height));
}

void filter_apply(
	const struct apply *apply, const struct op *op, const struct op_image *from, uint8_t *to)
{
	switch (op->kind) {
	case OP_SHARPNESS:
		filter_sharpness(apply, op, from, to);
		break;
	case OP_BLUR:
		filter_blur(apply, op, from, to);
		break;
	case OP_PILLOW_BLUR:
		filter_pillow_blur(apply, op, from, to);
		break;
	default:
		assert(!"an op on neighbors");
	}
}

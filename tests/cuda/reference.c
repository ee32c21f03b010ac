/* reference: see reference.h. Compiled without contraction (-ffp-contract=off). */
#include "cuda/reference.h"

#include "proto/philox.h"

#include <math.h>
#include <string.h>

static bool reference_inside(
	uint32_t x, uint32_t y, uint32_t left, uint32_t top, uint32_t width, uint32_t height)
{
	return x >= left && x < left + width && y >= top && y < top + height;
}

static double reference_radius(uint32_t word)
{
	float u = fmaf((float)word, 0x1p-32f, 0x1p-33f);
	return sqrt(-2 * log((double)u));
}

static double reference_angle(uint32_t word)
{
	return (double)(float)word * 0x1p-31 * 3.14159265358979323846;
}

static void reference_noise(const struct kernels_normalise *a, const struct penstock_cuda_row *row,
	uint32_t pixel, float ret_value[3])
{
	const uint32_t counter[4] = {
		(uint32_t)row->position,
		(uint32_t)(row->position >> 32 & 0xffff) | (pixel & 0xffff) << 16,
		row->epoch,
		(uint32_t)PHILOX_BATCH_NOISE | pixel >> 16 << 8,
	};
	struct philox p = philox_4x32(counter, a->key);
	double first = reference_radius(p.word[0]), angle = reference_angle(p.word[1]);
	ret_value[0] = (float)(first * cos(angle));
	ret_value[1] = (float)(first * sin(angle));
	ret_value[2] = (float)(reference_radius(p.word[2]) * cos(reference_angle(p.word[3])));
}

static void reference_normal(
	const struct kernels_normalise *a, const uint8_t *byte, float ret_value[3])
{
	for (int c = 0; c < 3; c++) {
		float scaled = (float)byte[c] / 255.0f;
		float centred = scaled - a->mean[c];
		ret_value[c] = centred / a->std[c];
	}
}

/* v(row, x, y). */
static bool reference_source(const struct kernels_normalise *a, uint32_t number, uint32_t x,
	uint32_t y, float ret_value[3])
{
	const struct penstock_cuda_row *row = a->row + number;
	if (row->flags & PENSTOCK_CUDA_ROW_ERASED &&
		reference_inside(x, y, row->erase_x, row->erase_y, row->erase_w, row->erase_h)) {
		if (a->erase_random)
			reference_noise(a, row, y * a->width + x, ret_value);
		else
			memcpy(ret_value, a->erase_value, sizeof a->erase_value);
		return a->erase_random;
	}
	if (row->flags & PENSTOCK_CUDA_ROW_FLIPPED)
		x = a->width - 1 - x;
	reference_normal(
		a, a->images + (((size_t)number * a->height + y) * a->width + x) * 3, ret_value);
	return false;
}

bool reference_pixel(const struct kernels_normalise *a, uint32_t number, uint32_t x, uint32_t y,
	float ret_value[3])
{
	const struct penstock_cuda_row *row = a->row + number;
	bool mixed = row->flags & PENSTOCK_CUDA_ROW_MIXED;
	if (mixed && reference_inside(x, y, row->cut_x, row->cut_y, row->cut_w, row->cut_h))
		return reference_source(a, row->partner, x, y, ret_value);
	bool noisy = reference_source(a, number, x, y, ret_value);
	if (!mixed || row->partner_blend == 0)
		return noisy;
	float partner[3];
	noisy |= reference_source(a, row->partner, x, y, partner);
	for (int c = 0; c < 3; c++) {
		float own = row->blend * ret_value[c], other = row->partner_blend * partner[c];
		ret_value[c] = own + other;
	}
	return noisy;
}

size_t reference_size(enum penstock_cuda_dtype dtype)
{
	return dtype == PENSTOCK_CUDA_FLOAT32 ? 4 : 2;
}

size_t reference_index(const struct kernels_normalise *a, enum penstock_cuda_layout layout,
	uint32_t x, uint32_t y, uint32_t channel)
{
	size_t pixel = (size_t)y * a->width + x;
	return layout == PENSTOCK_CUDA_NHWC ? pixel * 3 + channel
					    : (size_t)channel * a->height * a->width + pixel;
}

/* The exponent that counts 2^10 steps for a value; scaling by it is exact in double. */
uint16_t reference_float16(float value)
{
	double magnitude = fabs((double)value);
	uint16_t sign = signbit(value) ? 0x8000 : 0;
	if (isnan(value))
		return 0x7fff;
	if (magnitude >= 65520) /* half a step above the largest */
		return sign | 0x7c00;
	int exponent = magnitude < 0x1p-14 ? -14 : ilogb(magnitude);
	int steps = (int)nearbyint(ldexp(magnitude, 10 - exponent)); /* 1024 to 2048 if normal */
	return sign | (uint16_t)(((exponent + 14) << 10) + steps);
}

uint16_t reference_bfloat16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	if (isnan(value))
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void reference_write(void *values, size_t index, enum penstock_cuda_dtype dtype, float value)
{
	if (dtype == PENSTOCK_CUDA_FLOAT32)
		((float *)values)[index] = value;
	else
		((uint16_t *)values)[index] = dtype == PENSTOCK_CUDA_FLOAT16
						      ? reference_float16(value)
						      : reference_bfloat16(value);
}

static float reference_widen_float16(uint16_t half)
{
	int exponent = half >> 10 & 31, fraction = half & 1023;
	float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
			  : exponent     ? ldexpf((float)(1024 + fraction), exponent - 25)
					 : ldexpf((float)fraction, -24);
	return half & 0x8000 ? -magnitude : magnitude;
}

float reference_read(const void *values, size_t index, enum penstock_cuda_dtype dtype)
{
	if (dtype == PENSTOCK_CUDA_FLOAT32)
		return ((const float *)values)[index];
	uint16_t half = ((const uint16_t *)values)[index];
	if (dtype == PENSTOCK_CUDA_FLOAT16)
		return reference_widen_float16(half);
	uint32_t bits = (uint32_t)half << 16;
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static void reference_row(const struct kernels_normalise *a, uint32_t number,
	enum penstock_cuda_dtype dtype, enum penstock_cuda_layout layout)
{
	size_t before = (size_t)number * a->height * a->width * 3;
	for (uint32_t y = 0; y < a->height; y++)
		for (uint32_t x = 0; x < a->width; x++) {
			float value[3];
			(void)reference_pixel(a, number, x, y, value);
			for (uint32_t c = 0; c < 3; c++)
				reference_write(a->out,
					before + reference_index(a, layout, x, y, c), dtype,
					value[c]);
		}
}

void reference_normalise(const struct kernels_normalise *a, enum penstock_cuda_dtype dtype,
	enum penstock_cuda_layout layout)
{
	for (uint32_t number = 0; number < a->rows; number++)
		reference_row(a, number, dtype, layout);
}

/* weight x the smoothed label's share of class k. */
static float reference_share(
	int64_t label, uint32_t k, const struct kernels_targets *a, float weight)
{
	if (label < 0 || label >= (int64_t)a->classes)
		return 0;
	float even = a->smoothing / (float)a->classes;
	float certain = 1.0f - a->smoothing;
	return weight * (label == (int64_t)k ? certain + even : even);
}

void reference_targets(const struct kernels_targets *a)
{
	for (uint32_t number = 0; number < a->rows; number++) {
		const struct penstock_cuda_row *row = a->row + number;
		for (uint32_t k = 0; k < a->classes; k++) {
			float value = reference_share(a->label[number], k, a, row->weight);
			if (row->flags & PENSTOCK_CUDA_ROW_MIXED)
				value += reference_share(
					a->label[row->partner], k, a, row->partner_weight);
			a->out[(size_t)number * a->classes + k] = value;
		}
	}
}

/* convert: see convert.h.
 *
 * Thread: any. */
#include "client/lib/convert.h"

#include "client/lib/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void penstock_convert_options_init_size(struct penstock_convert_options *options, size_t size)
{
	const struct penstock_convert_options defaults = {.size = size,
		.dtype = PENSTOCK_FLOAT32,
		.mean = {0.485f, 0.456f, 0.406f},
		.std = {0.229f, 0.224f, 0.225f}};
	size_t known = size < sizeof defaults ? size : sizeof defaults;
	memcpy(options, &defaults, known);
	memset((unsigned char *)options + known, 0, size - known);
}

static uint32_t convert_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* The `shift` lowest bits are rounded away, to nearest, ties to even. */
static uint32_t convert_round(uint32_t bits, unsigned shift)
{
	uint32_t half = (uint32_t)1 << (shift - 1), odd = bits >> shift & 1;
	return (bits + half - 1 + odd) >> shift;
}

/* IEEE 754 binary16 of a finite value; too large a one becomes infinite. */
static uint16_t convert_float16(float value)
{
	uint32_t bits = convert_bits(value), sign = bits >> 16 & 0x8000,
		 magnitude = bits & 0x7fffffff;
	if (magnitude >= 0x47800000) /* 65,536 */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude >= 0x38800000) /* 2^-14, the smallest normal one */
		return (uint16_t)(sign | convert_round(magnitude - 0x38000000, 13));
	unsigned shift = 126 - (magnitude >> 23);
	if (shift > 24)
		return (uint16_t)sign;
	return (uint16_t)(sign | convert_round((magnitude & 0x7fffff) | 0x800000, shift));
}

static uint16_t convert_bfloat16(float value)
{
	return (uint16_t)convert_round(convert_bits(value), 16);
}

static void convert_fill_table(
	struct penstock_convert *convert, const struct penstock_convert_options *options)
{
	for (int channel = 0; channel < 3; channel++) {
		for (int x = 0; x < 256; x++) {
			float value =
				((float)x / 255 - options->mean[channel]) / options->std[channel];
			if (convert->dtype == PENSTOCK_UINT8)
				convert->table.u8[channel][x] = (uint8_t)x;
			else if (convert->dtype == PENSTOCK_FLOAT32)
				convert->table.f32[channel][x] = value;
			else if (convert->dtype == PENSTOCK_FLOAT16)
				convert->table.u16[channel][x] = convert_float16(value);
			else
				convert->table.u16[channel][x] = convert_bfloat16(value);
		}
	}
}

static int convert_check(const struct penstock_convert_options *options)
{
	if (options->dtype > PENSTOCK_BFLOAT16)
		return error_set(-EINVAL,
			"options.dtype is %u: expected one of enum penstock_dtype", options->dtype);
	if (options->layout > PENSTOCK_NCHW)
		return error_set(-EINVAL,
			"options.layout is %u: expected one of enum penstock_layout",
			options->layout);
	for (int i = 0; i < 3; i++) {
		if (!isfinite(options->mean[i]))
			return error_set(-EINVAL,
				"options.mean[%d] is %g: expected a finite number", i,
				(double)options->mean[i]);
		if (!isfinite(options->std[i]) || options->std[i] == 0)
			return error_set(-EINVAL,
				"options.std[%d] is %g: expected a finite number other than 0", i,
				(double)options->std[i]);
	}
	return 0;
}

int penstock_convert_new(
	const struct penstock_convert_options *options, struct penstock_convert **ret_convert)
{
	struct penstock_convert_options mine;
	if (!options || options->size < sizeof mine)
		return error_set(-EINVAL,
			"the options were not prepared: call penstock_convert_options_init first");
	mine = *options;
	int result = convert_check(&mine);
	if (result < 0)
		return result;
	struct penstock_convert *convert = calloc(1, sizeof *convert);
	if (!convert)
		return error_set(-ENOMEM, "no memory for a conversion");
	convert->dtype = mine.dtype;
	convert->layout = mine.layout;
	convert->element_bytes = mine.dtype == PENSTOCK_UINT8     ? 1
				 : mine.dtype == PENSTOCK_FLOAT32 ? 4
								  : 2;
	convert_fill_table(convert, &mine);
	*ret_convert = convert;
	return 0;
}

size_t penstock_convert_row_bytes(
	const struct penstock_convert *convert, uint32_t height, uint32_t width)
{
	return (size_t)height * width * 3 * convert->element_bytes;
}

static void convert_put(
	const struct penstock_convert *convert, int channel, uint8_t x, void *out, size_t element)
{
	if (convert->element_bytes == 1)
		((uint8_t *)out)[element] = convert->table.u8[channel][x];
	else if (convert->element_bytes == 2)
		((uint16_t *)out)[element] = convert->table.u16[channel][x];
	else
		((float *)out)[element] = convert->table.f32[channel][x];
}

static void convert_row(
	const struct penstock_convert *convert, const uint8_t *row, size_t pixels, void *out)
{
	size_t step = convert->layout == PENSTOCK_NCHW ? pixels : 1;
	for (size_t pixel = 0; pixel < pixels; pixel++) {
		for (int channel = 0; channel < 3; channel++) {
			size_t element = convert->layout == PENSTOCK_NCHW ? pixel : pixel * 3;
			convert_put(convert, channel, row[pixel * 3 + (size_t)channel], out,
				element + (size_t)channel * step);
		}
	}
}

void penstock_convert_rows(const struct penstock_convert *convert, const void *rows, uint32_t count,
	uint32_t height, uint32_t width, void *out)
{
	size_t pixels = (size_t)height * width;
	size_t row_bytes = penstock_convert_row_bytes(convert, height, width);
	for (uint32_t i = 0; i < count; i++)
		convert_row(convert, (const uint8_t *)rows + i * pixels * 3, pixels,
			(char *)out + i * row_bytes);
}

void penstock_convert_free(struct penstock_convert *convert)
{
	free(convert);
}

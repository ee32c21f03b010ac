/* convert_table: the table of values, and plain C that looks them up. Every kernel must equal
 * it. */
#include "proto/convert/convert.h"

#include <string.h>

static uint32_t table_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

/* Rounds the `shift` lowest bits away, to nearest, ties to even. */
static uint32_t table_round(uint32_t bits, unsigned shift)
{
	uint32_t half = (uint32_t)1 << (shift - 1), odd = bits >> shift & 1;
	return (bits + half - 1 + odd) >> shift;
}

/* IEEE 754 binary16 of a value that is not NaN; a value that is too large becomes infinite. */
static uint16_t table_float16(float value)
{
	uint32_t bits = table_bits(value), sign = bits >> 16 & 0x8000,
		 magnitude = bits & 0x7fffffff;
	if (magnitude >= 0x47800000) /* 65,536 */
		return (uint16_t)(sign | 0x7c00);
	if (magnitude >= 0x38800000) /* 2^-14, the smallest normal one */
		return (uint16_t)(sign | table_round(magnitude - 0x38000000, 13));
	unsigned shift = 126 - (magnitude >> 23);
	if (shift > 24)
		return (uint16_t)sign;
	return (uint16_t)(sign | table_round((magnitude & 0x7fffff) | 0x800000, shift));
}

static uint16_t table_bfloat16(float value)
{
	return (uint16_t)table_round(table_bits(value), 16);
}

void convert_fill_table(struct convert *convert, const struct convert_options *options)
{
	for (int channel = 0; channel < 3; channel++) {
		for (int x = 0; x < 256; x++) {
			float value =
				((float)x / 255 - options->mean[channel]) / options->std[channel];
			if (convert->dtype == CONVERT_UINT8)
				convert->table.u8[channel][x] = (uint8_t)x;
			else if (convert->dtype == CONVERT_FLOAT32)
				convert->table.f32[channel][x] = value;
			else if (convert->dtype == CONVERT_FLOAT16)
				convert->table.u16[channel][x] = table_float16(value);
			else
				convert->table.u16[channel][x] = table_bfloat16(value);
		}
	}
}

/* `out` needs no alignment. */
#define TABLE_RUN(name, member)                                                                 \
	static void name(const struct convert *convert, const uint8_t *from, size_t pixels,     \
		void *out, size_t plane_bytes)                                                  \
	{                                                                                       \
		const size_t bytes = sizeof convert->table.member[0][0];                        \
		bool planar = convert->layout == CONVERT_NCHW;                                  \
		size_t step = planar ? bytes : 3 * bytes, apart = planar ? plane_bytes : bytes; \
		char *to = out;                                                                 \
		for (size_t pixel = 0; pixel < pixels; pixel++, from += 3, to += step)          \
			for (size_t channel = 0; channel < 3; channel++)                        \
				memcpy(to + channel * apart,                                    \
					&convert->table.member[channel][from[channel]], bytes); \
	}
TABLE_RUN(table_u8, u8)
TABLE_RUN(table_u16, u16)
TABLE_RUN(table_f32, f32)

void convert_copy(const struct convert *convert, const uint8_t *from, size_t pixels, void *out,
	size_t plane_bytes)
{
	(void)convert, (void)plane_bytes;
	memcpy(out, from, 3 * pixels);
}

const struct convert_kernels convert_c = {
	.run =
		{
			[CONVERT_UINT8] = {convert_copy, table_u8},
			[CONVERT_FLOAT32] = {table_f32, table_f32},
			[CONVERT_FLOAT16] = {table_u16, table_u16},
			[CONVERT_BFLOAT16] = {table_u16, table_u16},
		},
};

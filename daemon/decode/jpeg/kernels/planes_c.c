/* planes_c: the kernels in plain C, which the others must equal; see planes_kernels.h. Comments
 * name the files of libjpeg-turbo that formulas come from; the results are equal to the bit. */
#include "decode/jpeg/kernels/planes_kernels.h"

#include <string.h>

/* planes_kernels.h has the pattern. */
const uint8_t planes_ready_order[64] = {60, 50, 13, 44, 3, 56, 52, 9, 34, 28, 61, 18, 40, 5, 62, 54,
	15, 36, 24, 51, 29, 45, 19, 57, 20, 46, 7, 58, 48, 11, 38, 30, 53, 25, 35, 12, 2, 41, 21,
	63, 22, 42, 1, 32, 26, 55, 31, 37, 8, 4, 47, 23, 59, 16, 49, 27, 39, 14, 6, 43, 17, 33, 10,
	0};

/* Place to row x 8 + column. */
static const uint8_t natural[64] = {63, 15, 57, 9, 59, 11, 61, 13, 58, 10, 62, 14, 56, 8, 60, 12,
	31, 47, 25, 41, 27, 43, 29, 45, 26, 42, 30, 46, 24, 40, 28, 44, 23, 55, 17, 49, 19, 51, 21,
	53, 18, 50, 22, 54, 16, 48, 20, 52, 7, 39, 1, 33, 3, 35, 5, 37, 2, 34, 6, 38, 0, 32, 4, 36};

static uint8_t c_kind(int last)
{
	if (last == 0)
		return PLANES_DC;
	return last < PLANES_SPARSE_LENGTH ? PLANES_SPARSE : PLANES_FULL;
}

static void c_sort(int16_t (*to)[64], uint8_t *kinds, const int16_t *const *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int last = 0;
		for (int k = 0; k < 64; k++) {
			to[i][planes_ready_order[k]] = from[i][k];
			last = from[i][k] ? k : last;
		}
		kinds[i] = c_kind(last);
	}
}

/* One dimension of jidctint.c, with 13 bits of fraction. Inputs have 16 bits, so results fit into
 * 32 bits. Some intermediate sums do not; they may wrap, and therefore are unsigned. */
static void c_line(int32_t out[8], const int32_t in[8], unsigned shift)
{
	uint32_t x[8];
	for (int i = 0; i < 8; i++)
		x[i] = (uint32_t)in[i];
	uint32_t z1 = (x[2] + x[6]) * 4433;
	uint32_t even2 = z1 - x[6] * 15137, even3 = z1 + x[2] * 6270;
	uint32_t even0 = (x[0] + x[4]) * 8192, even1 = (x[0] - x[4]) * 8192;
	uint32_t even[4] = {even0 + even3, even1 + even2, even1 - even2, even0 - even3};

	uint32_t z3 = x[7] + x[3], z4 = x[5] + x[1], z5 = (z3 + z4) * 9633;
	uint32_t t1 = (x[7] + x[1]) * 7373, t2 = (x[5] + x[3]) * 20995;
	uint32_t t3 = z5 - z3 * 16069, t4 = z5 - z4 * 3196;
	uint32_t odd[4] = {x[1] * 12299 - t1 + t4, x[3] * 25172 - t2 + t3, x[5] * 16819 - t2 + t4,
		x[7] * 2446 - t1 + t3};
	uint32_t half = 1u << (shift - 1);
	for (int i = 0; i < 4; i++) {
		out[i] = (int32_t)(even[i] + odd[i] + half) >> shift;
		out[7 - i] = (int32_t)(even[i] - odd[i] + half) >> shift;
	}
}

static int32_t c_clamp(int32_t value, int32_t low, int32_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* Dequantizes a block to natural order; returns whether a product had to wrap. */
static bool c_dequantize(
	int32_t to[8][8], const int16_t block[64], const struct planes_quant *quant)
{
	bool odd = false;
	for (int i = 0; i < 64; i++) {
		int32_t product = block[i] * quant->step[i];
		to[natural[i] / 8][natural[i] % 8] = (int16_t)(uint16_t)(uint32_t)product;
		odd |= product > INT16_MAX || product < -INT16_MAX;
	}
	return odd;
}

bool planes_kernels_block(
	uint8_t to[8][8], const int16_t block[64], const struct planes_quant *quant)
{
	int32_t work[8][8], line[8], result[8];
	bool odd = c_dequantize(work, block, quant);
	for (int x = 0; x < 8; x++) {
		for (int y = 0; y < 8; y++)
			line[y] = work[y][x];
		c_line(result, line, 11);
		for (int y = 0; y < 8; y++)
			work[y][x] = c_clamp(result[y], INT16_MIN, INT16_MAX);
	}
	for (int y = 0; y < 8; y++) {
		c_line(result, work[y], 18);
		for (int x = 0; x < 8; x++) {
			odd |= result[x] < -512 || result[x] > 511;
			to[y][x] = (uint8_t)c_clamp(result[x] + 128, 0, 255);
		}
	}
	return odd;
}

/* `kinds` says which coefficients are zero, which changes nothing here. */
static bool c_transform(uint8_t *to, size_t pitch, const int16_t *const *blocks,
	const uint8_t *kinds, size_t count, const struct planes_quant *quant)
{
	(void)kinds;
	bool odd = false;
	for (size_t i = 0; i < count; i++) {
		uint8_t pixels[8][8];
		odd |= planes_kernels_block(pixels, blocks[i], quant);
		for (size_t y = 0; y < 8; y++)
			memcpy(to + y * pitch + 8 * i, pixels[y], 8);
	}
	return odd;
}

enum {
	/* Pixels leave the second pass too large by this, so that one mask finds those outside
	 * [-512, 511]. */
	SMALLER_BIAS = 512,
	/* jidctred.c: 13 bits of fraction, of which 2 are kept, and the excess bits of the factors.
	 */
	PASS1_SHIFT_4 = 12,
	PASS2_SHIFT_4 = 19,
	PASS1_SHIFT_2 = 13,
	PASS2_SHIFT_2 = 20,
};

/* One dimension of jpeg_idct_4x4: 4 outputs of 8 inputs, the fifth unused. */
static void c_line_four(int32_t *out, const int32_t in[8], unsigned shift, uint32_t add)
{
	uint32_t x[8];
	for (int i = 0; i < 8; i++)
		x[i] = (uint32_t)in[i];
	add += 1u << (shift - 1);
	uint32_t e0 = (x[0] << 14) + add, e2 = x[2] * 15137 - x[6] * 6270;
	uint32_t o0 = x[1] * 20995 + x[3] * 7373 - x[5] * 4926 - x[7] * 4176;
	uint32_t o1 = x[1] * 8697 - x[3] * 17799 + x[5] * 11893 - x[7] * 1730;
	out[0] = (int32_t)(e0 + e2 + o0) >> shift;
	out[1] = (int32_t)(e0 - e2 + o1) >> shift;
	out[2] = (int32_t)(e0 - e2 - o1) >> shift;
	out[3] = (int32_t)(e0 + e2 - o0) >> shift;
}

/* jpeg_idct_2x2: 2 outputs of the first and the odd ones. */
static void c_line_two(int32_t *out, const int32_t in[8], unsigned shift, uint32_t add)
{
	uint32_t x[8];
	for (int i = 0; i < 8; i++)
		x[i] = (uint32_t)in[i];
	uint32_t even = (x[0] << 15) + (1u << (shift - 1)) + add;
	uint32_t odd = x[1] * 29692 - x[3] * 10426 + x[5] * 6967 - x[7] * 5906;
	out[0] = (int32_t)(even + odd) >> shift;
	out[1] = (int32_t)(even - odd) >> shift;
}

static uint8_t c_smaller_pixel(int32_t result, bool *odd)
{
	*odd |= (result & ~1023) != 0;
	return (uint8_t)c_clamp(result - SMALLER_BIAS + 128, 0, 255);
}

/* One block to side x side pixels. */
static bool c_smaller_block(uint8_t *to, size_t pitch, const int16_t block[64],
	const struct planes_quant *quant, int side)
{
	int32_t work[8][8], rows[4][8], line[8], result[4];
	bool odd = c_dequantize(work, block, quant);
	for (int x = 0; x < 8; x++) {
		for (int y = 0; y < 8; y++)
			line[y] = work[y][x];
		if (side == 4)
			c_line_four(result, line, PASS1_SHIFT_4, 0);
		else
			c_line_two(result, line, PASS1_SHIFT_2, 0);
		for (int y = 0; y < side; y++)
			rows[y][x] = c_clamp(result[y], INT16_MIN, INT16_MAX);
	}
	for (int y = 0; y < side; y++) {
		if (side == 4)
			c_line_four(result, rows[y], PASS2_SHIFT_4,
				(uint32_t)SMALLER_BIAS << PASS2_SHIFT_4);
		else
			c_line_two(result, rows[y], PASS2_SHIFT_2,
				(uint32_t)SMALLER_BIAS << PASS2_SHIFT_2);
		for (int x = 0; x < side; x++)
			to[(size_t)y * pitch + (size_t)x] = c_smaller_pixel(result[x], &odd);
	}
	return odd;
}

static bool c_four(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant)
{
	bool odd = false;
	for (size_t i = 0; i < count; i++)
		odd |= c_smaller_block(to + 4 * i, pitch, blocks[i], quant, 4);
	return odd;
}

static bool c_two(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant)
{
	bool odd = false;
	for (size_t i = 0; i < count; i++)
		odd |= c_smaller_block(to + 2 * i, pitch, blocks[i], quant, 2);
	return odd;
}

/* jpeg_idct_1x1: the DC alone. */
bool planes_kernels_one(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant)
{
	(void)pitch;
	bool odd = false;
	for (size_t i = 0; i < count; i++) {
		int product = blocks[i][PLANES_READY_DC] * quant->step[PLANES_READY_DC];
		int dc = (int16_t)(uint16_t)(uint32_t)product;
		odd |= product != dc;
		to[i] = c_smaller_pixel(((dc + 4) >> 3) + SMALLER_BIAS, &odd);
	}
	return odd;
}

/* jdsample.c, h2v1_fancy_upsample. At the edges, a neighbor that equals the edge gives the same. */
static void c_wider(uint8_t *to, const uint8_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		unsigned here = 3u * from[i];
		unsigned left = from[(ptrdiff_t)i - 1], right = from[i + 1];
		to[2 * i] = (uint8_t)((here + left + 1) >> 2);
		to[2 * i + 1] = (uint8_t)((here + right + 2) >> 2);
	}
}

/* jdsample.c, h1v2_fancy_upsample. */
static void c_between(
	uint8_t *to, const uint8_t *near, const uint8_t *far, unsigned bias, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = (uint8_t)((3u * near[i] + far[i] + bias) >> 2);
}

/* jdsample.c, h2v2_fancy_upsample. */
static void c_both(uint8_t *to, const uint8_t *near, const uint8_t *far, size_t count)
{
	for (ptrdiff_t i = 0; i < (ptrdiff_t)count; i++) {
		unsigned left = 3u * near[i - 1] + far[i - 1];
		unsigned here = 3u * (3u * near[i] + far[i]);
		unsigned right = 3u * near[i + 1] + far[i + 1];
		to[2 * i] = (uint8_t)((here + left + 8) >> 4);
		to[2 * i + 1] = (uint8_t)((here + right + 7) >> 4);
	}
}

/* jdcolor.c: factors with 16 bits of fraction; the two parts of green are rounded once. */
static void c_color(uint8_t rgb[3], int y, int cb, int cr)
{
	cb -= 128;
	cr -= 128;
	int red = y + ((91881 * cr + 32768) >> 16);
	int green = y + ((-22554 * cb - 46802 * cr + 32768) >> 16);
	int blue = y + ((116130 * cb + 32768) >> 16);
	rgb[0] = (uint8_t)c_clamp(red, 0, 255);
	rgb[1] = (uint8_t)c_clamp(green, 0, 255);
	rgb[2] = (uint8_t)c_clamp(blue, 0, 255);
}

static void c_planar(uint8_t *const to[3], const uint8_t *const from[3], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t rgb[3];
		c_color(rgb, from[0][i], from[1][i], from[2][i]);
		for (int c = 0; c < 3; c++)
			to[c][i] = rgb[c];
	}
}

static void c_split(uint8_t *const to[3], const uint8_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < 3; c++)
			to[c][i] = *from++;
}

const struct planes_kernels planes_kernels_c = {
	.name = "c",
	.sort = c_sort,
	.transform = c_transform,
	.smaller = {planes_kernels_one, c_two, c_four},
	.wider = c_wider,
	.between = c_between,
	.both = c_both,
	.planar = c_planar,
	.split = c_split,
};

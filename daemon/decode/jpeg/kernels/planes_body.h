/* planes_body: the common code of the vector variants of the kernels; see planes_kernels.h. The
 * including file defines the vector type and its operations. All of them, like the instructions
 * that they stand for, work within lanes of 16 bytes:
 *
 *   vec, LANES                  the type; lanes in it
 *   v_load, v_store             LANES x 16 bytes, unaligned
 *   v_lanes(p, i)               unit i of each of the blocks p[0] .. p[LANES - 1]
 *   v_lane(p)                   the same 16 bytes in every lane
 *   v_set8, v_set16, v_set32    a value in every element
 *   v_add16 ...                 the instruction of that name
 *   v_madd_add16(sum, a, b)     multiply-add of pairs, added to a sum
 *   v_any(a)                    whether a bit is set
 *   v_rows(to, pitch, a)        two rows of a group of blocks: the low halves of all lanes to `to`,
 *                               the high halves to to + pitch
 *   v_pair(&a, &b)              lanes of unpacked low and high halves, back in the order of memory
 *   body_sort                   the table's entry of that name
 *
 * and TABLE and NAME. If it defines BODY_OWN, it also defines body_dot, body_dot_add,
 * body_three_low, body_three_high and body_split, and needs no multiply-add of pairs of 16 bits.
 * The transform works on LANES blocks at once, one block per lane: a vector has 8 values of 16
 * bits, or 4 of 32 bits, of each block. */
#include "decode/jpeg/kernels/planes_kernels.h"

#include "base/util.h"

#include <string.h>

#define BODY_INLINE static inline __attribute__((always_inline))

enum {
	/* jidctint.c: the factors of the angles, with 13 bits of fraction. */
	F_0_298 = 2446,
	F_0_390 = 3196,
	F_0_541 = 4433,
	F_0_765 = 6270,
	F_0_899 = 7373,
	F_1_175 = 9633,
	F_1_501 = 12299,
	F_1_847 = 15137,
	F_1_961 = 16069,
	F_2_053 = 16819,
	F_2_562 = 20995,
	F_3_072 = 25172,
	F_ONE = 1 << 13,
	PASS1_SHIFT = 11,
	PASS2_SHIFT = 18,
	/* Pixels leave the second pass 512 too large. So those in [-512, 511] become values below
	 * 1,024, and one OR per row finds the others. */
	ODD_BIAS = 512,
	ODD_MASK = 0xfc00,
	PIXEL_BIAS = ODD_BIAS - 128,
	GRAIN = LANES * 16, /* bytes of a vector */
};

#ifndef BODY_OWN
/* a x low + b x high, for pairs (a, b) of 16 bits. */
BODY_INLINE vec body_pair(int low, int high)
{
	return v_set32((int)((uint32_t)(uint16_t)high << 16 | (uint16_t)low));
}

BODY_INLINE vec body_dot(vec pairs, int low, int high)
{
	return v_madd16(pairs, body_pair(low, high));
}

/* The same, added to `sum`. */
BODY_INLINE vec body_dot_add(vec sum, vec pairs, int low, int high)
{
	return v_madd_add16(sum, pairs, body_pair(low, high));
}
#endif

/* One dimension, on alternating pairs of inputs (7,1), (3,5), (2,6), (0,4). All sums of factors
 * below fit into 16 bits, so that no sum of inputs is ever formed. `sparse`: inputs 4 to 7 are 0.
 */
BODY_INLINE void body_line(vec out[8], const vec in[4], int shift, int bias, bool sparse)
{
	vec round = v_set32((1 << (shift - 1)) + (int)((uint32_t)bias << shift));
	vec e0 = body_dot_add(round, in[3], F_ONE, F_ONE), e1 = e0;
	if (!sparse)
		e1 = body_dot_add(round, in[3], F_ONE, -F_ONE);
	vec e3 = body_dot(in[2], F_0_541 + F_0_765, F_0_541);
	vec e2 = body_dot(in[2], F_0_541, F_0_541 - F_1_847);
	vec even[4] = {v_add32(e0, e3), v_add32(e1, e2), v_sub32(e1, e2), v_sub32(e0, e3)};

	vec odd[4];
	if (sparse) {
		/* Here in[0] has (3,1) pairs. */
		odd[0] = body_dot(in[0], F_1_175, F_1_175 - F_0_390 + F_1_501 - F_0_899);
		odd[1] = body_dot(in[0], F_1_175 - F_1_961 + F_3_072 - F_2_562, F_1_175);
		odd[2] = body_dot(in[0], F_1_175 - F_2_562, F_1_175 - F_0_390);
		odd[3] = body_dot(in[0], F_1_175 - F_1_961, F_1_175 - F_0_899);
	} else {
		odd[0] = body_dot(in[0], F_1_175 - F_0_899, F_1_175 - F_0_390 + F_1_501 - F_0_899);
		odd[1] = body_dot(in[0], F_1_175 - F_1_961, F_1_175);
		odd[2] = body_dot(in[0], F_1_175, F_1_175 - F_0_390);
		odd[3] = body_dot(in[0], F_1_175 - F_1_961 + F_0_298 - F_0_899, F_1_175 - F_0_899);
		odd[0] = body_dot_add(odd[0], in[1], F_1_175, F_1_175 - F_0_390);
		odd[1] = body_dot_add(
			odd[1], in[1], F_1_175 - F_1_961 + F_3_072 - F_2_562, F_1_175 - F_2_562);
		odd[2] = body_dot_add(
			odd[2], in[1], F_1_175 - F_2_562, F_1_175 - F_0_390 + F_2_053 - F_2_562);
		odd[3] = body_dot_add(odd[3], in[1], F_1_175 - F_1_961, F_1_175);
	}
	for (int i = 0; i < 4; i++) {
		out[i] = v_sra32(v_add32(even[i], odd[i]), shift);
		out[7 - i] = v_sra32(v_sub32(even[i], odd[i]), shift);
	}
}

/* Makes pairs (3,1) of pairs (7,1) and (3,5) whose first and last elements are 0. */
BODY_INLINE void body_sparse(vec in[4])
{
	in[0] = v_or(in[0], v_and(in[1], v_set32(0xffff)));
}

/* Rows a, b, c, d of 8 columns in the ready order's turn, to pairs of columns for each row. */
BODY_INLINE void body_turn(vec to[4], const vec *rows)
{
	vec a = v_unpacklo32(rows[0], rows[1]), b = v_unpackhi32(rows[0], rows[1]);
	vec c = v_unpacklo32(rows[2], rows[3]), d = v_unpackhi32(rows[2], rows[3]);
	to[0] = v_unpacklo64(a, c);
	to[1] = v_unpackhi64(a, c);
	to[2] = v_unpacklo64(b, d);
	to[3] = v_unpackhi64(b, d);
}

/* Pixels by columns, biased, to 8 rows of 8 pixels. */
BODY_INLINE void body_pixels(uint8_t *to, size_t pitch, const vec *column)
{
	vec bias = v_set16(PIXEL_BIAS), c[8];
	for (int i = 0; i < 8; i++)
		c[i] = v_subs16(column[i], bias);
	vec c02 = v_packus16(c[0], c[2]), c13 = v_packus16(c[1], c[3]);
	vec c46 = v_packus16(c[4], c[6]), c57 = v_packus16(c[5], c[7]);
	vec c01 = v_unpacklo8(c02, c13), c23 = v_unpackhi8(c02, c13);
	vec c45 = v_unpacklo8(c46, c57), c67 = v_unpackhi8(c46, c57);
	vec l03 = v_unpacklo16(c01, c23), h03 = v_unpackhi16(c01, c23);
	vec l47 = v_unpacklo16(c45, c67), h47 = v_unpackhi16(c45, c67);
	v_rows(to, pitch, v_unpacklo32(l03, l47));
	v_rows(to + 2 * pitch, pitch, v_unpackhi32(l03, l47));
	v_rows(to + 4 * pitch, pitch, v_unpacklo32(h03, h47));
	v_rows(to + 6 * pitch, pitch, v_unpackhi32(h03, h47));
}

/* Transforms LANES blocks. Returns a vector that is not zero if one of them is odd. */
BODY_INLINE vec body_blocks(uint8_t *to, size_t pitch, const int16_t *const *blocks,
	const struct planes_quant *quant, bool sparse, bool fits)
{
	vec in[2][4], low[8], high[8], rows[8], odd = v_set16(0);
	for (int u = 0; u < 8; u++) {
		vec c = v_lanes(blocks, u);
		if (!fits)
			odd = v_or(odd, v_subus16(v_abs16(c), v_lane(quant->limit + 8 * u)));
		in[u % 2][u / 2] = v_mullo16(c, v_lane(quant->step + 8 * u));
	}
	for (int k = 0; k < 2; k++) {
		if (sparse)
			body_sparse(in[k]);
		body_line(k ? high : low, in[k], PASS1_SHIFT, 0, sparse);
	}
	for (int i = 0; i < 8; i++)
		rows[i] = v_packs32(low[i], high[i]);
	for (int k = 0; k < 2; k++) {
		body_turn(in[k], rows + 4 * k);
		if (sparse)
			body_sparse(in[k]);
		body_line(k ? high : low, in[k], PASS2_SHIFT, ODD_BIAS, sparse);
	}
	vec range = v_set16(0);
	for (int i = 0; i < 8; i++) {
		rows[i] = v_packs32(low[i], high[i]);
		range = v_or(range, rows[i]);
	}
	body_pixels(to, pitch, rows);
	return v_or(odd, v_and(range, v_set16((int16_t)ODD_MASK)));
}

/* The variants, each compiled once. */
#define BODY_VARIANT(name, sparse, fits)                                        \
	static __attribute__((noinline)) vec name(uint8_t *to, size_t pitch,    \
		const int16_t *const *blocks, const struct planes_quant *quant) \
	{                                                                       \
		return body_blocks(to, pitch, blocks, quant, sparse, fits);     \
	}
BODY_VARIANT(body_full, false, false)
BODY_VARIANT(body_full_fits, false, true)
BODY_VARIANT(body_sparse_any, true, false)
BODY_VARIANT(body_sparse_fits, true, true)

/* Blocks without AC: each pixel is (4 DC + 16) >> 5 of the dequantized DC. */
static bool body_flat(
	uint8_t *to, size_t pitch, const int16_t *const *blocks, const struct planes_quant *quant)
{
	uint64_t pixels[LANES];
	bool odd = false;
	for (int i = 0; i < LANES; i++) {
		int product = blocks[i][PLANES_READY_DC] * quant->step[PLANES_READY_DC];
		int dc = (int16_t)(uint16_t)(uint32_t)product;
		int first = dc * 4 > INT16_MAX   ? INT16_MAX
			    : dc * 4 < INT16_MIN ? INT16_MIN
						 : dc * 4;
		int pixel = (first + 16) >> 5;
		odd |= product != dc || dc == INT16_MIN || pixel < -512 || pixel > 511;
		pixel += 128;
		pixel = pixel < 0 ? 0 : pixel > 255 ? 255 : pixel;
		pixels[i] = (uint64_t)pixel * 0x0101010101010101u;
	}
	for (size_t y = 0; y < 8; y++)
		memcpy(to + y * pitch, pixels, sizeof(pixels));
	return odd;
}

static bool body_group(uint8_t *to, size_t pitch, const int16_t *const *blocks,
	const uint8_t *kinds, const struct planes_quant *quant)
{
	uint8_t kind = PLANES_DC;
	for (int i = 0; i < LANES; i++)
		kind = kinds[i] > kind ? kinds[i] : kind;
	if (kind == PLANES_DC)
		return body_flat(to, pitch, blocks, quant);
	if (kind == PLANES_SPARSE)
		return v_any(quant->fits ? body_sparse_fits(to, pitch, blocks, quant)
					 : body_sparse_any(to, pitch, blocks, quant));
	return v_any(quant->fits ? body_full_fits(to, pitch, blocks, quant)
				 : body_full(to, pitch, blocks, quant));
}

/* Fewer than LANES blocks: repeats the last one, whose pixels go elsewhere. */
static bool body_rest(uint8_t *to, size_t pitch, const int16_t *const *blocks, const uint8_t *kinds,
	size_t count, const struct planes_quant *quant)
{
	const int16_t *filled[LANES];
	uint8_t filled_kinds[LANES], pixels[8][8 * LANES];
	for (size_t i = 0; i < LANES; i++) {
		size_t from = i < count ? i : count - 1;
		filled[i] = blocks[from];
		filled_kinds[i] = kinds[from];
	}
	bool odd = body_group(pixels[0], sizeof(pixels[0]), filled, filled_kinds, quant);
	for (size_t y = 0; y < 8; y++)
		memcpy(to + y * pitch, pixels[y], 8 * count);
	return odd;
}

static bool body_transform(uint8_t *to, size_t pitch, const int16_t *const *blocks,
	const uint8_t *kinds, size_t count, const struct planes_quant *quant)
{
	bool odd = false;
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		odd |= body_group(to + 8 * i, pitch, blocks + i, kinds + i, quant);
	if (i < count)
		odd |= body_rest(to + 8 * i, pitch, blocks + i, kinds + i, count - i, quant);
	return odd;
}

enum {
	/* jidctred.c: the factors of 4 outputs, and of 2. */
	F4_1_847 = 15137,
	F4_0_765 = 6270,
	F4_2_562 = 20995,
	F4_0_899 = 7373,
	F4_0_601 = 4926,
	F4_0_509 = 4176,
	F4_1_061 = 8697,
	F4_2_172 = 17799,
	F4_1_451 = 11893,
	F4_0_211 = 1730,
	F2_3_624 = 29692,
	F2_1_272 = 10426,
	F2_0_850 = 6967,
	F2_0_720 = 5906,
	F_TWO = 1 << 14,
	PASS1_SHIFT_4 = 12,
	PASS2_SHIFT_4 = 19,
	PASS1_SHIFT_2 = 13,
	PASS2_SHIFT_2 = 20,
};

BODY_INLINE vec body_round(int shift, int bias)
{
	return v_set32((1 << (shift - 1)) + (int)((uint32_t)bias << shift));
}

/* One dimension with 4 outputs, on pairs as for body_line. */
BODY_INLINE void body_line_four(vec out[4], const vec in[4], int shift, int bias)
{
	vec e0 = body_dot_add(body_round(shift, bias), in[3], F_TWO, 0);
	vec e2 = body_dot(in[2], F4_1_847, -F4_0_765);
	vec even0 = v_add32(e0, e2), even1 = v_sub32(e0, e2);
	vec odd0 = body_dot(in[0], -F4_0_509, F4_2_562),
	    odd1 = body_dot(in[0], -F4_0_211, F4_1_061);
	odd0 = body_dot_add(odd0, in[1], F4_0_899, -F4_0_601);
	odd1 = body_dot_add(odd1, in[1], -F4_2_172, F4_1_451);
	out[0] = v_sra32(v_add32(even0, odd0), shift);
	out[1] = v_sra32(v_add32(even1, odd1), shift);
	out[2] = v_sra32(v_sub32(even1, odd1), shift);
	out[3] = v_sra32(v_sub32(even0, odd0), shift);
}

/* With 2 outputs. The factor of the first input, 2^15, does not fit: half of it is applied twice.
 */
BODY_INLINE void body_line_two(vec out[2], const vec in[4], int shift, int bias)
{
	vec half = body_dot(in[3], F_TWO, 0);
	vec even = v_add32(v_add32(half, half), body_round(shift, bias));
	vec odd = body_dot_add(body_dot(in[0], -F2_0_720, F2_3_624), in[1], -F2_1_272, F2_0_850);
	out[0] = v_sra32(v_add32(even, odd), shift);
	out[1] = v_sra32(v_sub32(even, odd), shift);
}

/* Dequantizes LANES blocks into pairs for body_line. Returns a vector that is not zero if one of
 * them is odd. */
BODY_INLINE vec body_load(
	vec in[2][4], const int16_t *const *blocks, const struct planes_quant *quant)
{
	vec odd = v_set16(0);
	for (int u = 0; u < 8; u++) {
		vec c = v_lanes(blocks, u);
		if (!quant->fits)
			odd = v_or(odd, v_subus16(v_abs16(c), v_lane(quant->limit + 8 * u)));
		in[u % 2][u / 2] = v_mullo16(c, v_lane(quant->step + 8 * u));
	}
	return odd;
}

/* Pixels of LANES blocks, row by row from each lane's start, to `side` rows. */
BODY_INLINE void body_spread(uint8_t *to, size_t pitch, vec pixels, size_t side)
{
	uint8_t lanes[GRAIN];
	v_store(lanes, pixels);
	for (size_t i = 0; i < LANES; i++)
		for (size_t y = 0; y < side; y++)
			memcpy(to + y * pitch + side * i, lanes + 16 * i + side * y, side);
}

/* A vector that is not zero if one of these biased pixels of 16 bits is odd. */
BODY_INLINE vec body_range(vec pixels)
{
	return v_and(pixels, v_set16((int16_t)ODD_MASK));
}

static bool body_four_group(
	uint8_t *to, size_t pitch, const int16_t *const *blocks, const struct planes_quant *quant)
{
	vec in[2][4], low[4], high[4], rows[4];
	vec odd = body_load(in, blocks, quant), bias = v_set16(PIXEL_BIAS);
	body_line_four(low, in[0], PASS1_SHIFT_4, 0);
	body_line_four(high, in[1], PASS1_SHIFT_4, 0);
	for (int i = 0; i < 4; i++)
		rows[i] = v_packs32(low[i], high[i]);
	body_turn(in[0], rows);
	body_line_four(low, in[0], PASS2_SHIFT_4, ODD_BIAS);
	vec c02 = v_packs32(low[0], low[2]), c13 = v_packs32(low[1], low[3]);
	odd = v_or(odd, body_range(v_or(c02, c13)));
	c02 = v_subs16(c02, bias);
	c13 = v_subs16(c13, bias);
	vec c01 = v_unpacklo16(c02, c13), c23 = v_unpackhi16(c02, c13);
	vec upper = v_unpacklo32(c01, c23), lower = v_unpackhi32(c01, c23);
	body_spread(to, pitch, v_packus16(upper, lower), 4);
	return v_any(odd);
}

static bool body_two_group(
	uint8_t *to, size_t pitch, const int16_t *const *blocks, const struct planes_quant *quant)
{
	vec in[2][4], low[2], high[2], rows[4];
	vec odd = body_load(in, blocks, quant), zero = v_set16(0);
	body_line_two(low, in[0], PASS1_SHIFT_2, 0);
	body_line_two(high, in[1], PASS1_SHIFT_2, 0);
	for (int i = 0; i < 2; i++)
		rows[i] = v_packs32(low[i], high[i]);
	rows[2] = rows[3] = zero;
	body_turn(in[0], rows);
	body_line_two(low, in[0], PASS2_SHIFT_2, ODD_BIAS);
	/* Two rows of each column, and two without inputs, which need no change. */
	vec columns = v_packs32(low[0], low[1]);
	odd = v_or(odd, body_range(columns));
	columns = v_subs16(columns, v_set16(PIXEL_BIAS));
	vec pixels = v_unpacklo16(columns, v_unpackhi64(columns, columns));
	body_spread(to, pitch, v_packus16(pixels, zero), 2);
	return v_any(odd);
}

typedef bool body_smaller_group(
	uint8_t *to, size_t pitch, const int16_t *const *blocks, const struct planes_quant *quant);

BODY_INLINE bool body_smaller(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant, body_smaller_group *group, size_t side)
{
	bool odd = false;
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		odd |= group(to + side * i, pitch, blocks + i, quant);
	if (i == count)
		return odd;
	/* Fewer than LANES blocks, as in body_rest. */
	const int16_t *filled[LANES];
	uint8_t pixels[4][4 * LANES];
	for (size_t k = 0; k < LANES; k++)
		filled[k] = blocks[UTIL_MIN(i + k, count - 1)];
	odd |= group(pixels[0], sizeof(pixels[0]), filled, quant);
	for (size_t y = 0; y < side; y++)
		memcpy(to + y * pitch + side * i, pixels[y], side * (count - i));
	return odd;
}

static bool body_four(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant)
{
	return body_smaller(to, pitch, blocks, count, quant, body_four_group, 4);
}

static bool body_two(uint8_t *to, size_t pitch, const int16_t *const *blocks, size_t count,
	const struct planes_quant *quant)
{
	return body_smaller(to, pitch, blocks, count, quant, body_two_group, 2);
}

#ifndef BODY_OWN
/* 3 a + b for the low or the high halves of bytes. */
BODY_INLINE vec body_three_low(vec a, vec b)
{
	return v_maddubs16(v_unpacklo8(a, b), v_set16(0x0103));
}

BODY_INLINE vec body_three_high(vec a, vec b)
{
	return v_maddubs16(v_unpackhi8(a, b), v_set16(0x0103));
}
#endif

/* Converts left and right outputs of 16 bits to alternating bytes. */
BODY_INLINE vec body_turns(vec left, vec right)
{
	return v_or(left, v_sll16(right, 8));
}

BODY_INLINE void body_store_pair(uint8_t *to, vec low, vec high)
{
	v_pair(&low, &high);
	v_store(to, low);
	v_store(to + GRAIN, high);
}

static void body_wider(uint8_t *to, const uint8_t *from, size_t count)
{
	vec one = v_set16(1), two = v_set16(2);
	for (size_t i = 0; i < count; i += GRAIN) {
		vec here = v_load(from + i), left = v_load(from + i - 1),
		    right = v_load(from + i + 1);
		vec ll = v_srl16(v_add16(body_three_low(here, left), one), 2);
		vec lh = v_srl16(v_add16(body_three_high(here, left), one), 2);
		vec rl = v_srl16(v_add16(body_three_low(here, right), two), 2);
		vec rh = v_srl16(v_add16(body_three_high(here, right), two), 2);
		body_store_pair(to + 2 * i, body_turns(ll, rl), body_turns(lh, rh));
	}
}

static void body_between(
	uint8_t *to, const uint8_t *near, const uint8_t *far, unsigned bias, size_t count)
{
	vec b = v_set16((int16_t)bias);
	for (size_t i = 0; i < count; i += GRAIN) {
		vec n = v_load(near + i), f = v_load(far + i);
		vec low = v_srl16(v_add16(body_three_low(n, f), b), 2);
		vec high = v_srl16(v_add16(body_three_high(n, f), b), 2);
		v_store(to + i, v_packus16(low, high));
	}
}

/* Alternates (3 here + left + 8) >> 4 and (3 here + right + 7) >> 4. */
BODY_INLINE vec body_across(vec left, vec here, vec right)
{
	here = v_add16(v_add16(here, here), here);
	vec l = v_srl16(v_add16(v_add16(here, left), v_set16(8)), 4);
	vec r = v_srl16(v_add16(v_add16(here, right), v_set16(7)), 4);
	return body_turns(l, r);
}

static void body_both(uint8_t *to, const uint8_t *near, const uint8_t *far, size_t count)
{
	for (size_t i = 0; i < count; i += GRAIN) {
		const uint8_t *n = near + i, *f = far + i;
		vec n0 = v_load(n - 1), n1 = v_load(n), n2 = v_load(n + 1);
		vec f0 = v_load(f - 1), f1 = v_load(f), f2 = v_load(f + 1);
		vec low = body_across(
			body_three_low(n0, f0), body_three_low(n1, f1), body_three_low(n2, f2));
		vec high = body_across(
			body_three_high(n0, f0), body_three_high(n1, f1), body_three_high(n2, f2));
		body_store_pair(to + 2 * i, low, high);
	}
}

/* Converts half a vector of Y in 16 bits, and of Cb and Cr, each minus 128, alternating by 8. Red
 * and blue: 2 x chroma times the factor, rounded at 15 bits; 1.402 and 1.772 in 14 bits, rounded
 * up, give the same as jdcolor.c's 16 bits for every chroma. Green: half of jdcolor.c's factors,
 * 11277 Cb + 23401 Cr, is 256 (44 Cb + 91 Cr) + (13 Cb + 105 Cr), whose parts are multiply-adds of
 * bytes; the floor of the whole sum is the floor of the upper part minus the lower part's carry. */
BODY_INLINE void body_color(vec out[3], vec y, vec chroma)
{
	vec cr = v_sll16(v_sra16(chroma, 8), 1), cb = v_sra16(v_sll16(chroma, 8), 7);
	out[0] = v_add16(y, v_mulhrs16(cr, v_set16(22971)));
	out[2] = v_add16(y, v_mulhrs16(cb, v_set16(29033)));
	vec upper = v_maddubs16(v_set16(91 << 8 | 44), chroma);
	vec lower = v_maddubs16(v_set16(105 << 8 | 13), chroma);
	vec carry = v_sra16(v_add16(lower, v_set16(255)), 8);
	vec green = v_sra16(v_sub16(v_sub16(v_set16(64), upper), carry), 7);
	out[1] = v_add16(y, green);
}

/* Converts a vector of pixels. */
BODY_INLINE void body_convert(vec out[3], const uint8_t *const from[3], size_t at)
{
	vec zero = v_set16(0), sign = v_set8((char)0x80), low[3], high[3];
	vec y = v_load(from[0] + at);
	vec cb = v_xor(v_load(from[1] + at), sign), cr = v_xor(v_load(from[2] + at), sign);
	body_color(low, v_unpacklo8(y, zero), v_unpacklo8(cb, cr));
	body_color(high, v_unpackhi8(y, zero), v_unpackhi8(cb, cr));
	for (int c = 0; c < 3; c++)
		out[c] = v_packus16(low[c], high[c]);
}

static void body_planar(uint8_t *const to[3], const uint8_t *const from[3], size_t count)
{
	for (size_t i = 0; i < count; i += GRAIN) {
		vec out[3];
		body_convert(out, from, i);
		for (int c = 0; c < 3; c++)
			v_store(to[c] + i, out[c]);
	}
}

#ifndef BODY_OWN
/* For each color and each 16 bytes of 16 triples: which of these bytes go to which place. */
#define SPLIT(n, k, c) ((3 * (n) + (c)) / 16 == (k) ? (3 * (n) + (c)) % 16 : -1)
#define SPLITS(k, c)                                                                            \
	{                                                                                       \
		SPLIT(0, k, c), SPLIT(1, k, c), SPLIT(2, k, c), SPLIT(3, k, c), SPLIT(4, k, c), \
			SPLIT(5, k, c), SPLIT(6, k, c), SPLIT(7, k, c), SPLIT(8, k, c),         \
			SPLIT(9, k, c), SPLIT(10, k, c), SPLIT(11, k, c), SPLIT(12, k, c),      \
			SPLIT(13, k, c), SPLIT(14, k, c), SPLIT(15, k, c)                       \
	}
static const _Alignas(16) int8_t split[3][3][16] = {
	{SPLITS(0, 0), SPLITS(1, 0), SPLITS(2, 0)},
	{SPLITS(0, 1), SPLITS(1, 1), SPLITS(2, 1)},
	{SPLITS(0, 2), SPLITS(1, 2), SPLITS(2, 2)},
};

static void body_split(uint8_t *const to[3], const uint8_t *from, size_t count)
{
	size_t i = 0;
	for (; i + 16 <= count; i += 16, from += 48)
		for (int c = 0; c < 3; c++) {
			__m128i sum = _mm_setzero_si128();
			for (int k = 0; k < 3; k++)
				sum = _mm_or_si128(sum,
					_mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)from + k),
						_mm_load_si128((const __m128i *)split[c][k])));
			_mm_storeu_si128((__m128i *)(to[c] + i), sum);
		}
	planes_kernels_c.split(
		(uint8_t *const[3]){to[0] + i, to[1] + i, to[2] + i}, from, count - i);
}
#endif

const struct planes_kernels TABLE = {
	.name = NAME,
	.sort = body_sort,
	.transform = body_transform,
	.smaller = {planes_kernels_one, body_two, body_four},
	.wider = body_wider,
	.between = body_between,
	.both = body_both,
	.planar = body_planar,
	.split = body_split,
};

/* kernels_vnni: for x86-64 with AVX-512 F, BW, VL, VBMI and VNNI (only this file is compiled with
 * them); empty elsewhere. See kernels.h.
 *
 * A weight is a x 2^16 + b x 2^8 + c with digits in [-128, 127], which covers +-2^23. One
 * instruction adds four products of a byte and a digit to a 32-bit sum; Horner's rule combines
 * the digits.
 *
 * Horizontal passes arrange bytes in one of two ways. If 16 outputs are near each other, an
 * instruction takes four taps of each. Otherwise (bilinear: where an image shrinks to less than a
 * seventh) it takes 16 taps of four outputs, and the four parts of each sum are added up. */
#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#include "pixel/kernels.h"

#include <assert.h>
#include <immintrin.h>

#define KERNELS_DOTS
static inline __attribute__((always_inline)) void body_dots(uint32_t sums[3],
	const uint8_t *const from[3], size_t first, const int32_t *value, uint32_t taps)
{
	__m512i sum[3] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
	for (uint32_t t = 0; t < taps; t += KERNELS_RUN) {
		__m512i weights = _mm512_loadu_si512(value + t);
		for (int c = 0; c < 3; c++) {
			__m128i bytes = _mm_loadu_si128((const void *)(from[c] + first + t));
			sum[c] = _mm512_add_epi32(
				sum[c], _mm512_mullo_epi32(_mm512_cvtepu8_epi32(bytes), weights));
		}
	}
	for (int c = 0; c < 3; c++)
		sums[c] = (uint32_t)_mm512_reduce_add_epi32(sum[c]);
}

#include "pixel/kernels_body.h"

#include <string.h>

typedef __m512i vec;

enum {
	DIGITS = 3,
	QUADS = WEIGHTS_FEW / WEIGHTS_QUAD,
	GROUP = 16, /* outputs of a vector of 32 bits */
	BLOCK = 4, /* of those: one of bytes */
	REACH = 64, /* bytes that one gather sees; two vectors: twice as many */
	FOUR = 4, /* outputs of a vector that are far from each other */
	STEP = 16, /* taps of each of them in it */
	STEPS = WEIGHTS_FEW / STEP,
	HALF = WEIGHTS_HALF >> 16, /* at the top digit */
};

/* What 16 outputs take: byte 4 o + t of a gather is for output o and its tap t of a quad; each
 * further quad is gathered 4 bytes on. */
struct vnni_group {
	uint32_t base;
	_Alignas(KERNELS_GRAIN) uint8_t pick[REACH];
	int8_t digit[][DIGITS][REACH];
};

/* What four outputs take that are far from each other: byte 16 o + t of a gather is for output o
 * and its tap t of a step; the second step is gathered 16 bytes on. */
struct vnni_four {
	uint32_t base;
	_Alignas(KERNELS_GRAIN) uint8_t pick[REACH];
	int8_t digit[STEPS][DIGITS][REACH];
};
static_assert(sizeof(struct vnni_four) <= FOUR * KERNELS_PACKED, "pack has room for it");

enum vnni_kind {
	VNNI_NEAR, /* groups, gathered from one vector */
	VNNI_WIDE, /* groups, gathered from two */
	VNNI_FAR, /* fours */
};

struct vnni_table {
	uint32_t kind;
	_Alignas(KERNELS_GRAIN) uint8_t groups[];
};

KERNELS_INLINE size_t vnni_group_bytes(uint32_t quads)
{
	return sizeof(struct vnni_group) + quads * sizeof(((struct vnni_group *)0)->digit[0]);
}

KERNELS_INLINE vec vnni_load(const void *p)
{
	return _mm512_loadu_si512(p);
}

/* The lowest digit of each weight, and the rest. */
KERNELS_INLINE vec vnni_digit(vec *value)
{
	vec digit = _mm512_srai_epi32(_mm512_slli_epi32(*value, 24), 24);
	*value = _mm512_srai_epi32(_mm512_sub_epi32(*value, digit), 8);
	return digit;
}

/* Splits a quad of weights of four outputs, `stride` apart, into 16 bytes of each digit. */
static void vnni_pack_quads(
	int8_t (*to)[REACH], const int32_t *value, uint32_t stride, uint32_t outputs)
{
	vec four = _mm512_setzero_si512();
	if (outputs > 0)
		four = _mm512_castsi128_si512(_mm_loadu_si128((const void *)value));
	if (outputs > 1)
		four = _mm512_inserti32x4(four, _mm_loadu_si128((const void *)(value + stride)), 1);
	if (outputs > 2)
		four = _mm512_inserti32x4(
			four, _mm_loadu_si128((const void *)(value + 2 * (size_t)stride)), 2);
	if (outputs > 3)
		four = _mm512_inserti32x4(
			four, _mm_loadu_si128((const void *)(value + 3 * (size_t)stride)), 3);
	for (int d = DIGITS - 1; d >= 0; d--)
		_mm_storeu_si128((void *)to[d], _mm512_cvtepi32_epi8(vnni_digit(&four)));
}

/* Outputs [at, at + 16), as far as they exist; returns how many bytes they span. */
static uint32_t vnni_pack_group(
	const struct weights *w, uint32_t at, uint32_t quads, struct vnni_group *to)
{
	uint32_t count = w->count - at, stride = w->stride;
	count = count < GROUP ? count : GROUP;
	__mmask16 valid = (__mmask16)((1u << count) - 1);
	vec first = _mm512_maskz_loadu_epi32(valid, w->first + at);
	uint32_t low = _mm512_mask_reduce_min_epu32(valid, first);
	uint32_t high = _mm512_mask_reduce_max_epu32(valid, first);
	vec place = _mm512_maskz_sub_epi32(valid, first, _mm512_set1_epi32((int)low));
	/* The position in all four bytes, plus 0, 1, 2, 3. */
	place = _mm512_mullo_epi32(place, _mm512_set1_epi32(0x01010101));
	place = _mm512_add_epi8(place, _mm512_set1_epi32(0x03020100));
	_mm512_storeu_si512(to->pick, place);
	to->base = low;
	for (uint32_t q = 0; q < quads; q++)
		for (uint32_t o = 0; o < GROUP; o += 4) {
			int8_t digits[DIGITS][REACH];
			const int32_t *value = w->value + (size_t)(at + o) * stride;
			vnni_pack_quads(
				digits, value + 4 * (size_t)q, stride, o < count ? count - o : 0);
			for (int d = 0; d < DIGITS; d++)
				memcpy(to->digit[q][d] + o * 4, digits[d], 16);
		}
	return high - low + WEIGHTS_QUAD;
}

/* Outputs [at, at + 4), as far as they exist. False: they are too far from each other. */
static bool vnni_pack_four(const struct weights *w, uint32_t at, struct vnni_four *to)
{
	uint32_t count = w->count - at, stride = w->stride, low = UINT32_MAX, high = 0;
	count = count < FOUR ? count : FOUR;
	memset(to, 0, sizeof(*to));
	for (uint32_t o = 0; o < count; o++) {
		uint32_t first = w->first[at + o];
		low = first < low ? first : low;
		high = first > high ? first : high;
	}
	if (high - low + STEP > REACH)
		return false;
	to->base = low;
	for (uint32_t o = 0; o < FOUR; o++)
		for (uint32_t t = 0; t < STEP; t++)
			to->pick[o * STEP + t] =
				(uint8_t)(o < count ? w->first[at + o] - low + t : 0);
	for (uint32_t o = 0; o < count; o++)
		for (uint32_t t = 0; t < stride; t += WEIGHTS_QUAD) {
			int8_t digits[DIGITS][REACH];
			vnni_pack_quads(digits, w->value + (size_t)(at + o) * stride + t, 0, 1);
			for (int d = 0; d < DIGITS; d++)
				memcpy(&to->digit[t / STEP][d][o * STEP + t % STEP], digits[d],
					WEIGHTS_QUAD);
		}
	return true;
}

static bool vnni_pack_far(const struct weights *w, struct vnni_four *fours)
{
	bool near = true;
	/* Passes take whole groups. */
	for (uint32_t at = 0; at < w->count; at += FOUR)
		near &= vnni_pack_four(w, at, fours++);
	for (uint32_t at = (w->count + FOUR - 1) / FOUR; at % FOUR; at++)
		memset(fours++, 0, sizeof(*fours));
	return near;
}

static bool vnni_pack(const struct weights *w, uint8_t *bytes)
{
	struct vnni_table *table = (struct vnni_table *)(void *)bytes;
	uint32_t quads = w->stride / WEIGHTS_QUAD, most = 0;
	size_t step = vnni_group_bytes(quads);
	uint8_t *group = table->groups;
	for (uint32_t at = 0; at < w->count; at += GROUP, group += step) {
		uint32_t reach = vnni_pack_group(w, at, quads, (struct vnni_group *)(void *)group);
		most = reach > most ? reach : most;
	}
	table->kind = most <= REACH ? VNNI_NEAR : most <= 2 * REACH ? VNNI_WIDE : VNNI_FAR;
	return table->kind != VNNI_FAR ||
	       vnni_pack_far(w, (struct vnni_four *)(void *)table->groups);
}

KERNELS_INLINE vec vnni_gather(const uint8_t *from, vec pick, bool wide)
{
	vec low = vnni_load(from);
	return wide ? _mm512_permutex2var_epi8(low, pick, vnni_load(from + REACH))
		    : _mm512_permutexvar_epi8(pick, low);
}

/* Sixteen outputs of one row, before packing. */
KERNELS_INLINE vec vnni_across_group(
	const uint8_t *from, const struct vnni_group *group, uint32_t quads, bool wide)
{
	vec pick = vnni_load(group->pick), pixel[QUADS], sum = _mm512_set1_epi32(HALF);
	from += group->base;
	for (uint32_t q = 0; q < quads; q++)
		pixel[q] = vnni_gather(from + (size_t)q * WEIGHTS_QUAD, pick, wide);
	for (int d = 0; d < DIGITS; d++) {
		if (d)
			sum = _mm512_slli_epi32(sum, 8);
		for (uint32_t q = 0; q < quads; q++)
			sum = _mm512_dpbusd_epi32(sum, pixel[q], vnni_load(group->digit[q][d]));
	}
	return _mm512_srai_epi32(sum, WEIGHTS_BITS);
}

/* Packs groups of outputs into bytes, in order. */
KERNELS_INLINE vec vnni_block(const vec group[BLOCK])
{
	vec bytes = _mm512_packus_epi16(
		_mm512_packs_epi32(group[0], group[1]), _mm512_packs_epi32(group[2], group[3]));
	return _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

KERNELS_INLINE void vnni_across_groups(uint8_t *const to[3], const uint8_t *const from[3],
	const uint8_t *group, size_t at, uint32_t groups, uint32_t quads, bool wide)
{
	size_t step = vnni_group_bytes(quads);
	__mmask64 written = ~(__mmask64)0 >> (BLOCK - groups) * GROUP;
	for (int c = 0; c < 3; c++) {
		vec v[BLOCK];
		for (uint32_t g = 0; g < BLOCK; g++)
			v[g] = g < groups ? vnni_across_group(from[c],
						    (const struct vnni_group *)(const void
								    *)(group + g * step),
						    quads, wide)
					  : _mm512_setzero_si512();
		_mm512_mask_storeu_epi8(to[c] + at, written, vnni_block(v));
	}
}

/* A whole block with one quad: the gathered bytes stay in registers for all three rows. */
KERNELS_INLINE void vnni_across_block(
	uint8_t *const to[3], const uint8_t *const from[3], const uint8_t *groups, size_t at)
{
	vec pick[BLOCK], digit[BLOCK][DIGITS];
	size_t base[BLOCK];
	for (int g = 0; g < BLOCK; g++) {
		const struct vnni_group *group =
			(const struct vnni_group *)(const void *)(groups + g * vnni_group_bytes(1));
		base[g] = group->base;
		pick[g] = vnni_load(group->pick);
		for (int d = 0; d < DIGITS; d++)
			digit[g][d] = vnni_load(group->digit[0][d]);
	}
	for (int c = 0; c < 3; c++) {
		vec sum[BLOCK];
		for (int g = 0; g < BLOCK; g++) {
			vec pixel = vnni_gather(from[c] + base[g], pick[g], false);
			sum[g] = _mm512_set1_epi32(HALF);
			for (int d = 0; d < DIGITS; d++) {
				if (d)
					sum[g] = _mm512_slli_epi32(sum[g], 8);
				sum[g] = _mm512_dpbusd_epi32(sum[g], pixel, digit[g][d]);
			}
			sum[g] = _mm512_srai_epi32(sum[g], WEIGHTS_BITS);
		}
		_mm512_storeu_si512(to[c] + at, vnni_block(sum));
	}
}

/* `quads` is a constant if it is small. */
KERNELS_INLINE void vnni_across_quads(uint8_t *const to[3], const uint8_t *const from[3],
	uint32_t count, const struct vnni_table *table, uint32_t quads, bool wide)
{
	const uint8_t *group = table->groups;
	uint32_t at = 0;
	for (; at + BLOCK * GROUP <= count; at += BLOCK * GROUP) {
		if (quads == 1 && !wide)
			vnni_across_block(to, from, group, at);
		else
			vnni_across_groups(to, from, group, at, BLOCK, quads, wide);
		group += BLOCK * vnni_group_bytes(quads);
	}
	if (at < count)
		vnni_across_groups(
			to, from, group, at, (count - at + GROUP - 1) / GROUP, quads, wide);
}

/* Sixteen outputs of one row that are far from each other, before packing. */
KERNELS_INLINE vec vnni_across_fours(
	const uint8_t *from, const struct vnni_four four[FOUR], uint32_t steps)
{
	vec part[FOUR];
	for (int i = 0; i < FOUR; i++) {
		vec pick = vnni_load(four[i].pick), pixel[STEPS];
		/* One of an output's four parts has the half. */
		vec sum = _mm512_maskz_set1_epi32(0x1111, HALF);
		for (uint32_t s = 0; s < steps; s++)
			pixel[s] = vnni_gather(from + four[i].base + s * STEP, pick, false);
		for (int d = 0; d < DIGITS; d++) {
			if (d)
				sum = _mm512_slli_epi32(sum, 8);
			for (uint32_t s = 0; s < steps; s++)
				sum = _mm512_dpbusd_epi32(
					sum, pixel[s], vnni_load(four[i].digit[s][d]));
		}
		part[i] = sum;
	}
	vec low = _mm512_add_epi32(
		_mm512_unpacklo_epi32(part[0], part[1]), _mm512_unpackhi_epi32(part[0], part[1]));
	vec high = _mm512_add_epi32(
		_mm512_unpacklo_epi32(part[2], part[3]), _mm512_unpackhi_epi32(part[2], part[3]));
	vec sum = _mm512_add_epi32(
		_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
	/* Element 4 j + i is output 4 i + j now. */
	sum = _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), sum);
	return _mm512_srai_epi32(sum, WEIGHTS_BITS);
}

/* `steps` is a constant. */
KERNELS_INLINE void vnni_across_far(uint8_t *const to[3], const uint8_t *const from[3],
	uint32_t count, const struct vnni_four *four, uint32_t steps)
{
	for (uint32_t at = 0; at < count; at += BLOCK * GROUP, four += BLOCK * FOUR) {
		uint32_t groups = (count - at + GROUP - 1) / GROUP;
		groups = groups < BLOCK ? groups : BLOCK;
		__mmask64 written = ~(__mmask64)0 >> (BLOCK - groups) * GROUP;
		for (int c = 0; c < 3; c++) {
			vec v[BLOCK];
			for (uint32_t g = 0; g < BLOCK; g++)
				v[g] = g < groups ? vnni_across_fours(
							    from[c], four + (size_t)g * FOUR, steps)
						  : _mm512_setzero_si512();
			_mm512_mask_storeu_epi8(to[c] + at, written, vnni_block(v));
		}
	}
}

static void vnni_across(uint8_t *const to[3], const uint8_t *const from[3], const struct weights *w,
	const uint8_t *bytes)
{
	const struct vnni_table *table = (const struct vnni_table *)(const void *)bytes;
	uint32_t quads = w->stride / WEIGHTS_QUAD;
	const struct vnni_four *fours = (const struct vnni_four *)(const void *)table->groups;
	if (table->kind == VNNI_FAR && w->stride <= STEP)
		vnni_across_far(to, from, w->count, fours, 1);
	else if (table->kind == VNNI_FAR)
		vnni_across_far(to, from, w->count, fours, STEPS);
	else if (table->kind == VNNI_WIDE)
		vnni_across_quads(to, from, w->count, table, quads, true);
	else if (quads == 1)
		vnni_across_quads(to, from, w->count, table, 1, false);
	else if (quads == 2)
		vnni_across_quads(to, from, w->count, table, 2, false);
	else
		vnni_across_quads(to, from, w->count, table, quads, false);
}

/* The bytes of four rows, interleaved. */
KERNELS_INLINE void vnni_rows(vec out[BLOCK], const uint8_t *const rows[WEIGHTS_QUAD], size_t at)
{
	vec a = vnni_load(rows[0] + at), b = vnni_load(rows[1] + at);
	vec c = vnni_load(rows[2] + at), d = vnni_load(rows[3] + at);
	vec ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
	out[0] = _mm512_unpacklo_epi16(ab, cd);
	out[1] = _mm512_unpackhi_epi16(ab, cd);
	ab = _mm512_unpackhi_epi8(a, b);
	cd = _mm512_unpackhi_epi8(c, d);
	out[2] = _mm512_unpacklo_epi16(ab, cd);
	out[3] = _mm512_unpackhi_epi16(ab, cd);
}

KERNELS_INLINE void vnni_down_quads(uint8_t *to, const uint8_t *const *rows,
	const uint32_t (*digit)[DIGITS], size_t bytes, uint32_t quads)
{
	for (size_t at = 0; at < bytes; at += sizeof(vec)) {
		vec sum[DIGITS][BLOCK];
		for (int d = 0; d < DIGITS; d++)
			for (int j = 0; j < BLOCK; j++)
				sum[d][j] = _mm512_set1_epi32(d ? 0 : HALF);
		for (uint32_t q = 0; q < quads; q++) {
			vec pixel[BLOCK];
			vnni_rows(pixel, rows + (size_t)q * WEIGHTS_QUAD, at);
			for (int d = 0; d < DIGITS; d++)
				for (int j = 0; j < BLOCK; j++)
					sum[d][j] = _mm512_dpbusd_epi32(sum[d][j], pixel[j],
						_mm512_set1_epi32((int)digit[q][d]));
		}
		for (int j = 0; j < BLOCK; j++) {
			vec high = _mm512_add_epi32(_mm512_slli_epi32(sum[0][j], 8), sum[1][j]);
			sum[0][j] = _mm512_srai_epi32(
				_mm512_add_epi32(_mm512_slli_epi32(high, 8), sum[2][j]),
				WEIGHTS_BITS);
		}
		_mm512_storeu_si512(
			to + at, _mm512_packus_epi16(_mm512_packs_epi32(sum[0][0], sum[0][1]),
					 _mm512_packs_epi32(sum[0][2], sum[0][3])));
	}
}

/* The same for one quad, whose sums can take the digits one after the other. */
static void vnni_down_quad(
	uint8_t *to, const uint8_t *const *rows, const uint32_t digit[DIGITS], size_t bytes)
{
	for (size_t at = 0; at < bytes; at += sizeof(vec)) {
		vec pixel[BLOCK], sum[BLOCK];
		vnni_rows(pixel, rows, at);
		for (int j = 0; j < BLOCK; j++) {
			sum[j] = _mm512_set1_epi32(HALF);
			for (int d = 0; d < DIGITS; d++) {
				if (d)
					sum[j] = _mm512_slli_epi32(sum[j], 8);
				sum[j] = _mm512_dpbusd_epi32(
					sum[j], pixel[j], _mm512_set1_epi32((int)digit[d]));
			}
			sum[j] = _mm512_srai_epi32(sum[j], WEIGHTS_BITS);
		}
		_mm512_storeu_si512(to + at, _mm512_packus_epi16(_mm512_packs_epi32(sum[0], sum[1]),
						     _mm512_packs_epi32(sum[2], sum[3])));
	}
}

static void vnni_down(
	uint8_t *to, const uint8_t *const *rows, const int32_t *value, uint32_t taps, size_t bytes)
{
	const uint8_t *padded[WEIGHTS_FEW];
	uint32_t digit[QUADS][DIGITS], quads = (taps + WEIGHTS_QUAD - 1) / WEIGHTS_QUAD;
	int32_t values[WEIGHTS_FEW] = {0};
	for (uint32_t t = 0; t < quads * WEIGHTS_QUAD; t++) {
		padded[t] = rows[t < taps ? t : 0];
		values[t] = t < taps ? value[t] : 0;
	}
	for (uint32_t q = 0; q < quads; q++) {
		int8_t digits[DIGITS][REACH];
		vnni_pack_quads(digits, values + (size_t)q * WEIGHTS_QUAD, 0, 1);
		for (int d = 0; d < DIGITS; d++)
			memcpy(&digit[q][d], digits[d], sizeof(digit[q][d]));
	}
	if (quads == 1)
		vnni_down_quad(to, padded, digit[0], bytes);
	else
		vnni_down_quads(to, padded, (const uint32_t(*)[DIGITS])digit, bytes, quads);
}

/* For each third of 192 interleaved bytes: the pixel (of 64) of each byte. Red and green come
 * from two vectors (green: 64 and up); blue is then blended in. */
#define PIXEL(k, n) ((64 * (k) + (n)) / 3 + ((64 * (k) + (n)) % 3 == 1 ? 64 : 0))
#define PIXELS8(k, n)                                                                            \
	PIXEL(k, n), PIXEL(k, (n) + 1), PIXEL(k, (n) + 2), PIXEL(k, (n) + 3), PIXEL(k, (n) + 4), \
		PIXEL(k, (n) + 5), PIXEL(k, (n) + 6), PIXEL(k, (n) + 7)
#define PIXELS(k)                                                                             \
	{                                                                                     \
		PIXELS8(k, 0), PIXELS8(k, 8), PIXELS8(k, 16), PIXELS8(k, 24), PIXELS8(k, 32), \
			PIXELS8(k, 40), PIXELS8(k, 48), PIXELS8(k, 56)                        \
	}
static const _Alignas(64) uint8_t weave_pixel[3][64] = {PIXELS(0), PIXELS(1), PIXELS(2)};
static const uint64_t weave_blue[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};

static void vnni_weave(uint8_t *to, const uint8_t *const from[3], size_t count)
{
	for (size_t i = 0; i < count; i += sizeof(vec), to += 3 * sizeof(vec)) {
		vec red = vnni_load(from[0] + i), green = vnni_load(from[1] + i);
		vec blue = vnni_load(from[2] + i);
		for (size_t k = 0; k < 3; k++) {
			vec pixel = vnni_load(weave_pixel[k]);
			vec all = _mm512_permutex2var_epi8(red, pixel, green);
			all = _mm512_mask_permutexvar_epi8(all, weave_blue[k], pixel, blue);
			size_t left = 3 * (count - i);
			left = left > 64 * k ? left - 64 * k : 0;
			if (left >= 64)
				_mm512_storeu_si512(to + 64 * k, all);
			else
				_mm512_mask_storeu_epi8(
					to + 64 * k, ((__mmask64)1 << left) - 1, all);
		}
	}
}

const struct kernels kernels_vnni = {
	.name = "avx512-vnni",
	.pack = vnni_pack,
	.across = vnni_across,
	.across_many = body_across_many,
	.down = vnni_down,
	.down_add = body_down_add,
	.down_end = body_down_end,
	.weave = vnni_weave,
};
#else
typedef int kernels_vnni_empty;
#endif

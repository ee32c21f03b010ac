/* kernels_place_avx512: `bilinear` and `bicubic` for x86-64 with AVX-512 F, BW, VL, included by the
 * files that are compiled with it.
 *
 * As kernels_place_avx2_body.h, but for eight places at a time, one in each lane, and one channel
 * after the other. Each load takes eight bytes, which hold two pixels. A byte becomes a double by
 * being put into the lowest bits of 2^52; the difference of two such doubles is the difference of
 * the bytes. Values that Pillow computes only from bytes are integers, exact in any order; after
 * that, every number is rounded in Pillow's order.
 *
 * Taps must be adjacent, and the loaded bytes must be inside the image. If one of eight places,
 * at the image's edge, is different, all eight go to kernels_place_avx2_body.h. */
#include "augment/kernels/kernels_place_avx2_body.h"

enum { WAY_GROUP = 8, WAY_NARROWEST = 4 };

/* Values that are the same for all outputs of a row. */
struct way_row {
	const uint8_t *from;
	bool perspective;
	__m512d step[3], begin[3], shift[3]; /* step x + begin + shift, for x, y and the share */
	__m512d side[2];
	__m256i last[2], row;
};

PLACE_INLINE struct way_row way_row(const struct augment_warp *warp, uint32_t y)
{
	const double *m = warp->matrix;
	struct way_row row = {.from = warp->from, .perspective = warp->perspective};
	for (int i = 0; i < 3; i++) {
		bool used = i < 2 || warp->perspective;
		row.step[i] = _mm512_set1_pd(used ? m[3 * i] : 0);
		row.begin[i] = _mm512_set1_pd(used ? m[3 * i + 1] * (y + 0.5) : 0);
		row.shift[i] = _mm512_set1_pd(i < 2 ? m[3 * i + 2] : 1);
	}
	row.side[0] = _mm512_set1_pd(warp->width);
	row.side[1] = _mm512_set1_pd(warp->height);
	row.last[0] = _mm256_set1_epi32((int)warp->width - 1);
	row.last[1] = _mm256_set1_epi32((int)warp->height - 1);
	row.row = _mm256_set1_epi32(3 * (int)warp->width);
	return row;
}

PLACE_INLINE __m512d way_along(const struct way_row *row, int axis, __m512d x)
{
	__m512d sum = _mm512_add_pd(_mm512_mul_pd(row->step[axis], x), row->begin[axis]);
	return _mm512_add_pd(sum, row->shift[axis]);
}

/* Eight places. Neither bit is set where a coordinate is NaN. */
struct way_eight {
	__m512d at[2];
	__mmask8 outside, inside;
};

PLACE_INLINE struct way_eight way_eight(const struct way_row *row, __m512d x, __mmask8 wanted)
{
	struct way_eight eight = {.at = {way_along(row, 0, x), way_along(row, 1, x)}};
	if (row->perspective) {
		__m512d share = way_along(row, 2, x);
		eight.at[0] = _mm512_div_pd(eight.at[0], share);
		eight.at[1] = _mm512_div_pd(eight.at[1], share);
	}
	unsigned outside = 0, number = wanted;
	for (int i = 0; i < 2; i++) {
		outside |= _mm512_cmp_pd_mask(eight.at[i], _mm512_setzero_pd(), _CMP_LT_OQ);
		outside |= _mm512_cmp_pd_mask(eight.at[i], row->side[i], _CMP_GE_OQ);
		number &= _mm512_cmp_pd_mask(eight.at[i], eight.at[i], _CMP_ORD_Q);
	}
	eight.outside = (__mmask8)outside;
	eight.inside = (__mmask8)(number & ~outside);
	return eight;
}

/* The last tap that is not after the place, and the distance from this tap to the place. */
struct way_axis {
	__m512d part;
	__m256i first;
	bool whole; /* all fractions are 0 */
};

PLACE_INLINE struct way_axis way_axis(const struct way_eight *eight, int axis)
{
	struct way_axis ret;
	__m512d middle = _mm512_sub_pd(eight->at[axis], _mm512_set1_pd(0.5));
	__m512d first = _mm512_roundscale_pd(middle, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
	ret.part = _mm512_sub_pd(middle, first);
	ret.first = _mm512_maskz_cvttpd_epi32(eight->inside, first);
	ret.whole =
		!_mm512_mask_cmp_pd_mask(eight->inside, ret.part, _mm512_setzero_pd(), _CMP_NEQ_UQ);
	return ret;
}

struct way_offsets {
	_Alignas(32) uint32_t of[PLACE_TAPS][WAY_GROUP];
};

/* Where the first tap of each place and row begins. False: kernels_place_avx2_body.h must do
 * these places. */
PLACE_INLINE bool way_offsets(struct way_offsets *ret, const struct way_row *row,
	const struct way_eight *eight, struct way_axis *x, const struct way_axis *y, int taps)
{
	const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi32(1);
	__m256i across = x->first,
		down = _mm256_sub_epi32(y->first, _mm256_set1_epi32(taps / 2 - 1));
	if (taps == 2) {
		/* At the edges both taps are the same pixel, which has the effect of a fraction
		 * of 0. */
		__mmask8 two = _mm256_cmplt_epi32_mask(across, row->last[0]) &
			       _mm256_cmpge_epi32_mask(across, zero);
		__mmask8 low = _mm256_cmpge_epi32_mask(_mm256_add_epi32(down, one), row->last[1]);
		__mmask8 right =
			_mm256_cmpge_epi32_mask(_mm256_add_epi32(across, one), row->last[0]);
		if (low & right & eight->inside)
			return false;
		x->part = _mm512_maskz_mov_pd(two, x->part);
		across = _mm256_max_epi32(across, zero);
	} else {
		across = _mm256_sub_epi32(across, one);
		__m256i end = _mm256_add_epi32(across, _mm256_set1_epi32(taps - 1));
		__mmask8 beyond = _mm256_cmplt_epi32_mask(across, zero) |
				  _mm256_cmpgt_epi32_mask(end, row->last[0]);
		if (beyond & eight->inside)
			return false;
	}
	across = _mm256_add_epi32(across, _mm256_add_epi32(across, across));
	for (int i = 0; i < taps; i++) {
		__m256i place = _mm256_min_epi32(_mm256_max_epi32(down, zero), row->last[1]);
		place = _mm256_add_epi32(_mm256_mullo_epi32(place, row->row), across);
		_mm256_store_si256(
			(void *)ret->of[i], _mm256_maskz_mov_epi32(eight->inside, place));
		down = _mm256_add_epi32(down, one);
	}
	return true;
}

PLACE_INLINE __m128i way_load_two(const uint8_t *from, const uint32_t *offset)
{
	__m128i first = _mm_loadl_epi64((const void *)(from + offset[0]));
	return _mm_unpacklo_epi64(first, _mm_loadl_epi64((const void *)(from + offset[1])));
}

PLACE_INLINE __m512i way_load(const uint8_t *from, const uint32_t *offset)
{
	__m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(way_load_two(from, offset)),
		way_load_two(from, offset + 2), 1);
	__m256i high =
		_mm256_inserti128_si256(_mm256_castsi128_si256(way_load_two(from, offset + 4)),
			way_load_two(from, offset + 6), 1);
	return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

#define WAY_BASE 0x1p52

/* 2^52 plus the byte. */
PLACE_INLINE __m512d way_byte(__m512i bytes, unsigned byte)
{
	enum { MASKED_OR = 0xea };
	const __m512i base = _mm512_castpd_si512(_mm512_set1_pd(WAY_BASE));
	return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(
		_mm512_srli_epi64(bytes, 8 * byte), _mm512_set1_epi64(UINT8_MAX), base, MASKED_OR));
}

PLACE_INLINE __m512d way_number(__m512d byte)
{
	return _mm512_sub_pd(byte, _mm512_set1_pd(WAY_BASE));
}

PLACE_INLINE __m512d way_two(__m512d first, __m512d step, __m512d part)
{
	return _mm512_add_pd(first, _mm512_mul_pd(step, part));
}

PLACE_INLINE __m512d way_powers(__m512d first, __m512d p2, __m512d p3, __m512d p4, __m512d part)
{
	__m512d sum = _mm512_add_pd(p3, _mm512_mul_pd(part, p4));
	sum = _mm512_add_pd(p2, _mm512_mul_pd(part, sum));
	return _mm512_add_pd(first, _mm512_mul_pd(part, sum));
}

/* One channel of the taps along x. The code loads no quarter of a row's taps twice: the bytes
 * from 4 on are in `behind`. */
PLACE_INLINE __m512d way_across(
	__m512i taps_of, __m512i behind, __m512d part, unsigned channel, int taps, bool whole)
{
	if (taps == 2) {
		__m512d a = way_byte(taps_of, channel);
		if (whole)
			return way_number(a);
		__m512d b = way_byte(taps_of, channel + 3);
		return way_two(way_number(a), _mm512_sub_pd(b, a), part);
	}
	__m512d b = way_byte(taps_of, channel + 3);
	if (whole)
		return way_number(b);
	__m512d a = way_byte(taps_of, channel), c = way_byte(behind, channel + 2);
	__m512d d = way_byte(behind, channel + 5);
	__m512d down = _mm512_sub_pd(a, b), on = _mm512_sub_pd(c, d);
	__m512d p3 = _mm512_add_pd(_mm512_add_pd(down, down), on);
	__m512d p4 = _mm512_sub_pd(_mm512_setzero_pd(), _mm512_add_pd(down, on));
	return way_powers(way_number(b), _mm512_sub_pd(c, a), p3, p4, part);
}

/* Doubles, in Pillow's order. */
PLACE_INLINE __m512d way_down(const __m512d v[PLACE_TAPS], __m512d part, int taps)
{
	if (taps == 2)
		return way_two(v[0], _mm512_sub_pd(v[1], v[0]), part);
	__m512d twice = _mm512_sub_pd(v[0], v[1]), p2 = _mm512_sub_pd(v[2], v[0]);
	__m512d p3 = _mm512_sub_pd(_mm512_add_pd(_mm512_add_pd(twice, twice), v[2]), v[3]);
	__m512d p4 = _mm512_add_pd(_mm512_sub_pd(_mm512_sub_pd(v[1], v[0]), v[2]), v[3]);
	return way_powers(v[1], p2, p3, p4, part);
}

PLACE_INLINE __m256i way_cut(__m512d value, int taps)
{
	if (taps == 4) {
		value = _mm512_max_pd(value, _mm512_setzero_pd());
		value = _mm512_min_pd(value, _mm512_set1_pd(255.0));
	}
	return _mm512_cvttpd_epi32(value);
}

/* R + 256 G + 65536 B. */
PLACE_INLINE __m256i way_pixels(const uint8_t *from, const struct way_offsets *offsets,
	const struct way_axis *x, const struct way_axis *y, int taps, bool whole_x, bool whole_y)
{
	__m512d value[3][PLACE_TAPS];
	int first = whole_y ? taps / 2 - 1 : 0, end = whole_y ? first + 1 : taps;
	for (int i = first; i < end; i++) {
		__m512i row = way_load(from, offsets->of[i]);
		__m512i behind = taps == 4 && !whole_x ? way_load(from + 4, offsets->of[i]) : row;
		for (unsigned c = 0; c < 3; c++)
			value[c][i] = way_across(row, behind, x->part, c, taps, whole_x);
	}
	__m256i pixels = _mm256_setzero_si256();
	for (unsigned c = 0; c < 3; c++) {
		__m512d all = whole_y ? value[c][first] : way_down(value[c], y->part, taps);
		pixels = _mm256_or_si256(
			pixels, _mm256_slli_epi32(way_cut(all, taps), (int)(8 * c)));
	}
	return pixels;
}

/* False: kernels_place_avx2_body.h must do it. */
PLACE_INLINE bool way_inside(
	__m256i *ret, const struct way_row *row, const struct way_eight *eight, int taps)
{
	struct way_axis x = way_axis(eight, 0), y = way_axis(eight, 1);
	struct way_offsets offsets;
	if (!way_offsets(&offsets, row, eight, &x, &y, taps))
		return false;
	if (y.whole)
		*ret = way_pixels(row->from, &offsets, &x, &y, taps, false, true);
	else if (x.whole)
		*ret = way_pixels(row->from, &offsets, &x, &y, taps, true, false);
	else
		*ret = way_pixels(row->from, &offsets, &x, &y, taps, false, false);
	return true;
}

PLACE_INLINE void way_write(uint8_t *to, __m256i pixels, size_t count)
{
	const __m256i dense = _mm256_broadcastsi128_si256(
		_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
	pixels = _mm256_permutevar8x32_epi32(
		_mm256_shuffle_epi8(pixels, dense), _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 3));
	_mm256_mask_storeu_epi8(to, (__mmask32)((1u << 3 * count) - 1), pixels);
}

PLACE_INLINE void way_eights(uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y,
	size_t count, int taps, place_twin *narrower)
{
	const struct way_row row = way_row(warp, y);
	const uint8_t *fill = warp->fill;
	const __m512d lane = _mm512_setr_pd(0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5);
	const __m256i outside = _mm256_set1_epi32(fill[0] | fill[1] << 8 | fill[2] << 16);
	for (size_t step; count; count -= step, x += (uint32_t)step, to += 3 * step) {
		__m256i pixels = _mm256_setzero_si256();
		step = count < WAY_GROUP ? count : WAY_GROUP;
		struct way_eight eight = way_eight(
			&row, _mm512_add_pd(_mm512_set1_pd(x), lane), (__mmask8)((1u << step) - 1));
		if (eight.inside && !way_inside(&pixels, &row, &eight, taps)) {
			narrower(to, warp, x, y, step);
			continue;
		}
		pixels = _mm256_maskz_mov_epi32(eight.inside, pixels);
		way_write(to, _mm256_mask_mov_epi32(pixels, eight.outside, outside), step);
	}
}

static void way_bilinear(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count)
{
	if (warp->width < WAY_NARROWEST)
		place_bilinear_avx2(to, warp, x, y, count);
	else
		way_eights(to, warp, x, y, count, 2, place_bilinear_avx2);
}

static void way_bicubic(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count)
{
	if (warp->width < WAY_NARROWEST)
		place_bicubic_avx2(to, warp, x, y, count);
	else
		way_eights(to, warp, x, y, count, 4, place_bicubic_avx2);
}

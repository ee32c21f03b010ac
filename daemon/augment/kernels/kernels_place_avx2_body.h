/* kernels_place_avx2: `bilinear` and `bicubic` for x86-64 with AVX2, included by the files that are
 * compiled with it.
 *
 * The code computes four places at a time, in double. Each tap of a place is a four-byte load whose
 * channels are the lanes of one vector (the fourth lane belongs to the next pixel and is dropped).
 * Every number is rounded as in kernels_place_body.h and in the same order, so that the bytes are
 * the same. Where a fraction is 0 for all four places, as along one axis of every shear, the code
 * skips the taps across that axis: they would be multiplied by 0 and change nothing.
 *
 * The image's last pixel has no fourth byte: if one of four places could reach it, all four go
 * to plain C, and so do the last places of a row. Places outside the image count as pixel 0, and
 * their result is overwritten. */
#include "augment/kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

#define PLACE_INLINE static inline __attribute__((always_inline))

enum { PLACE_GROUP = 4, PLACE_ALL = (1 << PLACE_GROUP) - 1, PLACE_TAPS = 4 };

/* Values that are the same for all outputs of a row. */
struct place_row {
	const uint8_t *from;
	bool perspective;
	__m256d step[3], begin[3], shift[3]; /* step x + begin + shift, for x, y and the share */
	__m256d side[2];
	__m128i last[2], row;
};

PLACE_INLINE struct place_row place_row(const struct augment_warp *warp, uint32_t y)
{
	const double *m = warp->matrix;
	struct place_row row = {.from = warp->from, .perspective = warp->perspective};
	for (int i = 0; i < 3; i++) {
		bool used = i < 2 || warp->perspective;
		row.step[i] = _mm256_set1_pd(used ? m[3 * i] : 0);
		row.begin[i] = _mm256_set1_pd(used ? m[3 * i + 1] * (y + 0.5) : 0);
		row.shift[i] = _mm256_set1_pd(i < 2 ? m[3 * i + 2] : 1);
	}
	row.side[0] = _mm256_set1_pd(warp->width);
	row.side[1] = _mm256_set1_pd(warp->height);
	row.last[0] = _mm_set1_epi32((int)warp->width - 1);
	row.last[1] = _mm_set1_epi32((int)warp->height - 1);
	row.row = _mm_set1_epi32(3 * (int)warp->width);
	return row;
}

PLACE_INLINE __m256d place_along(const struct place_row *row, int axis, __m256d x)
{
	__m256d sum = _mm256_add_pd(_mm256_mul_pd(row->step[axis], x), row->begin[axis]);
	return _mm256_add_pd(sum, row->shift[axis]);
}

/* Four places, with a bit each in `outside` and `inside`. Neither bit is set where a coordinate
 * is NaN. */
struct place_four {
	__m256d at[2];
	__m128i inside_lanes;
	int outside, inside;
};

PLACE_INLINE struct place_four place_four(const struct place_row *row, __m256d x)
{
	struct place_four four = {.at = {place_along(row, 0, x), place_along(row, 1, x)}};
	if (row->perspective) {
		__m256d share = place_along(row, 2, x);
		four.at[0] = _mm256_div_pd(four.at[0], share);
		four.at[1] = _mm256_div_pd(four.at[1], share);
	}
	__m256d zero = _mm256_setzero_pd(), outside = zero,
		inside = _mm256_cmp_pd(x, x, _CMP_EQ_OQ);
	for (int i = 0; i < 2; i++) {
		__m256d below = _mm256_cmp_pd(four.at[i], zero, _CMP_LT_OQ);
		__m256d above = _mm256_cmp_pd(four.at[i], row->side[i], _CMP_GE_OQ);
		__m256d number = _mm256_cmp_pd(four.at[i], four.at[i], _CMP_ORD_Q);
		outside = _mm256_or_pd(outside, _mm256_or_pd(below, above));
		inside = _mm256_and_pd(inside, number);
	}
	inside = _mm256_andnot_pd(outside, inside);
	four.outside = _mm256_movemask_pd(outside);
	four.inside = _mm256_movemask_pd(inside);
	four.inside_lanes = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
		_mm256_castpd_si256(inside), _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
	return four;
}

/* Where each tap begins, tap by tap; the fractions; and whether all fractions are 0. */
struct place_axis {
	_Alignas(32) double part[PLACE_GROUP];
	_Alignas(16) uint32_t offset[PLACE_TAPS][PLACE_GROUP];
	__m128i at_last; /* lanes that have a tap on the last pixel */
	bool whole;
};

PLACE_INLINE struct place_axis place_axis(
	const struct place_row *row, const struct place_four *four, int axis, int taps)
{
	struct place_axis ret;
	__m256d middle = _mm256_sub_pd(four->at[axis], _mm256_set1_pd(0.5));
	__m256d first = _mm256_floor_pd(middle), part = _mm256_sub_pd(middle, first);
	__m128i tap = _mm256_cvttpd_epi32(first);
	_mm256_store_pd(ret.part, part);
	int whole = _mm256_movemask_pd(_mm256_cmp_pd(part, _mm256_setzero_pd(), _CMP_EQ_OQ));
	ret.whole = (whole & four->inside) == four->inside;
	tap = _mm_sub_epi32(tap, _mm_set1_epi32(taps / 2 - 1));
	for (int i = 0; i < taps; i++) {
		__m128i place = _mm_max_epi32(tap, _mm_setzero_si128());
		place = _mm_and_si128(_mm_min_epi32(place, row->last[axis]), four->inside_lanes);
		ret.at_last = _mm_cmpeq_epi32(place, row->last[axis]);
		__m128i offset = axis == 1 ? _mm_mullo_epi32(place, row->row)
					   : _mm_add_epi32(place, _mm_add_epi32(place, place));
		_mm_store_si128((void *)ret.offset[i], offset);
		tap = _mm_add_epi32(tap, _mm_set1_epi32(1));
	}
	return ret;
}

PLACE_INLINE __m256d place_load(const uint8_t *pixel)
{
	int32_t bytes;
	memcpy(&bytes, pixel, sizeof(bytes));
	return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bytes)));
}

PLACE_INLINE __m256d place_two(__m256d a, __m256d b, __m256d part)
{
	return _mm256_add_pd(a, _mm256_mul_pd(_mm256_sub_pd(b, a), part));
}

/* `-a + c` is `c - a`; the others keep their order. */
PLACE_INLINE __m256d place_three(__m256d a, __m256d b, __m256d c, __m256d d, __m256d part)
{
	__m256d twice = _mm256_sub_pd(a, b);
	__m256d p2 = _mm256_sub_pd(c, a);
	__m256d p3 = _mm256_sub_pd(_mm256_add_pd(_mm256_add_pd(twice, twice), c), d);
	__m256d p4 = _mm256_add_pd(_mm256_sub_pd(_mm256_sub_pd(b, a), c), d);
	__m256d sum = _mm256_add_pd(p3, _mm256_mul_pd(part, p4));
	sum = _mm256_add_pd(p2, _mm256_mul_pd(part, sum));
	return _mm256_add_pd(b, _mm256_mul_pd(part, sum));
}

/* Along x: the taps of pixel `k` in one row of the image. */
PLACE_INLINE __m256d place_across(
	const uint8_t *from, const struct place_axis *x, int k, int taps, bool whole)
{
	if (whole)
		return place_load(from + x->offset[taps / 2 - 1][k]);
	__m256d part = _mm256_set1_pd(x->part[k]), first = place_load(from + x->offset[0][k]);
	__m256d second = place_load(from + x->offset[1][k]);
	if (taps == 2)
		return place_two(first, second, part);
	return place_three(first, second, place_load(from + x->offset[2][k]),
		place_load(from + x->offset[3][k]), part);
}

/* One pixel as four 32-bit numbers. */
PLACE_INLINE __m128i place_pixel(const uint8_t *from, const struct place_axis *x,
	const struct place_axis *y, int k, int taps, bool whole_x, bool whole_y)
{
	__m256d down[PLACE_TAPS], value;
	if (whole_y) {
		value = place_across(from + y->offset[taps / 2 - 1][k], x, k, taps, whole_x);
	} else {
		__m256d part = _mm256_set1_pd(y->part[k]);
		for (int i = 0; i < taps; i++)
			down[i] = place_across(from + y->offset[i][k], x, k, taps, whole_x);
		value = taps == 2 ? place_two(down[0], down[1], part)
				  : place_three(down[0], down[1], down[2], down[3], part);
	}
	if (taps == 4) {
		value = _mm256_max_pd(value, _mm256_setzero_pd());
		value = _mm256_min_pd(value, _mm256_set1_pd(255.0));
	}
	return _mm256_cvttpd_epi32(value);
}

/* 12 bytes. */
PLACE_INLINE void place_write(uint8_t *to, const struct place_row *row, const struct place_axis *x,
	const struct place_axis *y, int taps, bool whole_x, bool whole_y)
{
	const __m128i dense = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
	__m128i pixel[PLACE_GROUP];
	for (int k = 0; k < PLACE_GROUP; k++)
		pixel[k] = place_pixel(row->from, x, y, k, taps, whole_x, whole_y);
	__m128i bytes = _mm_packus_epi16(
		_mm_packus_epi32(pixel[0], pixel[1]), _mm_packus_epi32(pixel[2], pixel[3]));
	bytes = _mm_shuffle_epi8(bytes, dense);
	_mm_storel_epi64((void *)to, bytes);
	int32_t rest = _mm_extract_epi32(bytes, 2);
	memcpy(to + 8, &rest, sizeof(rest));
}

/* The places that are not inside. */
PLACE_INLINE void place_others(
	uint8_t *to, const struct augment_warp *warp, const struct place_four *four)
{
	static const uint8_t black[3];
	for (int k = 0; k < PLACE_GROUP; k++)
		if (!(four->inside >> k & 1))
			memcpy(to + 3 * (size_t)k, four->outside >> k & 1 ? warp->fill : black, 3);
}

/* False: a tap could reach the image's end; nothing is written. */
PLACE_INLINE bool place_inside(
	uint8_t *to, const struct place_row *row, const struct place_four *four, int taps)
{
	struct place_axis x = place_axis(row, four, 0, taps), y = place_axis(row, four, 1, taps);
	if (!_mm_testz_si128(x.at_last, y.at_last))
		return false;
	if (y.whole)
		place_write(to, row, &x, &y, taps, false, true);
	else if (x.whole)
		place_write(to, row, &x, &y, taps, true, false);
	else
		place_write(to, row, &x, &y, taps, false, false);
	return true;
}

typedef void place_twin(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count);

PLACE_INLINE void place_fours(uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y,
	size_t count, int taps, place_twin *twin)
{
	const struct place_row row = place_row(warp, y);
	__m256d lane = _mm256_setr_pd(0.5, 1.5, 2.5, 3.5);
	for (; count >= PLACE_GROUP;
		count -= PLACE_GROUP, x += PLACE_GROUP, to += 3 * PLACE_GROUP) {
		struct place_four four = place_four(&row, _mm256_add_pd(_mm256_set1_pd(x), lane));
		if (four.inside && !place_inside(to, &row, &four, taps))
			twin(to, warp, x, y, PLACE_GROUP);
		else if (four.inside != PLACE_ALL)
			place_others(to, warp, &four);
	}
	twin(to, warp, x, y, count);
}

static void place_bilinear_avx2(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count)
{
	place_fours(to, warp, x, y, count, 2, augment_kernels_c.bilinear);
}

static void place_bicubic_avx2(
	uint8_t *to, const struct augment_warp *warp, uint32_t x, uint32_t y, size_t count)
{
	place_fours(to, warp, x, y, count, 4, augment_kernels_c.bicubic);
}

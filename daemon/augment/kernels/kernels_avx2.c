/* kernels_avx2: for x86-64 with AVX2 (only this file is compiled with it); empty elsewhere. See
 * kernels.h; kernels_vec_body.h explains the names. */
#ifdef __AVX2__
#include "augment/kernels/kernels_body.h"
#include "augment/kernels/kernels_place_avx2_body.h"
#include "augment/kernels/kernels_walk_body.h"

#include <immintrin.h>
#include <string.h>

#define LANES 2

typedef __m256i vec;
typedef __m256 vecf;
typedef __m256i vmask;

#define v_set _mm256_set1_epi32
#define v_add _mm256_add_epi32
#define v_sub _mm256_sub_epi32
#define v_and _mm256_and_si256
#define v_or _mm256_or_si256
#define v_max _mm256_max_epi32
#define v_min _mm256_min_epi32
#define v_right _mm256_srli_epi32
#define v_left _mm256_slli_epi32
#define v_madd16 _mm256_madd_epi16
#define v_packus32 _mm256_packus_epi32
#define v_packus16 _mm256_packus_epi16
#define v_shuffle8 _mm256_shuffle_epi8
#define v_equal _mm256_cmpeq_epi32
#define v_of _mm256_cvttps_epi32
#define f_set _mm256_set1_ps
#define f_add _mm256_add_ps
#define f_sub _mm256_sub_ps
#define f_mul _mm256_mul_ps
#define f_min _mm256_min_ps
#define f_of _mm256_cvtepi32_ps
#define f_floor _mm256_floor_ps
#define f_quotient _mm256_div_ps
#define f_near _mm256_div_ps

#define HALF_INLINE static inline __attribute__((always_inline))

HALF_INLINE vec v_quad(const void *bytes)
{
	return _mm256_broadcastsi128_si256(_mm_load_si128(bytes));
}

HALF_INLINE vec v_load(const uint8_t *from)
{
	__m128i first = _mm_loadu_si128((const void *)from);
	__m128i last = _mm_srli_si128(_mm_loadu_si128((const void *)(from + 8)), 4);
	return _mm256_inserti128_si256(_mm256_castsi128_si256(first), last, 1);
}

HALF_INLINE void v_store(uint8_t *to, vec a)
{
	a = _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 3));
	_mm_storeu_si128((void *)to, _mm256_castsi256_si128(a));
	_mm_storel_epi64((void *)(to + 16), _mm256_extracti128_si256(a, 1));
}

HALF_INLINE vmask v_odd(vec a)
{
	return v_equal(v_and(a, v_set(1)), v_set(1));
}

HALF_INLINE vmask f_below(vecf a, vecf b)
{
	return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

HALF_INLINE vec v_choose(vmask mask, vec yes, vec no)
{
	return _mm256_blendv_epi8(no, yes, mask);
}

HALF_INLINE vecf f_choose(vmask mask, vecf yes, vecf no)
{
	return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(mask));
}

HALF_INLINE vec v_turn(const int8_t *table, vec a)
{
	return _mm256_permutevar8x32_epi32(_mm256_load_si256((const void *)table), a);
}

HALF_INLINE vecf f_sixth(vecf a)
{
	return _mm256_div_ps(a, f_set(6.0f));
}

#include "augment/kernels/kernels_vec_body.h"

/* Compilers use more steps to pack bytes. */
static void half_blend(uint8_t *to, const uint8_t *from, size_t bytes, uint8_t level, float amount)
{
	vecf first = f_set(level), by = f_set(amount);
	size_t i = 0;
	for (; i + sizeof(vec) <= bytes; i += sizeof(vec)) {
		vec part[4];
		for (int j = 0; j < 4; j++) {
			__m128i eight = _mm_loadl_epi64((const void *)(from + i + 8 * (size_t)j));
			part[j] = vec_blend(first, _mm256_cvtepu8_epi32(eight), by);
		}
		vec all = v_packus16(v_packus32(part[0], part[1]), v_packus32(part[2], part[3]));
		all = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
		_mm256_storeu_si256((void *)(to + i), all);
	}
	body_blend(to + i, from + i, bytes - i, level, amount);
}

const struct augment_kernels augment_kernels_avx2 = {
	.name = "avx2",
	.blend = half_blend,
	.fold = body_fold,
	.map = body_map,
	.gray = vec_gray,
	.saturate = vec_saturate,
	.hue = vec_hue,
	.light = vec_light,
	.extremes = body_extremes,
	.sharpen = body_sharpen,
	.blur_down = body_blur_down,
	.blur_across = body_blur_across,
	.box_down = body_box_down,
	.box_across = body_box_across,
	.walk = walk_avx2,
	.bilinear = place_bilinear_avx2,
	.bicubic = place_bicubic_avx2,
};
#else
typedef int augment_kernels_avx2_empty;
#endif

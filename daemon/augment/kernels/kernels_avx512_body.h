/* kernels_avx512_body: the names of kernels_vec_body.h in AVX-512 (F, BW, VL), for kernels_avx512.c
 * and kernels_vnni.c. */
#include "augment/kernels/kernels_body.h"
#include "augment/kernels/kernels_place_avx512_body.h"
#include "augment/kernels/kernels_walk_body.h"

#include <immintrin.h>
#include <string.h>

#define LANES 4

typedef __m512i vec;
typedef __m512 vecf;
typedef __mmask16 vmask;

#define v_set _mm512_set1_epi32
#define v_add _mm512_add_epi32
#define v_sub _mm512_sub_epi32
#define v_and _mm512_and_si512
#define v_or _mm512_or_si512
#define v_max _mm512_max_epi32
#define v_min _mm512_min_epi32
#define v_right _mm512_srli_epi32
#define v_left _mm512_slli_epi32
#define v_madd16 _mm512_madd_epi16
#define v_packus32 _mm512_packus_epi32
#define v_packus16 _mm512_packus_epi16
#define v_shuffle8 _mm512_shuffle_epi8
#define v_equal _mm512_cmpeq_epi32_mask
#define v_of _mm512_cvttps_epi32
#define f_set _mm512_set1_ps
#define f_add _mm512_add_ps
#define f_sub _mm512_sub_ps
#define f_mul _mm512_mul_ps
#define f_min _mm512_min_ps
#define f_of _mm512_cvtepi32_ps

#define WIDE_INLINE static inline __attribute__((always_inline))

WIDE_INLINE vec v_quad(const void *bytes)
{
	return _mm512_broadcast_i32x4(_mm_load_si128(bytes));
}

WIDE_INLINE vec v_load(const uint8_t *from)
{
	return _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11),
		_mm512_maskz_loadu_epi32(0x0fff, from));
}

WIDE_INLINE void v_store(uint8_t *to, vec a)
{
	a = _mm512_permutexvar_epi32(
		_mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 3, 3, 3), a);
	_mm256_storeu_si256((void *)to, _mm512_castsi512_si256(a));
	_mm_storeu_si128((void *)(to + 32), _mm512_extracti32x4_epi32(a, 2));
}

WIDE_INLINE vmask v_odd(vec a)
{
	return _mm512_test_epi32_mask(a, v_set(1));
}

WIDE_INLINE vmask f_below(vecf a, vecf b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

WIDE_INLINE vec v_choose(vmask mask, vec yes, vec no)
{
	return _mm512_mask_blend_epi32(mask, no, yes);
}

WIDE_INLINE vecf f_choose(vmask mask, vecf yes, vecf no)
{
	return _mm512_mask_blend_ps(mask, no, yes);
}

WIDE_INLINE vecf f_floor(vecf a)
{
	return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

WIDE_INLINE vec v_turn(const int8_t *table, vec a)
{
	return _mm512_permutexvar_epi32(
		a, _mm512_broadcast_i64x4(_mm256_load_si256((const void *)table)));
}

/* 1 / b within 2^-22: one Newton step from 14 bits. */
WIDE_INLINE vecf wide_inverse(vecf b)
{
	vecf near = _mm512_rcp14_ps(b);
	return f_mul(near, _mm512_fnmadd_ps(b, near, f_set(2.0f)));
}

WIDE_INLINE vecf f_near(vecf a, vecf b)
{
	return f_mul(a, wide_inverse(b));
}

/* A fused step computes the remainder of the near quotient exactly, and correcting by it rounds
 * the quotient correctly: no quotient of whole numbers up to 255 is close to the middle of two
 * floats. */
WIDE_INLINE vecf f_quotient(vecf a, vecf b)
{
	vecf inverse = wide_inverse(b), near = f_mul(a, inverse);
	return _mm512_fmadd_ps(_mm512_fnmadd_ps(near, b, a), inverse, near);
}

WIDE_INLINE vecf f_sixth(vecf a)
{
	vecf inverse = f_set(1.0f / 6.0f), near = f_mul(a, inverse);
	return _mm512_fmadd_ps(_mm512_fnmadd_ps(near, f_set(6.0f), a), inverse, near);
}

#include "augment/kernels/kernels_vec_body.h"

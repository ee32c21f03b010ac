/* planes_avx512: for x86-64 with AVX-512 F, BW, VL and VNNI (only this file is compiled with them);
 * empty elsewhere. See planes_kernels.h; planes_body.h explains the names. */
#ifdef __AVX512VNNI__
#include "decode/jpeg/kernels/planes_kernels.h"

#include <immintrin.h>

#define LANES 4
#define TABLE planes_kernels_avx512
#define NAME "avx512"
#define V static inline __attribute__((always_inline))

typedef __m512i vec;

#define v_set8 _mm512_set1_epi8
#define v_set16 _mm512_set1_epi16
#define v_set32 _mm512_set1_epi32
#define v_add16 _mm512_add_epi16
#define v_add32 _mm512_add_epi32
#define v_sub16 _mm512_sub_epi16
#define v_sub32 _mm512_sub_epi32
#define v_subs16 _mm512_subs_epi16
#define v_subus16 _mm512_subs_epu16
#define v_abs16 _mm512_abs_epi16
#define v_mullo16 _mm512_mullo_epi16
#define v_mulhrs16 _mm512_mulhrs_epi16
#define v_madd16 _mm512_madd_epi16
#define v_maddubs16 _mm512_maddubs_epi16
#define v_sra16 _mm512_srai_epi16
#define v_srl16 _mm512_srli_epi16
#define v_sll16 _mm512_slli_epi16
#define v_sra32 _mm512_srai_epi32
#define v_packs32 _mm512_packs_epi32
#define v_packus16 _mm512_packus_epi16
#define v_unpacklo8 _mm512_unpacklo_epi8
#define v_unpackhi8 _mm512_unpackhi_epi8
#define v_unpacklo16 _mm512_unpacklo_epi16
#define v_unpackhi16 _mm512_unpackhi_epi16
#define v_unpacklo32 _mm512_unpacklo_epi32
#define v_unpackhi32 _mm512_unpackhi_epi32
#define v_unpacklo64 _mm512_unpacklo_epi64
#define v_unpackhi64 _mm512_unpackhi_epi64
#define v_and _mm512_and_si512
#define v_or _mm512_or_si512
#define v_xor _mm512_xor_si512

V vec v_madd_add16(vec sum, vec a, vec b)
{
	return _mm512_dpwssd_epi32(sum, a, b);
}

V vec v_load(const void *p)
{
	return _mm512_loadu_si512(p);
}

V void v_store(void *p, vec a)
{
	_mm512_storeu_si512(p, a);
}

V vec v_lane(const void *p)
{
	return _mm512_broadcast_i32x4(_mm_load_si128(p));
}

/* A masked broadcast from memory needs no shuffle. */
V vec v_lanes(const int16_t *const *blocks, int i)
{
	vec a = _mm512_castsi128_si512(_mm_load_si128((const __m128i *)blocks[0] + i));
	a = _mm512_mask_broadcast_i32x4(a, 0x00f0, _mm_load_si128((const __m128i *)blocks[1] + i));
	a = _mm512_mask_broadcast_i32x4(a, 0x0f00, _mm_load_si128((const __m128i *)blocks[2] + i));
	return _mm512_mask_broadcast_i32x4(
		a, 0xf000, _mm_load_si128((const __m128i *)blocks[3] + i));
}

V int v_any(vec a)
{
	return _mm512_test_epi32_mask(a, a) != 0;
}

V void v_rows(uint8_t *to, size_t pitch, vec a)
{
	a = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), a);
	_mm256_storeu_si256((void *)to, _mm512_castsi512_si256(a));
	_mm256_storeu_si256((void *)(to + pitch), _mm512_extracti64x4_epi64(a, 1));
}

V void v_pair(vec *low, vec *high)
{
	const vec first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
	const vec second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
	vec a = _mm512_permutex2var_epi64(*low, first, *high);
	*high = _mm512_permutex2var_epi64(*low, second, *high);
	*low = a;
}

#define UNIT(u, ...) __VA_ARGS__,
static const _Alignas(64) int16_t ready_from[64] = {PLANES_READY_UNITS(UNIT)};

/* One vector has the first 32 coefficients of the zigzag order, the second one the others. */
static void body_sort(int16_t (*to)[64], uint8_t *kinds, const int16_t *const *from, size_t count)
{
	const vec low = v_load(ready_from), high = v_load(ready_from + 32);
	for (size_t i = 0; i < count; i++) {
		vec a = v_load(from[i]), b = v_load(from[i] + 32);
		uint64_t used =
			_mm512_test_epi16_mask(a, a) | (uint64_t)_mm512_test_epi16_mask(b, b) << 32;
		kinds[i] = (uint8_t)(((used >> 1) != 0) + ((used >> PLANES_SPARSE_LENGTH) != 0));
		v_store(to[i], _mm512_permutex2var_epi16(a, low, b));
		v_store(to[i] + 32, _mm512_permutex2var_epi16(a, high, b));
	}
}

#include "decode/jpeg/kernels/planes_body.h"
#else
typedef int planes_avx512_empty;
#endif

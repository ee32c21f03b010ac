/* kernels_avx512: for x86-64 with AVX-512 F, BW, VL (only this file is compiled with them); empty
 * elsewhere. See kernels.h, and kernels_madd_body.h for the meaning of the names. */
#ifdef __AVX512BW__
#include "pixel/kernels.h"

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

#define LANES 4
#define TABLE kernels_avx512
#define NAME "avx512"

typedef __m512i vec;

#define v_set32 _mm512_set1_epi32
#define v_add32 _mm512_add_epi32
#define v_sll32 _mm512_slli_epi32
#define v_sra32 _mm512_srai_epi32
#define v_madd16 _mm512_madd_epi16
#define v_packs32 _mm512_packs_epi32
#define v_packus16 _mm512_packus_epi16
#define v_unpacklo8 _mm512_unpacklo_epi8
#define v_unpackhi8 _mm512_unpackhi_epi8
#define v_shuffle8 _mm512_shuffle_epi8
#define v_unpacklo32 _mm512_unpacklo_epi32
#define v_unpackhi32 _mm512_unpackhi_epi32
#define v_unpacklo64 _mm512_unpacklo_epi64
#define v_unpackhi64 _mm512_unpackhi_epi64

KERNELS_INLINE vec v_load(const void *p)
{
	return _mm512_loadu_si512(p);
}

KERNELS_INLINE void v_store(void *p, vec a)
{
	_mm512_storeu_si512(p, a);
}

KERNELS_INLINE void v_store_part(void *p, size_t count, vec a)
{
	if (count > KERNELS_OUTPUTS)
		v_store(p, a);
	else
		_mm256_storeu_si256(p, _mm512_castsi512_si256(a));
}

KERNELS_INLINE vec v_lanes(const uint8_t *from, const uint32_t *base)
{
	vec a = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(from + base[0])));
	a = _mm512_inserti32x4(a, _mm_loadu_si128((const void *)(from + base[1])), 1);
	a = _mm512_inserti32x4(a, _mm_loadu_si128((const void *)(from + base[2])), 2);
	return _mm512_inserti32x4(a, _mm_loadu_si128((const void *)(from + base[3])), 3);
}

/* For each third of 48 interleaved bytes and each color: where its 16 bytes go. */
#define TAKE(n, c) ((n) % 3 == (c) ? (n) / 3 : -1)
#define TAKES(n, c)                                                                         \
	TAKE(n, c), TAKE((n) + 1, c), TAKE((n) + 2, c), TAKE((n) + 3, c), TAKE((n) + 4, c), \
		TAKE((n) + 5, c), TAKE((n) + 6, c), TAKE((n) + 7, c)
#define TAKEN(k, c)                                        \
	{                                                  \
		TAKES(16 * (k), c), TAKES(16 * (k) + 8, c) \
	}

static const _Alignas(16) int8_t taken[3][3][16] = {
	{TAKEN(0, 0), TAKEN(0, 1), TAKEN(0, 2)},
	{TAKEN(1, 0), TAKEN(1, 1), TAKEN(1, 2)},
	{TAKEN(2, 0), TAKEN(2, 1), TAKEN(2, 2)},
};

/* A vector of 64-bit words from a and b by `two`, or, where `take` has a bit, from c by `one`;
 * stores only what is within `bytes`. */
KERNELS_INLINE void weave_store(
	uint8_t *to, size_t bytes, const vec third[3], vec two, vec one, __mmask8 take)
{
	vec a = _mm512_mask_permutexvar_epi64(
		_mm512_permutex2var_epi64(third[0], two, third[1]), take, one, third[2]);
	__mmask64 all = bytes < 64 ? ((__mmask64)1 << bytes) - 1 : ~(__mmask64)0;
	_mm512_mask_storeu_epi8(to, all, a);
}

static void madd_weave(uint8_t *to, const uint8_t *const from[3], size_t count)
{
	for (size_t i = 0; i < count; i += sizeof(vec), to += 3 * sizeof(vec)) {
		size_t bytes = 3 * (count - i);
		vec third[3];
		for (int k = 0; k < 3; k++) {
			vec a[3];
			for (int c = 0; c < 3; c++)
				a[c] = v_shuffle8(v_load(from[c] + i),
					_mm512_broadcast_i32x4(
						_mm_load_si128((const void *)taken[k][c])));
			third[k] = _mm512_ternarylogic_epi64(a[0], a[1], a[2], 0xfe);
		}
		/* Interleaved lanes of the thirds: 0 0 0 1, 1 1 2 2, 2 3 3 3. */
		weave_store(to, bytes, third, _mm512_setr_epi64(0, 1, 8, 9, 0, 0, 2, 3),
			_mm512_setr_epi64(0, 0, 0, 0, 0, 1, 0, 0), 0x30);
		weave_store(to + 64, bytes > 64 ? bytes - 64 : 0, third,
			_mm512_setr_epi64(10, 11, 0, 0, 4, 5, 12, 13),
			_mm512_setr_epi64(0, 0, 2, 3, 0, 0, 0, 0), 0x0c);
		weave_store(to + 128, bytes > 128 ? bytes - 128 : 0, third,
			_mm512_setr_epi64(0, 0, 6, 7, 14, 15, 0, 0),
			_mm512_setr_epi64(4, 5, 0, 0, 0, 0, 6, 7), 0xc3);
	}
}

#include "pixel/kernels_madd_body.h"
#else
typedef int kernels_avx512_empty;
#endif

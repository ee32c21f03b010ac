/* kernels_avx2: for x86-64 with AVX2 (only this file is compiled with -mavx2); empty elsewhere. See
 * kernels.h, and kernels_madd_body.h for the meaning of the names. */
#ifdef __AVX2__
#include "pixel/kernels.h"

#include <immintrin.h>

#define KERNELS_DOTS
static inline __attribute__((always_inline)) void body_dots(uint32_t sums[3],
	const uint8_t *const from[3], size_t first, const int32_t *value, uint32_t taps)
{
	__m256i sum[3] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
	for (uint32_t t = 0; t < taps; t += 8) {
		__m256i weights = _mm256_loadu_si256((const void *)(value + t));
		for (int c = 0; c < 3; c++) {
			__m128i bytes = _mm_loadl_epi64((const void *)(from[c] + first + t));
			sum[c] = _mm256_add_epi32(
				sum[c], _mm256_mullo_epi32(_mm256_cvtepu8_epi32(bytes), weights));
		}
	}
	/* Three sums at once: of pairs of lanes, then of their halves. */
	__m256i all = _mm256_hadd_epi32(
		_mm256_hadd_epi32(sum[0], sum[1]), _mm256_hadd_epi32(sum[2], sum[2]));
	__m128i both = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
	for (int c = 0; c < 3; c++, both = _mm_srli_si128(both, 4))
		sums[c] = (uint32_t)_mm_cvtsi128_si32(both);
}

#include "pixel/kernels_body.h"

#define LANES 2
#define TABLE kernels_avx2
#define NAME "avx2"

typedef __m256i vec;

#define v_set32 _mm256_set1_epi32
#define v_add32 _mm256_add_epi32
#define v_sll32 _mm256_slli_epi32
#define v_sra32 _mm256_srai_epi32
#define v_madd16 _mm256_madd_epi16
#define v_packs32 _mm256_packs_epi32
#define v_packus16 _mm256_packus_epi16
#define v_unpacklo8 _mm256_unpacklo_epi8
#define v_unpackhi8 _mm256_unpackhi_epi8
#define v_shuffle8 _mm256_shuffle_epi8
#define v_unpacklo32 _mm256_unpacklo_epi32
#define v_unpackhi32 _mm256_unpackhi_epi32
#define v_unpacklo64 _mm256_unpacklo_epi64
#define v_unpackhi64 _mm256_unpackhi_epi64

KERNELS_INLINE vec v_load(const void *p)
{
	return _mm256_loadu_si256(p);
}

KERNELS_INLINE void v_store(void *p, vec a)
{
	_mm256_storeu_si256(p, a);
}

KERNELS_INLINE void v_store_part(void *p, size_t count, vec a)
{
	(void)count;
	v_store(p, a);
}

KERNELS_INLINE vec v_lanes(const uint8_t *from, const uint32_t *base)
{
	return _mm256_inserti128_si256(
		_mm256_castsi128_si256(_mm_loadu_si128((const void *)(from + base[0]))),
		_mm_loadu_si128((const void *)(from + base[1])), 1);
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

static void madd_weave(uint8_t *to, const uint8_t *const from[3], size_t count)
{
	size_t i = 0;
	for (; i + sizeof(vec) <= count; i += sizeof(vec), to += 3 * sizeof(vec)) {
		vec third[3];
		for (int k = 0; k < 3; k++) {
			third[k] = _mm256_setzero_si256();
			for (int c = 0; c < 3; c++)
				third[k] = _mm256_or_si256(third[k],
					v_shuffle8(v_load(from[c] + i),
						_mm256_broadcastsi128_si256(_mm_load_si128(
							(const void *)taken[k][c]))));
		}
		v_store(to, _mm256_permute2x128_si256(third[0], third[1], 0x20));
		v_store(to + 32, _mm256_permute2x128_si256(third[2], third[0], 0x30));
		v_store(to + 64, _mm256_permute2x128_si256(third[1], third[2], 0x31));
	}
	kernels_c.weave(
		to, (const uint8_t *const[]){from[0] + i, from[1] + i, from[2] + i}, count - i);
}

#include "pixel/kernels_madd_body.h"
#else
typedef int kernels_avx2_empty;
#endif

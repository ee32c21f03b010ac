/* mix_avx2: blending with AVX2 and F16C, eight values at a time; what is left over by plain C.
 * Multiplications and the addition are rounded one by one, as C's. Thread: any. */
#if defined(__AVX2__) && defined(__F16C__)
#include "client/lib/mix/mix.h"

#include <immintrin.h>

enum { EIGHT = 8 };

static inline __m256 blended(__m256 own, __m256 other, __m256 blend, __m256 partner_blend)
{
	return _mm256_add_ps(_mm256_mul_ps(own, blend), _mm256_mul_ps(other, partner_blend));
}

static inline __m256 widen_bf16(__m128i half)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* To nearest, ties to even; what is no number stays none. */
static inline __m128i narrow_bf16(__m256 value)
{
	__m256i x = _mm256_castps_si256(value);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
	__m256i even = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	__m256i quiet = _mm256_or_si256(x, _mm256_set1_epi32(0x400000));
	__m256 none = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
	x = _mm256_blendv_epi8(even, quiet, _mm256_castps_si256(none));
	x = _mm256_srli_epi32(x, 16);
	return _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

static inline __m256 widen_f16(__m128i half)
{
	return _mm256_cvtph_ps(half);
}

static inline __m128i narrow_f16(__m256 value)
{
	return _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT);
}

static void blend_f32(void *own, const void *other, size_t count, float blend, float partner_blend)
{
	float *to = own;
	const float *from = other;
	__m256 mine = _mm256_set1_ps(blend), its = _mm256_set1_ps(partner_blend);
	size_t whole = count - count % EIGHT;
	for (size_t i = 0; i < whole; i += EIGHT)
		_mm256_storeu_ps(to + i,
			blended(_mm256_loadu_ps(to + i), _mm256_loadu_ps(from + i), mine, its));
	mix_c.blend[PENSTOCK_FLOAT32](
		to + whole, from + whole, count - whole, blend, partner_blend);
}

#define BLEND_SHORT(name, dtype, widen, narrow)                                                    \
	static void name(                                                                          \
		void *own, const void *other, size_t count, float blend, float partner_blend)      \
	{                                                                                          \
		uint16_t *to = own;                                                                \
		const uint16_t *from = other;                                                      \
		__m256 mine = _mm256_set1_ps(blend), its = _mm256_set1_ps(partner_blend);          \
		size_t whole = count - count % EIGHT;                                              \
		for (size_t i = 0; i < whole; i += EIGHT) {                                        \
			__m128i a = _mm_loadu_si128((const __m128i *)(const void *)(to + i));      \
			__m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + i));    \
			_mm_storeu_si128((__m128i *)(void *)(to + i),                              \
				narrow(blended(widen(a), widen(b), mine, its)));                   \
		}                                                                                  \
		mix_c.blend[dtype](to + whole, from + whole, count - whole, blend, partner_blend); \
	}
BLEND_SHORT(blend_f16, PENSTOCK_FLOAT16, widen_f16, narrow_f16)
BLEND_SHORT(blend_bf16, PENSTOCK_BFLOAT16, widen_bf16, narrow_bf16)

const struct mix_kernels mix_avx2 = {
	.blend =
		{
			[PENSTOCK_FLOAT32] = blend_f32,
			[PENSTOCK_FLOAT16] = blend_f16,
			[PENSTOCK_BFLOAT16] = blend_bf16,
		},
};

#endif

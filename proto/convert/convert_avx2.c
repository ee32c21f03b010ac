/* convert_avx2: kernels for AVX2 with FMA and F16C. See convert.h. Thread: any. */
#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "proto/convert/convert_x86.h"

typedef struct {
	__m256 a, b;
} body_group;

static inline body_group body_all(float value)
{
	__m256 all = _mm256_set1_ps(value);
	return (body_group){all, all};
}

static inline body_group body_load(const float *from)
{
	return (body_group){_mm256_load_ps(from), _mm256_load_ps(from + 8)};
}

static inline body_group body_widen(__m128i x)
{
	return (body_group){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(x)),
		_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(x, 8)))};
}

static inline body_group body_times(body_group x, body_group y)
{
	return (body_group){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}

static inline body_group body_less(body_group x, body_group y)
{
	return (body_group){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}

static inline body_group body_fused(body_group x, body_group y, body_group z)
{
	return (body_group){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

static inline void body_put_f32(float *out, body_group x, bool stream)
{
	if (stream) {
		_mm256_stream_ps(out, x.a);
		_mm256_stream_ps(out + 8, x.b);
	} else {
		_mm256_storeu_ps(out, x.a);
		_mm256_storeu_ps(out + 8, x.b);
	}
}

static inline void body_put_f16(void *out, body_group x)
{
	_mm_storeu_si128(out, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
	_mm_storeu_si128((__m128i *)out + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}

/* To nearest, ties to even; in the low half of each 32 bits. */
static inline __m256i body_round(__m256 value)
{
	__m256i x = _mm256_castps_si256(value);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
	x = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
	return _mm256_srli_epi32(x, 16);
}

static inline void body_put_bf16(void *out, body_group x)
{
	__m256i lanes = _mm256_packus_epi32(body_round(x.a), body_round(x.b));
	_mm256_storeu_si256(out, _mm256_permute4x64_epi64(lanes, _MM_SHUFFLE(3, 1, 2, 0)));
}

#include "proto/convert/convert_body.h"

BODY_FLOATS(stream_f32, CONVERT_FLOAT32, false, true)

const struct convert_kernels convert_avx2 = {
	.run = BODY_RUN,
	.stream =
		{
			[CONVERT_UINT8] = {stream_u8},
			[CONVERT_FLOAT32] = {stream_f32, NULL /* slower */},
		},
};

#endif

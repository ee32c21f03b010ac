/* convert_avx512: kernels for AVX-512 F, BW and VL. See convert.h. Thread: any. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#include "proto/convert/convert_x86.h"

typedef __m512 body_group;

static inline __m512 body_all(float value)
{
	return _mm512_set1_ps(value);
}

static inline __m512 body_load(const float *from)
{
	return _mm512_load_ps(from);
}

static inline __m512 body_widen(__m128i x)
{
	return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(x));
}

static inline __m512 body_times(__m512 x, __m512 y)
{
	return _mm512_mul_ps(x, y);
}

static inline __m512 body_less(__m512 x, __m512 y)
{
	return _mm512_sub_ps(x, y);
}

static inline __m512 body_fused(__m512 x, __m512 y, __m512 z)
{
	return _mm512_fmadd_ps(x, y, z);
}

static inline void body_put_f32(void *out, __m512 x, bool stream)
{
	if (stream)
		_mm512_stream_ps(out, x);
	else
		_mm512_storeu_ps(out, x);
}

static inline void body_put_f16(void *out, __m512 x)
{
	_mm256_storeu_si256(out, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* To nearest, ties to even. */
static inline void body_put_bf16(void *out, __m512 value)
{
	__m512i x = _mm512_castps_si512(value);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
	x = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
	_mm256_storeu_si256(out, _mm512_cvtepi32_epi16(_mm512_srli_epi32(x, 16)));
}

#include "proto/convert/convert_body.h"

BODY_FLOATS(stream_f32, CONVERT_FLOAT32, false, true)
BODY_FLOATS(stream_f32_planar, CONVERT_FLOAT32, true, true)

const struct convert_kernels convert_avx512 = {
	.run = BODY_RUN,
	.stream =
		{
			[CONVERT_UINT8] = {stream_u8},
			[CONVERT_FLOAT32] = {stream_f32, stream_f32_planar},
		},
};

#endif

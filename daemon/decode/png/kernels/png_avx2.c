/* png_avx2: for x86-64 with AVX2 and BMI2 (only this file is compiled with -mavx2 -mbmi2); empty
 * elsewhere. See png_kernels.h; unfilter_body.h explains the names. */
#ifdef __AVX2__
#include "decode/png/kernels/png_kernels.h"

#include <immintrin.h>
#include <string.h>

#define BODY_NAME inflate_coded_avx2
#include "decode/png/kernels/inflate_body.h"
#undef BODY_INLINE

#define V static inline __attribute__((always_inline))

typedef __m128i vec;

#define v_add _mm_add_epi8
#define v_adds _mm_adds_epu8
#define v_subs _mm_subs_epu8
#define v_min _mm_min_epu8
#define v_or _mm_or_si128
#define v_and _mm_and_si128
#define v_same _mm_cmpeq_epi8
#define v_zero _mm_setzero_si128
#define v_pick(mask, a, b) _mm_blendv_epi8(b, a, mask)

V vec v_load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

V void v_store(uint8_t *p, vec a)
{
	_mm_storeu_si128((__m128i *)p, a);
}

V int v_word(const uint8_t *p)
{
	int word;
	memcpy(&word, p, sizeof(word));
	return word;
}

V void v_put_word(uint8_t *p, int word)
{
	memcpy(p, &word, sizeof(word));
}

V vec v_get(const uint8_t *p, unsigned bytes)
{
	return bytes == 4 ? _mm_cvtsi32_si128(v_word(p)) : _mm_loadl_epi64((const __m128i *)p);
}

V void v_put(uint8_t *p, vec a, unsigned bytes)
{
	if (bytes == 4)
		v_put_word(p, _mm_cvtsi128_si32(a));
	else
		_mm_storel_epi64((__m128i *)p, a);
}

V vec v_four(const uint8_t *p0, const uint8_t *p1, const uint8_t *p2, const uint8_t *p3)
{
	vec low = _mm_insert_epi32(_mm_cvtsi32_si128(v_word(p0)), v_word(p1), 1);
	vec high = _mm_insert_epi32(_mm_cvtsi32_si128(v_word(p2)), v_word(p3), 1);
	return _mm_unpacklo_epi64(low, high);
}

V void v_put_four(uint8_t *p0, uint8_t *p1, uint8_t *p2, uint8_t *p3, vec a)
{
	v_put_word(p0, _mm_cvtsi128_si32(a));
	v_put_word(p1, _mm_extract_epi32(a, 1));
	v_put_word(p2, _mm_extract_epi32(a, 2));
	v_put_word(p3, _mm_extract_epi32(a, 3));
}

V vec v_push(vec a, const uint8_t *p)
{
	return _mm_blend_epi32(_mm_slli_si128(a, 4), _mm_cvtsi32_si128(v_word(p)), 1);
}

/* _mm_avg_epu8 rounds up. */
V vec v_half(vec a, vec b)
{
	vec odd = _mm_and_si128(_mm_xor_si128(a, b), _mm_set1_epi8(1));
	return _mm_sub_epi8(_mm_avg_epu8(a, b), odd);
}

#include "decode/png/kernels/unfilter_body.h"

/* The sum of four numbers of 64 bits, or eight of 32. */
static uint64_t sum_64(__m256i a)
{
	uint64_t part[4];
	_mm256_storeu_si256((__m256i *)part, a);
	return part[0] + part[1] + part[2] + part[3];
}

static uint64_t sum_32(__m256i a)
{
	const __m256i low = _mm256_set1_epi64x(0xffffffff);
	return sum_64(_mm256_add_epi64(_mm256_and_si256(a, low), _mm256_srli_epi64(a, 32)));
}

/* Per vector, b grows by 32 times the a before it, and by its bytes, the first 32 times. */
static uint32_t adler(uint32_t sum, const uint8_t *from, size_t size)
{
	enum { BASE = 65521, WIDE = 32, AT_ONCE = 128 };
	const __m256i ones = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();
	const __m256i weights = _mm256_setr_epi8(32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20,
		19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1);
	uint64_t a = sum & 0xffff, b = sum >> 16;
	while (size >= WIDE) {
		size_t vectors = size / WIDE < AT_ONCE ? size / WIDE : AT_ONCE;
		__m256i bytes_sum = zero, before = zero, weighted = zero;
		for (size_t i = 0; i < vectors; i++, from += WIDE) {
			__m256i bytes = _mm256_loadu_si256((const __m256i *)from);
			before = _mm256_add_epi64(before, bytes_sum);
			bytes_sum = _mm256_add_epi64(bytes_sum, _mm256_sad_epu8(bytes, zero));
			weighted = _mm256_add_epi32(weighted,
				_mm256_madd_epi16(_mm256_maddubs_epi16(bytes, weights), ones));
		}
		b += WIDE * (a * vectors + sum_64(before)) + sum_32(weighted);
		a = (a + sum_64(bytes_sum)) % BASE;
		b %= BASE;
		size -= vectors * WIDE;
	}
	return png_kernels_c.adler((uint32_t)(b << 16 | a), from, size);
}

static void split4(uint8_t *const to[3], const uint8_t *from, size_t count)
{
	const __m256i planes = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11,
		15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
	const __m256i lanes = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	size_t i = 0;
	for (; i + 8 <= count; i += 8, from += 32) {
		__m256i four = _mm256_loadu_si256((const __m256i *)from);
		four = _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(four, planes), lanes);
		__m128i low = _mm256_castsi256_si128(four),
			high = _mm256_extracti128_si256(four, 1);
		_mm_storel_epi64((__m128i *)(to[0] + i), low);
		_mm_storel_epi64((__m128i *)(to[1] + i), _mm_srli_si128(low, 8));
		_mm_storel_epi64((__m128i *)(to[2] + i), high);
	}
	png_kernels_c.split4((uint8_t *const[3]){to[0] + i, to[1] + i, to[2] + i}, from, count - i);
}

const struct png_kernels png_kernels_avx2 = {
	.name = "avx2",
	.unfilter = body_unfilter,
	.adler = adler,
	.split4 = split4,
	.coded = inflate_coded_avx2,
};
#else
typedef int png_avx2_empty;
#endif

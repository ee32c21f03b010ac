/* planes_avx2: for x86-64 with AVX2 (only this file is compiled with -mavx2); empty elsewhere. See
 * planes_kernels.h; planes_body.h explains the names. */
#ifdef __AVX2__
#include "decode/jpeg/kernels/planes_kernels.h"

#include <immintrin.h>
#include <string.h>

#define LANES 2
#define TABLE planes_kernels_avx2
#define NAME "avx2"
#define V static inline __attribute__((always_inline))

typedef __m256i vec;

#define v_set8 _mm256_set1_epi8
#define v_set16 _mm256_set1_epi16
#define v_set32 _mm256_set1_epi32
#define v_add16 _mm256_add_epi16
#define v_add32 _mm256_add_epi32
#define v_sub16 _mm256_sub_epi16
#define v_sub32 _mm256_sub_epi32
#define v_subs16 _mm256_subs_epi16
#define v_subus16 _mm256_subs_epu16
#define v_abs16 _mm256_abs_epi16
#define v_mullo16 _mm256_mullo_epi16
#define v_mulhrs16 _mm256_mulhrs_epi16
#define v_madd16 _mm256_madd_epi16
#define v_maddubs16 _mm256_maddubs_epi16
#define v_sra16 _mm256_srai_epi16
#define v_srl16 _mm256_srli_epi16
#define v_sll16 _mm256_slli_epi16
#define v_sra32 _mm256_srai_epi32
#define v_packs32 _mm256_packs_epi32
#define v_packus16 _mm256_packus_epi16
#define v_unpacklo8 _mm256_unpacklo_epi8
#define v_unpackhi8 _mm256_unpackhi_epi8
#define v_unpacklo16 _mm256_unpacklo_epi16
#define v_unpackhi16 _mm256_unpackhi_epi16
#define v_unpacklo32 _mm256_unpacklo_epi32
#define v_unpackhi32 _mm256_unpackhi_epi32
#define v_unpacklo64 _mm256_unpacklo_epi64
#define v_unpackhi64 _mm256_unpackhi_epi64
#define v_and _mm256_and_si256
#define v_or _mm256_or_si256
#define v_xor _mm256_xor_si256

V vec v_madd_add16(vec sum, vec a, vec b)
{
	return v_add32(sum, v_madd16(a, b));
}

V vec v_load(const void *p)
{
	return _mm256_loadu_si256(p);
}

V void v_store(void *p, vec a)
{
	_mm256_storeu_si256(p, a);
}

V vec v_lane(const void *p)
{
	return _mm256_broadcastsi128_si256(_mm_load_si128(p));
}

V vec v_two(const int16_t *low, const int16_t *high)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128((const void *)low)),
		_mm_load_si128((const void *)high), 1);
}

V vec v_lanes(const int16_t *const *blocks, int i)
{
	return v_two(blocks[0] + (ptrdiff_t)8 * i, blocks[1] + (ptrdiff_t)8 * i);
}

V int v_any(vec a)
{
	return !_mm256_testz_si256(a, a);
}

V void v_rows(uint8_t *to, size_t pitch, vec a)
{
	a = _mm256_permute4x64_epi64(a, 0xd8);
	_mm_storeu_si128((void *)to, _mm256_castsi256_si128(a));
	_mm_storeu_si128((void *)(to + pitch), _mm256_extracti128_si256(a, 1));
}

V void v_pair(vec *low, vec *high)
{
	vec first = _mm256_permute2x128_si256(*low, *high, 0x20);
	*high = _mm256_permute2x128_si256(*low, *high, 0x31);
	*low = first;
}

/* For each unit of the ready order and each group of 8 coefficients of the zigzag order: which
 * bytes come from that group, in both lanes. */
#define PICK(s, k) (k) / 8 == (s) ? (k) % 8 * 2 : -1, (k) / 8 == (s) ? (k) % 8 * 2 + 1 : -1
#define PICKS(s, a, b, c, d, e, f, g, h)                                                     \
	{PICK(s, a), PICK(s, b), PICK(s, c), PICK(s, d), PICK(s, e), PICK(s, f), PICK(s, g), \
		PICK(s, h), PICK(s, a), PICK(s, b), PICK(s, c), PICK(s, d), PICK(s, e),      \
		PICK(s, f), PICK(s, g), PICK(s, h)},
#define UNIT(u, ...)                                                                             \
	{PICKS(0, __VA_ARGS__) PICKS(1, __VA_ARGS__) PICKS(2, __VA_ARGS__) PICKS(3, __VA_ARGS__) \
			PICKS(4, __VA_ARGS__) PICKS(5, __VA_ARGS__) PICKS(6, __VA_ARGS__)        \
				PICKS(7, __VA_ARGS__)},
static const _Alignas(32) int8_t pick[8][8][32] = {PLANES_READY_UNITS(UNIT)};

/* The groups of 8 of the zigzag order that a unit takes from, a bit each. */
#define HAS(s, a, b, c, d, e, f, g, h)                                                 \
	(((a) / 8 == (s) || (b) / 8 == (s) || (c) / 8 == (s) || (d) / 8 == (s) ||      \
		 (e) / 8 == (s) || (f) / 8 == (s) || (g) / 8 == (s) || (h) / 8 == (s)) \
		<< (s))
#define HAVE(...)                                                                                \
	(HAS(0, __VA_ARGS__) | HAS(1, __VA_ARGS__) | HAS(2, __VA_ARGS__) | HAS(3, __VA_ARGS__) | \
		HAS(4, __VA_ARGS__) | HAS(5, __VA_ARGS__) | HAS(6, __VA_ARGS__) |                \
		HAS(7, __VA_ARGS__))

V vec sort_pick(vec sum, const vec *eights, int unit, int eight, int have)
{
	if (!(have >> eight & 1))
		return sum;
	return v_or(sum, _mm256_shuffle_epi8(eights[eight], v_load(pick[unit][eight])));
}

/* One unit of both blocks. Everything except the groups of 8 is known at compile time. */
V void sort_unit(int16_t (*to)[64], const vec *eights, int unit, int have)
{
	vec sum = v_set16(0);
	sum = sort_pick(sum, eights, unit, 0, have);
	sum = sort_pick(sum, eights, unit, 1, have);
	sum = sort_pick(sum, eights, unit, 2, have);
	sum = sort_pick(sum, eights, unit, 3, have);
	sum = sort_pick(sum, eights, unit, 4, have);
	sum = sort_pick(sum, eights, unit, 5, have);
	sum = sort_pick(sum, eights, unit, 6, have);
	sum = sort_pick(sum, eights, unit, 7, have);
	_mm_store_si128((void *)(to[0] + (ptrdiff_t)8 * unit), _mm256_castsi256_si128(sum));
	_mm_store_si128((void *)(to[1] + (ptrdiff_t)8 * unit), _mm256_extracti128_si256(sum, 1));
}

/* Lanes that hold no bit: bit 0 and bit 1. */
V int sort_empty(vec a)
{
	uint32_t zero = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, v_set8(0)));
	return ((zero & 0xffff) == 0xffff) | ((zero >> 16) == 0xffff) << 1;
}

/* Two blocks. Testing whether the later groups of 8 are empty costs more than their shuffles. */
static void sort_two(
	int16_t (*to)[64], uint8_t kinds[2], const int16_t *first, const int16_t *second)
{
	const vec behind_dc = _mm256_set_epi32(-1, -1, -1, -65536, -1, -1, -1, -65536);
	const vec behind_ten = _mm256_set_epi32(-1, -1, -1, 0, -1, -1, -1, 0);
	vec z[8];
	for (int i = 0; i < 8; i++)
		z[i] = v_two(first + (ptrdiff_t)8 * i, second + (ptrdiff_t)8 * i);
	vec later = v_or(v_or(v_or(z[2], z[3]), v_or(z[4], z[5])), v_or(z[6], z[7]));
	int sparse = sort_empty(v_or(later, v_and(z[1], behind_ten)));
	int flat = sort_empty(v_or(v_or(later, z[1]), v_and(z[0], behind_dc)));
	for (int i = 0; i < 2; i++)
		kinds[i] = (uint8_t)(PLANES_FULL - (sparse >> i & 1) - (flat >> i & 1));
#define SORT(u, ...) sort_unit(to, z, u, HAVE(__VA_ARGS__));
	PLANES_READY_UNITS(SORT)
#undef SORT
}

static void body_sort(int16_t (*to)[64], uint8_t *kinds, const int16_t *const *from, size_t count)
{
	size_t i = 0;
	for (; i + 2 <= count; i += 2)
		sort_two(to + i, kinds + i, from[i], from[i + 1]);
	if (i < count) {
		_Alignas(64) int16_t sorted[2][64];
		uint8_t kind[2];
		sort_two(sorted, kind, from[i], from[i]);
		memcpy(to[i], sorted[0], sizeof(sorted[0]));
		kinds[i] = kind[0];
	}
}

#include "decode/jpeg/kernels/planes_body.h"
#else
typedef int planes_avx2_empty;
#endif

/* scans_avx512: deposits bits and applies refinements by vectors of 64 bytes, for x86-64 with
 * AVX-512 (only this file is compiled with it); empty elsewhere. All processors that have it
 * deposit bits in a few cycles. See scans_body.h. */
#if defined(__AVX512BW__) && defined(__BMI2__)
#include <immintrin.h>
#include <stdint.h>

#define SCANS_TABLE scans_avx512
#define SCANS_NAME "avx512"
#define SCANS_DEPOSIT
#define SCANS_APPLY

static inline uint64_t deposit(uint64_t bits, uint64_t to)
{
	return _pdep_u64(bits, to);
}

static inline uint64_t nth_one(uint64_t of, unsigned n)
{
	return _pdep_u64((uint64_t)1 << n, of);
}

static inline __m512i apply_half(
	__m512i block, __mmask32 add, __mmask32 new, __mmask32 negative, __m512i step)
{
	const __m512i zero = _mm512_setzero_si512();
	__mmask32 below = _mm512_movepi16_mask(block);
	block = _mm512_mask_add_epi16(block, add & ~below, block, step);
	block = _mm512_mask_sub_epi16(block, add & below, block, step);
	block = _mm512_mask_mov_epi16(block, new, step);
	return _mm512_mask_sub_epi16(block, negative, zero, step);
}

static inline void apply(int16_t *block, uint64_t add, uint64_t new, uint64_t negative, int step)
{
	enum { HALF = 32 };
	__m512i *to = (__m512i *)(void *)block, steps = _mm512_set1_epi16((short)step);
	to[0] = apply_half(to[0], (__mmask32)add, (__mmask32) new, (__mmask32)negative, steps);
	to[1] = apply_half(to[1], (__mmask32)(add >> HALF), (__mmask32)(new >> HALF),
		(__mmask32)(negative >> HALF), steps);
}

#include "decode/jpeg/scans/scans_body.h"
#else
typedef int scans_avx512_empty;
#endif

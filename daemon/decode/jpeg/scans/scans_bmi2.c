/* scans_bmi2: deposits bits (pdep), applies refinements by vectors of 32 bytes, for x86-64 with
 * AVX2 and BMI2 (only this file is compiled with them); empty elsewhere. See scans_body.h. */
#if defined(__AVX2__) && defined(__BMI2__)
#include "base/clock.h"
#include "decode/jpeg/scans/scans.h"

#include <immintrin.h>
#include <stdint.h>

#define SCANS_TABLE scans_bmi2
#define SCANS_NAME "avx2"
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

/* All ones in the coefficients whose bits are set in the lowest 16 of `mask`. */
static inline __m256i chosen(uint64_t mask)
{
	const __m256i bits = _mm256_setr_epi16(1, 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6,
		1 << 7, 1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, INT16_MIN);
	__m256i all = _mm256_set1_epi16((short)mask);
	return _mm256_cmpeq_epi16(_mm256_and_si256(all, bits), bits);
}

static inline void apply(int16_t *block, uint64_t add, uint64_t new, uint64_t negative, int step)
{
	enum { QUARTER = 16, QUARTERS = 4 };
	__m256i *to = (__m256i *)(void *)block, steps = _mm256_set1_epi16((short)step);
	for (int i = 0; i < QUARTERS; i++, add >>= QUARTER, new >>= QUARTER, negative >>= QUARTER) {
		__m256i old = to[i], away = _mm256_sign_epi16(steps, old);
		__m256i sum = _mm256_add_epi16(old, _mm256_and_si256(chosen(add), away));
		sum = _mm256_add_epi16(sum, _mm256_and_si256(chosen(new & ~negative), steps));
		to[i] = _mm256_sub_epi16(sum, _mm256_and_si256(chosen(negative), steps));
	}
}

#include "decode/jpeg/scans/scans_body.h"

bool scans_bmi2_pays(void)
{
	enum { TIMES = 1000, TRIES = 5, SLOW_NS = 20000 };
	uint64_t best = UINT64_MAX;
	for (int try = 0; try < TRIES; try++) {
		uint64_t start = clock_ns(), bits = start;
		for (int i = 0; i < TIMES; i++)
			bits = _pdep_u64(bits, UINT64_MAX - (bits & 1));
		__asm__ volatile("" : : "r"(bits));
		uint64_t took = clock_ns() - start;
		best = took < best ? took : best;
	}
	return best < SLOW_NS;
}
#else
typedef int scans_bmi2_empty;
#endif

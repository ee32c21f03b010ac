/* kernels_walk_body: `walk` for x86-64 with AVX2, included by the files that are compiled with it.
 *
 * The code computes eight places at a time. The upper halves of y and x are adjacent, so that
 * one multiply-add of pairs gives y x row + x x 3. It copies the pixels one by one, four bytes
 * each; the next pixel overwrites the fourth byte. Gather instructions are slower on most
 * processors, and much slower where microcode works around their flaw (Downfall). */
#include "augment/kernels/kernels.h"

#include <immintrin.h>
#include <string.h>

static void walk_avx2(uint8_t *to, const struct augment_walk *walk, size_t count)
{
	enum { GROUP = 8 };
	const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	const __m256i size = _mm256_set1_epi32((int)(walk->row << 16 | 3));
	__m256i dx = _mm256_set1_epi32(walk->dx), dy = _mm256_set1_epi32(walk->dy);
	__m256i x = _mm256_add_epi32(_mm256_set1_epi32(walk->x), _mm256_mullo_epi32(lane, dx));
	__m256i y = _mm256_add_epi32(_mm256_set1_epi32(walk->y), _mm256_mullo_epi32(lane, dy));
	const uint8_t *from = walk->from;
	size_t i = 0;
	dx = _mm256_slli_epi32(dx, 3);
	dy = _mm256_slli_epi32(dy, 3);
	for (; i + GROUP <= count; i += GROUP, to += 3 * (size_t)GROUP) {
		_Alignas(32) uint32_t at[GROUP];
		__m256i place = _mm256_blend_epi16(_mm256_srli_epi32(x, 16), y, 0xaa);
		_mm256_store_si256((void *)at, _mm256_madd_epi16(place, size));
		for (int k = 0; k < GROUP - 1; k++)
			memcpy(to + 3 * (size_t)k, from + at[k], 4);
		memcpy(to + 3 * (size_t)(GROUP - 1), from + at[GROUP - 1], 3);
		x = _mm256_add_epi32(x, dx);
		y = _mm256_add_epi32(y, dy);
	}
	struct augment_walk rest = *walk;
	rest.x = (int32_t)((uint32_t)walk->x + (uint32_t)i * (uint32_t)walk->dx);
	rest.y = (int32_t)((uint32_t)walk->y + (uint32_t)i * (uint32_t)walk->dy);
	augment_kernels_c.walk(to, &rest, count - i);
}

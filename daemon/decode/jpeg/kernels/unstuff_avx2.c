/* unstuff_avx2: 32 bytes at a time (only this file is compiled with -mavx2); empty elsewhere. See
 * unstuff.h. An FF occurs about every 250 bytes: a vector that has one is stored whole, and the
 * next one begins after that FF's zero. */
#ifdef __AVX2__
#include "decode/jpeg/unstuff.h"

#include <immintrin.h>

size_t unstuff_avx2(uint8_t *to, const uint8_t *from, size_t size, size_t *ret_written)
{
	const __m256i ff = _mm256_set1_epi8(-1);
	const uint8_t *at = from, *end = from + size;
	uint8_t *out = to;
	while (at < end) {
		__m256i bytes = _mm256_loadu_si256((const __m256i *)at);
		unsigned found = (unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, ff));
		size_t left = (size_t)(end - at);
		_mm256_storeu_si256((__m256i *)out, bytes);
		size_t run = found ? (size_t)__builtin_ctz(found) : sizeof(bytes);
		if (run >= left) {
			out += left;
			at = end;
		} else if (!found) {
			out += sizeof(bytes);
			at += sizeof(bytes);
		} else if (run + 1 == left || at[run + 1] != 0) {
			out += run;
			at += run;
			break;
		} else {
			out += run + 1;
			at += run + 2;
		}
	}
	*ret_written = (size_t)(out - to);
	return (size_t)(at - from);
}
#else
typedef int unstuff_avx2_empty;
#endif

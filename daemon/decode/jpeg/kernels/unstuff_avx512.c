/* unstuff_avx512: 64 bytes at a time; a compress instruction removes the zeros (only this file is
 * compiled for AVX-512 with VBMI2); empty elsewhere. See unstuff.h. */
#ifdef __AVX512VBMI2__
#include "decode/jpeg/unstuff.h"

#include <immintrin.h>

static inline uint64_t low_bits(size_t count)
{
	return count < 64 ? (1ull << count) - 1 : ~0ull;
}

size_t unstuff_avx512(uint8_t *to, const uint8_t *from, size_t size, size_t *ret_written)
{
	const __m512i ff = _mm512_set1_epi8(-1);
	const uint8_t *at = from, *end = from + size;
	uint8_t *out = to;
	while (at < end) {
		__m512i bytes = _mm512_loadu_si512(at), next = _mm512_loadu_si512(at + 1);
		size_t left = (size_t)(end - at);
		uint64_t inside = low_bits(left);
		uint64_t found = _mm512_cmpeq_epi8_mask(bytes, ff) & inside;
		if (!found && left >= sizeof(bytes)) {
			_mm512_storeu_si512(out, bytes);
			out += sizeof(bytes);
			at += sizeof(bytes);
			continue;
		}
		/* The zero of an FF that is the stretch's last byte is outside the stretch. */
		uint64_t followed = left <= 64 ? low_bits(left - 1) : ~0ull;
		uint64_t stuffed = found & _mm512_testn_epi8_mask(next, next) & followed;
		uint64_t marker = found & ~stuffed;
		if (marker)
			inside &= low_bits((size_t)__builtin_ctzll(marker));
		uint64_t keep = inside & ~(stuffed << 1);
		_mm512_storeu_si512(out, _mm512_maskz_compress_epi8(keep, bytes));
		out += __builtin_popcountll(keep);
		if (marker) {
			at += __builtin_ctzll(marker);
			break;
		}
		/* An FF in the vector's last byte also consumes its zero. */
		at += left < sizeof(bytes) ? left : sizeof(bytes) + (stuffed >> 63);
	}
	*ret_written = (size_t)(out - to);
	return (size_t)(at - from);
}
#else
typedef int unstuff_avx512_empty;
#endif

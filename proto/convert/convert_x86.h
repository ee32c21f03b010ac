/* convert_x86: loads sixteen pixels as bytes into registers of 128 bits, and copies bytes with
 * stores that bypass the caches. */
#pragma once

#include "proto/convert/convert.h"

#include <immintrin.h>
#include <string.h>

typedef __m128i body_bytes;

static inline void body_interleaved(const uint8_t *from, __m128i ret[3])
{
	for (int i = 0; i < 3; i++)
		ret[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + 16 * i));
}

/* One channel of sixteen times 3 bytes: at each place, one of the three registers has that channel.
 * Blends them into one register and reorders it. */
static inline void body_planes(const uint8_t *from, __m128i ret[3])
{
	const __m128i first = _mm_setr_epi8(-1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1);
	const __m128i second = _mm_setr_epi8(0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0);
	const __m128i third = _mm_setr_epi8(0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0, -1, 0, 0);
	const __m128i red = _mm_setr_epi8(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13);
	const __m128i green = _mm_setr_epi8(1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14);
	const __m128i blue = _mm_setr_epi8(2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15);
	__m128i x[3];
	body_interleaved(from, x);
	ret[0] = _mm_shuffle_epi8(
		_mm_blendv_epi8(_mm_blendv_epi8(x[0], x[1], second), x[2], third), red);
	ret[1] = _mm_shuffle_epi8(
		_mm_blendv_epi8(_mm_blendv_epi8(x[0], x[1], first), x[2], second), green);
	ret[2] = _mm_shuffle_epi8(
		_mm_blendv_epi8(_mm_blendv_epi8(x[0], x[1], third), x[2], first), blue);
}

static inline void body_put_u8(void *out, __m128i x)
{
	_mm_storeu_si128(out, x);
}

static inline void body_fence(void)
{
	_mm_sfence();
}

/* Copies as memcpy() copies large blocks. memcpy() starts to do so at a share of the largest
 * cache, which may be hundreds of megabytes in a virtual machine. Wider registers would not
 * help: memory is the bottleneck. */
static void stream_u8(const struct convert *convert, const uint8_t *from, size_t pixels, void *out,
	size_t plane_bytes)
{
	(void)convert, (void)plane_bytes;
	size_t bytes = 3 * pixels, lines = bytes / CONVERT_LINE * CONVERT_LINE;
	uint8_t *to = out;
	for (size_t at = 0; at < lines; at += CONVERT_LINE) {
		__m128i x[4];
		for (size_t i = 0; i < 4; i++)
			x[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 16 * i));
		for (size_t i = 0; i < 4; i++)
			_mm_stream_si128((__m128i *)(void *)(to + at + 16 * i), x[i]);
	}
	body_fence();
	memcpy(to + lines, from + lines, bytes - lines);
}

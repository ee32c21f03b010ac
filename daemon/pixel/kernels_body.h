/* kernels_body: the text of every variant of the kernels; see kernels.h. The including file defines
 * KERNELS_TABLE, the table's name, and KERNELS_NAME, its word for people; its compiler flags make
 * the difference. */
#include "pixel/kernels.h"
#include "pixel/weights.h"

#include <string.h>

#define KERNELS_INLINE static inline __attribute__((always_inline))

typedef uint8_t bytes16 __attribute__((vector_size(16)));

enum { WORDS_PIXEL = KERNELS_PIXEL / 4 };

/* The first and the second half of a and b, interleaved byte by byte. */
KERNELS_INLINE void body_zip(bytes16 *lo, bytes16 *hi, bytes16 a, bytes16 b)
{
	*lo = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	*hi = __builtin_shufflevector(
		a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* A perfect shuffle of the 16 rows: four of them turn the tile. */
KERNELS_INLINE void body_shuffle(bytes16 *to, const bytes16 *from)
{
	for (int i = 0; i < 8; i++)
		body_zip(&to[2 * i], &to[2 * i + 1], from[i], from[i + 8]);
}

KERNELS_INLINE void body_tile(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t from_pitch)
{
	bytes16 a[16], b[16];
	for (int i = 0; i < 16; i++)
		memcpy(&a[i], from + (size_t)i * from_pitch, sizeof(a[i]));
	body_shuffle(b, a);
	body_shuffle(a, b);
	body_shuffle(b, a);
	body_shuffle(a, b);
	for (int i = 0; i < 16; i++)
		memcpy(to + (size_t)i * to_pitch, &a[i], sizeof(a[i]));
}

static void body_turn(uint8_t *to, size_t to_pitch, const uint8_t *from, size_t from_pitch,
	size_t rows, size_t columns)
{
	for (size_t r = 0; r < rows; r += 16)
		for (size_t c = 0; c < columns; c += 16)
			body_tile(to + c * to_pitch + r, to_pitch, from + r * from_pitch + c,
				from_pitch);
}

/* Weights are never negative, so neither is a sum: only the upper end needs a clip. */
KERNELS_INLINE uint32_t body_clip(uint32_t sum)
{
	sum >>= WEIGHTS_BITS;
	return sum > 255 ? 255 : sum;
}

/* Four bytes out of word j of each row. `taps` is a constant wherever this is inlined. */
KERNELS_INLINE uint32_t body_sum(
	const uint32_t *const *rows, const uint32_t *value, unsigned taps, size_t j)
{
	uint32_t s0 = WEIGHTS_HALF, s1 = WEIGHTS_HALF, s2 = WEIGHTS_HALF, s3 = WEIGHTS_HALF;
	for (unsigned t = 0; t < taps; t++) {
		uint32_t v = rows[t][j], w = value[t];
		s0 += (v & 255) * w;
		s1 += (v >> 8 & 255) * w;
		s2 += (v >> 16 & 255) * w;
		s3 += (v >> 24) * w;
	}
	return body_clip(s0) | body_clip(s1) << 8 | body_clip(s2) << 16 | body_clip(s3) << 24;
}

KERNELS_INLINE void body_row(uint32_t *restrict to, const uint32_t *const *from,
	const uint32_t *value, unsigned taps, size_t words)
{
	/* Copies in locals: the stores to `to` cannot change them, which the vectoriser must know.
	 */
	const uint32_t *rows[KERNELS_TAPS];
	uint32_t w[KERNELS_TAPS];
	for (unsigned t = 0; t < taps; t++) {
		rows[t] = from[t];
		w[t] = value[t];
	}
	for (size_t j = 0; j < words; j++)
		to[j] = body_sum(rows, w, taps, j);
}

static void body_down_add(uint32_t *sums, const uint8_t *row, uint32_t value, size_t words)
{
	const uint32_t *restrict v = (const uint32_t *)(const void *)row;
	uint32_t *restrict s0 = sums, *restrict s1 = s0 + words, *restrict s2 = s1 + words,
			   *restrict s3 = s2 + words;
	for (size_t j = 0; j < words; j++) {
		s0[j] += (v[j] & 255) * value;
		s1[j] += (v[j] >> 8 & 255) * value;
		s2[j] += (v[j] >> 16 & 255) * value;
		s3[j] += (v[j] >> 24) * value;
	}
}

static void body_down_end(uint8_t *to, const uint32_t *sums, size_t words)
{
	uint32_t *restrict v = (uint32_t *)(void *)to;
	const uint32_t *restrict s0 = sums, *restrict s1 = s0 + words, *restrict s2 = s1 + words,
				 *restrict s3 = s2 + words;
	for (size_t j = 0; j < words; j++)
		v[j] = body_clip(s0[j]) | body_clip(s1[j]) << 8 | body_clip(s2[j]) << 16 |
		       body_clip(s3[j]) << 24;
}

KERNELS_INLINE void body_across_few(uint32_t *restrict to, const uint32_t *restrict from,
	const uint32_t *restrict first, const uint32_t *restrict value, unsigned taps,
	uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, to += WORDS_PIXEL, value += taps) {
		const uint32_t *rows[KERNELS_TAPS];
		for (unsigned t = 0; t < taps; t++)
			rows[t] = from + (size_t)(first[i] + t) * WORDS_PIXEL;
		body_row(to, rows, value, taps, WORDS_PIXEL);
	}
}

static void body_across_many(uint32_t *to, const uint32_t *from, const uint32_t *first,
	const uint32_t *value, uint32_t stride, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, to += WORDS_PIXEL, value += stride) {
		uint32_t sums[KERNELS_PIXEL];
		for (unsigned j = 0; j < KERNELS_PIXEL; j++)
			sums[j] = WEIGHTS_HALF;
		const uint32_t *pixel = from + (size_t)first[i] * WORDS_PIXEL;
		for (uint32_t t = 0; t < stride; t++, pixel += WORDS_PIXEL)
			body_down_add(sums, (const uint8_t *)pixel, value[t], WORDS_PIXEL);
		body_down_end((uint8_t *)to, sums, WORDS_PIXEL);
	}
}

/* The number of taps as a constant, so that the sums of a pixel stay in registers. */
#define BODY_BY_TAPS(taps, call) \
	switch (taps) {          \
	case 1:                  \
		call(1);         \
		break;           \
	case 2:                  \
		call(2);         \
		break;           \
	case 3:                  \
		call(3);         \
		break;           \
	case 4:                  \
		call(4);         \
		break;           \
	case 5:                  \
		call(5);         \
		break;           \
	case 6:                  \
		call(6);         \
		break;           \
	case 7:                  \
		call(7);         \
		break;           \
	case 8:                  \
		call(8);         \
		break;           \
	default:                 \
		break;           \
	}

static void body_across(uint8_t *to_bytes, const uint8_t *from_bytes, const uint32_t *first,
	const uint32_t *value, uint32_t stride, uint32_t count)
{
	uint32_t *to = (uint32_t *)(void *)to_bytes;
	const uint32_t *from = (const uint32_t *)(const void *)from_bytes;
	if (stride > KERNELS_TAPS) {
		body_across_many(to, from, first, value, stride, count);
		return;
	}
#define BODY_ACROSS(n) body_across_few(to, from, first, value, n, count)
	BODY_BY_TAPS(stride, BODY_ACROSS)
}

static void body_down(uint8_t *to_bytes, const uint8_t *const *rows_bytes, const uint32_t *value,
	uint32_t taps, size_t words)
{
	uint32_t *to = (uint32_t *)(void *)to_bytes;
	const uint32_t *rows[KERNELS_TAPS];
	for (uint32_t t = 0; t < taps; t++)
		rows[t] = (const uint32_t *)(const void *)rows_bytes[t];
#define BODY_DOWN(n) body_row(to, rows, value, n, words)
	BODY_BY_TAPS(taps, BODY_DOWN)
}

const struct kernels KERNELS_TABLE = {
	.name = KERNELS_NAME,
	.turn = body_turn,
	.across = body_across,
	.down = body_down,
	.down_add = body_down_add,
	.down_end = body_down_end,
};

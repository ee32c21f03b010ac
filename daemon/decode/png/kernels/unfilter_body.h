/* unfilter_body: unfiltering with vectors of 16 bytes. The including file defines:
 *
 *   vec                          16 bytes
 *   v_zero(), v_load(p), v_store(p, a)
 *   v_get(p, bytes)              4 or 8 bytes at p, the others 0
 *   v_put(p, a, bytes)           stores the first 4 or 8 bytes
 *   v_four(p0, p1, p2, p3)       4 bytes from each place
 *   v_put_four(p0, p1, p2, p3, a)
 *   v_push(a, p)                 moved up by 4 bytes, the first four from p
 *   v_add, v_adds, v_subs        by byte: the sum, the sum up to 255, the difference down to 0
 *   v_min, v_or, v_and, v_same   by byte; v_same is FF where they are equal
 *   v_half(a, b)                 (a + b) / 2, rounded down
 *   v_pick(mask, a, b)           a where the mask is FF, b where it is 0
 *
 * A pixel of 3 bytes is computed as one of 4, of which the last is not meant; the next pixel is
 * stored over it.
 *
 * Paeth's predictor is the neighbor that is nearest to a + b - c. The distances to a and b are
 * |b - c| and |a - c|. The distance to c is their sum if a and b are on the same side of c, and
 * else their difference. If the sum exceeds 255, so that it saturates, it still is not less than
 * the other two, which is all that matters. */
#include "decode/png/kernels/png_kernels.h"

#include <string.h>

#define BODY_INLINE static inline __attribute__((always_inline))

BODY_INLINE vec body_paeth(vec a, vec b, vec c)
{
	vec b_over = v_subs(b, c), b_under = v_subs(c, b);
	vec a_over = v_subs(a, c), a_under = v_subs(c, a);
	vec to_a = v_or(b_over, b_under), to_b = v_or(a_over, a_under);
	vec over = v_adds(a_over, b_over), under = v_adds(a_under, b_under);
	vec to_c = v_or(v_subs(over, under), v_subs(under, over));
	vec least = v_min(to_a, to_b);
	vec nearer = v_pick(v_same(to_a, least), a, b);
	return v_pick(v_same(v_min(least, to_c), least), nearer, c);
}

BODY_INLINE vec body_guess(enum png_filter type, vec a, vec b, vec c)
{
	if (type == PNG_FILTER_TYPE_SUB)
		return a;
	return type == PNG_FILTER_TYPE_AVERAGE ? v_half(a, b) : body_paeth(a, b, c);
}

/* A row of Sub, Average or Paeth, pixel by pixel. */
BODY_INLINE void body_pixels(enum png_filter type, uint8_t *to, const uint8_t *from,
	const uint8_t *above, size_t bytes, unsigned pixel)
{
	const unsigned width = pixel <= 4 ? 4 : 8;
	vec a = v_zero(), c = v_zero();
	for (size_t i = 0; i < bytes; i += pixel) {
		vec b = v_get(above + i, width);
		a = v_add(v_get(from + i, width), body_guess(type, a, b, c));
		c = b;
		v_put(to + i, a, width);
	}
}

BODY_INLINE void body_up(uint8_t *to, const uint8_t *from, const uint8_t *above, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 16)
		v_store(to + i, v_add(v_load(from + i), v_load(above + i)));
}

BODY_INLINE void body_row_of(
	uint8_t *to, const uint8_t *from, const uint8_t *above, size_t bytes, unsigned pixel)
{
	switch (from[0]) {
	case PNG_FILTER_TYPE_SUB:
		body_pixels(PNG_FILTER_TYPE_SUB, to, from + 1, above, bytes, pixel);
		break;
	case PNG_FILTER_TYPE_AVERAGE:
		body_pixels(PNG_FILTER_TYPE_AVERAGE, to, from + 1, above, bytes, pixel);
		break;
	default:
		body_pixels(PNG_FILTER_TYPE_PAETH, to, from + 1, above, bytes, pixel);
	}
}

static void body_row(
	uint8_t *to, const uint8_t *from, const uint8_t *above, size_t bytes, unsigned pixel)
{
	if (from[0] == PNG_FILTER_TYPE_NONE)
		memcpy(to, from + 1, bytes);
	else if (from[0] == PNG_FILTER_TYPE_UP)
		body_up(to, from + 1, above, bytes);
	else if (pixel == 3)
		body_row_of(to, from, above, bytes, 3);
	else if (pixel == 4)
		body_row_of(to, from, above, bytes, 4);
	else if (pixel == 6)
		body_row_of(to, from, above, bytes, 6);
	else if (pixel == 8)
		body_row_of(to, from, above, bytes, 8);
	else
		png_kernels_c.unfilter(&to, &from, above, 1, bytes, pixel);
}

/* Bytes that are FF for the rows whose filter is of this type. */
BODY_INLINE vec body_mask(const uint8_t *const from[], enum png_filter type)
{
	uint8_t mask[16];
	for (int k = 0; k < PNG_ROWS; k++)
		memset(mask + 4 * k, from[k][0] == type ? 0xff : 0, 4);
	return v_load(mask);
}

/* Four rows of any filters; row k is k pixels behind the first. What one row makes of a pixel is,
 * a step later, what is above for the next row. */
BODY_INLINE void body_four(uint8_t *const to[], const uint8_t *const from[], const uint8_t *above,
	size_t bytes, unsigned pixel)
{
	const vec sub = body_mask(from, PNG_FILTER_TYPE_SUB),
		  up = body_mask(from, PNG_FILTER_TYPE_UP);
	const vec average = body_mask(from, PNG_FILTER_TYPE_AVERAGE);
	const vec paeth = body_mask(from, PNG_FILTER_TYPE_PAETH);
	const uint8_t *f0 = from[0] + 1, *f1 = from[1] + 1 - pixel;
	const uint8_t *f2 = from[2] + 1 - 2 * pixel, *f3 = from[3] + 1 - 3 * pixel;
	uint8_t *t0 = to[0], *t1 = to[1] - pixel, *t2 = to[2] - 2 * pixel, *t3 = to[3] - 3 * pixel;
	static const uint8_t begun[3][16] = {
		{0xff, 0xff, 0xff, 0xff},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	};
	vec a = v_zero(), c = v_zero();
	for (size_t i = 0; i < bytes + 3 * pixel; i += pixel) {
		vec b = v_push(a, above + i);
		vec plain = v_or(v_or(v_and(sub, a), v_and(up, b)), v_and(average, v_half(a, b)));
		vec by = v_pick(paeth, body_paeth(a, b, c), plain);
		a = v_add(v_four(f0 + i, f1 + i, f2 + i, f3 + i), by);
		/* To the left of a row's first pixel are zeros. */
		if (i < 3 * pixel)
			a = v_and(a, v_load(begun[i / pixel]));
		c = b;
		v_put_four(t0 + i, t1 + i, t2 + i, t3 + i, a);
	}
}

/* Whether it takes less time to unfilter the rows together. */
static bool body_together(const uint8_t *const from[], unsigned count, size_t bytes, unsigned pixel)
{
	enum { LEAST = 64 };
	unsigned waiting = 0;
	if (count != PNG_ROWS || bytes < LEAST || (pixel != 3 && pixel != 4))
		return false;
	for (unsigned k = 0; k < PNG_ROWS; k++)
		waiting += from[k][0] == PNG_FILTER_TYPE_PAETH
				   ? 3
				   : from[k][0] == PNG_FILTER_TYPE_AVERAGE;
	return waiting >= 4;
}

static void body_unfilter(uint8_t *const to[], const uint8_t *const from[], const uint8_t *above,
	unsigned count, size_t bytes, unsigned pixel)
{
	if (body_together(from, count, bytes, pixel)) {
		if (pixel == 3)
			body_four(to, from, above, bytes, 3);
		else
			body_four(to, from, above, bytes, 4);
		return;
	}
	for (unsigned k = 0; k < count; k++)
		body_row(to[k], from[k], k ? to[k - 1] : above, bytes, pixel);
}

/* png_c: in plain C, the reference; see png_kernels.h. */
#include "decode/png/kernels/png_kernels.h"

#include <stdlib.h>
#include <string.h>

#define BODY_NAME inflate_coded_c
#include "decode/png/kernels/inflate_body.h"

static uint8_t paeth(uint8_t a, uint8_t b, uint8_t c)
{
	int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);
	if (pa <= pb && pa <= pc)
		return a;
	return pb <= pc ? b : c;
}

/* What is added to a byte: by the byte to the left, the one above, and the one to the left of that.
 */
static uint8_t guess(enum png_filter type, uint8_t a, uint8_t b, uint8_t c)
{
	switch (type) {
	case PNG_FILTER_TYPE_SUB:
		return a;
	case PNG_FILTER_TYPE_UP:
		return b;
	case PNG_FILTER_TYPE_AVERAGE:
		return (uint8_t)((a + b) / 2);
	case PNG_FILTER_TYPE_PAETH:
		return paeth(a, b, c);
	default:
		return 0;
	}
}

static inline __attribute__((always_inline)) void unfilter_by(enum png_filter type, uint8_t *to,
	const uint8_t *from, const uint8_t *above, size_t bytes, unsigned pixel)
{
	size_t i = 0;
	for (; i < pixel && i < bytes; i++)
		to[i] = (uint8_t)(from[i] + guess(type, 0, above[i], 0));
	for (; i < bytes; i++)
		to[i] = (uint8_t)(from[i] + guess(type, to[i - pixel], above[i], above[i - pixel]));
}

static void unfilter_row(
	uint8_t *to, const uint8_t *from, const uint8_t *above, size_t bytes, unsigned pixel)
{
	switch (from[0]) {
	case PNG_FILTER_TYPE_SUB:
		unfilter_by(PNG_FILTER_TYPE_SUB, to, from + 1, above, bytes, pixel);
		break;
	case PNG_FILTER_TYPE_UP:
		unfilter_by(PNG_FILTER_TYPE_UP, to, from + 1, above, bytes, pixel);
		break;
	case PNG_FILTER_TYPE_AVERAGE:
		unfilter_by(PNG_FILTER_TYPE_AVERAGE, to, from + 1, above, bytes, pixel);
		break;
	case PNG_FILTER_TYPE_PAETH:
		unfilter_by(PNG_FILTER_TYPE_PAETH, to, from + 1, above, bytes, pixel);
		break;
	default:
		memcpy(to, from + 1, bytes);
	}
}

static void unfilter(uint8_t *const to[], const uint8_t *const from[], const uint8_t *above,
	unsigned count, size_t bytes, unsigned pixel)
{
	for (unsigned i = 0; i < count; i++)
		unfilter_row(to[i], from[i], i ? to[i - 1] : above, bytes, pixel);
}

static uint32_t adler(uint32_t sum, const uint8_t *from, size_t size)
{
	/* RFC 1950's sample code: the sums of so many bytes do not overflow. */
	enum { BASE = 65521, AT_ONCE = 5552 };
	uint32_t a = sum & 0xffff, b = sum >> 16;
	while (size) {
		size_t part = size < AT_ONCE ? size : AT_ONCE;
		for (size_t i = 0; i < part; i++) {
			a += from[i];
			b += a;
		}
		a %= BASE;
		b %= BASE;
		from += part;
		size -= part;
	}
	return b << 16 | a;
}

static void split4(uint8_t *const to[3], const uint8_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int c = 0; c < 3; c++)
			to[c][i] = from[4 * i + (size_t)c];
}

const struct png_kernels png_kernels_c = {
	.name = "c",
	.unfilter = unfilter,
	.adler = adler,
	.split4 = split4,
	.coded = inflate_coded_c,
};

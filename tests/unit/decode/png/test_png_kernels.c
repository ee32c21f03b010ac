/* The kernels of PNGs: every table against a plain rule, at odd sizes, with all filters and
 * mixtures of them, and beside forbidden pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/decode/jpeg/guarded.h"

#include "decode/png/kernels/png_kernels.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint32_t seed = 1;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

/* Noise, or values near each other and near both ends. */
static uint8_t random_byte(unsigned kind)
{
	static const uint8_t ends[] = {0, 1, 2, 127, 128, 129, 253, 254, 255};
	if (kind == 0)
		return (uint8_t)random_below(256);
	return kind == 1 ? ends[random_below(sizeof(ends))] : (uint8_t)random_below(4);
}

/* PNG, "Filter types for filter method 0". */
static void expected(
	uint8_t *to, const uint8_t *from, const uint8_t *above, size_t bytes, unsigned pixel)
{
	for (size_t i = 0; i < bytes; i++) {
		int a = i >= pixel ? to[i - pixel] : 0, b = above[i];
		int c = i >= pixel ? above[i - pixel] : 0;
		int p = a + b - c, pa = abs(p - a), pb = abs(p - b), pc = abs(p - c);
		int paeth = pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
		const int guess[] = {0, a, b, (a + b) / 2, paeth};
		to[i] = (uint8_t)(from[1 + i] + guess[from[0]]);
	}
}

struct row {
	struct guarded memory;
	uint8_t *bytes;
};

static struct row row_new(size_t bytes, bool at_end)
{
	struct row row = {.memory = guarded_new(bytes + 2 * PNG_ROW_SLACK, at_end)};
	row.bytes = row.memory.bytes + PNG_ROW_SLACK;
	return row;
}

static void unfilter_by(const struct png_kernels *kernels, size_t bytes, unsigned pixel,
	unsigned count, unsigned kind, bool at_end)
{
	struct row from[PNG_ROWS], to[PNG_ROWS], above = row_new(bytes, at_end);
	const uint8_t *from_rows[PNG_ROWS];
	uint8_t *to_rows[PNG_ROWS], *wanted = malloc(2 * bytes + 1), *before = wanted + bytes;
	unsigned types = random_below(PNG_FILTER_TYPES + 2);
	assert_non_null(wanted);
	for (size_t i = 0; i < bytes; i++)
		before[i] = above.bytes[i] = random_byte(kind);
	for (unsigned k = 0; k < count; k++) {
		from[k] = row_new(bytes + 1, at_end);
		to[k] = row_new(bytes, at_end);
		from_rows[k] = from[k].bytes;
		to_rows[k] = to[k].bytes;
		for (size_t i = 0; i <= bytes; i++)
			from[k].bytes[i] = random_byte(kind);
		from[k].bytes[0] =
			(uint8_t)(types < PNG_FILTER_TYPES ? types
							   : random_below(PNG_FILTER_TYPES));
	}
	kernels->unfilter(to_rows, from_rows, above.bytes, count, bytes, pixel);
	for (unsigned k = 0; k < count; k++) {
		expected(wanted, from[k].bytes, before, bytes, pixel);
		assert_memory_equal(to[k].bytes, wanted, bytes);
		memcpy(before, wanted, bytes);
		guarded_free(&from[k].memory);
		guarded_free(&to[k].memory);
	}
	guarded_free(&above.memory);
	free(wanted);
}

static void test_unfilter(void **state)
{
	static const unsigned pixels[] = {1, 2, 3, 4, 6, 8};
	const struct png_kernels *kernels;
	for (unsigned k = 0; (kernels = png_kernels_at(k)); k++)
		for (unsigned round = 0; round < 3000; round++) {
			unsigned pixel = pixels[round % 6];
			size_t wide = 1 + random_below(round % 7 ? 50 : 700);
			unfilter_by(kernels, wide * pixel, pixel, 1 + random_below(PNG_ROWS),
				random_below(3), random_below(2));
		}
}

static void test_adler(void **state)
{
	enum { ROOM = 20000 };
	struct guarded bytes = guarded_new(ROOM, 1);
	const struct png_kernels *kernels;
	for (unsigned round = 0; round < 400; round++) {
		size_t size = random_below(round % 8 ? 300 : ROOM + 1);
		uint8_t *at = bytes.bytes + ROOM - size;
		uint32_t sum = (uint32_t)adler32(1, (const Bytef *)"before", 6);
		for (size_t i = 0; i < size; i++)
			at[i] = round % 3 ? 0xff : (uint8_t)random_below(256);
		if (round % 5 == 0)
			sum = 65520u << 16 | 65520;
		for (unsigned k = 0; (kernels = png_kernels_at(k)); k++)
			assert_int_equal(
				kernels->adler(sum, at, size), adler32(sum, at, (uInt)size));
	}
	guarded_free(&bytes);
}

static void test_split(void **state)
{
	const struct png_kernels *kernels;
	for (unsigned k = 0; (kernels = png_kernels_at(k)); k++)
		for (size_t count = 0; count < 100; count++) {
			struct guarded from = guarded_new(4 * count, 1);
			struct guarded to[3];
			uint8_t *rows[3];
			for (int c = 0; c < 3; c++) {
				to[c] = guarded_new(count, 1);
				rows[c] = to[c].bytes;
			}
			for (size_t i = 0; i < 4 * count; i++)
				from.bytes[i] = random_byte(0);
			kernels->split4(rows, from.bytes, count);
			for (size_t i = 0; i < count; i++)
				for (size_t c = 0; c < 3; c++)
					assert_int_equal(rows[c][i], from.bytes[4 * i + c]);
			for (int c = 0; c < 3; c++)
				guarded_free(&to[c]);
			guarded_free(&from);
		}
}

static void test_choose(void **state)
{
	const struct png_kernels *kernels = NULL;
	struct fault fault;
	assert_int_equal(setenv("PENSTOCK_KERNELS", "c", 1), 0);
	assert_int_equal(png_kernels_choose(&kernels, &fault), 0);
	assert_ptr_equal(kernels, &png_kernels_c);
	assert_int_equal(setenv("PENSTOCK_KERNELS", "quick", 1), 0);
	assert_true(png_kernels_choose(&kernels, &fault) < 0);
	assert_non_null(strstr(fault.text, "PENSTOCK_KERNELS=quick"));
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_int_equal(png_kernels_choose(&kernels, &fault), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unfilter),
		cmocka_unit_test(test_adler),
		cmocka_unit_test(test_split),
		cmocka_unit_test(test_choose),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

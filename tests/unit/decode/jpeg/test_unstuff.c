/* Unstuffing against a byte-by-byte version of its rule: bytes with many FF, zeros and markers, at
 * every length and with guard pages; segments; origins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/decode/jpeg/guarded.h"

#include "decode/jpeg/lane.h"

#include <string.h>

static uint32_t seed = 1;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static uint8_t random_byte(unsigned thickness)
{
	static const uint8_t special[] = {0xff, 0, 0xff, 0, 0xd0, 0xd1, 0xd9};
	return random_below(thickness) ? (uint8_t)random_below(256)
				       : special[random_below(sizeof(special))];
}

/* Mostly correct stuffing, so that long stretches occur. */
static void fill(uint8_t *bytes, size_t size, unsigned thickness, bool proper)
{
	for (size_t i = 0; i < size; i++) {
		bytes[i] = random_byte(thickness);
		if (proper && i && bytes[i - 1] == 0xff && random_below(200))
			bytes[i] = 0;
	}
}

static size_t expected(uint8_t *to, const uint8_t *from, size_t size, size_t *ret_written)
{
	size_t written = 0, at = 0;
	while (at < size) {
		if (from[at] != 0xff) {
			to[written++] = from[at++];
		} else if (at + 1 < size && from[at + 1] == 0) {
			to[written++] = 0xff;
			at += 2;
		} else {
			break;
		}
	}
	*ret_written = written;
	return at;
}

static void check(unstuff_fn *unstuff, size_t size, unsigned thickness, bool proper)
{
	struct guarded from = guarded_new(size + UNSTUFF_SLACK, 1);
	struct guarded to = guarded_new(size + UNSTUFF_SLACK, 1);
	uint8_t *want = test_malloc(size + 1);
	fill(from.bytes, size + UNSTUFF_SLACK, thickness, proper);
	size_t written, wanted;
	size_t end = expected(want, from.bytes, size, &wanted);
	assert_int_equal(unstuff(to.bytes, from.bytes, size, &written), end);
	assert_int_equal(written, wanted);
	assert_memory_equal(to.bytes, want, wanted);
	test_free(want);
	guarded_free(&from);
	guarded_free(&to);
}

static void test_forms(void **state)
{
	(void)state;
	for (unsigned i = 0; lanes_at(i); i++) {
		unstuff_fn *unstuff = lanes_at(i)->unstuff;
		for (size_t size = 0; size < 260; size++)
			for (unsigned t = 0; t < 12; t++)
				check(unstuff, size, 1u << t, t & 1);
		for (unsigned t = 0; t < 40; t++)
			check(unstuff, 1000 + random_below(5000), 1u << t % 9, true);
	}
}

static void test_segments(void **state)
{
	(void)state;
	static const uint8_t scan[] = {
		1, 0xff, 0, 2, 0xff, 0xd0, 3, 0xff, 0xd1, 0xff, 0xd2, 4, 0xff, 0xd9, [14 + 64] = 0};
	uint8_t out[sizeof(scan) + UNSTUFF_SLACK];
	struct unstuff_segment segments[8];
	struct unstuff_found found;
	for (unsigned i = 0; lanes_at(i); i++) {
		unstuff_fn *unstuff = lanes_at(i)->unstuff;
		assert_int_equal(unstuff_scan(unstuff, out, scan, 14, segments, 8, &found), 0);
		assert_int_equal(found.segments, 4);
		assert_int_equal(found.bytes, 5);
		assert_int_equal(found.end, 12);
		assert_memory_equal(out, "\1\xff\2\3\4", 5);
		assert_int_equal(segments[0].bytes, 3);
		assert_int_equal(segments[1].start, 3);
		assert_int_equal(segments[2].bytes, 0);
		assert_int_equal(segments[3].start, 4);
		assert_true(unstuff_is_end(scan, 14, found.end));
		assert_false(unstuff_is_end(scan, 13, found.end));
		/* No more segments than asked for; a marker out of order. */
		assert_int_equal(unstuff_scan(unstuff, out, scan, 14, segments, 2, &found), 0);
		assert_int_equal(found.end, 7);
		assert_int_equal(unstuff_scan(unstuff, out, scan + 6, 8, segments, 8, &found),
			STEPBACK_RESTART);
		assert_int_equal(found.segments, 1);
	}
}

static void test_origin(void **state)
{
	(void)state;
	for (int round = 0; round < 200; round++) {
		uint8_t from[600 + UNSTUFF_SLACK], to[600 + UNSTUFF_SLACK];
		uint16_t origin[601];
		fill(from, 600, 1 + random_below(20), true);
		size_t count = 0, at = 0;
		for (; at < 600; at += from[at] == 0xff ? 2 : 1) {
			if (from[at] == 0xff && (at + 1 == 600 || from[at + 1]))
				break;
			origin[count++] = (uint16_t)at;
		}
		size_t written, end = unstuff_c(to, from, 600, &written);
		assert_int_equal(written, count);
		origin[count] = (uint16_t)end;
		struct unstuff_origin walk = {.from = from, .size = end};
		for (size_t i = 0; i <= count; i += 1 + random_below(3))
			assert_int_equal(unstuff_origin(&walk, i), origin[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_segments),
		cmocka_unit_test(test_origin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

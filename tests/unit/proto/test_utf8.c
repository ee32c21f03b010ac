/* utf8: every code point reads as itself; malformed bytes are refused one by one; counting and
 * cutting. */
#include "proto/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Writes a code point without checking it. */
static size_t encode(int32_t point, char *to)
{
	unsigned char *b = (unsigned char *)to;
	size_t size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = size; i-- > 1; point >>= 6)
		b[i] = (unsigned char)(0x80 | (point & 0x3f));
	b[0] = (unsigned char)(lead[size] | point);
	b[size] = 0;
	return size;
}

static void test_every_code_point(void **state)
{
	(void)state;
	char text[8];
	for (int32_t point = 1; point < 0x120000; point++) {
		size_t size = encode(point, text), got = 0;
		bool legal = point < 0xd800 || (point >= 0xe000 && point <= 0x10ffff);
		assert_int_equal(utf8_decode(text, &got), legal ? point : -1);
		assert_int_equal(got, legal ? size : 1);
		assert_int_equal(utf8_is_valid(text), legal);
		assert_int_equal(utf8_count(text), 1);
	}
}

static void test_malformed(void **state)
{
	(void)state;
	static const char *const texts[] = {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2z",
		"\xe0\x80\x80", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xf0\x80\x80\x80",
		"\xf0\x8f\xbf\xbf", "\xf0\x9f\x98", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		size_t size = 0;
		/* A separate copy, so that sanitizers see a read past the zero byte. */
		char *text = strdup(texts[i]);
		assert_non_null(text);
		assert_int_equal(utf8_decode(text, &size), -1);
		assert_int_equal(size, 1);
		assert_false(utf8_is_valid(text));
		free(text);
	}
	size_t size = 0;
	assert_int_equal(utf8_decode("", &size), 0);
	assert_int_equal(size, 1);
	assert_true(utf8_is_valid(""));
}

static void test_count_and_cut(void **state)
{
	(void)state;
	static const char text[] = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80z";
	static const size_t kept[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11, 11, 11};
	assert_int_equal(utf8_count(text), 5);
	assert_int_equal(utf8_count(""), 0);
	for (size_t most = 0; most < sizeof kept / sizeof *kept; most++)
		assert_int_equal(utf8_cut(text, most), kept[most]);
	assert_int_equal(utf8_cut("", 4), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_code_point),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_count_and_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

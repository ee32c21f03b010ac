/* jsontext: brackets and commas, escapes, broken UTF-8, numbers under another locale, running out
 * of depth. */
#include "proto/jsontext.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define EXPECT(json, wanted)                                        \
	do {                                                        \
		assert_false((json).text.failed);                   \
		assert_string_equal((json).text.bytes, wanted);     \
		assert_int_equal((json).text.size, strlen(wanted)); \
		jsontext_free(&(json));                             \
	} while (0)

static void test_structure(void **state)
{
	(void)state;
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_string(&json, "name", "a");
	jsontext_array(&json, "list");
	jsontext_u64(&json, NULL, UINT64_MAX);
	jsontext_i64(&json, NULL, INT64_MIN);
	jsontext_object(&json, NULL);
	jsontext_end(&json);
	jsontext_array(&json, NULL);
	jsontext_end(&json);
	jsontext_bool(&json, NULL, true);
	jsontext_end(&json);
	jsontext_bool(&json, "off", false);
	jsontext_string(&json, "nothing", NULL);
	jsontext_raw(&json, "raw", "{\"x\":1}");
	jsontext_raw(&json, "no_raw", NULL);
	jsontext_end(&json);
	EXPECT(json,
		"{\"name\":\"a\",\"list\":[18446744073709551615,-9223372036854775808,{},[],true],"
		"\"off\":false,\"nothing\":null,\"raw\":{\"x\":1},\"no_raw\":null}");
}

static void expect_quoted(const char *value, const char *wanted)
{
	struct jsontext json = {0};
	jsontext_string(&json, NULL, value);
	EXPECT(json, wanted);
}

static void test_escapes(void **state)
{
	(void)state;
	expect_quoted("", "\"\"");
	expect_quoted("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	expect_quoted("\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"");
	expect_quoted("\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\"");
	/* Characters that YAML forbids or would fold: C1 controls, line and paragraph
	 * separators, byte order mark. */
	expect_quoted("\xc2\x85|\xc2\x9f|\xc2\xa0", "\"\\u0085|\\u009f|\xc2\xa0\"");
	expect_quoted("\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa", "\"\\u2028\\u2029\xe2\x80\xaa\"");
	expect_quoted("\xef\xbb\xbf", "\"\\ufeff\"");
}

#define BAD "\xef\xbf\xbd"

static void test_utf8(void **state)
{
	(void)state;
	/* First and last of each length, and the neighbors of the surrogates. */
	expect_quoted("\xc3\x9f \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 "
		      "\xf4\x8f\xbf\xbf",
		"\"\xc3\x9f \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 "
		"\xf4\x8f\xbf\xbf\"");
	expect_quoted("\x80", "\"" BAD "\"");
	expect_quoted("a\xff"
		      "b",
		"\"a" BAD "b\"");
	expect_quoted("\xc0\x80", "\"" BAD BAD "\""); /* overlong */
	expect_quoted("\xe0\x9f\xbf", "\"" BAD BAD BAD "\""); /* overlong */
	expect_quoted("\xed\xa0\x80", "\"" BAD BAD BAD "\""); /* surrogate */
	expect_quoted("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""); /* beyond U+10FFFF */
	expect_quoted("\xe2\x82", "\"" BAD BAD "\""); /* cut off by the end */
	expect_quoted("\xf0\x9f\x98", "\"" BAD BAD BAD "\"");
	expect_quoted("\xc3(", "\"" BAD "(\"");
}

static void expect_shortest(double value, const char *wanted)
{
	struct jsontext json = {0};
	jsontext_shortest(&json, NULL, value);
	EXPECT(json, wanted);
}

static void expect_number(double value, int decimals, const char *wanted)
{
	struct jsontext json = {0};
	jsontext_number(&json, NULL, value, decimals);
	EXPECT(json, wanted);
}

static void test_numbers(void **state)
{
	(void)state;
	expect_number(0, 0, "0");
	expect_number(0.01, 9, "0.010000000");
	expect_number(-1.5, 1, "-1.5");
	expect_number(2.5, -3, "2");
	expect_number(NAN, 2, "null");
	expect_number(INFINITY, 2, "null");
	expect_number(-INFINITY, 2, "null");
	expect_shortest(0, "0");
	expect_shortest(0.08, "0.08");
	expect_shortest(4.0 / 3.0, "1.3333333333333333");
	expect_shortest(1e-300, "1e-300");
	expect_shortest(-1e+300, "-1e+300");
	expect_shortest(NAN, "null");
	struct jsontext json = {0};
	jsontext_number(&json, NULL, 1.7976931348623157e308, 99);
	assert_false(json.text.failed);
	assert_int_equal(json.text.size, 309 + 1 + 17);
	jsontext_free(&json);
}

/* A program may have chosen a locale whose decimal point is a comma, or even two bytes long. */
static void test_locale(void **state)
{
	(void)state;
	static const char *const names[] = {
		"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8", "fa_IR.UTF-8"};
	unsigned tried = 0;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		if (!setlocale(LC_ALL, names[i]))
			continue;
		expect_number(1234.25, 2, "1234.25");
		expect_shortest(1234.25, "1234.25");
		tried++;
	}
	(void)setlocale(LC_ALL, "C");
	if (tried == 0)
		skip();
}

static void test_long(void **state)
{
	(void)state;
	struct jsontext json = {0};
	jsontext_array(&json, NULL);
	for (int i = 0; i < 10000; i++)
		jsontext_string(&json, NULL, "0123456789");
	jsontext_end(&json);
	assert_false(json.text.failed);
	assert_int_equal(json.text.size, 10000 * 13 + 1);
	assert_int_equal(strlen(json.text.bytes), json.text.size);
	jsontext_free(&json);
	assert_null(json.text.bytes);
}

static void test_misuse(void **state)
{
	(void)state;
	struct jsontext json = {0};
	for (int i = 0; i < 40; i++)
		jsontext_array(&json, NULL);
	assert_true(json.text.failed);
	assert_null(json.text.bytes);
	jsontext_string(&json, NULL, "after"); /* stays failed, writes nowhere */
	assert_null(json.text.bytes);
	jsontext_free(&json);
	assert_false(json.text.failed);

	jsontext_end(&json); /* no bracket is open */
	assert_true(json.text.failed);
	jsontext_free(&json);
}

static void test_deepest(void **state)
{
	(void)state;
	struct jsontext json = {0};
	char wanted[65] = "";
	for (int i = 0; i < 32; i++)
		jsontext_array(&json, NULL);
	for (int i = 0; i < 32; i++)
		jsontext_end(&json);
	memset(wanted, '[', 32);
	memset(wanted + 32, ']', 32);
	EXPECT(json, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_structure),
		cmocka_unit_test(test_escapes),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_locale),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_deepest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

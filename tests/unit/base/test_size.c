/* size: which texts are sizes, and the exact number of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "base/util.h"

#include <errno.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

static void parses_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},
		{"1", 1},
		{"4096", 4096},
		{"7B", 7},
		{"7 b", 7},
		{"128M", 128 * MIB},
		{"128m", 128 * MIB},
		{"128MB", 128 * MIB},
		{"128MiB", 128 * MIB},
		{"128 mib", 128 * MIB},
		{"4G", 4 * GIB},
		{"2T", 2 * TIB},
		{"1.5G", GIB + GIB / 2},
		{"0.5K", 512},
		{"1.0", 1},
		{"  96M", 96 * MIB},
		{"9007199254740993", 9007199254740993}, /* 2^53 + 1 */
		{"9223372036854775807", 9223372036854775807},
		{"8388607T", 8388607 * TIB},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		uint64_t bytes = 99;
		assert_int_equal(size_parse(cases[i].text, &bytes), 0);
		assert_int_equal(bytes, cases[i].bytes);
	}
}

static void refuses_what_is_no_size(void **state)
{
	static const char *const wrong[] = {"", " ", "M", "-1", "+1", "1X", "1MM", "1Mi", "1BB",
		"1BiB", "1KiBs", "0x10", "1e6", "1e400", "inf", "nan", "1.", "1.M", ".5G", "1.5",
		"1.5B", "1,5G", "1 2", "1M ", "many", "1P", "1\n"};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(wrong); i++) {
		uint64_t bytes = 99;
		if (size_parse(wrong[i], &bytes) != -EINVAL)
			fail_msg("\"%s\" was accepted as a size", wrong[i]);
		assert_int_equal(bytes, 99);
	}
}

static void refuses_what_is_too_large(void **state)
{
	static const char *const wrong[] = {"9223372036854775808", "18446744073709551616",
		"8388608T", "9007199254740992K", "99999999999999999999999999999999"};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(wrong); i++) {
		uint64_t bytes = 99;
		assert_int_equal(size_parse(wrong[i], &bytes), -ERANGE);
		assert_int_equal(bytes, 99);
	}
}

static void formats_sizes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1, "1 B"},
		{1023, "1023 B"},
		{KIB, "1.0 KiB"},
		{KIB * 3 / 2, "1.5 KiB"},
		{MIB * 75 / 2, "37.5 MiB"},
		{GIB, "1.0 GiB"},
		{2 * TIB, "2.0 TiB"},
		{UINT64_MAX, "16.0 EiB"},
	};
	char buffer[16];
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_string_equal(
			size_format(cases[i].bytes, buffer, sizeof buffer), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_sizes),
		cmocka_unit_test(refuses_what_is_no_size),
		cmocka_unit_test(refuses_what_is_too_large),
		cmocka_unit_test(formats_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* text: the buffer keeps all bytes at every size at which it grows; without memory it stays failed.
 */
#include "proto/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_empty(void **state)
{
	(void)state;
	struct text text = {0};
	char *made = text_take(&text);
	assert_string_equal(made, "");
	free(made);
	text_free(&text);
	assert_null(text.bytes);
}

static void test_grows(void **state)
{
	(void)state;
	struct text text = {0};
	size_t size = 0;
	for (int i = 0; i < 3000; i++) {
		text_put(&text, "ab");
		text_print(&text, "%d,", i % 10);
		text_put_bytes(&text, "\0z", 2);
		size += 6;
		assert_int_equal(text.size, size);
		assert_int_equal(text.bytes[size], 0);
		assert_true(text.room > size);
	}
	for (size_t i = 0; i < 3000; i++) {
		char expected[] = "ab0,\0z";
		expected[2] = (char)('0' + i % 10);
		assert_memory_equal(text.bytes + 6 * i, expected, 6);
	}
	char *made = text_take(&text);
	assert_non_null(made);
	assert_null(text.bytes);
	assert_int_equal(text.size, 0);
	free(made);
}

/* A print that exceeds the room by any number of bytes. */
static void test_long_prints(void **state)
{
	(void)state;
	for (int width = 250; width < 520; width++) {
		struct text text = {0};
		text_put(&text, "x");
		text_print(&text, "%*d", width, 7);
		assert_false(text.failed);
		assert_int_equal(text.size, width + 1);
		assert_int_equal(text.bytes[width], '7');
		assert_int_equal(text.bytes[width + 1], 0);
		text_free(&text);
	}
}

static void test_no_memory(void **state)
{
	(void)state;
	struct text text = {0};
	text_put(&text, "a");
	/* More memory than can exist. */
	text_put_bytes(&text, "", SIZE_MAX - 1);
	assert_true(text.failed);
	assert_null(text.bytes);
	text_put(&text, "b");
	text_print(&text, "%d", 1);
	assert_null(text.bytes);
	assert_null(text_take(&text));
	/* The buffer may be used again. */
	assert_false(text.failed);
	text_put(&text, "c");
	assert_string_equal(text.bytes, "c");
	text_free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_long_prints),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* json: reads, refuses with a place, and survives that there is no memory for any of the steps. */
#include "base/text/json.h"
#include "unit/sanitized.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <malloc.h>
#include <sys/resource.h>

static void test_reads(void **state)
{
	(void)state;
	json_error_t error;
	json_t *root = json_read("[1, {\"a\": \"b\"}] ", 16, JSON_PARTS_ANY, 0, &error);
	assert_non_null(root);
	char *text = json_dumps(root, JSON_COMPACT);
	assert_string_equal(text, "[1,{\"a\":\"b\"}]");
	json_text_free(text);
	json_decref(root);
	assert_null(json_read("[1,\n x]", 7, JSON_PARTS_ANY, 0, &error));
	assert_int_equal(error.line, 2);
	assert_false(json_lacked_memory(&error));
	assert_null(json_read("[", 1, JSON_PARTS_ANY, 0, NULL));
}

/* A text of a few bytes a value takes a hundred times its size. */
static void test_parts(void **state)
{
	static const char text[] = "[{},\n{},\n{}]"; /* 2 + 3 x 4 + 2 */
	json_error_t error = {.line = 0};
	json_t *root = json_read(text, sizeof text - 1, 16, 0, &error);
	assert_non_null(root);
	json_decref(root);
	assert_null(json_read(text, sizeof text - 1, 15, 0, &error));
	assert_int_equal(error.line, 3);
	assert_non_null(strstr(error.text, "more than 15 values"));
	assert_false(json_lacked_memory(&error));
	assert_null(json_read(text, sizeof text - 1, 15, 0, NULL));
}

/* "[0, 1, .., {"key": "\n\n.."}]": many small pieces, and a token that takes `size` bytes. */
static char *make_text(size_t size)
{
	char *text = malloc(size + 20000);
	assert_non_null(text);
	size_t at = 1;
	text[0] = '[';
	for (int i = 0; i < 1000; i++)
		at += (size_t)sprintf(text + at, "[%d],", i);
	at += (size_t)sprintf(text + at, "{\"key\": \"");
	for (size_t i = 0; i < size; i += 2, at += 2)
		memcpy(text + at, "\\n", 2);
	(void)strcpy(text + at, "\"}]");
	return text;
}

static size_t pages_of_process(void)
{
	size_t pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%zu", &pages), 1);
	assert_int_equal(fclose(file), 0);
	return pages;
}

static void test_no_memory(void **state)
{
	(void)state;
#ifdef SANITIZED
	skip(); /* a sanitizer takes address space of its own */
#endif
	enum { TOKEN = 1 << 20, STEP = 128 << 10 };
	char *text = make_text(TOKEN);
	struct rlimit before, now;
	unsigned lacked = 0, read = 0;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	for (size_t more = 0; more < 10 * (size_t)TOKEN; more += STEP) {
		json_error_t error = {.line = 0};
		(void)malloc_trim(0);
		now = before;
		now.rlim_cur = pages_of_process() * 4096 + more;
		assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
		json_t *root = json_read(text, strlen(text), JSON_PARTS_ANY, 0, &error);
		assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
		if (root) {
			const json_t *last = json_array_get(root, 1000);
			assert_int_equal(
				json_string_length(json_object_get(last, "key")), TOKEN / 2);
			read++;
		} else {
			assert_true(json_lacked_memory(&error));
			assert_string_equal(error.text, "not enough memory");
			lacked++;
		}
		json_decref(root);
	}
	assert_true(lacked > 4);
	assert_true(read > 4);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}

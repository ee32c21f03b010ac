/* OUT-%06d.tar: what is taken apart, what is refused, and which names belong to a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/cli/pack/pattern.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

static struct pattern parsed(const char *text)
{
	struct pattern pattern;
	struct fault fault = {{0}};
	assert_int_equal(pattern_parse(text, &pattern, &fault), 0);
	return pattern;
}

static void test_parts(void **state)
{
	(void)state;
	struct pattern pattern = parsed("/data/out/train-%06d.tar");
	char name[PATTERN_NAME];
	assert_string_equal(pattern.folder, "/data/out");
	assert_string_equal(pattern.stem, "train");
	assert_int_equal(pattern_shard(&pattern, 42, name, NULL), 0);
	assert_string_equal(name, "train-000042.tar");
	assert_string_equal(parsed("x-%06d.tar").folder, ".");
	assert_string_equal(parsed("/x-%06d.tar").folder, "/");
	assert_string_equal(parsed("%d.tar").stem, "pack");
	assert_string_equal(parsed("a b_%03d-of-all.tar").stem, "a b");
	assert_string_equal(parsed("a b_%03d-of-all.tar").suffix, "-of-all.tar");
}

static void test_numbers(void **state)
{
	(void)state;
	struct fault fault;
	char name[PATTERN_NAME] = "";
	struct pattern two = parsed("x%02d.tar"), any = parsed("x%d.tar");
	assert_int_equal(pattern_shard(&two, 99, name, &fault), 0);
	assert_int_equal(pattern_shard(&two, 100, name, &fault), -ERANGE);
	assert_string_equal(name, "x99.tar");
	assert_non_null(strstr(fault.text, "more digits"));
	assert_int_equal(pattern_shard(&any, 123456789, name, &fault), 0);
	assert_string_equal(name, "x123456789.tar");
	assert_int_equal(pattern_shard(&any, 1234567890, name, &fault), -ERANGE);
}

static void test_refused(void **state)
{
	(void)state;
	static const char *const bad[] = {"", "x", "x.tar", "x-%06d", "x-%06d.tar.gz", "x-%6d.tar",
		"x-%00d.tar", "x-%0d.tar", "x-%012d.tar", "x-%u.tar", "x-%.tar", "x-%",
		"x-%06d-%06d.tar", "x-%06d%%.tar", "%06d/x.tar", "%06d/x-%06d.tar", ".x-%06d.tar",
		"x1%06d.tar", "x-%06d1.tar", "out/"};
	for (size_t i = 0; i < UTIL_COUNT(bad); i++) {
		struct pattern pattern;
		struct fault fault = {{0}};
		if (pattern_parse(bad[i], &pattern, &fault) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_non_null(strstr(fault.text, "FOLDER/NAME-%06d.tar"));
	}
	struct pattern pattern;
	char text[5000];
	memset(text, 'a', sizeof text);
	(void)strcpy(text + 300, "%06d.tar");
	assert_int_equal(pattern_parse(text, &pattern, NULL), -ENAMETOOLONG);
	memset(text, 'a', sizeof text);
	(void)strcpy(text + 4800, "/%06d.tar");
	assert_int_equal(pattern_parse(text, &pattern, NULL), -ENAMETOOLONG);
}

static void test_matches(void **state)
{
	(void)state;
	struct pattern pattern = parsed("out/x-%06d.tar");
	static const char *const yes[] = {"x-000000.tar", "x-1.tar", "x-0000001.tar"};
	static const char *const no[] = {"x-.tar", "x-00000a.tar", "y-000000.tar",
		"x-000000.tar.idx", "x-000000.tar.part", "x-0-0.tar", "", "x-", ".tar"};
	for (size_t i = 0; i < UTIL_COUNT(yes); i++)
		assert_true(pattern_matches(&pattern, yes[i]));
	for (size_t i = 0; i < UTIL_COUNT(no); i++)
		assert_false(pattern_matches(&pattern, no[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_matches),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

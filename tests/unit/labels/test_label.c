/* label: what .cls and .json members may contain, and what the fault says about other contents. */
#include "labels/label.h"
#include "unit/source_fixture.h"

#include <errno.h>

static void cls(const char *text, int rc, int32_t expected)
{
	int32_t label = -7;
	struct fault fault = {""};
	assert_int_equal(label_from_cls(text, strlen(text), &label, &fault), rc);
	assert_int_equal(label, rc ? -7 : expected);
	assert_int_equal(fault.text[0] != 0, rc != 0);
}

static void test_cls(void **state)
{
	cls("0", 0, 0);
	cls("7\n", 0, 7);
	cls(" \t\r\n 0042 \n\n", 0, 42);
	cls("2147483647", 0, INT32_MAX);
	cls("2147483648", -EINVAL, 0);
	cls("99999999999999999999999999999999", -EINVAL, 0);
	cls("-1", -EINVAL, 0);
	cls("+1", -EINVAL, 0);
	cls("1.0", -EINVAL, 0);
	cls("1 2", -EINVAL, 0);
	cls("0x10", -EINVAL, 0);
	cls("cat", -EINVAL, 0);
	cls("", -EINVAL, 0);
	cls("\n", -EINVAL, 0);
	int32_t label;
	struct fault fault;
	assert_int_equal(label_from_cls("5\0", 2, &label, &fault), -EINVAL);
	assert_int_equal(
		label_from_cls("\x01tabby cat, and more words", 26, &label, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "found \"?tabby cat, and more wor\"..."));
}

static void json(const char *text, int rc, int32_t expected, const char *part)
{
	int32_t label = -7;
	struct fault fault = {""};
	assert_int_equal(label_from_json(text, strlen(text), &label, &fault), rc);
	assert_int_equal(label, rc ? -7 : expected);
	if (!strstr(fault.text, part))
		fail_msg("%s: \"%s\" does not say \"%s\"", text, fault.text, part);
}

static void test_json(void **state)
{
	json("{\"label\": 3}", 0, 3, "");
	json("{\"cls\": 4}", 0, 4, "");
	json("{\"cls\": 4, \"label\": 5}", 0, 5, "");
	json("\n{\"label\": 2147483647, \"caption\": \"\\u0000x\"}\n", 0, INT32_MAX, "");
	json("{\"label\": 2147483648}", -EINVAL, 0, "found 2147483648");
	json("{\"label\": -1}", -EINVAL, 0, "found -1");
	json("{\"label\": 1e3}", -EINVAL, 0, "a fraction");
	json("{\"label\": \"3\"}", -EINVAL, 0, "a string");
	json("{\"label\": null, \"cls\": 3}", -EINVAL, 0, "null");
	json("{\"cls\": [3]}", -EINVAL, 0, "an array");
	json("{\"label\": 99999999999999999999}", -EINVAL, 0,
		"expected an integer from 0 to 2147483647 under \"label\", found "
		"99999999999999999999");
	json("{\"label\": NaN}", -EINVAL, 0, "under \"label\", found NaN");
	json("{\"cls\": [NaN]}", -EINVAL, 0, "an array");
	json("{\"label\": 6, \"loss\": NaN, \"id\": 99999999999999999999}", 0, 6, "");
	json("\xef\xbb\xbf{\"label\": 6}", 0, 6, "");
	json("{\"loss\": -Infinity}", LABEL_E_NONE, 0, "");
	json("{\"label\": 3", -EINVAL, 0, "not JSON");
	json("", -EINVAL, 0, "not JSON");
	json("\xff\xfe", -EINVAL, 0, "not JSON");
	json("{\"caption\": \"a cat\"}", LABEL_E_NONE, 0, "");
	json("[1, 2]", LABEL_E_NONE, 0, "");
	json("3", LABEL_E_NONE, 0, "");
}

/* Thousands of open brackets must not overflow the stack. */
static void test_json_deep(void **state)
{
	size_t size = LABEL_JSON_MAX;
	char *text = malloc(size);
	assert_non_null(text);
	memset(text, '[', size);
	int32_t label;
	struct fault fault;
	assert_int_equal(label_from_json(text, size, &label, &fault), -EINVAL);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cls),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_deep),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

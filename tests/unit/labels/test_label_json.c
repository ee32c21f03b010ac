/* label_path, label_value, label_classes: places in a JSON document, and the values that are
 * allowed. */
#include "base/text/json.h"
#include "labels/label_json.h"
#include "labels/label_path.h"
#include "labels/label_value.h"
#include "unit/source_fixture.h"

#include <errno.h>
#include <math.h>

static struct label_path path;
static struct label_found found;
static struct fault fault;

static json_t *load(const char *text)
{
	json_t *root = json_read(text, strlen(text), JSON_PARTS_ANY, JSON_DECODE_ANY, NULL);
	assert_non_null(root);
	return root;
}

/* Expects the value at `where` in `document`, in compact form; or a part of the refusal. */
static void finds(const char *where, const char *document, const char *want)
{
	fault.text[0] = 0;
	if (label_path_parse(where, &path, &fault) < 0)
		fail_msg("%s: %s", where, fault.text);
	json_t *root = load(document);
	const json_t *value = label_path_find(&path, root, &fault);
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	if (value)
		assert_string_equal(text, want);
	else if (!strstr(fault.text, want))
		fail_msg("%s: \"%s\" does not say \"%s\"", where, fault.text, want);
	json_text_free(text);
	json_decref(root);
}

static void test_path(void **state)
{
	finds("a", "{\"a\": 1}", "1");
	finds("a.b.c", "{\"a\": {\"b\": {\"c\": [2]}}}", "[2]");
	finds("a.1.b", "{\"a\": [0, {\"b\": 7}]}", "7");
	finds("a.0", "{\"a\": {\"0\": \"key\"}}", "\"key\"");
	finds("a\\.b.c", "{\"a.b\": {\"c\": 3}}", "3");
	finds("a\\\\b", "{\"a\\\\b\": 4}", "4");
	finds("\xc3\xa4", "{\"\xc3\xa4\": 5}", "5");
	finds("0", "[6]", "6");
	finds("a.b", "{\"a\": {}}", "has no \"b\" in a");
	finds("b", "{\"a\": {}}", "has no \"b\" in the document");
	finds("a.3", "{\"a\": [1]}", "no element 3 in a, a list of 1");
	finds("a.x", "{\"a\": [1]}", "no element x in a");
	finds("a.b", "{\"a\": 1}", "has an integer as a, which has no \"b\"");
	finds("a", "{\"a\": null}", "null");
	finds("a", "3", "has an integer as the document");
	finds("a.99999999999999999999", "{\"a\": [1]}", "no element 9999");
}

/* What a text of JSON is read as; or a part of the refusal. */
static void reads(const char *text, size_t size, const char *want)
{
	fault.text[0] = 0;
	/* Without a byte after it, so that a sanitizer sees a read beyond the end. */
	char *copy = malloc(size + !size);
	assert_non_null(copy);
	memcpy(copy, text, size);
	json_t *root = label_json(copy, size, LABEL_JSON_PARTS, &fault);
	free(copy);
	char *said = root ? json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	if (root ? strcmp(said, want) != 0 : !strstr(fault.text, want))
		fail_msg("%s: \"%s\" is not \"%s\"", text, root ? said : fault.text, want);
	json_text_free(said);
	json_decref(root);
}

/* What json.dumps of Python writes, and what no program may. */
static void test_relaxed(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"[1, NaN]", "[1,\"\\u0000NaN\"]"},
		{"{\"a\": -Infinity, \"b\": Infinity}",
			"{\"a\":\"\\u0000-Infinity\",\"b\":\"\\u0000Infinity\"}"},
		{"NaN", "\"\\u0000NaN\""},
		{"9223372036854775807", "9223372036854775807"},
		{"[-9223372036854775808, NaN]", "[-9223372036854775808,\"\\u0000NaN\"]"},
		{"9223372036854775808", "\"\\u00009223372036854775808\""},
		{"-9223372036854775809", "\"\\u0000-9223372036854775809\""},
		{"12345678901234567890123456789012345678901",
			"\"\\u00001234567890123456789012345678901234567890...\""},
		{"[1e400, -1e400, 1e-400]", "[\"\\u00001e400\",\"\\u0000-1e400\",0.0]"},
		{"\xef\xbb\xbf{\"a\": 1}", "{\"a\":1}"},
		{"\xef\xbb\xbf[NaN]", "[\"\\u0000NaN\"]"},
		{"[\"NaN 99999999999999999999\", \"a\\\"NaN\\\\\", NaN]",
			"[\"NaN 99999999999999999999\",\"a\\\"NaN\\\\\",\"\\u0000NaN\"]"},
		{"\"caf\\udce9\"", "\"caf\xef\xbf\xbd\""},
		{"\"\\ud83d\\ude00 \\ud83d!\"", "\"\xf0\x9f\x98\x80 \xef\xbf\xbd!\""},
		{"[nan]", "is not JSON"},
		{"[inf]", "is not JSON"},
		{"[+Infinity]", "is not JSON"},
		{"[- Infinity]", "is not JSON"},
		{"[NaN", "is not JSON"},
		{"[NaNs]", "is not JSON"},
		{"{NaN: 1}", "is not JSON"},
		{"[1,\n2,\nNaN,\n}", "in line 4"},
		{"\"\\u12", "is not JSON"},
		{"\"NaN", "is not JSON"},
		{"\"\\", "is not JSON"},
		{"-", "is not JSON"},
		{"\xef\xbb\xbf", "is not JSON"},
		{"\xef\xbb\xbf\xef\xbb\xbf 1", "is not JSON"},
		{"", "is not JSON"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		reads(cases[i].text, strlen(cases[i].text), cases[i].want);
	static char many[3 * 1000 + 3] = "[";
	for (int i = 0; i < 1000; i++)
		memcpy(many + 1 + 3L * i, "NaN", 3);
	reads(many, 3 * 1000 + 1, "is not JSON");
}

static void test_path_refused(void **state)
{
	static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "\\", "a\\n", "a\\"};
	char many[80] = "a", *text = malloc(LABEL_PATH_TEXT + 1);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		fault.text[0] = 0;
		assert_int_equal(label_path_parse(bad[i], &path, &fault), -EINVAL);
		assert_true(fault.text[0]);
	}
	for (int i = 0; i < LABEL_PATH_PARTS; i++)
		strcat(many, ".a");
	assert_int_equal(label_path_parse(many, &path, &fault), -EINVAL);
	assert_non_null(text);
	memset(text, 'a', LABEL_PATH_TEXT);
	text[LABEL_PATH_TEXT] = 0;
	assert_int_equal(label_path_parse(text, &path, &fault), -EINVAL);
	text[LABEL_PATH_TEXT - 1] = 0;
	assert_int_equal(label_path_parse(text, &path, &fault), 0);
	free(text);
}

static struct label_classes named(void)
{
	struct label_classes classes = {0};
	assert_int_equal(classes_add(&classes, "cat", 3, &fault), 1);
	assert_int_equal(classes_add(&classes, "dog", 3, &fault), 1);
	assert_int_equal(classes_add(&classes, "cat", 3, &fault), 0);
	return classes;
}

/* `want`: type, first, values; or what the refusal says. */
static void is(const char *json, enum label_type asked, const struct label_classes *classes,
	const char *want)
{
	static const struct label_classes none;
	char text[512];
	json_t *value = load(json);
	fault.text[0] = 0;
	int rc = label_from_value(value, asked, classes ? classes : &none, &found, &fault);
	json_decref(value);
	if (rc < 0) {
		assert_int_equal(rc, -EINVAL);
		if (!strstr(fault.text, want))
			fail_msg("%s: \"%s\" does not say \"%s\"", json, fault.text, want);
		return;
	}
	size_t at = (size_t)sprintf(text, "%d %d:", (int)found.type, found.first);
	for (uint32_t i = 0; i < found.count; i++)
		at += (size_t)(found.type == LABEL_TYPE_FLOAT
				       ? sprintf(text + at, " %g", (double)found.number[i])
				       : sprintf(text + at, " %u", found.class[i]));
	assert_string_equal(text, want);
}

static void test_values(void **state)
{
	is("7", LABEL_TYPE_AUTO, NULL, "1 7: 7");
	is("0", LABEL_TYPE_CLASS, NULL, "1 0: 0");
	is("2147483647", LABEL_TYPE_CLASS, NULL, "1 2147483647: 2147483647");
	is("[5, 2]", LABEL_TYPE_AUTO, NULL, "2 5: 2 5");
	is("[]", LABEL_TYPE_AUTO, NULL, "2 -1:");
	is("3", LABEL_TYPE_MULTI_HOT, NULL, "2 3: 3");
	is("0.5", LABEL_TYPE_AUTO, NULL, "3 -1: 0.5");
	is("[1, 2.5]", LABEL_TYPE_AUTO, NULL, "3 -1: 1 2.5");
	is("[1, 2]", LABEL_TYPE_FLOAT, NULL, "3 -1: 1 2");
	is("-4", LABEL_TYPE_FLOAT, NULL, "3 -1: -4");
	is("1e-50", LABEL_TYPE_FLOAT, NULL, "3 -1: 0");
}

static void test_values_refused(void **state)
{
	is("-1", LABEL_TYPE_AUTO, NULL, "from 0 to 2147483647, found -1");
	is("2147483648", LABEL_TYPE_AUTO, NULL, "found 2147483648");
	is("[65536]", LABEL_TYPE_AUTO, NULL, "from 0 to 65535");
	is("[1, 1]", LABEL_TYPE_AUTO, NULL, "class 1 appears twice");
	is("[1]", LABEL_TYPE_CLASS, NULL, "type: multi_hot");
	is("0.5", LABEL_TYPE_CLASS, NULL, "type: float");
	is("[0.5]", LABEL_TYPE_MULTI_HOT, NULL, "type: float");
	is("true", LABEL_TYPE_AUTO, NULL, "found true");
	is("{}", LABEL_TYPE_AUTO, NULL, "found an object");
	is("[[1]]", LABEL_TYPE_AUTO, NULL, "found an array");
	is("[\"a\", 0.5]", LABEL_TYPE_AUTO, NULL, "expected numbers, found a string");
	is("[]", LABEL_TYPE_FLOAT, NULL, "expected numbers, found none");
	is("1e39", LABEL_TYPE_FLOAT, NULL, "float32");
	is("\"cat\"", LABEL_TYPE_AUTO, NULL, "classes: FILE");
}

static void test_many_values(void **state)
{
	json_t *list = json_array();
	for (int i = 0; i <= LABEL_VALUES_MAX; i++)
		assert_int_equal(json_array_append_new(list, json_integer(i)), 0);
	static const struct label_classes none;
	assert_int_equal(label_from_value(list, LABEL_TYPE_AUTO, &none, &found, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "at most"));
	assert_int_equal(json_array_remove(list, 0), 0);
	assert_int_equal(label_from_value(list, LABEL_TYPE_AUTO, &none, &found, &fault), 0);
	assert_int_equal(found.count, LABEL_VALUES_MAX);
	json_decref(list);
}

static void test_names(void **state)
{
	struct label_classes classes = named();
	is("\"dog\"", LABEL_TYPE_AUTO, &classes, "1 1: 1");
	is("[\"dog\", \"cat\"]", LABEL_TYPE_AUTO, &classes, "2 1: 0 1");
	is("1", LABEL_TYPE_AUTO, &classes, "1 1: 1");
	is("2", LABEL_TYPE_AUTO, &classes, "from 0 to 1");
	is("\"cow\"", LABEL_TYPE_AUTO, &classes, "\"cow\" is not one of the 2 classes");
	is("\"ca\"", LABEL_TYPE_AUTO, &classes, "\"ca\" is not one");
	classes_deinit(&classes);
}

static void loads_file(
	void **state, const char *name, const char *text, size_t size, const char *want)
{
	struct label_classes classes = {0};
	const char *file = fixture_path(*state, name);
	char joined[512] = "";
	fixture_write(file, text, size);
	fault.text[0] = 0;
	int rc = classes_load(&classes, file, &fault);
	for (uint32_t i = 0; i < classes.count; i++)
		strcat(strcat(joined, i ? "|" : ""), classes.name[i]);
	if (rc == 0)
		assert_string_equal(joined, want);
	else if (!strstr(fault.text, want))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, want);
	classes_deinit(&classes);
}

static void loads(void **state, const char *text, size_t size, const char *want)
{
	loads_file(state, "names", text, size, want);
}

static void test_packed_classes(void **state)
{
	static const char *const texts[][2] = {
		{"{\"penstock_pack\": 1, \"classes\": [\"b c\", \"a\"], \"next\": 2}", "b c|a"},
		{"{\"classes\": []}",
			"x.pack.json: has no \"classes\": expected the file that penstock pack"},
		{"{\"classes\": {\"a\": 1}}", "has no \"classes\""},
		{"[\"a\"]", "has no \"classes\""},
		{"{\"classes\": [\"a\", 1]}", "one of \"classes\" is not text"},
		{"{\"classes\": [\"a\", \"a\"]}", "\"a\" appeared before"},
		{"{\"classes\": [\"a\", \"\"]}", "x.pack.json: an empty"},
		{"{\"classes\": [\"a", "x.pack.json: is not JSON"},
		{"", "is not JSON"},
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		loads_file(state, "x.pack.json", texts[i][0], strlen(texts[i][0]), texts[i][1]);
	char *large = malloc(CLASSES_PACKED + 1);
	assert_non_null(large);
	memset(large, ' ', CLASSES_PACKED + 1);
	loads_file(state, "x.pack.json", large, CLASSES_PACKED + 1, "write the names of its");
	free(large);
}

static void test_class_files(void **state)
{
	loads(state, "b\na\n", 4, "b|a");
	loads(state, "b\r\na", 4, "b|a");
	loads(state,
		"\xef\xbb\xbf"
		"b c\n",
		7, "b c");
	loads(state, "", 0, "is empty");
	loads(state, "a\n\nb\n", 5, ":2: an empty line");
	loads(state, "a\nb\na\n", 6, ":3: \"a\" appeared before");
	loads(state, "a\n\xff\n", 4, ":2: a byte that is not UTF-8");
	loads(state, "a\n\0b\n", 5, ":2: a zero byte");
	struct label_classes classes = {0};
	assert_int_equal(classes_load(&classes, fixture_path(*state, "none"), &fault), -ENOENT);
	assert_int_equal(classes_load(&classes, *state, &fault), -EINVAL);
}

/* Whatever a file becomes while it is read, a line takes no more memory than a name. */
static void test_class_lines(void **state)
{
	enum { MARK = 3, LONG = 1 << 20 };
	static const char longer[] = ":1: a line of more than 4000 bytes";
	char *text = malloc(LONG), *name = text + MARK;
	struct label_classes classes = {0};
	const char *file = fixture_path(*state, "long");
	assert_non_null(text);
	memset(text, 'x', LONG);
	memcpy(text, "\xef\xbb\xbf", MARK);
	memcpy(name + LABEL_NAME_MAX, "\r\ny\n", 4);
	for (size_t from = 0; from <= MARK; from += MARK) {
		fixture_write(file, text + from, MARK - from + LABEL_NAME_MAX + 4);
		assert_int_equal(classes_load(&classes, file, &fault), 0);
		assert_int_equal(classes.count, 2);
		assert_int_equal(strlen(classes.name[0]), LABEL_NAME_MAX);
		assert_string_equal(classes.name[1], "y");
		classes_deinit(&classes);
	}
	memcpy(name + LABEL_NAME_MAX, "x\r\n", 3);
	loads(state, text, MARK + LABEL_NAME_MAX + 3, longer);
	loads(state, name, LABEL_NAME_MAX + 3, longer);
	loads(state, name, LABEL_NAME_MAX + 1, longer);
	memset(text, 'x', LONG);
	loads(state, text, LONG, longer);
	memcpy(text, "a\nb\n", 4);
	loads(state, text, LONG, ":3: a line of more than 4000 bytes");
	free(text);
}

static void test_class_order(void **state)
{
	struct label_classes classes = {0};
	char name[16];
	uint32_t number;
	for (int i = 0; i < 5000; i++)
		assert_int_equal(classes_add(&classes, name,
					 (size_t)sprintf(name, "n%d", i * 7919 % 5000), &fault),
			1);
	uint64_t before = classes_hash(&classes);
	classes_sort(&classes);
	assert_true(before != classes_hash(&classes));
	for (uint32_t i = 0; i < classes.count; i++) {
		assert_true(i == 0 || strcmp(classes.name[i - 1], classes.name[i]) < 0);
		assert_true(
			classes_find(&classes, classes.name[i], strlen(classes.name[i]), &number));
		assert_int_equal(number, i);
	}
	assert_false(classes_find(&classes, "n5000", 5, &number));
	classes_deinit(&classes);
}

static void test_words(void **state)
{
	static const struct {
		const char *text;
		enum label_word word;
	} words[] = {{"0", LABEL_WORD_INTEGER}, {"007", LABEL_WORD_INTEGER},
		{"-1", LABEL_WORD_WHOLE}, {"+1", LABEL_WORD_WHOLE}, {"1.", LABEL_WORD_FRACTION},
		{".5", LABEL_WORD_FRACTION}, {"-1.5e-3", LABEL_WORD_FRACTION},
		{"1e5", LABEL_WORD_FRACTION}, {"NaN", LABEL_WORD_FRACTION},
		{"-inf", LABEL_WORD_FRACTION}, {"Infinity", LABEL_WORD_FRACTION},
		{"", LABEL_WORD_NAME}, {"-", LABEL_WORD_NAME}, {".", LABEL_WORD_NAME},
		{"e5", LABEL_WORD_NAME}, {"1e", LABEL_WORD_NAME}, {"0x10", LABEL_WORD_NAME},
		{"1 2", LABEL_WORD_NAME}, {"1,5", LABEL_WORD_NAME}, {"infinit", LABEL_WORD_NAME},
		{"1.2.3", LABEL_WORD_NAME}};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (label_word(words[i].text, strlen(words[i].text)) != words[i].word)
			fail_msg("%s", words[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_relaxed),
		cmocka_unit_test(test_path_refused),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_values_refused),
		cmocka_unit_test(test_many_values),
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_class_files, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_class_lines, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			test_packed_classes, fixture_setup, fixture_teardown),
		cmocka_unit_test(test_class_order),
		cmocka_unit_test(test_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

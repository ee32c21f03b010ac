/* field_keys: the key `fields` in all its forms, what is written is read again, and what wrong
 * values get. */
#include "dataset/field_keys.h"

#include "base/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *text, uint32_t count, const struct field *fields)
{
	struct field_list list, want = {.count = count};
	struct fault fault = {""};
	for (uint32_t i = 0; i < count; i++)
		want.at[i] = fields[i];
	if (field_keys_parse(text, "--fields", &list, &fault) < 0)
		fail_msg("%s: %s", text, fault.text);
	assert_true(field_list_equal(&list, &want));
	struct jsontext json = {0};
	field_keys_json(&json, NULL, &list);
	assert_false(json.text.failed);
	struct field_list again;
	assert_int_equal(field_keys_parse(json.text.bytes, "JSON", &again, &fault), 0);
	assert_true(field_list_equal(&list, &again));
	assert_int_equal(field_list_hash(&list), field_list_hash(&again));
	jsontext_free(&json);
}

static void test_forms(void **state)
{
	const struct field txt = {.name = "txt", .max = FIELD_BYTES_DEFAULT};
	const struct field pair[] = {
		txt, {.name = "seg.json", .max = 12, .cut = true, .empty = true}};
	const struct field large = {.name = "npy", .max = FIELD_BYTES_MAX};
	expect("txt", 1, &txt);
	expect("[txt]", 1, &txt);
	expect("{name: txt}", 1, &txt);
	expect("[txt, {name: seg.json, max: 12, long: cut, missing: empty}]", 2, pair);
	expect("[{name: npy, max: 16777216, long: error, missing: error}]", 1, &large);
	expect("[]", 0, NULL);
}

static void test_wrong(void **state)
{
	static const struct {
		const char *text, *part;
	} wrong[] = {
		{"", "expected a value"},
		{"[[txt]]", "expected a name such as txt"},
		{"[{max: 3}]", "name is missing"},
		{"['']", "name"},
		{"[.txt]", "without the dot"},
		{"[a/b]", "without slashes"},
		{"[JPG]", "other than those of images"},
		{"[x.png]", "other than those of images"},
		{"[txt, json, txt]", "\"txt\" is written twice"},
		{"[a, b, c, d, e, f, g, h, i]", "at most 8"},
		{"[{name: txt, max: 0}]", "max"},
		{"[{name: txt, max: 16777217}]", "16777216"},
		{"[{name: txt, max: -1}]", "max"},
		{"[{name: txt, max: lots}]", "max"},
		{"[{name: txt, long: yes}]", "expected error or cut"},
		{"[{name: txt, missing: 3}]", "expected error or empty"},
		{"[{name: txt, as: str}]", "as"},
		{"[{name: [txt]}]", "name"},
		{"[01234567890123456789012345678901234567890123456789012345678901234]", "1 to 63"},
	};
	for (size_t i = 0; i < UTIL_COUNT(wrong); i++) {
		struct field_list list = {.count = 5};
		struct fault fault = {""};
		assert_int_equal(
			field_keys_parse(wrong[i].text, "--fields", &list, &fault), -EINVAL);
		assert_int_equal(list.count, 5);
		if (!strstr(fault.text, wrong[i].part) || !strstr(fault.text, "--fields"))
			fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i].text, fault.text,
				wrong[i].part);
	}
}

/* An index belongs to the names in their order, and to nothing else. */
static void test_hash(void **state)
{
	const struct field_list none = {0}, a = {2, {{.name = "a"}, {.name = "b"}}},
				b = {2, {{.name = "b"}, {.name = "a"}}}, c = {1, {{.name = "ab"}}},
				d = {2, {{.name = "a", .max = 3, .cut = true}, {.name = "b"}}};
	assert_int_equal(field_list_hash(&none), 0);
	assert_true(field_list_hash(&a) != field_list_hash(&b));
	assert_true(field_list_hash(&a) != field_list_hash(&c));
	assert_true(field_list_hash(&a) == field_list_hash(&d));
	assert_false(field_list_equal(&a, &d));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_hash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

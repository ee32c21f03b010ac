/* yaml: every kind of key, every refusal with its place, and text that is not plain data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/yaml.h"
#include "base/util.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define MIB ((uint64_t)1 << 20)

enum color { RED, GREEN, BLUE };

struct thing {
	bool flag;
	uint32_t count;
	int32_t shift;
	uint64_t large, bytes, hash;
	double share;
	char text[9], name[9], path[9];
	enum color color;
	int nested;
	uint8_t guard;
};

static const char *const colors[] = {"red", "green", "blue", NULL};

static int read_nested(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(text, node, fault, "nested: expected a list");
	*(int *)field = (int)(node->data.sequence.items.top - node->data.sequence.items.start);
	return 0;
}

#define FIELD(member) .offset = offsetof(struct thing, member)
#define ROOM(member) FIELD(member), .room = sizeof((struct thing *)0)->member

static const struct yaml_key keys[] = {
	{"flag", YAML_KEY_BOOL, FIELD(flag)},
	{"count", YAML_KEY_U32, FIELD(count), .min = 2, .max = 65536, .zero = "auto"},
	{"large", YAML_KEY_U64, FIELD(large), .max = UINT64_MAX},
	{"bytes", YAML_KEY_SIZE, FIELD(bytes), .min = 1 << 20, .max = (uint64_t)1 << 40},
	{"hash", YAML_KEY_HEX64, FIELD(hash)},
	{"share", YAML_KEY_DOUBLE, FIELD(share), .low = 0, .high = 1},
	{"text", YAML_KEY_STRING, ROOM(text), .min = 1},
	{"name", YAML_KEY_NAME, ROOM(name)},
	{"path", YAML_KEY_PATH, ROOM(path)},
	{"color", YAML_KEY_ENUM, FIELD(color), .names = colors},
	{"nested", YAML_KEY_NODE, FIELD(nested), .read = read_nested},
	{"shift", YAML_KEY_I32, FIELD(shift), .low = -9, .high = 65536},
};

static int read_bytes(
	const char *bytes, size_t size, struct thing *ret, uint64_t *ret_given, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text text = {0};
	int result = yaml_load(&text, bytes, size, "t.yaml", fault);
	return result < 0
		       ? result
		       : yaml_read(&text, text.root, keys, UTIL_COUNT(keys), ret, ret_given, fault);
}

static struct thing must_read(const char *text, uint64_t expected_given)
{
	struct thing thing = {.guard = 0xa5};
	struct fault fault = {""};
	uint64_t given = 99;
	if (read_bytes(text, strlen(text), &thing, &given, &fault) < 0)
		fail_msg("%s: %s", text, fault.text);
	assert_int_equal(given, expected_given);
	assert_int_equal(thing.guard, 0xa5);
	return thing;
}

static void must_refuse(const char *text, const char *sentence)
{
	struct thing thing = {.guard = 0xa5};
	struct fault fault = {""};
	uint64_t given = 99;
	assert_int_equal(read_bytes(text, strlen(text), &thing, &given, &fault), -EINVAL);
	assert_string_equal(fault.text, sentence);
	assert_int_equal(given, 99);
	assert_int_equal(thing.guard, 0xa5);
}

static void reads_every_kind(void **state)
{
	(void)state;
	struct thing t =
		must_read("flag: true\ncount: 7\nlarge: 18446744073709551615\nbytes: 1.5M\n"
			  "hash: \"00ff00ff00ff00fF\"\nshare: 0.25\ntext: \"a b\\n\"\nname: ab c\n"
			  "path: /x y\ncolor: blue\nnested: [1, 2, 3]\n",
			0x7ff);
	assert_true(t.flag);
	assert_int_equal(t.count, 7);
	assert_int_equal(t.large, UINT64_MAX);
	assert_int_equal(t.bytes, MIB + MIB / 2);
	assert_int_equal(t.hash, 0x00ff00ff00ff00ff);
	assert_true(t.share == 0.25);
	assert_string_equal(t.text, "a b\n");
	assert_string_equal(t.name, "ab c");
	assert_string_equal(t.path, "/x y");
	assert_int_equal(t.color, BLUE);
	assert_int_equal(t.nested, 3);
}

static void reads_json(void **state)
{
	(void)state;
	struct thing t = must_read("{\"count\":7,\"text\":\"\\/"
				   "\\u00e9\\t\",\"nested\":[],\"share\":1e-2,\"flag\":false}",
		0x463);
	assert_int_equal(t.count, 7);
	assert_string_equal(t.text, "/\xc3\xa9\t");
	assert_true(t.share == 0.01);
}

static void leaves_alone_what_is_not_written(void **state)
{
	(void)state;
	(void)must_read("", 0);
	(void)must_read("# nothing\n", 0);
	(void)must_read("---\n", 0);
	(void)must_read("{}", 0);
	struct thing t = must_read("\xef\xbb\xbfname: x\n", 1 << 7); /* a byte order mark */
	assert_string_equal(t.name, "x");
}

static void takes_the_ends_of_ranges(void **state)
{
	(void)state;
	assert_int_equal(must_read("count: 2", 2).count, 2);
	assert_int_equal(must_read("count: 65536", 2).count, 65536);
	assert_int_equal(must_read("count: auto", 2).count, 0);
	assert_int_equal(must_read("count: \"12\"", 2).count, 12);
	assert_int_equal(must_read("large: 0", 4).large, 0);
	assert_int_equal(must_read("shift: -9", 2048).shift, -9);
	assert_int_equal(must_read("shift: 65536", 2048).shift, 65536);
	assert_int_equal(must_read("shift: 0", 2048).shift, 0);
	assert_int_equal(must_read("bytes: 1024G", 8).bytes, (uint64_t)1 << 40);
	assert_true(must_read("share: 0", 32).share == 0);
	assert_true(must_read("share: 1.0", 32).share == 1);
	assert_string_equal(must_read("text: 12345678", 64).text, "12345678");
	assert_string_equal(must_read("path: \"\"", 256).path, "");
	assert_true(must_read("flag: Yes", 1).flag);
	assert_false(must_read("flag: OFF", 1).flag);
}

static void names_the_place_and_what_was_expected(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"\n\n  count: many", "t.yaml:3:10: count: expected auto or a whole number from 2 "
				      "to 65536, got \"many\""},
		{"count: 1", "t.yaml:1:8: count: expected auto or a whole number from 2 to 65536, "
			     "got \"1\""},
		{"count: 0", "t.yaml:1:8: count: expected auto or a whole number from 2 to 65536, "
			     "got \"0\""},
		{"count: 65537", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
				 "65536, got \"65537\""},
		{"count: 4294967298", "t.yaml:1:8: count: expected auto or a whole number from 2 "
				      "to 65536, got \"4294967298\""},
		{"count: -3", "t.yaml:1:8: count: expected auto or a whole number from 2 to 65536, "
			      "got \"-3\""},
		{"count: 3.0", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
			       "65536, got \"3.0\""},
		{"count: 010", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
			       "65536, got \"010\""},
		{"count: 0x10", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
				"65536, got \"0x10\""},
		{"count: 1_000", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
				 "65536, got \"1_000\""},
		{"count: [3]", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
			       "65536, got a list"},
		{"count: {a: 3}", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
				  "65536, got a mapping"},
		{"count:", "t.yaml:1:7: count: expected auto or a whole number from 2 to 65536, "
			   "got nothing; leave the key out for its default"},
		{"count: \"\"", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
				"65536, got \"\""},
		{"count: \"3\\0\"", "t.yaml:1:8: count: expected auto or a whole number from 2 to "
				    "65536, got \"3?\""},
		{"shift: -10", "t.yaml:1:8: shift: expected a whole number from -9 to 65536, got "
			       "\"-10\""},
		{"shift: 65537", "t.yaml:1:8: shift: expected a whole number from -9 to 65536, got "
				 "\"65537\""},
		{"shift: -0", "t.yaml:1:8: shift: expected a whole number from -9 to 65536, got "
			      "\"-0\""},
		{"shift: --1", "t.yaml:1:8: shift: expected a whole number from -9 to 65536, got "
			       "\"--1\""},
		{"shift: 99999999999999999999",
			"t.yaml:1:8: shift: expected a whole number from -9 "
			"to 65536, got \"99999999999999999999\""},
		{"large: 18446744073709551616",
			"t.yaml:1:8: large: expected a whole number from 0 to "
			"18446744073709551615, got \"18446744073709551616\""},
		{"large: 99999999999999999999999999",
			"t.yaml:1:8: large: expected a whole number from 0 to "
			"18446744073709551615, got \"99999999999999999999999999\""},
		{"flag: 1", "t.yaml:1:7: flag: expected true or false, got \"1\""},
		{"flag: truee", "t.yaml:1:7: flag: expected true or false, got \"truee\""},
		{"bytes: 128", "t.yaml:1:8: bytes: expected a size such as 128M or 4G, from 1.0 "
			       "MiB to 1.0 TiB, got \"128\""},
		{"bytes: 4X", "t.yaml:1:8: bytes: expected a size such as 128M or 4G, from 1.0 MiB "
			      "to 1.0 TiB, got \"4X\""},
		{"hash: 123",
			"t.yaml:1:7: hash: expected 16 hexadecimal digits in quotes, got \"123\""},
		{"hash: 0x00000000000000", "t.yaml:1:7: hash: expected 16 hexadecimal digits in "
					   "quotes, got \"0x00000000000000\""},
		{"hash: 00ff00ff00ff00ff0", "t.yaml:1:7: hash: expected 16 hexadecimal digits in "
					    "quotes, got \"00ff00ff00ff00ff0\""},
		{"share: 1.01", "t.yaml:1:8: share: expected a number from 0 to 1, got \"1.01\""},
		{"share: -0.01", "t.yaml:1:8: share: expected a number from 0 to 1, got \"-0.01\""},
		{"share: nan", "t.yaml:1:8: share: expected a number from 0 to 1, got \"nan\""},
		{"share: 0x1", "t.yaml:1:8: share: expected a number from 0 to 1, got \"0x1\""},
		{"share: 1e", "t.yaml:1:8: share: expected a number from 0 to 1, got \"1e\""},
		{"share: .", "t.yaml:1:8: share: expected a number from 0 to 1, got \".\""},
		{"text: 123456789",
			"t.yaml:1:7: text: expected a text of 1 to 8 bytes, got \"123456789\""},
		{"text: \"\"", "t.yaml:1:7: text: expected a text of 1 to 8 bytes, got \"\""},
		{"text: \"a\\0b\"",
			"t.yaml:1:7: text: expected a text of 1 to 8 bytes, got \"a?b\""},
		{"name: \"a\\nb\"", "t.yaml:1:7: name: expected a name of 1 to 8 bytes without "
				    "control characters, got \"a?b\""},
		{"path: a/b", "t.yaml:1:7: path: expected an absolute path of at most 8 bytes, got "
			      "\"a/b\""},
		{"path: /23456789", "t.yaml:1:7: path: expected an absolute path of at most 8 "
				    "bytes, got \"/23456789\""},
		{"color: pink", "t.yaml:1:8: color: expected red, green or blue, got \"pink\""},
		{"color: Red", "t.yaml:1:8: color: expected red, green or blue, got \"Red\""},
		{"nested: 3", "t.yaml:1:9: nested: expected a list"},
		{"colour: red", "t.yaml:1:1: unknown key \"colour\"; did you mean \"color\"?"},
		{"a: {}\n", "t.yaml:1:1: unknown key \"a\"; expected one of flag, count, large, "
			    "bytes, hash, share, text, name, path, color, nested, shift"},
		{"Flag: true", "t.yaml:1:1: unknown key \"Flag\"; did you mean \"flag\"?"},
		{"name: a\ncolor: red\n\"name\": b\n", "t.yaml:3:1: name appears twice, first in "
						       "line 1, column 1; keep one of them"},
		{"[a]: b", "t.yaml:1:1: a key must be a word, not a list or a mapping"},
		{"[1, 2]", "t.yaml:1:1: expected a mapping of \"key: value\" lines, got a list"},
		{"  hello", "t.yaml:1:3: expected a mapping of \"key: value\" lines, got a single "
			    "value"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		must_refuse(cases[i].text, cases[i].sentence);
}

static void quotes_no_more_than_a_line_of_it(void **state)
{
	(void)state;
	must_refuse("color: \"0123456789012345678901234567890123456789012345\xc3\xa9\xc3\xa9\"",
		"t.yaml:1:8: color: expected red, green or blue, got "
		"\"0123456789012345678901234567890123456789012345\xc3\xa9...\"");
	must_refuse("color: \"01234567890123456789012345678901234567890123456\xc3\xa9\"",
		"t.yaml:1:8: color: expected red, green or blue, got "
		"\"01234567890123456789012345678901234567890123456...\"");
}

static void refuses_what_is_no_plain_data(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"name: &x a", "t.yaml:1:7: anchors (&name) are not supported; write the value out "
			       "where it is used"},
		{"&x {}", "t.yaml:1:1: anchors (&name) are not supported; write the value out "
			  "where it is used"},
		{"nested: &x [1]", "t.yaml:1:9: anchors (&name) are not supported; write the value "
				   "out where it is used"},
		{"name: *x", "t.yaml:1:7: aliases (*name) are not supported; write the value out"},
		{"name: !!str x", "t.yaml:1:7: tags (!name) are not supported; leave it out, each "
				  "key has its own type"},
		{"nested: !a [x]", "t.yaml:1:9: tags (!name) are not supported; leave it out, each "
				   "key has its own type"},
		{"name: a\n---\nname: b\n",
			"t.yaml:2:1: a second document begins here (---); one is expected"},
		{"nested: [[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]",
			"t.yaml:1:32: nested too deep; at most 24 levels are allowed"},
		{"name: \"a", "t.yaml:1:9: not valid YAML: found unexpected end of stream while "
			      "scanning a quoted scalar"},
		{"name: a\n\tcount: 1\n", "t.yaml:2:1: not valid YAML: found a tab character that "
					  "violates indentation while scanning a plain scalar "
					  "(indent with spaces, not with tabs)"},
		{"nested:\n\t- 1\n", "t.yaml:2:1: not valid YAML: found character that cannot "
				     "start any token while scanning for the next token "
				     "(indent with spaces, not with tabs)"},
		{"name: @a", "t.yaml:1:7: not valid YAML: found character that cannot start any "
			     "token while scanning for the next token"},
		{"{name: a", "t.yaml:2:1: not valid YAML: did not find expected ',' or '}' while "
			     "parsing a flow mapping"},
		{"name: \xff", "t.yaml: not UTF-8 text: invalid leading UTF-8 octet at byte 6"},
		{"name: \x01",
			"t.yaml: not UTF-8 text: control characters are not allowed at byte 6"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		must_refuse(cases[i].text, cases[i].sentence);
}

static void bounds_size_and_number(void **state)
{
	struct fault fault = {""};
	struct yaml_text text = {0};
	char *bytes = malloc(YAML_SIZE_MAX + 1);
	(void)state;
	assert_non_null(bytes);
	memset(bytes, ' ', YAML_SIZE_MAX + 1);
	assert_int_equal(yaml_load(&text, bytes, YAML_SIZE_MAX + 1, "t.yaml", &fault), -EINVAL);
	assert_string_equal(fault.text, "t.yaml: has 1048577 bytes; at most 1048576 are allowed");
	assert_int_equal(yaml_load(&text, bytes, YAML_SIZE_MAX, "t.yaml", &fault), 0);
	assert_null(text.root);
	yaml_unload(&text);
	for (size_t i = 0; i < 2 * YAML_NODES_MAX + 2; i += 2)
		memcpy(bytes + i, "1,", 2);
	bytes[0] = '[';
	assert_int_equal(
		yaml_load(&text, bytes, 2 * YAML_NODES_MAX + 2, "t.yaml", &fault), -EINVAL);
	memset(bytes, '[', 100000);
	assert_int_equal(yaml_load(&text, bytes, 100000, "t.yaml", &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "nested too deep"));
	memset(bytes, '{', 100000);
	assert_int_equal(yaml_load(&text, bytes, 100000, "t.yaml", &fault), -EINVAL);
	free(bytes);
	yaml_unload(&text);
	yaml_unload(&text); /* twice is harmless */
}

static int read_whole(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key whole = {key->name, YAML_KEY_U32, .min = key->min, .max = key->max};
	return yaml_read_value(text, node, &whole, field, fault);
}

/* One reader, two keys: each has its own range. */
static void readers_see_their_key(void **state)
{
	const struct yaml_key few = {"few", YAML_KEY_NODE, .max = 3, .read_as = read_whole},
			      many = {"many", YAML_KEY_NODE, .max = 9, .read_as = read_whole};
	cleanup(yaml_text) struct yaml_text text = {0};
	struct fault fault;
	uint32_t value = 0;
	(void)state;
	assert_int_equal(yaml_load(&text, "7", 1, "t.yaml", &fault), 0);
	assert_int_equal(yaml_read_value(&text, text.root, &many, &value, &fault), 0);
	assert_int_equal(value, 7);
	assert_int_equal(yaml_read_value(&text, text.root, &few, &value, &fault), -EINVAL);
	assert_string_equal(
		fault.text, "t.yaml:1:1: few: expected a whole number from 0 to 3, got \"7\"");
}

static void reports_files_that_cannot_be_read(void **state)
{
	char folder[] = "/tmp/penstock-yaml-XXXXXX", path[PATH_MAX], expected[PATH_MAX + 64];
	struct yaml_text text = {0};
	struct fault fault;
	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(yaml_load_file(&text, folder, &fault), -EINVAL);
	(void)snprintf(expected, sizeof expected, "%s: is not a regular file; expected a YAML file",
		folder);
	assert_string_equal(fault.text, expected);
	(void)snprintf(path, sizeof path, "%s/none", folder);
	assert_int_equal(yaml_load_file(&text, path, &fault), -ENOENT);
	(void)snprintf(
		expected, sizeof expected, "%s: cannot be opened: No such file or directory", path);
	assert_string_equal(fault.text, expected);
	(void)snprintf(path, sizeof path, "%s/pipe", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(
		yaml_load_file(&text, path, &fault), -EINVAL); /* and does not wait for a writer */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void loads_a_file(void **state)
{
	char path[] = "/tmp/penstock-yaml-XXXXXX";
	cleanup(yaml_text) struct yaml_text text = {0};
	cleanup(close_fd) int fd = mkstemp(path);
	struct thing thing;
	struct fault fault;
	uint64_t given;
	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "name: file\n", 11), 11);
	assert_int_equal(yaml_load_file(&text, path, &fault), 0);
	assert_int_equal(
		yaml_read(&text, text.root, keys, UTIL_COUNT(keys), &thing, &given, &fault), 0);
	assert_string_equal(thing.name, "file");
	assert_int_equal(unlink(path), 0);
}

static void compares_fields(void **state)
{
	(void)state;
	for (size_t i = 0; i + 1 < UTIL_COUNT(keys); i++) {
		struct thing a = {0}, b = {0};
		assert_true(yaml_equal(&keys[i], &a, &b));
		*((char *)&b + keys[i].offset) = 1;
		assert_false(yaml_equal(&keys[i], &a, &b));
	}
	struct thing a = {.text = "ab"}, b = {.text = "ab"};
	b.text[5] = 'x'; /* after the end */
	assert_true(yaml_equal(&keys[6], &a, &b));
}

/* As `printf %03d` writes them; YAML itself refuses them. */
static void an_option_may_have_leading_zeros(void **state)
{
	const struct yaml_key key = {"n", YAML_KEY_U32, .min = 1, .max = 100};
	const struct {
		const char *text;
		uint32_t value;
	} good[] = {{"7", 7}, {"007", 7}, {"+5", 5}, {"010", 10}},
	  bad[] = {{"0", 0}, {"0x7", 0}, {"+", 0}, {"00", 0}, {"", 0}, {"7 ", 0}};
	uint32_t value;
	struct fault fault;
	(void)state;
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		value = 99;
		assert_int_equal(yaml_read_option(&key, good[i].text, "--n", &value, &fault), 0);
		assert_int_equal(value, good[i].value);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(
			yaml_read_option(&key, bad[i].text, "--n", &value, &fault), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_option_may_have_leading_zeros),
		cmocka_unit_test(reads_every_kind),
		cmocka_unit_test(reads_json),
		cmocka_unit_test(leaves_alone_what_is_not_written),
		cmocka_unit_test(takes_the_ends_of_ranges),
		cmocka_unit_test(names_the_place_and_what_was_expected),
		cmocka_unit_test(quotes_no_more_than_a_line_of_it),
		cmocka_unit_test(refuses_what_is_no_plain_data),
		cmocka_unit_test(bounds_size_and_number),
		cmocka_unit_test(readers_see_their_key),
		cmocka_unit_test(reports_files_that_cannot_be_read),
		cmocka_unit_test(loads_a_file),
		cmocka_unit_test(compares_fields),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

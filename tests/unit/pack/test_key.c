/* Keys of samples: WebDataset's rule, and that none is there twice in a shard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client/cli/pack/key.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void test_of(void **state)
{
	(void)state;
	static const struct {
		const char *name, *key;
		bool folder;
	} cases[] = {
		{"cat/x.jpg", "cat/x", true},
		{"cat/x.1.JPEG", "cat/x.1", true},
		{"c.a.t/x.png", "c.a.t/x", true},
		{"cat/x.jpg", "cat/x", false},
		{"././cat/x.jpg", "cat/x", false},
		{"c.a.t/x.jpeg", "c.a.t/x", false},
		{"000.jpg", "000", false},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char key[KEY_ROOM];
		key_of(cases[i].name, cases[i].folder, key);
		assert_string_equal(key, cases[i].key);
	}
}

static int claim(struct key_set *set, const char *text, char key[KEY_ROOM])
{
	(void)snprintf(key, KEY_ROOM, "%s", text);
	return key_claim(set, key, NULL);
}

static void test_claim(void **state)
{
	(void)state;
	struct key_set set = {0};
	char key[KEY_ROOM];
	static const struct {
		const char *asked, *got;
	} cases[] = {{"a/x", "a/x"}, {"a/x.y", "a/x_y"}, {"a/x_y", "a/x_y-2"}, {"a/x", "a/x-2"},
		{"a/x", "a/x-3"}, {"a/x-2", "a/x-2-2"}, {"a.b/x", "a.b/x"}, {"x", "x"},
		{"../../up", "__/__/up"}, {"/etc/x", "_etc/x"}, {"//etc/x", "_/etc/x"},
		{"b/../x", "b/__/x"}, {"b/./x", "b/_/x"}, {"b/.../x", "b/.../x"},
		{"..c/x", "..c/x"}, {"b/..", "b/__"}, {"..", "__"}};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		int changed = claim(&set, cases[i].asked, key);
		assert_string_equal(key, cases[i].got);
		assert_int_equal(changed, strcmp(cases[i].asked, cases[i].got) != 0);
	}
	key_set_clear(&set);
	assert_int_equal(claim(&set, "a/x", key), 0);
	key_set_deinit(&set);
}

/* As many equal ones as a hostile tar may bring: all told apart, and not by trying all. */
static void test_many(void **state)
{
	(void)state;
	enum { MANY = 200000 };
	struct key_set set = {0}, seen = {0};
	char key[KEY_ROOM], again[KEY_ROOM];
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(claim(&set, "same", key), i > 0);
		assert_int_equal(claim(&seen, key, again), 0);
	}
	assert_int_equal(set.count, MANY);
	key_set_deinit(&set);
	key_set_deinit(&seen);
}

static void test_long(void **state)
{
	(void)state;
	struct key_set set = {0};
	struct fault fault = {{0}};
	char key[KEY_ROOM];
	memset(key, 'k', sizeof key);
	key[3900] = 0;
	assert_int_equal(key_claim(&set, key, &fault), 0);
	assert_int_equal(key_claim(&set, key, &fault), 1);
	assert_int_equal(strlen(key), 3902);
	memset(key, 'k', sizeof key);
	key[4000] = 0;
	assert_int_equal(key_claim(&set, key, &fault), -ENAMETOOLONG);
	assert_non_null(strstr(fault.text, "too long"));
	key_set_deinit(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of),
		cmocka_unit_test(test_claim),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

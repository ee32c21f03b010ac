/* roots: what is below them, by any path and link, and the sentence for what is not. */
#include "base/host/roots.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char roots_folder[64];

static const char *roots_at(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *here = path[turn++ % UTIL_COUNT(path)];
	(void)snprintf(here, sizeof path[0], "%s/%s", roots_folder, name);
	return here;
}

static void roots_touch(const char *name)
{
	int fd = open(roots_at(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
}

static int roots_set_up(void **state)
{
	static const char *const folders[] = {"in", "in/deep", "inner", "out"};
	(void)state;
	(void)snprintf(roots_folder, sizeof roots_folder, "/tmp/penstock-roots-XXXXXX");
	assert_non_null(mkdtemp(roots_folder));
	for (size_t i = 0; i < UTIL_COUNT(folders); i++)
		assert_int_equal(mkdir(roots_at(folders[i]), 0700), 0);
	roots_touch("in/a");
	roots_touch("out/a");
	assert_int_equal(symlink("../out", roots_at("in/link")), 0);
	assert_int_equal(symlink("deep", roots_at("in/near")), 0);
	assert_int_equal(symlink("in", roots_at("alias")), 0);
	assert_int_equal(symlink("nowhere", roots_at("in/broken")), 0);
	assert_int_equal(symlink("loop", roots_at("in/loop")), 0);
	return 0;
}

static int roots_tear_down(void **state)
{
	static const char *const files[] = {
		"in/a", "out/a", "in/link", "in/near", "alias", "in/broken", "in/loop"};
	static const char *const folders[] = {"in/deep", "in", "inner", "out"};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(files); i++)
		(void)unlink(roots_at(files[i]));
	for (size_t i = 0; i < UTIL_COUNT(folders); i++)
		(void)rmdir(roots_at(folders[i]));
	return rmdir(roots_folder);
}

static void roots_one(const char *name)
{
	struct fault fault;
	roots_clear();
	assert_int_equal(roots_add(roots_at(name), &fault), 0);
	assert_int_equal(roots_count(), 1);
}

static void test_none(void **state)
{
	struct fault fault;
	(void)state;
	roots_clear();
	assert_int_equal(roots_check("source", "/etc/passwd", &fault), 0);
	assert_int_equal(roots_check_at("source", AT_FDCWD, "/etc/passwd", "x", &fault), 0);
}

static void test_within(void **state)
{
	static const char *const names[] = {"in", "in/", "in/a", "in/deep", "in/deep/../a",
		"in/near", "alias/a", "in/not/yet", "out/../in/a", "in/broken", "in//a"};
	struct fault fault;
	(void)state;
	roots_one("in");
	for (size_t i = 0; i < UTIL_COUNT(names); i++)
		assert_int_equal(roots_check("source", roots_at(names[i]), &fault), 0);
}

static void test_outside(void **state)
{
	static const char *const names[] = {"out", "out/a", "in/../out/a", "in/link", "in/link/a",
		"inner", "", "in/..", "out/not/yet", "in/link/not", "in/loop", "in/loop/x"};
	struct fault fault;
	(void)state;
	roots_one("in");
	for (size_t i = 0; i < UTIL_COUNT(names); i++) {
		assert_int_equal(roots_check("source", roots_at(names[i]), &fault), -EACCES);
		assert_non_null(strstr(fault.text, roots_at(names[i])));
		assert_non_null(strstr(fault.text, roots_at("in")));
		assert_non_null(strstr(fault.text, "roots"));
	}
	/* A relative path. */
	assert_int_equal(roots_check("source", "nothing-of-that-name", &fault), -EACCES);
	assert_int_equal(roots_check("labels: manifest", "/etc/passwd", &fault), -EACCES);
	assert_int_equal(strncmp(fault.text, "labels: manifest: /etc/passwd", 29), 0);
}

/* The sentence names the end of a link. */
static void test_leads_to(void **state)
{
	struct fault fault;
	(void)state;
	roots_one("in");
	assert_int_equal(roots_check("source", roots_at("in/link"), &fault), -EACCES);
	assert_non_null(strstr(fault.text, "leads to"));
	assert_non_null(strstr(fault.text, roots_at("out")));
}

/* A path that does not exist does not "lead to" its existing part. */
static void test_missing(void **state)
{
	struct fault fault;
	char words[512];
	(void)state;
	roots_one("in");
	assert_int_equal(roots_check("source", roots_at("out/not/yet"), &fault), -EACCES);
	(void)snprintf(words, sizeof words, "%s does not exist (only %s does), and is outside",
		roots_at("out/not/yet"), roots_at("out"));
	assert_non_null(strstr(fault.text, words));
	assert_null(strstr(fault.text, "leads to"));
	assert_int_equal(roots_check("source", "/not-of-this-machine", &fault), -EACCES);
	assert_non_null(strstr(fault.text, "only / does"));
}

static void test_at(void **state)
{
	struct fault fault;
	(void)state;
	roots_one("in");
	cleanup(close_fd) int fd = open(roots_at("in"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(roots_check_at("source", fd, "a", "in/a", &fault), 0);
	assert_int_equal(roots_check_at("source", fd, "near", "in/near", &fault), 0);
	assert_int_equal(roots_check_at("source", fd, "broken", "in/broken", &fault), 0);
	assert_int_equal(roots_check_at("source", fd, "link", "in/link", &fault), -EACCES);
	assert_non_null(strstr(fault.text, "source: in/link leads to"));
}

/* A path that cannot be examined is refused. */
static void test_no_descriptors(void **state)
{
	struct fault fault = {.text = ""};
	struct rlimit before, none;
	(void)state;
	roots_one("in");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int result = roots_check_at("source", AT_FDCWD, roots_at("in/link"), "in/link", &fault);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(result, -EMFILE);
	assert_non_null(strstr(fault.text, "in/link is below roots: "));
	assert_non_null(strstr(fault.text, "RLIMIT_NOFILE"));
}

static void test_roots_within(void **state)
{
	(void)state;
	roots_one("in");
	assert_string_equal(roots_within(roots_at("in")), roots_path(0));
	assert_string_equal(roots_within("/"), roots_path(0));
	assert_null(roots_within(roots_at("in/deep")));
	assert_null(roots_within(roots_at("out")));
	assert_null(roots_within(roots_at("inn")));
	assert_null(roots_within(roots_at("i")));
}

/* Lists that clients write into the cache folder are allowed; anything else there is not. */
static void test_lists(void **state)
{
	static const char *const refused[] = {"out/a", "out/indices", "out/indices-not/a",
		"out/indices/../a", "out/indices/link", "out/weights"};
	struct fault fault;
	(void)state;
	roots_one("in");
	assert_int_equal(roots_check_list("indices", roots_at("out/indices/a"), &fault), -EACCES);
	roots_set_cache(roots_at("out"));
	assert_int_equal(mkdir(roots_at("out/indices"), 0700), 0);
	roots_touch("out/indices/a");
	assert_int_equal(symlink("../a", roots_at("out/indices/link")), 0);
	assert_int_equal(roots_check_list("indices", roots_at("out/indices/a"), &fault), 0);
	assert_int_equal(roots_check_list("weights", roots_at("out/weights/no"), &fault), -EACCES);
	assert_int_equal(roots_check_list("indices", roots_at("in/a"), &fault), 0);
	for (size_t i = 0; i < UTIL_COUNT(refused); i++)
		assert_int_equal(
			roots_check_list("indices", roots_at(refused[i]), &fault), -EACCES);
	assert_int_equal(roots_check("source", roots_at("out/indices/a"), &fault), -EACCES);
	(void)unlink(roots_at("out/indices/a"));
	(void)unlink(roots_at("out/indices/link"));
	assert_int_equal(rmdir(roots_at("out/indices")), 0);
	roots_set_cache(roots_at("gone"));
	assert_int_equal(roots_check_list("indices", roots_at("gone/indices/a"), &fault), -EACCES);
}

static void test_whole_tree(void **state)
{
	struct fault fault;
	(void)state;
	roots_clear();
	assert_int_equal(roots_add("/", &fault), 0);
	assert_int_equal(roots_check("source", "/etc/passwd", &fault), 0);
	assert_int_equal(roots_check("source", "/", &fault), 0);
}

static void test_wrong(void **state)
{
	struct fault fault;
	(void)state;
	roots_clear();
	assert_int_equal(roots_add("in", &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "absolute"));
	assert_int_equal(roots_add(roots_at("gone"), &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "gone"));
	assert_int_equal(roots_add(roots_at("in/a"), &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "not a folder"));
	assert_int_equal(roots_count(), 0);
	for (int i = 0; i < ROOTS_MAX; i++)
		assert_int_equal(roots_add(roots_at("in"), &fault), 0);
	assert_int_equal(roots_add(roots_at("in"), &fault), -E2BIG);
	roots_clear();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_within),
		cmocka_unit_test(test_outside),
		cmocka_unit_test(test_leads_to),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_at),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_roots_within),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_whole_tree),
		cmocka_unit_test(test_wrong),
	};
	return cmocka_run_group_tests(tests, roots_set_up, roots_tear_down);
}

/* source: braces, globs, and the sentences for paths that do not exist. */
#include "dataset/source/source.h"

#include "base/util.h"
#include "unit/source_fixture.h"

#include <errno.h>

/* Expands braces and joins the paths with blanks. */
static const char *braces(const char *spec)
{
	static char joined[1024];
	struct source_paths paths = {0};
	struct fault fault;
	joined[0] = 0;
	assert_int_equal(source_braces(spec, &paths, &fault), 0);
	for (size_t i = 0; i < paths.count; i++) {
		(void)strcat(joined, i ? " " : "");
		(void)strcat(joined, paths.path[i]);
	}
	source_paths_free(&paths);
	return joined;
}

static void test_braces(void **state)
{
	assert_string_equal(braces("plain.tar"), "plain.tar");
	assert_string_equal(braces("t-{000..003}.tar"), "t-000.tar t-001.tar t-002.tar t-003.tar");
	assert_string_equal(braces("{8..11}"), "8 9 10 11");
	assert_string_equal(braces("{08..11}"), "08 09 10 11");
	assert_string_equal(braces("{3..1}"), "3 2 1");
	assert_string_equal(braces("{0..7..3}"), "0 3 6");
	assert_string_equal(braces("{-1..1}"), "-1 0 1");
	assert_string_equal(
		braces("{a,b}/x-{0..1}.tar"), "a/x-0.tar a/x-1.tar b/x-0.tar b/x-1.tar");
	assert_string_equal(braces("{a,b{1..2},{c,d}e}"), "a b1 b2 ce de");
	assert_string_equal(braces("{a,}x{,b}"), "ax axb x xb");
	assert_string_equal(braces("{x}{}{,}{a"), "{x}{}{a {x}{}{a");
	assert_string_equal(braces("{x{1,2}}"), "{x1} {x2}");
	assert_string_equal(braces("a}b{1..z}"), "a}b{1..z}");
	assert_string_equal(braces("{1..2..0}"), "1 2");
	assert_string_equal(braces("{1...2}{1..2..3..4}"), "{1...2}{1..2..3..4}");
}

static void too_many(const char *spec, int code)
{
	struct source_paths paths = {0};
	struct fault fault;
	assert_int_equal(source_braces(spec, &paths, &fault), code);
	source_paths_free(&paths);
}

static void test_bounds(void **state)
{
	too_many("{0..999999}", 0);
	too_many("{0..1000000}", -E2BIG);
	too_many("{0..999999999999999999}", -E2BIG);
	too_many("{-999999999999999999..999999999999999999..3}", -E2BIG);
	too_many("{0..999}{0..999}{0..999}", -E2BIG);
	char text[SOURCE_TEXT_MAX + 2];
	memset(text, 'x', sizeof text);
	text[SOURCE_TEXT_MAX + 1] = 0;
	too_many(text, -ENAMETOOLONG);
	text[SOURCE_TEXT_MAX] = 0;
	too_many(text, 0);
	memset(text, '{', SOURCE_TEXT_MAX); /* never closed */
	too_many(text, 0);
	memcpy(text + 3900, "{1..2000000000000}", 18);
	too_many(text, -E2BIG);
	for (int i = 0; i + 3 <= SOURCE_TEXT_MAX;
		i += 3) /* 1,365 pairs, each of which only doubles */
		memcpy(text + i, "{,}", 3);
	too_many(text, -E2BIG);
}

/* A short text must not stand for gigabytes, or hours. */
static void test_costs(void **state)
{
	char text[SOURCE_TEXT_MAX + 1];
	memset(text, 'x', sizeof text);
	strcpy(text + 4000, "{0..99999}"); /* 400 MB of paths */
	too_many(text, -E2BIG);
	strcpy(text + 4000, "{0..9999}"); /* 40 MB */
	too_many(text, 0);
	strcpy(text, "{0..9999}"); /* braces that are never closed, in each of 10,000 texts */
	memset(text + 9, '{', 4000);
	text[4009] = 0;
	too_many(text, 0);
	size_t size = (size_t)sprintf(text, "{0..99999}"); /* 500 steps to each of 100,000 paths */
	for (int i = 0; i < 500; i++, size += 6)
		strcpy(text + size, "{1..1}");
	too_many(text, -E2BIG);
}

static void expect(const char *spec, int rc, const char *part, size_t count, int folder)
{
	struct source_paths paths = {0};
	struct fault fault = {""};
	enum dataset_kind kind;
	assert_int_equal(source_expand(spec, &paths, &kind, &fault), rc);
	if (rc == 0) {
		assert_int_equal(paths.count, count);
		assert_int_equal(kind == DATASET_FOLDER, folder);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(paths.path[i][0], '/');
		assert_non_null(strstr(paths.path[count - 1], part));
	} else if (!strstr(fault.text, part)) {
		fail_msg("%s: \"%s\" does not say \"%s\"", spec, fault.text, part);
	}
	source_paths_free(&paths);
}

/* Links in circles multiply with each star. */
static void test_circles(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "d/x.tar", "");
	assert_int_equal(chdir(folder), 0);
	/* Long names: with them, fewer folders reach the limit, and each folder makes glob() move
	 * what it has found. */
	for (int i = 0; i < 20; i++) {
		char link[256];
		(void)snprintf(link, sizeof link, "d/%0200d", i);
		assert_int_equal(symlink(".", link), 0);
	}
	expect("d/*/*.tar", 0, "9/x.tar", 20, 0);
	expect("d/*/*/*/*/*/*/*/*/*/*.tar", -E2BIG, "too many entries", 0, 0);
	expect("d/*/*.tar", 0, "9/x.tar", 20, 0);
}

static void test_expand(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "b.tar", "");
	fixture_file(folder, "a.tar", "");
	fixture_file(folder, "B.tar", "");
	fixture_file(folder, "lit{1,2}*.tar", "");
	fixture_file(folder, "dir/x.jpg", "");
	fixture_file(folder, "dir2/x.jpg", "");
	assert_int_equal(chdir(folder), 0);
	expect("a.tar", 0, "/a.tar", 1, 0);
	expect("./a.tar", 0, "/a.tar", 1, 0);
	expect("?.tar", 0, "/b.tar", 3, 0);
	expect("{b,a}.tar", 0, "/a.tar", 2, 0);
	expect("{b,a}*.tar", 0, "/a.tar", 2, 0);
	expect("lit{1,2}*.tar", 0, "/lit{1,2}*.tar", 1, 0);
	expect("dir", 0, "/dir", 1, 1);
	expect("dir//", 0, "/dir", 1, 1);
	expect(".", 0, "/penstock-test-", 1, 1);
	expect("", -EINVAL, "an empty name", 0, 0);
	char said[SOURCE_TEXT_MAX];
	(void)snprintf(
		said, sizeof said, "nothing/at/all.tar does not exist in %s: expected", folder);
	expect("nothing/at/all.tar", -ENOENT, said, 0, 0);
	expect("./nothing", -ENOENT, "./nothing does not exist in /", 0, 0);
	expect("dir/gone", -ENOENT, "dir/gone does not exist (its path exists only up to dir)", 0,
		0);
	expect("~/photos", -ENOENT, "(quotes keep the shell from expanding ~): expected", 0, 0);
	expect("{s3://bucket,/data}/a.tar", -EINVAL, "names both URLs (s3://bucket/a.tar) and", 0,
		0);
	expect("org/name", -ENOENT, "(if it is a dataset of the Hugging Face Hub", 0, 0);
	expect("a.zip@/train", -ENOENT, "(name the ZIP without what follows the @)", 0, 0);
	expect("stream:train", -ENOENT, "(a stream that penstockd knows by name", 0, 0);
	expect(fixture_path(folder, "dir/gone/x.tar"), -ENOENT,
		fixture_path(folder, "dir): expected"), 0, 0);
	expect("a.tar/x", -ENOENT, "does not exist", 0, 0);
	expect("/nothing", -ENOENT, "/nothing does not exist (its path exists only up to /)", 0, 0);
	expect("none-*.tar", -ENOENT, "nothing matches none-*.tar", 0, 0);
	expect("gone/none-*.tar", -ENOENT, "(searched below /", 0, 0);
	expect("{a,c}.tar", -ENOENT, "c.tar does not exist", 0, 0);
	expect("dir*", -EINVAL, "names 2 folders", 0, 0);
	expect("{dir,a.tar}", -EINVAL, "names both folders", 0, 0);
	fixture_file(folder, "mds/index.json", "{}");
	fixture_file(folder, "mds/shard.00000.mds", "");
	expect("mds/*", -EINVAL, "mds/index.json along with other files", 0, 0);
	expect("/dev/null", -EINVAL, "neither a folder nor a regular file", 0, 0);
	assert_int_equal(chdir("/"), 0);
}

/* The files that the first opening and epoch write beside the tars are not shards of the second
 * one. */
static void test_glob_and_indexes(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "a.tar", "");
	fixture_file(folder, "a.tar.idx", "");
	fixture_file(folder, "a.tar.idx.tmp-Qx7d3k", "");
	fixture_file(folder, "a.tar.ckp", "");
	fixture_file(folder, "a.tar.ckp.tmp-Qx7d3k", "");
	fixture_file(folder, "a.tar.dim", "");
	fixture_file(folder, "a.tar.dim.tmp-Qx7d3k", "");
	fixture_file(folder, "a.pack.json", "");
	fixture_file(folder, "only/b.idx", "");
	assert_int_equal(chdir(folder), 0);
	expect("a*", 0, "/a.tar", 1, 0);
	expect("*.idx", 0, "/a.tar.idx", 1, 0);
	expect("*.ckp", 0, "/a.tar.ckp", 1, 0);
	expect("a.tar.idx", 0, "/a.tar.idx", 1, 0);
	expect("only/*", -ENOENT, "nothing matches only/*", 0, 0);
	assert_int_equal(chdir("/"), 0);
}

static void same(const char *spec, const char *path)
{
	struct source_paths paths = {0};
	struct fault fault = {""};
	enum dataset_kind kind;
	assert_int_equal(source_expand(spec, &paths, &kind, &fault), 0);
	assert_string_equal(paths.path[0], path);
	source_paths_free(&paths);
}

/* A place has one name, however the user writes it; but links keep theirs. */
static void test_one_name(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "deep/in/a.tar", "");
	fixture_file(folder, "x..y/.z/a.tar", "");
	cleanup(free_ptr) char *here = realpath(folder, NULL);
	cleanup(free_ptr) char *alias = strdup(fixture_path(here, "link"));
	assert_non_null(alias);
	assert_int_equal(symlink("deep/in", alias), 0);
	assert_int_equal(chdir(fixture_path(here, "deep")), 0);
	same("../deep/in", fixture_path(here, "deep/in"));
	same("in/./../in//a.tar", fixture_path(here, "deep/in/a.tar"));
	same("..", here);
	same("in/..", fixture_path(here, "deep"));
	same("../link", alias);
	same("../link/..", fixture_path(here, "deep"));
	same("../x..y/.z/a.tar", fixture_path(here, "x..y/.z/a.tar"));
	same("/../..//.", "/");
	same("/", "/");
	same("//tmp", "/tmp");
	assert_int_equal(chdir("/"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_braces),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_costs),
		cmocka_unit_test_setup_teardown(test_circles, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_expand, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			test_glob_and_indexes, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_one_name, fixture_setup, fixture_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

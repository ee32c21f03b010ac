/* folder: the order, what is left out, links, cycles, depth. */
#include "dataset/container/folder.h"
#include "dataset/dataset.h"
#include "unit/source_fixture.h"

#include <errno.h>

struct seen {
	char files[2048], directories[512], classes[256];
	uint64_t bytes;
	int stop_after;
	char others[256];
	bool natural;
};

static int on_classes(void *context, const char *const *names, size_t count, struct fault *fault)
{
	struct seen *seen = context;
	for (size_t i = 0; i < count; i++)
		(void)strcat(strcat(seen->classes, names[i]), " ");
	return 0;
}

static int on_directory(void *context, const char *path, int64_t mtime_ns, struct fault *fault)
{
	struct seen *seen = context;
	assert_true(mtime_ns > 0);
	if (strlen(seen->directories) + strlen(path) + 2 < sizeof seen->directories)
		(void)strcat(strcat(seen->directories, path), ";");
	return 0;
}

static int on_file(void *context, const char *path, uint64_t size, struct fault *fault)
{
	struct seen *seen = context;
	if (strlen(seen->files) + strlen(path) + 2 < sizeof seen->files)
		(void)strcat(strcat(seen->files, path), " ");
	seen->bytes += size;
	return --seen->stop_after == 0 ? fault_set(fault, -ECANCELED, "stopped") : 0;
}

static void on_other(void *context, const char *name)
{
	struct seen *seen = context;
	(void)strcat(strcat(seen->others, name), " ");
}

static int walk(const char *folder, struct seen *seen, struct fault *fault)
{
	const struct folder_sink sink = {seen, on_classes, on_directory, on_file, on_other, NULL};
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	int rc = folder_walk(fd, folder, seen->natural ? CLASS_ORDER_NATURAL : CLASS_ORDER_BYTEWISE,
		&sink, fault);
	assert_int_equal(close(fd), 0);
	return rc;
}

static void test_names(void **state)
{
	assert_int_equal(folder_format("a.jpg"), SAMPLE_JPEG);
	assert_int_equal(folder_format("dir.x/a.JpEg"), SAMPLE_JPEG);
	assert_int_equal(folder_format("a.b.PNG"), SAMPLE_PNG);
	assert_int_equal(folder_format("a.jpgx"), 0);
	assert_int_equal(folder_format("jpg"), 0);
	assert_int_equal(folder_format("dir.jpg/a"), 0);
	assert_int_equal(folder_key_size("dir/a.b.jpg"), 7);
}

static void test_order(void **state)
{
	const char *folder = *state;
	const char *const files[] = {"a/z.jpg", "a-b/y.jpg", "a.jpg", "a0.png", "b/c/d/deep.jpeg",
		"b/c.jpg", "b/c-.jpg", "B/x.JPG", "same.png", "same.jpg", "b/c/readme.txt",
		".hidden.jpg", "._same.jpg", ".hidden/x.jpg", "__MACOSX/x.jpg", "docs/readme.txt"};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		fixture_file(folder, files[i], "12345");
	struct seen seen = {0};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), 0);
	assert_string_equal(seen.files, "a.jpg a0.png same.jpg same.png B/x.JPG a/z.jpg a-b/y.jpg "
					"b/c-.jpg b/c.jpg b/c/d/deep.jpeg ");
	assert_string_equal(seen.classes, "B a a-b b docs ");
	assert_string_equal(seen.directories, ";B;a;a-b;b;b/c;b/c/d;docs;");
	assert_int_equal(seen.bytes, 50);
	/* In the order of the directory's entries. */
	assert_non_null(strstr(seen.others, ".hidden.jpg "));
	assert_non_null(strstr(seen.others, "readme.txt readme.txt "));
	assert_int_equal(strlen(seen.others), strlen(".hidden.jpg readme.txt readme.txt "));
	memset(&seen, 0, sizeof seen);
	seen.stop_after = 3;
	assert_int_equal(walk(folder, &seen, &fault), -ECANCELED);
	assert_string_equal(seen.files, "a.jpg a0.png same.jpg ");
}

/* A directory's own directories come after its neighbors whose names go on with a byte below "/"; a
 * class is complete before the next one. */
static void test_interleaved(void **state)
{
	const char *folder = *state;
	const char *const files[] = {"t/a/x.jpg", "t/a/b/x.jpg", "t/a b/x.jpg", "t/a-b/c/x.jpg",
		"t/a0/x.jpg", "t/x.jpg", "t t/x.jpg", "t/a/b c/x.jpg"};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		fixture_file(folder, files[i], "1");
	struct seen seen = {0};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), 0);
	assert_string_equal(seen.directories, ";t;t/a;t/a b;t/a-b;t/a-b/c;t/a/b;t/a/b c;t/a0;t t;");
	assert_string_equal(seen.files, "t/x.jpg t/a/x.jpg t/a b/x.jpg t/a-b/c/x.jpg t/a/b/x.jpg "
					"t/a/b c/x.jpg t/a0/x.jpg t t/x.jpg ");
}

/* The order of timm's classes. */
static void test_natural(void **state)
{
	const char *folder = *state;
	const char *const files[] = {
		"10/x.jpg", "9/10.jpg", "9/9.jpg", "1/x.jpg", "a/x.jpg", "B/x.jpg"};
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
		fixture_file(folder, files[i], "1");
	struct seen seen = {.natural = true};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), 0);
	assert_string_equal(seen.classes, "1 9 10 a B ");
	assert_string_equal(seen.files, "1/x.jpg 9/10.jpg 9/9.jpg 10/x.jpg a/x.jpg B/x.jpg ");
}

static void test_links(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "real/x.jpg", "1");
	fixture_file(folder, "real/y.jpg", "22");
	assert_int_equal(symlink("real", fixture_path(folder, "linked")), 0);
	assert_int_equal(symlink("../real/y.jpg", fixture_path(folder, "real/z.jpg")), 0);
	assert_int_equal(symlink("nowhere", fixture_path(folder, "real/dangling.txt")), 0);
	assert_int_equal(mkfifo(fixture_path(folder, "real/fifo.jpg"), 0644), 0);
	struct seen seen = {0};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), 0);
	assert_string_equal(seen.files,
		"linked/x.jpg linked/y.jpg linked/z.jpg real/x.jpg real/y.jpg real/z.jpg ");
	assert_int_equal(seen.bytes, 10);
	assert_int_equal(symlink("nowhere", fixture_path(folder, "real/dangling.jpg")), 0);
	assert_int_equal(symlink("loop.png", fixture_path(folder, "real/loop.png")), 0);
	assert_int_equal(symlink("x.jpg/in", fixture_path(folder, "real/through.jpg")), 0);
	assert_int_equal(symlink("loop.txt", fixture_path(folder, "real/loop.txt")), 0);
	memset(&seen, 0, sizeof seen);
	assert_int_equal(walk(folder, &seen, &fault), 0);
	assert_non_null(strstr(seen.files,
		" real/dangling.jpg real/loop.png real/through.jpg real/x.jpg real/y.jpg "));
	assert_null(strstr(seen.files, ".txt"));
	assert_int_equal(seen.bytes, 10);
}

static void test_cycle(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "a/b/x.jpg", "1");
	assert_int_equal(symlink("../..", fixture_path(folder, "a/b/up")), 0);
	struct seen seen = {0};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), -ELOOP);
	assert_non_null(strstr(fault.text, "a/b/up/ leads back to"));
}

/* Thirty folders with two links each to the next one are 2^30 paths. */
static void test_links_that_multiply(void **state)
{
	const char *folder = *state;
	char name[64], to[64];
	fixture_file(folder, "class/1.jpg", "1");
	fixture_file(folder, ".far/30/1.jpg", "1");
	for (int i = 0; i < 30; i++) {
		(void)snprintf(name, sizeof name, ".far/%d", i);
		assert_int_equal(mkdir(fixture_path(folder, name), 0755), 0);
		(void)snprintf(to, sizeof to, "../%d", i + 1);
		(void)snprintf(name, sizeof name, ".far/%d/a", i);
		assert_int_equal(symlink(to, fixture_path(folder, name)), 0);
		(void)snprintf(name, sizeof name, ".far/%d/b", i);
		assert_int_equal(symlink(to, fixture_path(folder, name)), 0);
	}
	assert_int_equal(symlink("../.far/0", fixture_path(folder, "class/links")), 0);
	struct seen seen = {0};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), -ELOOP);
	assert_non_null(strstr(fault.text, "/class/links/"));
	assert_non_null(strstr(fault.text, "links lead to more than 100 times"));
}

/* A folder may be linked from many places, a hundred times; so may what is below it. */
static void test_links_to_one(void **state)
{
	const char *folder = *state;
	char name[64];
	fixture_file(folder, ".far/deep/1.jpg", "1");
	fixture_file(folder, "class/0.jpg", "1");
	for (int i = 0; i <= FOLDER_LINKS_MAX; i++) {
		struct seen seen = {0};
		struct fault fault = {""};
		if (i == FOLDER_LINKS_MAX || i == 1)
			assert_int_equal(walk(folder, &seen, &fault), 0);
		if (i == FOLDER_LINKS_MAX)
			assert_int_equal(seen.bytes, 1 + FOLDER_LINKS_MAX);
		(void)snprintf(name, sizeof name, "class/%03d", i);
		assert_int_equal(symlink("../.far", fixture_path(folder, name)), 0);
	}
	struct seen seen = {0};
	struct fault fault = {""};
	assert_int_equal(walk(folder, &seen, &fault), -ELOOP);
	assert_non_null(strstr(fault.text, "/class/100"));
}

static void test_depth(void **state)
{
	const char *folder = *state;
	char name[512] = "";
	for (int i = 0; i < FOLDER_DEPTH_MAX; i++)
		(void)strcat(name, "d/");
	(void)strcat(name, "x.jpg");
	fixture_file(folder, name, "1");
	struct seen seen = {0};
	struct fault fault;
	assert_int_equal(walk(folder, &seen, &fault), 0);
	name[strlen(name) - 5] = 0;
	(void)strcat(name, "d/x.jpg");
	fixture_file(folder, name, "1");
	assert_int_equal(walk(folder, &seen, &fault), -ELOOP);
}

static void test_unreadable(void **state)
{
	const char *folder = *state;
	fixture_file(folder, "a/x.jpg", "1");
	assert_int_equal(chmod(fixture_path(folder, "a"), 0), 0);
	struct seen seen = {0};
	struct fault fault;
	if (geteuid() == 0)
		print_message("root reads everything: an unreadable folder was not tested\n");
	else
		assert_int_equal(walk(folder, &seen, &fault), -EACCES);
	assert_int_equal(chmod(fixture_path(folder, "a"), 0755), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_order, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_interleaved, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_natural, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_links, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_cycle, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(
			test_links_that_multiply, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_links_to_one, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_depth, fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(test_unreadable, fixture_setup, fixture_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

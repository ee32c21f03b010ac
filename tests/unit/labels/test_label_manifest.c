/* label_manifest: how a file of paths and labels is understood, what a sample finds in it, what is
 * refused and where; a million lines in bounded memory. */
#include "labels/label_manifest.h"
#include "unit/source_fixture.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>

static const struct label_classes no_classes;
static struct manifest manifest;
static struct label_found found;
static struct fault fault;

static int open_file(void **state, const char *name, const void *text, size_t size,
	enum label_type asked, const struct label_classes *classes)
{
	static char path[FIXTURE_PATH];
	(void)snprintf(path, sizeof path, "%s", fixture_path(*state, name));
	fixture_write(path, text, size);
	fault.text[0] = 0;
	int rc = manifest_open(&manifest, path, "/data/set", asked, classes, &fault);
	return rc < 0 ? rc : manifest_prepare(&manifest, *state, &fault);
}

static int find(const char *path, uint64_t *ret_place)
{
	const struct manifest_sample sample = {.name = path};
	fault.text[0] = 0;
	return manifest_find(&manifest, &sample, &found, ret_place, &fault);
}

static void says(const char *want)
{
	if (!strstr(fault.text, want))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, want);
}

/* The label of a sample must be `want`: "type first: values". */
static void has(const char *path, const char *want)
{
	char text[512];
	uint64_t place;
	if (find(path, &place) < 0)
		fail_msg("%s", fault.text);
	size_t at = (size_t)sprintf(text, "%d %d:", (int)found.type, found.first);
	for (uint32_t i = 0; i < found.count; i++)
		at += (size_t)(found.type == LABEL_TYPE_FLOAT
				       ? sprintf(text + at, " %g", (double)found.number[i])
				       : sprintf(text + at, " %u", found.class[i]));
	assert_string_equal(text, want);
}

static void opens(void **state, const char *name, const char *text, enum label_type asked)
{
	manifest_close(&manifest);
	if (open_file(state, name, text, strlen(text), asked, &no_classes) < 0)
		fail_msg("%s", fault.text);
}

static void refuses(void **state, const char *text, enum label_type asked, const char *want)
{
	manifest_close(&manifest);
	int rc = open_file(state, "bad.csv", text, strlen(text), asked, &no_classes);
	if (rc != -EINVAL)
		fail_msg("%s: %d", text, rc);
	says(want);
}

static int teardown(void **state)
{
	manifest_close(&manifest);
	return fixture_teardown(state);
}

static void test_one_class(void **state)
{
	opens(state, "x.csv", "path,label\na/1.jpg,3\n\"b,c.jpg\",7\n", LABEL_TYPE_AUTO);
	has("a/1.jpg", "1 3: 3");
	has("b,c.jpg", "1 7: 7");
	opens(state, "x.csv", "a.jpg,1\nb.jpg,0", LABEL_TYPE_AUTO);
	has("a.jpg", "1 1: 1");
	has("b.jpg", "1 0: 0");
	opens(state, "x.csv", "\xef\xbb\xbfpath,label\r\n\r\n./a.jpg, 5 \r\n", LABEL_TYPE_AUTO);
	has("a.jpg", "1 5: 5");
	assert_int_equal(manifest.names.count, 0);
	assert_int_equal(manifest.lines, 1);
}

static void test_names(void **state)
{
	opens(state, "x.csv", "path,label\na,golden retriever\nb,7\nc,cat\nd,cat\n",
		LABEL_TYPE_AUTO);
	assert_int_equal(manifest.names.count, 3);
	assert_string_equal(manifest.names.name[0], "7");
	assert_string_equal(manifest.names.name[1], "cat");
	assert_string_equal(manifest.names.name[2], "golden retriever");
	has("a", "1 2: 2");
	has("b", "1 0: 0");
	has("d", "1 1: 1");
}

static void test_separators(void **state)
{
	opens(state, "x.tsv", "a,b\t1\nc\t0\n", LABEL_TYPE_AUTO);
	has("a,b", "1 1: 1");
	opens(state, "x.txt", "path\tlabel\na,b\t1\n", LABEL_TYPE_AUTO);
	has("a,b", "1 1: 1");
	opens(state, "x.txt", "a b,1\n", LABEL_TYPE_AUTO);
	has("a b", "1 1: 1");
	opens(state, "x.csv", "a\tb,1\n", LABEL_TYPE_AUTO);
	has("a\tb", "1 1: 1");
}

static void test_lists(void **state)
{
	opens(state, "x.csv", "path,labels\na,3;1\nb, 2  0 \nc,\nd,4;\n", LABEL_TYPE_AUTO);
	has("a", "2 3: 1 3");
	has("b", "2 2: 0 2");
	has("c", "2 -1:");
	has("d", "2 4: 4");
	opens(state, "x.csv", "path,labels\na,dog;traffic light\nb,cat\n", LABEL_TYPE_AUTO);
	assert_int_equal(manifest.names.count, 3);
	has("a", "2 1: 1 2");
	opens(state, "x.csv", "a,1;2\nb,0\n", LABEL_TYPE_AUTO);
	has("a", "2 1: 1 2");
	has("b", "2 0: 0");
	opens(state, "x.csv", "a,1,2\nb,0\n", LABEL_TYPE_MULTI_HOT);
	has("a", "2 1: 1 2");
	has("b", "2 0: 0");
	opens(state, "x.csv", "path,label\na,1 2\n", LABEL_TYPE_MULTI_HOT);
	has("a", "2 1: 1 2");
}

static void test_numbers(void **state)
{
	opens(state, "x.csv", "path,x,y\na,1,2\nb,-3,4.5\n", LABEL_TYPE_AUTO);
	has("a", "3 -1: 1 2");
	has("b", "3 -1: -3 4.5");
	assert_int_equal(manifest.width, 2);
	opens(state, "x.csv", "path,age\na,30\n", LABEL_TYPE_AUTO);
	has("a", "3 -1: 30");
	opens(state, "x.csv", "path,label\na,0.5\nb,1\n", LABEL_TYPE_AUTO);
	has("b", "3 -1: 1");
	opens(state, "x.csv", "path,label\na,3\n", LABEL_TYPE_FLOAT);
	has("a", "3 -1: 3");
	opens(state, "x.csv", "path,labels\na,1;0.5\nb,0;1\n", LABEL_TYPE_AUTO);
	has("a", "3 -1: 1 0.5");
}

static void test_indicators(void **state)
{
	enum label_type hot = LABEL_TYPE_MULTI_HOT;
	opens(state, "x.csv", "path,is_dog, is_cat\na,1,0\nb,0, 1\nc,0,0\nd,1,1\n", hot);
	assert_int_equal(manifest.names.count, 2);
	assert_string_equal(manifest.names.name[0], "is_dog");
	assert_string_equal(manifest.names.name[1], "is_cat");
	has("a", "2 0: 0");
	has("b", "2 1: 1");
	has("c", "2 -1:");
	has("d", "2 0: 0 1");
	uint64_t hash = manifest.hash;
	opens(state, "x.csv", "path,is_dog, is_cat\na,1,0\nb,0, 1\nc,0,0\nd,1,1\n",
		LABEL_TYPE_FLOAT);
	has("a", "3 -1: 1 0");
	assert_true(
		hash != manifest.hash); /* an index of numbers must not be used as one of classes */
	opens(state, "x.tsv", "path\tcat\na\t1\nb\t0\n", hot);
	has("a", "2 0: 0");
	has("b", "2 -1:");
	refuses(state, "path,is_cat,is_dog\na,1,0\nb,0,2\n", hot,
		"bad.csv:3: column 3, \"is_dog\": expected 0 or 1, which says whether the sample "
		"has that "
		"class, found \"2\": names or numbers of classes go into one column labels, as "
		"cat;dog");
	refuses(state, "path,x,y\na,1,0.0\n", hot, "bad.csv:2: column 3, \"y\"");
	refuses(state, "path,x,y\na,1,\n", hot, "bad.csv:2: column 3 is empty: expected 0 or 1");
	refuses(state, "path,tags\na,cat;dog\n", hot, "one column labels, as cat;dog");
	refuses(state, "path,x,x\na,1,0\n", hot,
		"bad.csv:1: column 3 is the second one with the name \"x\"");
	refuses(state, "path,x,\na,1,0\n", hot, "bad.csv:1: column 3 has no name");
	refuses(state, "path,x,\"y\nz\"\na,1,0\n", hot, "control character");
	refuses(state, "path,x,y\na,1\n", hot, "bad.csv:2: expected 3 columns, found 2");
	refuses(state, "path,label,x\na,1,0\n", hot, "remove the other columns");
	opens(state, "x.csv", "path, labels\na,cat;dog\n", hot);
	has("a", "2 0: 0 1");
	/* Without a header they would be numbers of classes, and each sample would have both. */
	refuses(state, "a,1,0\nb,0,1\n", hot, "begin with a header of path and the classes' names");
	refuses(state, "image,cat,dog\na,1,0\nb,0,1\n", hot,
		"begin with a header of path and the classes' names");
	opens(state, "x.csv", "a,1,0\nb,0\n", hot);
	has("a", "2 1: 0 1");
	has("b", "2 0: 0");
}

static void test_indicators_of_class_file(void **state)
{
	struct label_classes classes = {0};
	const char *const names[] = {"dog", "cow", "cat"};
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(classes_add(&classes, names[i], 3, &fault), 1);
	const char *text = "path,cat,dog\na,1,0\nb,1,1\n";
	assert_int_equal(
		open_file(state, "x.csv", text, strlen(text), LABEL_TYPE_MULTI_HOT, &classes), 0);
	has("a", "2 2: 2");
	has("b", "2 2: 0 2");
	manifest_close(&manifest);
	text = "path,cat,hen\na,1,0\n";
	assert_int_equal(
		open_file(state, "x.csv", text, strlen(text), LABEL_TYPE_MULTI_HOT, &classes),
		-EINVAL);
	says("x.csv:1: column 3, \"hen\", is not one of the 3 classes");
	manifest_close(&manifest);
	classes_deinit(&classes);
}

static void test_paths(void **state)
{
	opens(state, "x.csv", "/data/set/a.jpg,1\n./b/c.jpg,2\n/data/setter/d.jpg,3\n",
		LABEL_TYPE_AUTO);
	has("a.jpg", "1 1: 1");
	has("b/c.jpg", "1 2: 2");
	uint64_t place;
	assert_int_equal(find("ter/d.jpg", &place), -EINVAL);
	says("none of the 3 lines");
	says("expected a line for each sample; add one");
	has("/data/setter/d.jpg", "1 3: 3");
}

static void tar_has(const char *shard, const char *member, int want)
{
	const char *dot = strchr(member, '.'), *key = member;
	const struct manifest_sample sample = {shard, member, key, (size_t)(dot - key)};
	uint64_t place;
	if (manifest_find(&manifest, &sample, &found, &place, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(found.first, want);
}

static void test_tars(void **state)
{
	opens(state, "x.csv",
		"key/a,1\nkey/b.jpg,2\n/data/s-0.tar!c.jpg,3\n/data/s-1.tar!c.jpg,4\n",
		LABEL_TYPE_AUTO);
	tar_has("/data/s-0.tar", "key/a.jpg", 1);
	tar_has("/data/s-0.tar", "key/b.jpg", 2);
	tar_has("/data/s-0.tar", "c.jpg", 3);
	tar_has("/data/s-1.tar", "c.jpg", 4);
	opens(state, "x.csv", "a,1\na.jpg,2\n", LABEL_TYPE_AUTO);
	const struct manifest_sample twice = {"/s.tar", "a.jpg", "a", 1};
	uint64_t place;
	assert_int_equal(manifest_find(&manifest, &twice, &found, &place, &fault), -EINVAL);
	says("appeared before, in line 1");
}

static void test_refused(void **state)
{
	refuses(state, "", LABEL_TYPE_AUTO, "names no samples");
	refuses(state, "path,label\n", LABEL_TYPE_AUTO, "names no samples");
	refuses(state, "path\na\n", LABEL_TYPE_AUTO, "bad.csv:1: expected a path and its label");
	refuses(state, "a\tb\n", LABEL_TYPE_AUTO, "separated by a comma");
	refuses(state, "path,label\na,1\nb\n", LABEL_TYPE_AUTO,
		"bad.csv:3: expected 2 columns, found 1");
	refuses(state, "path,label\na,1\nb,1,2\n", LABEL_TYPE_AUTO, "found 3");
	refuses(state, "path,label,name\na,1,x\n", LABEL_TYPE_AUTO, "remove the other columns");
	refuses(state, "path,label\n,1\n", LABEL_TYPE_AUTO, "bad.csv:2: the path is empty");
	refuses(state, "path,label\na,\n", LABEL_TYPE_AUTO, "bad.csv:2: column 2 is empty");
	refuses(state, "path,label\na,1\nb,2\na,1\n", LABEL_TYPE_AUTO,
		"bad.csv:4: \"a\" appeared before, in line 2");
	refuses(state, "path,label\na,1\n./a,2\n", LABEL_TYPE_AUTO, "in line 2");
	refuses(state, "path,label\na,1\nb,-1\n", LABEL_TYPE_AUTO,
		"bad.csv:3: a number with a sign");
	refuses(state, "path,label\na,99999999999\n", LABEL_TYPE_AUTO,
		"bad.csv:2: expected a class");
	refuses(state, "path,labels\na,1;1\n", LABEL_TYPE_AUTO, "bad.csv:2: class 1 appears twice");
	refuses(state, "path,labels\na,1;2\n", LABEL_TYPE_CLASS, "expected one class, found 2");
	refuses(state, "path,labels\na,70000\n", LABEL_TYPE_AUTO, "from 0 to 65535");
	refuses(state, "path,x\na,b\n", LABEL_TYPE_AUTO, "expected a number, found \"b\"");
	refuses(state, "path,species,size\nx,cat,big\n", LABEL_TYPE_AUTO,
		"bad.csv:2: expected a number, found \"cat\": columns with names other than label "
		"or labels hold numbers; a class goes into one column label, several classes into "
		"one "
		"column labels, as cat;big");
	refuses(state, "x,cat,big\n", LABEL_TYPE_AUTO,
		"bad.csv:1: expected a number, found \"cat\": several columns without a header");
	refuses(state, "path,x\na,nan\n", LABEL_TYPE_AUTO, "NaN and infinity");
	refuses(state, "path,x\na,1\nb,1e39\n", LABEL_TYPE_AUTO, "bad.csv:3: expected a number");
	refuses(state, "path,label\na,1.5\nb,inf\n", LABEL_TYPE_AUTO, "bad.csv:3");
	refuses(state, "path,labels\na,0.5;1\nb,0.5\n", LABEL_TYPE_AUTO,
		"bad.csv:3: expected 2 numbers, as in the first line, found 1");
	refuses(state, "path,label\n\"a,1\n", LABEL_TYPE_AUTO, "bad.csv:3: a quote is opened");
	refuses(state, "path,label\na,\"x\ny\"\n", LABEL_TYPE_AUTO, "control character");
	refuses(state, "a,1\r\nb\r,2\n", LABEL_TYPE_AUTO, "bad.csv:2: a carriage return");
}

static void test_bytes_refused(void **state)
{
	static const struct {
		const char *text;
		size_t size;
		const char *want;
	} bad[] = {{"a,1\nb\0,2\n", 9, ":2: a zero byte"},
		{"a,\xff\n", 4, ":1: a byte that is not UTF-8"}, {"\0", 1, ":1: a zero byte"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		manifest_close(&manifest);
		assert_int_equal(open_file(state, "bad.csv", bad[i].text, bad[i].size,
					 LABEL_TYPE_AUTO, &no_classes),
			-EINVAL);
		says(bad[i].want);
	}
	manifest_close(&manifest);
	assert_int_equal(manifest_open(&manifest, fixture_path(*state, "none"), NULL,
				 LABEL_TYPE_AUTO, &no_classes, &fault),
		-ENOENT);
	manifest_close(&manifest);
	assert_int_equal(
		manifest_open(&manifest, *state, NULL, LABEL_TYPE_AUTO, &no_classes, &fault),
		-EINVAL);
	says("not a regular file");
}

static void test_huge_fields(void **state)
{
	size_t size = CSV_RECORD_MAX + 100;
	char *text = malloc(size);
	assert_non_null(text);
	memset(text, 'a', size);
	assert_int_equal(
		open_file(state, "bad.csv", text, size, LABEL_TYPE_AUTO, &no_classes), -EINVAL);
	says("bad.csv:1: a record of more than 65536 bytes");
	manifest_close(&manifest);
	text[20000] = ',';
	text[20002] = '\n';
	text[20001] = '1';
	assert_int_equal(
		open_file(state, "bad.csv", text, 20003, LABEL_TYPE_AUTO, &no_classes), -EINVAL);
	says("the path has 20000 bytes");
	free(text);
}

static void test_class_file(void **state)
{
	struct label_classes classes = {0};
	assert_int_equal(classes_add(&classes, "dog", 3, &fault), 1);
	assert_int_equal(classes_add(&classes, "cat", 3, &fault), 1);
	const char *text = "path,label\na,cat\nb,dog\n";
	assert_int_equal(
		open_file(state, "x.csv", text, strlen(text), LABEL_TYPE_AUTO, &classes), 0);
	has("a", "1 1: 1");
	has("b", "1 0: 0");
	assert_int_equal(manifest.names.count, 0);
	manifest_close(&manifest);
	text = "path,label\na,cat\nb,cow\n";
	assert_int_equal(
		open_file(state, "x.csv", text, strlen(text), LABEL_TYPE_AUTO, &classes), -EINVAL);
	says("x.csv:3: \"cow\" is not one of the 2 classes");
	manifest_close(&manifest);
	classes_deinit(&classes);
}

static int use(const char *name)
{
	const struct manifest_sample sample = {.name = name};
	return manifest_use(&manifest, &sample, &fault);
}

static void test_unused(void **state)
{
	uint64_t line;
	char path[64];
	opens(state, "x.csv", "path,label\na,1\n\"b\n\",2\nc,3\n", LABEL_TYPE_AUTO);
	assert_int_equal(use("c"), MANIFEST_FRESH);
	assert_int_equal(use("a"), MANIFEST_FRESH);
	assert_int_equal(use("a"), MANIFEST_AGAIN);
	assert_int_equal(use("d"), MANIFEST_NONE);
	assert_int_equal(manifest_unused(&manifest, &line, path, sizeof path, &fault), 1);
	assert_int_equal(line, 3);
	assert_string_equal(path, "b\n");
	assert_int_equal(use("b\n"), MANIFEST_FRESH);
	assert_int_equal(manifest_unused(&manifest, &line, path, sizeof path, &fault), 0);
}

static void test_changed(void **state)
{
	const char *text = "path,label\na,1\n";
	const char *path = fixture_path(*state, "x.csv");
	fixture_write(path, text, strlen(text));
	assert_int_equal(
		manifest_open(&manifest, path, NULL, LABEL_TYPE_AUTO, &no_classes, &fault), 0);
	fixture_write(path, "path,label\na,1\nb,2\n", 19);
	assert_int_equal(manifest_prepare(&manifest, *state, &fault), -ESTALE);
	says("changed while it was read");
}

/* The same number of lines, with more columns than there are classes. */
static void test_changed_columns(void **state)
{
	const char *path = fixture_path(*state, "x.csv");
	fixture_write(path, "path,is_dog\na,1\n", 16);
	assert_int_equal(
		manifest_open(&manifest, path, NULL, LABEL_TYPE_MULTI_HOT, &no_classes, &fault), 0);
	fixture_write(path, "path,is_dog\na,1,1\n", 18);
	assert_int_equal(manifest_prepare(&manifest, *state, &fault), -EINVAL);
	says("expected 2 columns, found 3");
}

/* More lines than the table was made for must not fill it up. */
static void test_grown(void **state)
{
	enum { LINES = 500 };
	const char *path = fixture_path(*state, "x.csv");
	fixture_write(path, "a,1\n", 4);
	assert_int_equal(
		manifest_open(&manifest, path, NULL, LABEL_TYPE_AUTO, &no_classes, &fault), 0);
	FILE *file = fopen(path, "a");
	assert_non_null(file);
	for (int i = 0; i < LINES; i++)
		(void)fprintf(file, "b%d,1\n", i);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(manifest_prepare(&manifest, *state, &fault), -ESTALE);
	says("changed while it was read");
}

/* Stops at the call with that number. */
static int stop_at(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	int *left = context;
	assert_int_equal(samples, 0);
	assert_true(bytes > 0 && bytes <= total);
	return --*left == 0;
}

/* The caller may stop each of the passes over the file. */
static void test_stopped(void **state)
{
	enum { LINES = 10000, WALKS = 3 };
	const char *path = fixture_path(*state, "x.csv");
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (int i = 0; i < LINES; i++)
		(void)fprintf(file, "%d.jpg,c%d\n", i, i % 10);
	assert_int_equal(fclose(file), 0);
	int rc = -ECANCELED;
	for (int call = 1, calls; rc; call++) {
		manifest_close(&manifest);
		calls = call;
		manifest.progress = stop_at;
		manifest.progress_context = &calls;
		rc = manifest_open(&manifest, path, NULL, LABEL_TYPE_AUTO, &no_classes, &fault);
		if (!rc)
			rc = manifest_prepare(&manifest, *state, &fault);
		/* Two calls in each pass: each of them was able to stop it. */
		assert_int_equal(rc, call <= 2 * WALKS ? -ECANCELED : 0);
		if (rc)
			says("stopped while reading");
	}
}

/* The anonymous memory of this process, without what is mapped from files and can be written
 * out. */
static uint64_t anonymous_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	unsigned long long kib = 0;
	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "Anonymous: %llu", &kib) == 1)
			break;
	if (file)
		(void)fclose(file);
	return kib << 10;
}

static void test_million_lines(void **state)
{
	enum { LINES = 1000000, SHARE = 40 };
	const char *path = fixture_path(*state, "million.csv");
	FILE *file = fopen(path, "w");
	char name[64];
	uint64_t place, sum = 0;
	assert_non_null(file);
	for (int i = 0; i < LINES; i++)
		(void)fprintf(file, "n%03d/%07d.jpg,%d\n", i % 1000, i, i % 1000);
	assert_int_equal(fclose(file), 0);
	uint64_t before = anonymous_bytes();
	assert_int_equal(
		manifest_open(&manifest, path, NULL, LABEL_TYPE_AUTO, &no_classes, &fault), 0);
	assert_int_equal(manifest_prepare(&manifest, *state, &fault), 0);
	assert_int_equal(manifest.lines, LINES);
	for (int i = 0; i < LINES; i += SHARE) {
		(void)sprintf(name, "n%03d/%07d.jpg", i % 1000, i);
		assert_int_equal(find(name, &place), 0);
		assert_int_equal(found.first, i % 1000);
		sum += manifest_mark(place);
	}
	assert_true(sum != 0);
	/* Sanitizers keep freed memory. */
	if (before && !getenv("ASAN_OPTIONS") && !getenv("TSAN_OPTIONS"))
		assert_true(anonymous_bytes() - before < 4 << 20);
}

int main(void)
{
#define MANIFEST_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, teardown)
	const struct CMUnitTest tests[] = {
		MANIFEST_TEST(test_one_class),
		MANIFEST_TEST(test_names),
		MANIFEST_TEST(test_separators),
		MANIFEST_TEST(test_lists),
		MANIFEST_TEST(test_numbers),
		MANIFEST_TEST(test_indicators),
		MANIFEST_TEST(test_indicators_of_class_file),
		MANIFEST_TEST(test_paths),
		MANIFEST_TEST(test_tars),
		MANIFEST_TEST(test_refused),
		MANIFEST_TEST(test_bytes_refused),
		MANIFEST_TEST(test_huge_fields),
		MANIFEST_TEST(test_class_file),
		MANIFEST_TEST(test_unused),
		MANIFEST_TEST(test_changed),
		MANIFEST_TEST(test_changed_columns),
		MANIFEST_TEST(test_grown),
		MANIFEST_TEST(test_stopped),
		MANIFEST_TEST(test_million_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

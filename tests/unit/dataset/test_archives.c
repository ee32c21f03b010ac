/* archives: the external sort; what a ZIP and an LMDB database do with labels, orders and names
 * that are asked for. tests/containers/zip and lmdb compare whole files with their reference
 * readers, and have a file for each kind of damage. */
#include "dataset/container/archives/sorted.h"
#include "dataset/container/archives/zip_name.h"
#include "labels/label_rule.h"
#include "unit/dataset/dataset_fixture.h"

/* ---- sorted ---- */

enum { ITEMS = 40000 };

/* A key of up to 40 bytes, in no order, all different; its value is its number. */
static size_t item_key(uint32_t number, char key[64])
{
	const uint32_t mixed = number * 2654435761u;
	return (size_t)snprintf(
		key, 64, "%08x/%.*s", mixed, (int)(mixed % 30), "------------------------------");
}

static void sort(size_t buffer, uint32_t items)
{
	struct sorted *sorted = NULL;
	struct sorted_item item;
	char key[64], before[64] = "";
	uint8_t *seen = calloc(items + 1, 1);
	assert_non_null(seen);
	assert_int_equal(sorted_new("the test", buffer, &sorted, &fault), 0);
	for (uint32_t i = 0; i < items; i++) {
		const struct sorted_item one = {.key = (const uint8_t *)key,
			.key_size = item_key(i, key),
			.value = (const uint8_t *)&i,
			.value_size = sizeof i};
		assert_int_equal(sorted_add(sorted, &one, &fault), 0);
	}
	uint32_t count = 0;
	int rc;
	while ((rc = sorted_next(sorted, &item, &fault)) > 0) {
		uint32_t number;
		assert_int_equal(item.value_size, sizeof number);
		memcpy(&number, item.value, sizeof number);
		assert_true(number < items && !seen[number]);
		seen[number] = 1;
		assert_int_equal(item.key_size, item_key(number, key));
		assert_memory_equal(item.key, key, item.key_size);
		assert_true(strcmp(before, key) < 0);
		(void)strcpy(before, key);
		count++;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(sorted_next(sorted, &item, &fault), 0);
	assert_int_equal(count, items);
	sorted_free(sorted);
	free(seen);
}

static void test_sorted(void **state)
{
	sort(SORTED_LEAST, 0);
	sort(SORTED_LEAST, 1);
	sort(SORTED_BUFFER, ITEMS);
	sort(SORTED_LEAST, ITEMS); /* some thirty runs */
	sort(SORTED_LEAST, 1500); /* two */
}

static void test_sorted_without_place(void **state)
{
	struct sorted *sorted = NULL;
	char key[64];
	int rc = 0;
	assert_int_equal(setenv("TMPDIR", in("missing"), 1), 0);
	assert_int_equal(sorted_new("the test", SORTED_LEAST, &sorted, &fault), 0);
	for (uint32_t i = 0; rc == 0 && i < ITEMS; i++) {
		const struct sorted_item one = {
			.key = (const uint8_t *)key, .key_size = item_key(i, key), .value = NULL};
		rc = sorted_add(sorted, &one, &fault);
	}
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_int_equal(rc, -ENOENT);
	assert_non_null(strstr(fault.text, "the test needs a temporary file"));
	assert_non_null(strstr(fault.text, "TMPDIR"));
	sorted_free(sorted);
}

/* ---- names ---- */

static void name(const char *raw, bool marked, long size, const char *expected)
{
	char text[8];
	assert_int_equal(
		zip_name((const uint8_t *)raw, strlen(raw), marked, text, sizeof text), size);
	if (size >= 0)
		assert_string_equal(text, expected);
}

static void test_names(void **state)
{
	char text[8];
	name("abc", false, 3, "abc");
	name("\xc3\xa4", false, 2, "\xc3\xa4");
	name("\xc3\xa4", true, 2, "\xc3\xa4");
	name("\x84\x80", false, 4, "\xc3\xa4\xc3\x87"); /* code page 437 */
	name("\xb0", false, 3, "\xe2\x96\x91");
	name("\x84", true, -1, "");
	name("1234567", false, 7, "1234567");
	name("12345678", false, 8, "1234567");
	name("123456\xc3\xa4", false, 8, "123456"); /* not half a character */
	name("123456\x84", false, 8, "123456");
	assert_int_equal(zip_name((const uint8_t *)"a\0b", 3, false, text, sizeof text), -1);
}

/* ---- ZIP ---- */

/* A ZIP under construction, with stored members. */
struct zip {
	uint8_t bytes[1 << 16], directory[1 << 14];
	size_t size, directory_size;
	unsigned count;
};

static size_t number_put(uint8_t *at, uint64_t value, size_t size)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)(value >> 8 * i);
	return size;
}

static void zip_member(struct zip *zip, const char *member, const char *text)
{
	uint8_t *local = zip->bytes + zip->size, *entry = zip->directory + zip->directory_size;
	const size_t size = strlen(text), length = strlen(member);
	memset(local, 0, 30);
	memset(entry, 0, 46);
	memcpy(local, "PK\3\4", 4);
	(void)number_put(local + 18, size, 4);
	(void)number_put(local + 22, size, 4);
	(void)number_put(local + 26, length, 2);
	memcpy(local + 30, member, length);
	memcpy(local + 30 + length, text, size);
	memcpy(entry, "PK\1\2", 4);
	(void)number_put(entry + 20, size, 4);
	(void)number_put(entry + 24, size, 4);
	(void)number_put(entry + 28, length, 2);
	(void)number_put(entry + 42, zip->size, 4);
	memcpy(entry + 46, member, length);
	zip->size += 30 + length + size;
	zip->directory_size += 46 + length;
	zip->count++;
}

static void zip_write(struct zip *zip, const char *file)
{
	uint8_t *at = zip->bytes + zip->size;
	memcpy(at, zip->directory, zip->directory_size);
	at += zip->directory_size;
	memset(at, 0, 22);
	memcpy(at, "PK\5\6", 4);
	(void)number_put(at + 8, zip->count, 2);
	(void)number_put(at + 10, zip->count, 2);
	(void)number_put(at + 12, zip->directory_size, 4);
	(void)number_put(at + 16, zip->size, 4);
	fixture_write(in(file), zip->bytes, zip->size + zip->directory_size + 22);
}

static void zip_make(const char *file, const char *const *members)
{
	static struct zip zip;
	zip.size = zip.directory_size = zip.count = 0;
	for (size_t i = 0; members[i]; i++)
		zip_member(&zip, members[i], members[i]);
	zip_write(&zip, file);
}

static void test_zip_is_the_folder(void **state)
{
	const char *const members[] = {"b/deep/1.jpg", "a/2.JPEG", "a-b/1.png", "a/1.jpg", NULL};
	zip_make("classes.zip", members);
	make_classes("folder");
	struct dataset *zip = open_good("classes.zip"), *folder = open_good("folder");
	assert_int_equal(dataset_kind(zip), DATASET_ZIP);
	assert_int_equal(dataset_count(zip), 4);
	assert_true(dataset_fingerprint(zip) == dataset_fingerprint(folder));
	assert_int_equal(dataset_classes(zip), 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_string_equal(dataset_class_name(zip, i), dataset_class_name(folder, i));
	struct sample sample;
	char path[8192];
	assert_int_equal(dataset_sample(zip, 3, &sample, &fault), 0);
	assert_string_equal(sample.name, "b/deep/1.jpg");
	assert_int_equal(dataset_path(zip, 3, path, sizeof path, &fault), 0);
	assert_non_null(strstr(path, "classes.zip!b/deep/1.jpg"));
	dataset_free(zip);
	dataset_free(folder);
}

static void test_zip_labels(void **state)
{
	const char *const flat[] = {"2.jpg", "1.jpg", NULL};
	const char *const classes[] = {"b/1.jpg", "a/1.jpg", "a/1.cls", NULL};
	zip_make("flat.zip", flat);
	zip_make("classes.zip", classes);
	expect_labels("flat.zip", DATASET_LABELS_FOLDER, -EINVAL, "has no class folders");
	expect_labels("flat.zip", DATASET_LABELS_AUTO, 0, "");
	expect_labels("classes.zip", DATASET_LABELS_FOLDER, 0, "");
	expect_labels("classes.zip", DATASET_LABELS_CLS, -EINVAL,
		"is read as ZIP, whose labels do not come from .cls files");
}

static void test_zip_natural(void **state)
{
	const char *const members[] = {"c10/1.jpg", "c9/1.jpg", "C1/1.jpg", NULL};
	zip_make("classes.zip", members);
	struct dataset_options options = {.cache_dir = cache, .class_order = CLASS_ORDER_NATURAL};
	struct dataset *dataset = NULL;
	if (dataset_open(in("classes.zip"), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_string_equal(dataset_class_name(dataset, 0), "C1");
	assert_string_equal(dataset_class_name(dataset, 1), "c9");
	assert_string_equal(dataset_class_name(dataset, 2), "c10");
	struct sample sample;
	assert_int_equal(dataset_sample(dataset, 1, &sample, &fault), 0);
	assert_string_equal(sample.name, "c9/1.jpg");
	assert_int_equal(sample.label, 1);
	dataset_free(dataset);
}

/* Folders in a directory whose names have more bytes than may be in memory. */
static void test_zip_many_classes(void **state)
{
	enum { NAME = 1000, FOLDERS = 34000, ENTRY = 46 + NAME, LOCAL = 31 };
	const size_t directory = (size_t)FOLDERS * ENTRY;
	uint8_t *bytes = calloc(1, LOCAL + directory + 22), *entry = bytes + LOCAL;
	assert_non_null(bytes);
	memcpy(bytes, "PK\3\4", 4);
	for (unsigned i = 0; i < FOLDERS; i++, entry += ENTRY) {
		memcpy(entry, "PK\1\2", 4);
		(void)number_put(entry + 28, NAME, 2);
		memset(entry + 46, 'x', NAME);
		(void)number_put(entry + 46,
			0x61616161 + i % 16 + (i / 16 % 16 << 8) + (i / 256 % 16 << 16) +
				(i / 4096 << 24),
			4);
		entry[46 + NAME - 1] = '/';
	}
	memcpy(entry, "PK\5\6", 4);
	(void)number_put(entry + 8, FOLDERS, 2);
	(void)number_put(entry + 10, FOLDERS, 2);
	(void)number_put(entry + 12, directory, 4);
	(void)number_put(entry + 16, LOCAL, 4);
	fixture_write(in("many.zip"), bytes, LOCAL + directory + 22);
	free(bytes);
	expect_fault(
		"many.zip", -E2BIG, "has more than 1048576 class folders, or names of more than");
}

static void test_zip_splits(void **state)
{
	const char *const members[] = {"train/a/1.jpg", "val/a/1.jpg", NULL};
	zip_make("splits.zip", members);
	expect_fault("splits.zip", -EINVAL, "make an archive of each split");
	struct dataset_options options = {.cache_dir = cache, .nested = true};
	struct dataset *dataset = NULL;
	assert_int_equal(dataset_open(in("splits.zip"), &options, &dataset, &fault), 0);
	assert_int_equal(dataset_classes(dataset), 2);
	dataset_free(dataset);
}

static void test_zip_manifest(void **state)
{
	const char *const members[] = {"x/2.jpg", "x/1.jpg", NULL};
	zip_make("x.zip", members);
	fixture_file(root, "labels.csv", "path,label\nx/1.jpg,5\nx/2,7\n");
	struct label_rule rule = {.from = DATASET_LABELS_MANIFEST};
	(void)snprintf(rule.manifest, sizeof rule.manifest, "%s", in("labels.csv"));
	struct dataset_options options = {.cache_dir = cache, .rule = &rule};
	struct dataset *dataset = NULL;
	struct sample sample;
	if (dataset_open(in("x.zip"), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(dataset_sample(dataset, 0, &sample, &fault), 0);
	assert_int_equal(sample.label, 5);
	assert_int_equal(dataset_sample(dataset, 1, &sample, &fault), 0);
	assert_int_equal(sample.label, 7);
	dataset_free(dataset);
}

/* The name of a file says that it is meant as a ZIP. */
static void test_zip_sniffed(void **state)
{
	fixture_file(root, "text.zip", "this is text");
	expect_fault("text.zip", -EINVAL, "it is not a ZIP file, or was cut off");
	fixture_file(root, "empty.zip", "");
	expect_fault("empty.zip", -EINVAL, "expected the end record of a ZIP");
}

static void test_zip_replaced(void **state)
{
	const char *const one[] = {"a/1.jpg", "b/1.jpg", NULL};
	const char *const other[] = {"a/1.jpg", "b/1.jpg", "b/2.jpg", NULL};
	zip_make("x.zip", one);
	struct dataset *dataset = open_good("x.zip");
	struct sample sample;
	char data[64];
	assert_int_equal(dataset_sample(dataset, 0, &sample, &fault), 0);
	zip_make("x.zip", other);
	assert_int_equal(dataset_read(dataset, &sample, data, sizeof data, &fault), -ESTALE);
	dataset_free(dataset);
	dataset = open_good("x.zip");
	assert_int_equal(dataset_count(dataset), 3);
	dataset_free(dataset);
}

/* ---- LMDB ---- */

static void test_lmdb_damaged(void **state)
{
	static uint8_t bytes[4096];
	(void)number_put(bytes + 16, 0xbeefc0de, 4);
	fixture_file(root, "db/data.mdb", "text");
	expect_fault("db", -EINVAL, "db/data.mdb: byte 0: expected 152 bytes of an LMDB database");
	fixture_write(in("any name"), bytes, sizeof bytes);
	expect_fault("any name", -EINVAL, "byte 0: expected a meta page of an LMDB database");
	expect_labels("any name", DATASET_LABELS_CLS, -EINVAL, "is read as LMDB, whose labels");
}

enum { LMDB_PAGE = 512, LMDB_PAGES = 8 };

/* The head of a page: its number, what it is, and where its list of nodes ends and its nodes
 * begin. */
static void page_put(uint8_t *page, uint64_t number, unsigned kind, unsigned lower, unsigned upper)
{
	(void)number_put(page, number, 8);
	(void)number_put(page + 10, kind, 2);
	(void)number_put(page + 12, lower, 2);
	(void)number_put(page + 14, upper, 2);
}

/* The meta pages of a tree of `depth` levels with its root in page 2. */
static void metas_put(uint8_t *bytes, unsigned depth, uint64_t entries, uint64_t last)
{
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *page = bytes + i * LMDB_PAGE;
		page_put(page, i, 8, 0, 0);
		(void)number_put(page + 16, 0xbeefc0de, 4);
		(void)number_put(page + 20, 1, 4);
		(void)number_put(page + 40, LMDB_PAGE, 4);
		(void)number_put(page + 88 + 6, depth, 2);
		(void)number_put(page + 88 + 32, entries, 8);
		(void)number_put(page + 88 + 40, 2, 8);
		(void)number_put(page + 136, last, 8);
	}
}

/* A tree whose pages all lead to the same empty one: with `last` far away, its walk would not end
 * for years. */
static void test_lmdb_empty_pages(void **state)
{
	static uint8_t bytes[LMDB_PAGES * LMDB_PAGE];
	metas_put(bytes, 6, 0, UINT64_C(1) << 40);
	for (unsigned i = 2; i < LMDB_PAGES; i++) {
		uint8_t *page = bytes + i * LMDB_PAGE;
		const unsigned nodes = i + 1 < LMDB_PAGES ? 40 : 0;
		page_put(page, i, nodes ? 1 : 2, 16 + 2 * nodes, LMDB_PAGE - 8 * nodes);
		for (unsigned k = 0; k < nodes; k++) {
			(void)number_put(page + 16 + 2 * k, LMDB_PAGE - 8 * (k + 1), 2);
			(void)number_put(page + LMDB_PAGE - 8 * (k + 1), i + 1, 4);
		}
	}
	fixture_write(in("empty"), bytes, sizeof bytes);
	expect_fault("empty", -EINVAL, "empty: byte 3584: a page of the tree has no nodes");
}

/* Keys whose values are the same pages: each would be read again. */
static void test_lmdb_shared_values(void **state)
{
	static uint8_t bytes[LMDB_PAGES * LMDB_PAGE];
	enum { KEYS = 3, NODE = 18, VALUE = 4 * LMDB_PAGE - 16 };
	uint8_t *leaf = bytes + 2 * LMDB_PAGE, *value = leaf + LMDB_PAGE;
	metas_put(bytes, 1, KEYS, LMDB_PAGES - 1);
	page_put(leaf, 2, 2, 16 + 2 * KEYS, LMDB_PAGE - NODE * KEYS);
	for (unsigned i = 0; i < KEYS; i++) {
		const unsigned at = LMDB_PAGE - NODE * (i + 1);
		(void)number_put(leaf + 16 + 2 * i, at, 2);
		(void)number_put(leaf + at, VALUE, 4);
		(void)number_put(leaf + at + 4, 1, 2);
		(void)number_put(leaf + at + 6, 2, 2);
		(void)number_put(leaf + at + 8, 'a' + i, 2);
		(void)number_put(leaf + at + 10, 3, 8);
	}
	page_put(value, 3, 4, 4, 0);
	memcpy(value + 16, "\xff\xd8\xff", 3);
	fixture_write(in("shared"), bytes, sizeof bytes);
	expect_fault("shared", -EINVAL, "the values up to this one have more bytes than the file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sorted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sorted_without_place, setup, teardown),
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_zip_is_the_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_natural, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_many_classes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_splits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_manifest, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_sniffed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_zip_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lmdb_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lmdb_empty_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lmdb_shared_values, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* fields: which names are allowed, where the fields of a tar's and a folder's samples are, that
 * indexes without fields stay as they are, and what forged or changed ones get. */
#include "dataset/dataset_impl.h"
#include "dataset/fields.h"

#include "base/util.h"
#include "unit/dataset/dataset_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>

static const struct field_list two = {2, {{"txt", .max = 16}, {"seg.json", .max = 4, .cut = true}}};

static struct dataset *open_fields(const char *name, const struct field_list *fields)
{
	struct dataset *dataset = NULL;
	struct dataset_options options = {.cache_dir = cache, .fields = fields};
	if (dataset_open(in(name), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

static void expect_field(const struct dataset *dataset, uint64_t sample,
	const struct field_list *fields, uint32_t number, const char *text, bool longer)
{
	char data[64] = "";
	uint32_t size = 0;
	bool more = false;
	int rc = dataset_field_read(dataset, sample, fields, number, data, &size, &more, &fault);
	if (!text) {
		assert_int_equal(rc, DATASET_E_NONE);
		return;
	}
	if (rc < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(rc, 0);
	assert_int_equal(size, strlen(text));
	assert_memory_equal(data, text, size);
	assert_int_equal(more, longer);
}

static void make_fields(const char *name)
{
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "./a/1.json", "{}");
	fixture_tar_member(&tar, "./a/1.png", "one");
	fixture_tar_member(&tar, "./a/1.txt", "the first");
	fixture_tar_member(&tar, "./a/1.seg.json", "long one");
	fixture_tar_member(&tar, "a/2.txt", "");
	fixture_tar_member(&tar, "a/2.jpg", "two");
	fixture_tar_member(&tar, "a/3.jpg", "three");
	fixture_tar_member(&tar, "a/3.TXT", "upper case is another extension");
	fixture_tar_write(&tar, in(name));
}

static void test_names(void **state)
{
	static const char *const good[] = {"txt", "json", "npy", "cls", "seg.json", "t5-xl", "TXT"};
	static const char *const bad[] = {"", ".txt", "a/b", "/", "..", "a..b", "txt.", "jpg",
		"JPEG", "Png", "seg.png", "a b", "a\n", "a\x7f",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	for (size_t i = 0; i < UTIL_COUNT(good); i++)
		assert_null(field_name_refused(good[i]));
	for (size_t i = 0; i < UTIL_COUNT(bad); i++)
		if (!field_name_refused(bad[i]))
			fail_msg("\"%s\" was taken", bad[i]);
}

static void test_tar(void **state)
{
	make_fields("x.tar");
	struct dataset *d = open_fields("x.tar", &two);
	assert_int_equal(dataset_count(d), 3);
	check(d, 0, "./a/1.png", -1, "one");
	expect_field(d, 0, &two, 0, "the first", false);
	expect_field(d, 0, &two, 1, "long", true);
	expect_field(d, 1, &two, 0, "", false);
	expect_field(d, 1, &two, 1, NULL, false);
	expect_field(d, 2, &two, 0, NULL, false);
	assert_false(exists("x.tar.idx"));
	dataset_free(d);
	d = open_fields("x.tar", &two);
	assert_int_equal(dataset_indexed_ns(d), 0);
	dataset_free(d);
}

/* The index without fields has the same bytes whether or not another one was made, and the samples
 * have the same fingerprint. */
static void test_variant(void **state)
{
	struct field_list one = {1, {{"txt", .max = 8}}};
	size_t size, again;
	make_fields("x.tar");
	struct dataset *d = open_good("x.tar");
	uint64_t fingerprint = dataset_fingerprint(d);
	uint8_t *bytes = fixture_read(in("x.tar.idx"), &size);
	struct dataset *with = open_fields("x.tar", &two), *other = open_fields("x.tar", &one);
	assert_true(dataset_indexed_ns(with) > 0 && dataset_indexed_ns(other) > 0);
	assert_int_equal(dataset_fingerprint(with), fingerprint);
	assert_int_equal(dataset_fingerprint(other), fingerprint);
	assert_false(dataset_same(with, d));
	assert_false(dataset_same(with, other));
	uint8_t *same = fixture_read(in("x.tar.idx"), &again);
	assert_int_equal(size, again);
	assert_memory_equal(bytes, same, size);
	free(bytes);
	free(same);
	dataset_free(with);
	dataset_free(other);
	dataset_free(d);
}

static void test_folder(void **state)
{
	fixture_file(root, "set/a/1.jpg", "one");
	fixture_file(root, "set/a/1.txt", "the first");
	fixture_file(root, "set/a/1.seg.json", "{}");
	fixture_file(root, "set/b/2.x.png", "two");
	fixture_file(root, "set/b/2.txt", "of another sample");
	fixture_file(root, "set/b/3.jpg", "three");
	struct dataset *d = open_fields("set", &two), *plain = open_good("set");
	assert_true(dataset_same(d, plain));
	dataset_free(plain);
	expect_field(d, 0, &two, 0, "the first", false);
	expect_field(d, 0, &two, 1, "{}", false);
	expect_field(d, 1, &two, 0, NULL, false);
	/* No index says how long a file beside an image is. */
	fixture_file(root, "set/a/1.txt", "rewritten, and longer now");
	expect_field(d, 0, &two, 0, "rewritten, and l", true);
	assert_int_equal(mkdir(in("set/b/3.txt"), 0700), 0);
	char data[16];
	uint32_t size;
	bool longer;
	assert_int_equal(dataset_field_read(d, 2, &two, 0, data, &size, &longer, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "not a file"));
	dataset_free(d);
}

static void expect_refused(const char *name, const struct field_list *fields, const char *part)
{
	struct dataset *dataset = NULL;
	struct dataset_options options = {.cache_dir = cache, .fields = fields};
	assert_int_equal(dataset_open(in(name), &options, &dataset, &fault), -EINVAL);
	if (!strstr(fault.text, part))
		fail_msg("\"%s\" does not say \"%s\"", fault.text, part);
}

static void test_refused(void **state)
{
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "1.jpg", "one");
	fixture_tar_member(&tar, "1.txt", "first");
	fixture_tar_member(&tar, "1.txt", "second");
	fixture_tar_write(&tar, in("twice.tar"));
	expect_refused("twice.tar", &two, "1.txt is there twice");
	char name[4001];
	memset(name, 'n', sizeof name);
	memcpy(name + sizeof name - 5, ".jpg", 5);
	struct fixture_tar far = {0};
	fixture_tar_pax(&far, 'x', "path", name);
	fixture_tar_member(&far, "short.jpg", "one");
	fixture_tar_write(&far, in("long.tar"));
	const struct field_list six = {6, {{.name = "a"}, {.name = "b"}, {.name = "c"},
						  {.name = "d"}, {.name = "e"}, {.name = "f"}}};
	expect_refused("long.tar", &six,
		"has 4000 bytes, but an index with 6 fields has room for only 3984");
	struct dataset *d = open_good("long.tar");
	dataset_free(d);
}

/* A tar that was written again after it was indexed. */
static void test_changed(void **state)
{
	char data[64];
	uint32_t size;
	bool longer;
	make_fields("x.tar");
	struct dataset *d = open_fields("x.tar", &two);
	struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	assert_int_equal(utimensat(AT_FDCWD, in("x.tar"), times, 0), 0);
	assert_int_equal(dataset_field_read(d, 0, &two, 0, data, &size, &longer, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "changed"));
	dataset_free(d);
}

/* Places in an index that are not within the shard. */
static void test_forged(void **state)
{
	make_fields("x.tar");
	struct dataset *d = open_fields("x.tar", &two);
	struct dataset_page at;
	struct index_record record = {0};
	struct index_field field;
	uint64_t position;
	uint8_t page[INDEX_PAGE];
	assert_int_equal(dataset_name_page(d, 0, &at, &record, &position, page, &fault), 0);
	assert_int_equal(dataset_field(d, 0, &record, page, false, 0, &field, &fault), 0);
	assert_int_equal(dataset_field(d, 0, &record, page, false, 2, &field, &fault), -EIO);
	uint64_t bytes = d->shard[0].size;
	d->shard[0].size = field.offset + field.size - 1;
	assert_int_equal(dataset_field(d, 0, &record, page, false, 0, &field, &fault), -EIO);
	assert_non_null(strstr(fault.text, "not within"));
	d->shard[0].size = 8;
	assert_int_equal(dataset_field(d, 0, &record, page, false, 0, &field, &fault), -EIO);
	d->shard[0].size = bytes;
	record.name_size = INDEX_PAGE - 8;
	assert_int_equal(dataset_field(d, 0, &record, page, false, 0, &field, &fault), -EIO);
	dataset_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_tar, setup, teardown),
		cmocka_unit_test_setup_teardown(test_variant, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

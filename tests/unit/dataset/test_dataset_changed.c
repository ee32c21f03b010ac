/* dataset: shards and files that were replaced, rewritten or removed after they were indexed. */
#include "base/store.h"
#include "dataset/index.h"
#include "unit/dataset/dataset_fixture.h"

static void test_stale(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	struct sample sample;
	char data[64];
	assert_int_equal(dataset_sample(d, 1, &sample, &fault), 0);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), 0);
	make_tar("new.tar", 2, 1, 3, "");
	assert_int_equal(rename(in("new.tar"), in("x.tar")), 0);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "x.tar changed after the dataset was opened"));
	assert_int_equal(dataset_read(d, &sample, data, sizeof data, &fault), -ESTALE);
	struct dataset *e = open_good("x.tar");
	assert_int_equal(dataset_count(e), 2);
	assert_true(dataset_indexed_ns(e) > 0);
	assert_string_equal(dataset_notice(e), "");
	check(e, 0, "a/2.JPEG", 0, "a/2.JPEG");
	dataset_free(e);
	/* The index was replaced; the old dataset still has the old one open. */
	assert_int_equal(dataset_sample(d, 1, &sample, &fault), 0);
	dataset_free(d);
	struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = 1000000000}};
	assert_int_equal(utimensat(AT_FDCWD, in("x.tar"), times, 0), 0);
	d = open_good("x.tar");
	assert_true(dataset_indexed_ns(d) > 0);
	assert_int_equal(unlink(in("x.tar")), 0);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), -ESTALE);
	assert_int_equal(dataset_read(d, &sample, data, sizeof data, &fault), -ESTALE);
	dataset_free(d);
}

/* The index of a dataset is replaced before anything was read from it. */
static void test_index_replaced(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	make_tar("y.tar", 1, 0, 3, "");
	dataset_free(open_good("y.tar"));
	assert_int_equal(rename(in("y.tar.idx"), in("x.tar.idx")), 0);
	struct sample sample;
	assert_int_equal(dataset_sample(d, 0, &sample, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "x.tar.idx was replaced"));
	dataset_free(d);
}

static void test_stale_folder(void **state)
{
	make_classes("set");
	struct dataset *d = open_good("set");
	struct sample sample;
	char data[64];
	assert_int_equal(dataset_sample(d, 0, &sample, &fault), 0);
	fixture_file(root, "set/a/1.jpg", "longer than it was");
	assert_int_equal(dataset_read(d, &sample, data, sizeof data, &fault), -ESTALE);
	assert_int_equal(unlink(in("set/a/1.jpg")), 0);
	assert_int_equal(dataset_read(d, &sample, data, sizeof data, &fault), -ENOENT);
	dataset_free(d);
	fixture_file(root, "set/b/deep/2.jpg", "new");
	d = open_good("set");
	assert_int_equal(dataset_count(d), 4);
	check(d, 3, "b/deep/2.jpg", 2, "new");
	dataset_free(d);
	fixture_file(root, "set/c/1.jpg", "a new class");
	d = open_good("set");
	assert_int_equal(dataset_classes(d), 4);
	dataset_free(d);
}

/* A link to nothing is a missing sample. If the target appears later, its size differs from the
 * index. */
static void test_dangling_link(void **state)
{
	make_classes("set");
	assert_int_equal(symlink(in("away.jpg"), in("set/a/0.jpg")), 0);
	for (int pass = 0; pass < 3; pass++) { /* built, loaded, mended */
		struct dataset *d = open_good("set");
		struct sample sample;
		char data[64];
		assert_int_equal(dataset_sample(d, 0, &sample, &fault), 0);
		assert_string_equal(sample.name, "a/0.jpg");
		assert_int_equal(sample.size, 0);
		assert_int_equal(sample.label, 0);
		assert_int_equal(dataset_read(d, &sample, data, sizeof data, &fault),
			pass < 2 ? -ENOENT : -ESTALE);
		assert_non_null(strstr(fault.text,
			pass < 2 ? "a/0.jpg cannot be opened: No such" : "a/0.jpg has 4 bytes"));
		dataset_free(d);
		if (pass == 1)
			fixture_file(root, "away.jpg", "four");
	}
}

/* A file that is rewritten in place does not change its folder's modification time. */
static void test_changed_in_place(void **state)
{
	make_classes("set");
	dataset_free(open_good("set"));
	fixture_file(root, "set/a/1.jpg", "longer than it was");
	struct dataset *d = open_good("set");
	struct sample sample;
	char buffer[64];
	uint64_t changed = 0;
	for (uint64_t i = 0; i < dataset_count(d); i++) {
		assert_int_equal(dataset_sample(d, i, &sample, &fault), 0);
		if (strcmp(sample.name, "a/1.jpg") != 0)
			continue;
		changed++;
		assert_int_equal(dataset_read(d, &sample, buffer, sizeof buffer, &fault), -ESTALE);
		char *index = store_cache_path(cache, in("set"), ".idx");
		assert_non_null(strstr(fault.text, index));
		assert_non_null(strstr(fault.text, "delete the index"));
		assert_int_equal(unlink(index), 0);
		free(index);
	}
	assert_int_equal(changed, 1);
	dataset_free(d);
	d = open_good("set");
	for (uint64_t i = 0; i < dataset_count(d); i++) {
		assert_int_equal(dataset_sample(d, i, &sample, &fault), 0);
		assert_int_equal(dataset_read(d, &sample, buffer, sizeof buffer, &fault), 0);
	}
	dataset_free(d);
}

static struct dataset *open_with(const char *name, const struct dataset_options *more)
{
	struct dataset_options options = *more;
	struct dataset *dataset = NULL;
	options.cache_dir = cache;
	if (dataset_open(in(name), &options, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

/* A caller that reads everything looks at the sizes, and has the index built again. */
static void test_check_sizes(void **state)
{
	const struct dataset_options check_sizes = {.check_sizes = true};
	make_classes("set");
	dataset_free(open_good("set"));
	struct dataset *d = open_with("set", &check_sizes);
	assert_int_equal(dataset_indexed_ns(d), 0);
	dataset_free(d);
	fixture_file(root, "set/a/1.jpg", "longer than it was");
	d = open_good("set");
	assert_int_equal(dataset_indexed_ns(d), 0);
	bool fits = true;
	assert_int_equal(dataset_sizes_fit(d, &check_sizes, &fits, &fault), 0);
	assert_false(fits);
	uint64_t was = dataset_fingerprint(d);
	dataset_free(d);
	d = open_with("set", &check_sizes);
	assert_true(dataset_indexed_ns(d) > 0);
	check(d, 0, "a/1.jpg", 0, "longer than it was");
	assert_true(dataset_fingerprint(d) != was);
	dataset_free(d);
	/* Missing files are left to their readers. */
	assert_int_equal(unlink(in("set/a/1.jpg")), 0);
	assert_int_equal(symlink("gone", in("set/a/1.jpg")), 0);
	d = open_good("set");
	fits = false;
	assert_int_equal(dataset_sizes_fit(d, &check_sizes, &fits, &fault), 0);
	assert_true(fits);
	dataset_free(d);
	make_tar("x.tar", 1, 0, 4, "");
	d = open_with("x.tar", &check_sizes);
	dataset_free(d);
}

static int stops(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	return samples == 0;
}

static void test_check_sizes_stops(void **state)
{
	make_classes("set");
	struct dataset *d = open_good("set");
	const struct dataset_options options = {.check_sizes = true, .progress = stops};
	bool fits;
	assert_int_equal(dataset_sizes_fit(d, &options, &fits, &fault), -ECANCELED);
	dataset_free(d);
}

/* An index is built again in place of one whose sizes are out of date, once; the old opening goes
 * on with its own. */
static void test_instead_of(void **state)
{
	make_classes("set");
	struct dataset *old = open_good("set"), *third;
	fixture_file(root, "set/a/1.jpg", "longer than it was");
	const struct dataset_options again = {.instead_of = old};
	struct dataset *fresh = open_with("set", &again);
	assert_true(dataset_indexed_ns(fresh) > 0);
	check(fresh, 0, "a/1.jpg", 0, "longer than it was");
	assert_int_equal(dataset_continues(old, fresh, &fault), 0);
	third = open_with("set", &again);
	assert_int_equal(dataset_indexed_ns(third), 0);
	assert_true(dataset_same(fresh, third));
	dataset_free(third);
	/* Names and sizes of before, though the index was replaced before anything was read. */
	struct sample sample;
	assert_int_equal(dataset_sample(old, 0, &sample, &fault), 0);
	assert_string_equal(sample.name, "a/1.jpg");
	assert_int_equal(sample.size, 7);
	fixture_file(root, "set/a/9.jpg", "one more");
	third = open_good("set");
	assert_int_equal(dataset_continues(old, third, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "set were rewritten, added or removed"));
	assert_non_null(strstr(fault.text, "it had 4 samples, and has 5 now"));
	dataset_free(third);
	assert_int_equal(unlink(in("set/a/2.JPEG")), 0);
	third = open_good("set");
	assert_int_equal(dataset_continues(old, third, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "some have other names or labels"));
	dataset_free(third);
	dataset_free(fresh);
	dataset_free(old);
}

/* A folder has an index with labels, and one without. If both are out of date, neither is taken for
 * the other's replacement for ever. */
static void test_two_indexes(void **state)
{
	make_classes("set");
	struct dataset *old = open_good("set");
	fixture_file(root, "set/a/1.jpg", "longer than it was");
	const struct dataset_options first = {.labels = DATASET_LABELS_NONE, .instead_of = old};
	struct dataset *none = open_with("set", &first);
	assert_true(dataset_indexed_ns(none) > 0);
	/* The one that is right is found, though the other one comes first. */
	const struct dataset_options checked = {.labels = DATASET_LABELS_NONE, .check_sizes = true};
	struct dataset *d = open_with("set", &checked);
	assert_int_equal(dataset_indexed_ns(d), 0);
	check(d, 0, "a/1.jpg", -1, "longer than it was");
	dataset_free(d);
	fixture_file(root, "set/a/1.jpg", "and longer still than that");
	const struct dataset_options second = {.labels = DATASET_LABELS_NONE, .instead_of = none};
	d = open_with("set", &second);
	assert_true(dataset_indexed_ns(d) > 0);
	check(d, 0, "a/1.jpg", -1, "and longer still than that");
	dataset_free(d);
	fixture_file(root, "set/a/1.jpg", "the longest of all of them, once more");
	d = open_with("set", &checked);
	assert_true(dataset_indexed_ns(d) > 0);
	check(d, 0, "a/1.jpg", -1, "the longest of all of them, once more");
	dataset_free(d);
	dataset_free(none);
	dataset_free(old);
}

/* States of indexes with the same names and labels fit, the latest 16; labels: none needs only the
 * names. */
static void test_earlier(void **state)
{
	enum { ROUNDS = INDEX_EARLIER + 3 };
	uint64_t was[ROUNDS + 1], bare[2];
	char text[64] = "longer than it was";
	struct dataset *d, *none;
	make_classes("set");
	for (int i = 0; i <= ROUNDS; i++) {
		d = open_good("set");
		was[i] = dataset_fingerprint(d);
		assert_true(dataset_was(d, was[i]));
		for (int j = 0; j < i; j++)
			assert_int_equal(dataset_was(d, was[j]), i - j <= INDEX_EARLIER);
		assert_int_equal(dataset_earlier(d, 0), i ? was[i - 1] : 0);
		assert_int_equal(dataset_earlier(d, INDEX_EARLIER), 0);
		dataset_free(d);
		(void)strcat(text, "x");
		/* Another file under the name: the folder's time changes. */
		fixture_file(root, "set/a/new", text);
		assert_int_equal(rename(in("set/a/new"), in("set/a/1.jpg")), 0);
	}
	d = open_good("set");
	assert_int_equal(open_labels("set", DATASET_LABELS_NONE, &none), 0);
	bare[0] = dataset_fingerprint(none);
	assert_true(dataset_earlier(none, 0) != dataset_earlier(d, 0));
	dataset_free(none);
	dataset_free(d);
	fixture_file(root, "set/a/new", "yy");
	assert_int_equal(rename(in("set/a/new"), in("set/a/1.jpg")), 0);
	assert_int_equal(open_labels("set", DATASET_LABELS_NONE, &none), 0);
	bare[1] = dataset_fingerprint(none);
	assert_true(bare[0] != bare[1] && dataset_was(none, bare[0]));
	dataset_free(none);
	/* A name that differs is another dataset. */
	assert_int_equal(rename(in("set/a/1.jpg"), in("set/a/0.jpg")), 0);
	d = open_good("set");
	assert_int_equal(dataset_earlier(d, 0), 0);
	assert_false(dataset_was(d, was[ROUNDS]));
	dataset_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dangling_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_in_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_check_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_check_sizes_stops, setup, teardown),
		cmocka_unit_test_setup_teardown(test_instead_of, setup, teardown),
		cmocka_unit_test_setup_teardown(test_two_indexes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_earlier, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

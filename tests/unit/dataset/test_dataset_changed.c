/* dataset: shards and files that were replaced, rewritten or removed after they were indexed. */
#include "base/store.h"
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dangling_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_in_place, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

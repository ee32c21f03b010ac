/* dataset: everything that a user may name, with real files: samples, labels, fingerprints. Wrong
 * input is in test_dataset_input, changes after indexing in test_dataset_changed, the indexes in
 * test_dataset_index. */
#include "unit/dataset/dataset_fixture.h"

#include <pthread.h>
#include <sys/resource.h>

static void test_classes(void **state)
{
	make_classes("set");
	struct dataset *d = open_good("set");
	assert_int_equal(dataset_kind(d), DATASET_FOLDER);
	assert_int_equal(dataset_count(d), 4);
	assert_int_equal(dataset_bytes(d), 7 + 8 + 9 + 12);
	assert_int_equal(dataset_largest(d), 12);
	assert_int_equal(dataset_shards(d), 1);
	assert_true(dataset_labelled(d) && dataset_root_fd(d) >= 0 && dataset_indexed_ns(d) > 0);
	assert_int_equal(dataset_classes(d), 3);
	assert_string_equal(dataset_class_name(d, 0), "a");
	assert_string_equal(dataset_class_name(d, 1), "a-b");
	assert_string_equal(dataset_class_name(d, 2), "b");
	assert_null(dataset_class_name(d, 3));
	assert_string_equal(dataset_notice(d), "");
	check(d, 0, "a/1.jpg", 0, "a/1.jpg");
	check(d, 1, "a/2.JPEG", 0, "a/2.JPEG");
	check(d, 2, "a-b/1.png", 1, "a-b/1.png");
	check(d, 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	struct sample sample;
	assert_int_equal(dataset_sample(d, 4, &sample, &fault), -ERANGE);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), 0);
	dataset_free(d);
	d = open_good("set");
	assert_int_equal(dataset_indexed_ns(d), 0);
	assert_int_equal(dataset_classes(d), 3);
	dataset_free(d);
	dataset_free(NULL);
}

static int open_as(const char *name, enum dataset_labels labels, enum class_order order,
	bool nested, struct dataset **ret)
{
	struct dataset_options options = {
		.cache_dir = cache, .labels = labels, .class_order = order, .nested = nested};
	return dataset_open(in(name), &options, ret, &fault);
}

/* timm's order of classes: both orders have an index of their own. */
static void test_class_order(void **state)
{
	const char *const files[] = {"set/10/x.jpg", "set/9/x.jpg", "set/b/x.jpg", "set/A/x.jpg"};
	for (size_t i = 0; i < 4; i++)
		fixture_file(root, files[i], files[i]);
	for (int pass = 0; pass < 2; pass++) { /* built, loaded */
		struct dataset *d = open_good("set");
		assert_true((dataset_indexed_ns(d) > 0) == (pass == 0));
		check(d, 0, "10/x.jpg", 0, "set/10/x.jpg");
		check(d, 3, "b/x.jpg", 3, "set/b/x.jpg");
		struct dataset *natural;
		assert_int_equal(
			open_as("set", DATASET_LABELS_AUTO, CLASS_ORDER_NATURAL, false, &natural),
			0);
		assert_true((dataset_indexed_ns(natural) > 0) == (pass == 0));
		check(natural, 0, "9/x.jpg", 0, "set/9/x.jpg");
		check(natural, 1, "10/x.jpg", 1, "set/10/x.jpg");
		check(natural, 2, "A/x.jpg", 2, "set/A/x.jpg");
		assert_string_equal(dataset_class_name(natural, 1), "10");
		assert_true(dataset_fingerprint(d) != dataset_fingerprint(natural));
		assert_false(dataset_same(d, natural));
		dataset_free(natural);
		dataset_free(d);
	}
	struct dataset *d = NULL;
	fixture_file(root, "flat/x.jpg", "x");
	make_tar("x.tar", 1, 0, 4, "");
	static const char *const others[] = {"flat", "x.tar"};
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(
			open_as(others[i], DATASET_LABELS_AUTO, CLASS_ORDER_NATURAL, false, &d),
			-EINVAL);
		assert_non_null(strstr(fault.text, "class_order: natural sorts class folders"));
	}
}

/* The folder above a dataset was named: refused while its index is built, and by the index that
 * somebody built who meant it. */
static void test_nested(void **state)
{
	struct dataset *d = NULL;
	fixture_file(root, "set/Val/a/1.jpg", "1");
	fixture_file(root, "set/train/a/1.jpg", "1");
	fixture_file(root, "set/other/1.jpg", "1");
	for (int pass = 0; pass < 2; pass++) {
		expect_fault("set", -EINVAL, "that are named like splits (Val, train)");
		assert_non_null(strstr(fault.text, "did you mean"));
		assert_non_null(
			strstr(fault.text, "set/train? If they are the classes, say nested: true"));
		assert_non_null(strstr(fault.text, "ImageFolder takes both"));
		assert_int_equal(open_as("set", DATASET_LABELS_AUTO, 0, true, &d), 0);
		assert_int_equal(dataset_classes(d), 3);
		assert_null(dataset_warning(d, 0));
		dataset_free(d);
		/* They are no classes. */
		assert_int_equal(open_as("set", DATASET_LABELS_NONE, 0, false, &d), 0);
		dataset_free(d);
	}
	/* A class may have such a name: it holds no folders. */
	fixture_file(root, "animals/test/1.jpg", "1");
	fixture_file(root, "animals/cat/deep/1.jpg", "1");
	d = open_good("animals");
	assert_null(dataset_warning(d, 0));
	dataset_free(d);
	/* All class folders hold folders only. */
	fixture_file(root, "outer/images/cat/1.jpg", "1");
	fixture_file(root, "outer/images/dog/1.jpg", "1");
	for (int pass = 0; pass < 2; pass++) {
		d = open_good("outer");
		assert_non_null(
			strstr(dataset_warning(d, 0), "hold folders only (1 class: images)"));
		assert_non_null(strstr(dataset_warning(d, 0), "such as"));
		assert_null(dataset_warning(d, 1));
		dataset_free(d);
		assert_int_equal(open_as("outer", DATASET_LABELS_AUTO, 0, true, &d), 0);
		assert_null(dataset_warning(d, 0));
		dataset_free(d);
	}
}

/* Files that are passed over are told by their extensions, if they may be images. */
static void test_passed(void **state)
{
	make_classes("set");
	struct dataset *d = open_good("set");
	assert_string_equal(dataset_passed_text(d), "");
	dataset_free(d);
	fixture_file(root, "set/a/labels.csv", "x");
	fixture_file(root, "set/README", "x");
	d = open_good("set");
	assert_null(dataset_warning(d, 0));
	assert_string_equal(dataset_passed_text(d), "1 .csv, 1 README");
	dataset_free(d);
	const char *const files[] = {"set/a/1.GiF", "set/b/2.gif", "set/b/x", "set/a/.h.jpg",
		"set/a/._1.jpg", "set/a/t.j\npg"};
	for (size_t i = 0; i < 6; i++)
		fixture_file(root, files[i], "x");
	for (int pass = 0; pass < 2; pass++) { /* built, loaded */
		d = open_good("set");
		assert_int_equal(dataset_count(d), 4);
		assert_int_equal(dataset_passed(d), 7);
		assert_string_equal(dataset_passed_text(d),
			"2 .gif, 1 without one, 1 images whose names begin with a dot, 1 .csv, 1 "
			".j?pg, 1 README");
		const char *text = dataset_warning(d, 0);
		assert_non_null(strstr(text, "5 files of"));
		assert_non_null(
			strstr(text, "passed over for their extensions (2 .gif, 1 without"));
		assert_non_null(strstr(text, "ImageFolder reads some of them"));
		assert_null(dataset_warning(d, 1));
		dataset_free(d);
	}
	/* Any number of extensions; the index does not depend on the order of the directory. */
	char name[64];
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof name, "set/a/x.e%02d", i);
		fixture_file(root, name, "x");
	}
	d = open_good("set");
	assert_int_equal(dataset_passed(d), 107);
	assert_non_null(strstr(dataset_passed_text(d), "75 with others, 1 without one"));
	assert_non_null(strstr(dataset_warning(d, 0), "106 files of"));
	dataset_free(d);
}

static void test_tar(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	assert_int_equal(dataset_kind(d), DATASET_TARS);
	assert_int_equal(dataset_classes(d), 0);
	assert_int_equal(dataset_root_fd(d), -1);
	assert_true(dataset_labelled(d));
	assert_string_equal(dataset_shard_path(d, 0), in("x.tar"));
	check(d, 2, "a-b/1.png", 1, "a-b/1.png");
	check(d, 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	dataset_free(d);
	assert_true(exists("x.tar.idx"));
}

static uint64_t fingerprint_of(const char *name, enum dataset_labels labels)
{
	struct dataset *dataset = NULL;
	if (open_labels(name, labels, &dataset) < 0)
		fail_msg("%s", fault.text);
	uint64_t fingerprint = dataset_fingerprint(dataset);
	dataset_free(dataset);
	return fingerprint;
}

/* Folder or tar, one shard or three, labels from any source: the same samples have the same
 * fingerprint. */
static void test_fingerprint(void **state)
{
	make_classes("set");
	make_tar("cls.tar", 1, 0, 4, "");
	make_tar("json.tar", 2, 0, 4, "");
	make_tar("dot.tar", 1, 0, 4, "./");
	make_tar("none.tar", 0, 0, 4, "");
	make_tar("s-0.tar", 1, 0, 1, "");
	make_tar("s-1.tar", 1, 1, 1, ""); /* empty */
	make_tar("s-2.tar", 1, 1, 4, "");
	uint64_t labelled = fingerprint_of("set", DATASET_LABELS_AUTO);
	assert_true(labelled == fingerprint_of("cls.tar", DATASET_LABELS_AUTO));
	assert_true(labelled == fingerprint_of("json.tar", DATASET_LABELS_AUTO));
	assert_true(labelled == fingerprint_of("dot.tar", DATASET_LABELS_AUTO));
	assert_true(labelled == fingerprint_of("s-{0..2}.tar", DATASET_LABELS_AUTO));
	assert_true(labelled == fingerprint_of("s-?.tar", DATASET_LABELS_CLS));
	uint64_t plain = fingerprint_of("none.tar", DATASET_LABELS_AUTO);
	assert_true(plain != labelled);
	assert_true(plain == fingerprint_of("set", DATASET_LABELS_NONE));
	assert_true(plain == fingerprint_of("s-{0..2}.tar", DATASET_LABELS_NONE));
	assert_true(labelled !=
		    fingerprint_of("s-{2..0}.tar", DATASET_LABELS_AUTO)); /* another order */
	fixture_file(root, "set/a/1.jpg", "another size");
	assert_int_equal(unlink(in("set/a/2.JPEG")), 0);
	assert_true(labelled != fingerprint_of("set", DATASET_LABELS_AUTO));
}

/* Cmocka's assertions only work on its own thread, so this thread counts instead. */
static void *read_randomly(void *context)
{
	const struct dataset *d = context;
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < 2000; i++) {
		struct sample sample = {0};
		uint64_t number = i * 7919 % dataset_count(d);
		int rc = dataset_sample(d, number, &sample, NULL);
		int64_t label = sample.name[1] == '-' ? 1 : sample.name[0] == 'b' ? 2 : 0;
		wrong += rc < 0 || sample.number != number || sample.label != label;
	}
	return (void *)(uintptr_t)wrong;
}

static void read_from_threads(struct dataset *d)
{
	pthread_t thread[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, read_randomly, d), 0);
	for (int i = 0; i < 4; i++) {
		void *wrong;
		assert_int_equal(pthread_join(thread[i], &wrong), 0);
		assert_null(wrong);
	}
}

static void test_shards(void **state)
{
	enum { SHARDS = 60 }; /* more than may be open at once */
	char name[64];
	for (int i = 0; i < SHARDS; i++) {
		(void)snprintf(name, sizeof name, "s-%03d.tar", i);
		make_tar(name, 1, i % 3 == 0 ? 0 : 2, i % 3 == 0 ? 4 : 3, "");
	}
	struct rlimit limit, low;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	low = (struct rlimit){.rlim_cur = 60, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	struct dataset *d = open_good("s-{000..059}.tar");
	assert_int_equal(dataset_shards(d), SHARDS);
	assert_int_equal(dataset_count(d), 20 * 4 + 40);
	assert_int_equal(dataset_index_files(d), 20);
	for (int round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 120; i += 6) {
			check(d, i, "a/1.jpg", 0, "a/1.jpg");
			check(d, i + 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
			check(d, i + 5, "a-b/1.png", 1, "a-b/1.png");
		}
	read_from_threads(d);
	struct dataset_page at;
	assert_int_equal(dataset_locate(d, 119, &at), 0);
	assert_true(at.shard == 59 && at.page == 1 && at.slot == 0);
	assert_int_equal(dataset_locate(d, 120, &at), -ERANGE);
	dataset_free(d);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void test_flat(void **state)
{
	fixture_file(root, "flat/b.jpg", "b");
	fixture_file(root, "flat/a.png", "");
	fixture_file(root, "flat/docs/readme.txt", "no images here");
	struct dataset *d = open_good("flat");
	assert_false(dataset_labelled(d));
	assert_int_equal(dataset_classes(d), 0);
	check(d, 0, "a.png", -1, "");
	check(d, 1, "b.jpg", -1, "b");
	dataset_free(d);
	expect_labels("flat", DATASET_LABELS_FOLDER, -EINVAL, "no class folders");
	fixture_file(root, "flat/docs/c.jpg", "c");
	expect_fault("flat", -EINVAL, "both images (a.png) and folders of images (docs/c.jpg)");
	expect_labels("flat", DATASET_LABELS_NONE, 0, "");
}

static void test_labels_asked(void **state)
{
	make_classes("set");
	make_tar("json.tar", 2, 0, 4, "");
	make_tar("none.tar", 0, 0, 4, "");
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "k.jpg", "k");
	fixture_tar_member(&tar, "k.json", "{\"label\": 9}");
	fixture_tar_member(&tar, "k.cls", "8");
	fixture_tar_member(&tar, "k.txt", "a caption");
	fixture_tar_write(&tar, in("both.tar"));
	struct dataset *d;
	static const int expected[] = {[DATASET_LABELS_AUTO] = 8,
		[DATASET_LABELS_NONE] = -1,
		[DATASET_LABELS_CLS] = 8,
		[DATASET_LABELS_JSON] = 9};
	for (int turn = 0; turn < 2; turn++) /* the second turn finds all indexes up to date */
		for (enum dataset_labels labels = 0; labels <= DATASET_LABELS_JSON; labels++) {
			if (labels == DATASET_LABELS_FOLDER)
				continue;
			assert_int_equal(open_labels("both.tar", labels, &d), 0);
			check(d, 0, "k.jpg", expected[labels], "k");
			assert_true(dataset_labelled(d) == (labels != DATASET_LABELS_NONE));
			assert_true(turn == 0 || dataset_indexed_ns(d) == 0);
			dataset_free(d);
		}
	assert_true(exists("both.tar.json.idx") && !exists("both.tar.cls.idx"));
	expect_labels(
		"json.tar", DATASET_LABELS_CLS, -EINVAL, "json.tar!a/1.jpg has no .cls beside it");
	expect_labels("none.tar", DATASET_LABELS_JSON, -EINVAL, "none.tar!a/1.jpg has no .json");
	expect_labels("none.tar", DATASET_LABELS_FOLDER, -EINVAL, "not from class folders");
	expect_labels("set", DATASET_LABELS_CLS, -EINVAL, "not from .cls or .json");
	assert_int_equal(open_labels("set", DATASET_LABELS_FOLDER, &d), 0);
	dataset_free(d);
	assert_int_equal(open_labels("set", DATASET_LABELS_NONE, &d), 0);
	assert_int_equal(dataset_classes(d), 0);
	check(d, 0, "a/1.jpg", -1, "a/1.jpg");
	dataset_free(d);
}

static uint64_t told_samples, told_bytes, told_total;

static int on_progress(void *context, uint64_t samples, uint64_t bytes, uint64_t total_bytes)
{
	assert_true(samples >= told_samples && bytes >= told_bytes);
	told_samples = samples;
	told_bytes = bytes;
	told_total = total_bytes;
	return *(int *)context;
}

static void test_progress(void **state)
{
	struct fixture_tar tar = {0};
	char name[32];
	for (int i = 0; i < 12000; i++) {
		(void)snprintf(name, sizeof name, "%05d.jpg", i);
		fixture_tar_member(&tar, name, "");
	}
	size_t size = tar.size + 1024;
	fixture_tar_write(&tar, in("x.tar"));
	int stop = 1;
	struct dataset_options options = {
		.cache_dir = cache, .progress = on_progress, .progress_context = &stop};
	struct dataset *d;
	assert_int_equal(dataset_open(in("x.tar"), &options, &d, &fault), -ECANCELED);
	assert_true(told_samples >= 9999 && told_samples <= 10001);
	assert_int_equal(told_total, size);
	assert_false(exists("x.tar.idx"));
	told_samples = told_bytes = stop = 0;
	assert_int_equal(dataset_open(in("x.tar"), &options, &d, &fault), 0);
	assert_true(told_samples >= 9999);
	assert_int_equal(dataset_count(d), 12000);
	check(d, 11999, "11999.jpg", -1, "");
	dataset_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_classes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_class_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nested, setup, teardown),
		cmocka_unit_test_setup_teardown(test_passed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tar, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fingerprint, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shards, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_labels_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_progress, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

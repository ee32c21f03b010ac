/* dataset: what a user may name, end to end over real files: samples, labels, fingerprints; indexes
 * that are fresh, stale, damaged, homeless or built twice at once; and every kind of bad input with
 * its sentence. */
#include "source/dataset.h"
#include "source/store.h"
#include "unit/source/fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <zlib.h>

static char *root; /* this test's folder */
static char *cache; /* its cache folder: never the user's */

static int setup(void **state)
{
	(void)state;
	root = fixture_folder();
	assert_true(asprintf(&cache, "%s/.cache/below", root) > 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	free(cache);
	fixture_remove(root);
	return 0;
}

static char *in(const char *name)
{
	return fixture_path(root, name);
}

static int open_labels(
	const char *name, enum dataset_labels labels, struct dataset **ret, struct fault *fault)
{
	struct dataset_options options = {.cache_dir = cache, .labels = labels};
	(void)strcpy(fault->text, "");
	return dataset_open(in(name), &options, ret, fault);
}

static struct dataset *open_good(const char *name)
{
	struct dataset *dataset = NULL;
	struct fault fault;
	if (open_labels(name, DATASET_LABELS_AUTO, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	return dataset;
}

static uint64_t fingerprint_of(const char *name, enum dataset_labels labels)
{
	struct dataset *dataset = NULL;
	struct fault fault;
	if (open_labels(name, labels, &dataset, &fault) < 0)
		fail_msg("%s", fault.text);
	uint64_t fingerprint = dataset_fingerprint(dataset);
	dataset_free(dataset);
	return fingerprint;
}

static void expect_labels(const char *name, enum dataset_labels labels, int rc, const char *part)
{
	struct dataset *dataset = NULL;
	struct fault fault;
	assert_int_equal(open_labels(name, labels, &dataset, &fault), rc);
	if (rc == 0)
		dataset_free(dataset);
	else if (!strstr(fault.text, part))
		fail_msg("%s: \"%s\" does not say \"%s\"", name, fault.text, part);
}

static void expect_fault(const char *name, int rc, const char *part)
{
	expect_labels(name, DATASET_LABELS_AUTO, rc, part);
}

static bool exists(const char *name)
{
	return access(in(name), F_OK) == 0;
}

/* Sample `number` must be called `name`, have this label and this text. */
static void check(const struct dataset *dataset, uint64_t number, const char *name, int64_t label,
	const char *text)
{
	struct sample sample;
	struct fault fault;
	char data[256] = "", path[8192];
	if (dataset_sample(dataset, number, &sample, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_string_equal(sample.name, name);
	assert_int_equal(sample.number, number);
	assert_int_equal(sample.label, label);
	assert_int_equal(sample.size, strlen(text));
	assert_int_equal(dataset_read(dataset, &sample, data, sizeof data, &fault), 0);
	assert_string_equal(data, text);
	assert_int_equal(dataset_path(dataset, number, path, sizeof path, &fault), 0);
	assert_non_null(strstr(path, name));
	assert_int_equal(path[0], '/');
	assert_int_equal(path[strlen(path) - strlen(name) - 1],
		dataset_kind(dataset) == DATASET_TARS ? '!' : '/');
	assert_int_equal(dataset_path(dataset, number, path, 5, &fault), -ENAMETOOLONG);
	if (sample.size)
		assert_int_equal(
			dataset_read(dataset, &sample, data, sample.size - 1, &fault), -ENOBUFS);
}

static void make_classes(const char *name)
{
	char path[256];
	const char *const files[] = {"a/1.jpg", "a/2.JPEG", "a-b/1.png", "b/deep/1.jpg"};
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", name, files[i]);
		fixture_file(root, path, files[i]);
	}
}

/* The same samples as a tar, from `first` on; labels as .cls (1), .json (2), none (0). */
static void make_tar(const char *name, int labels, int first, int last, const char *front)
{
	static const char *const keys[] = {"a-b/1", "a/1", "a/2", "b/deep/1"};
	static const char *const extensions[] = {"png", "jpg", "JPEG", "jpg"};
	static const int label[] = {1, 0, 0, 2};
	struct fixture_tar tar = {0};
	for (int i = first; i < last; i++) {
		char member[256], text[256];
		if (labels) {
			(void)snprintf(member, sizeof member, "%s%s.%s", front, keys[i],
				labels == 1 ? "cls" : "json");
			(void)snprintf(text, sizeof text, labels == 1 ? "%d\n" : "{\"label\": %d}",
				label[i]);
			fixture_tar_member(&tar, member, text);
		}
		(void)snprintf(member, sizeof member, "%s%s.%s", front, keys[i], extensions[i]);
		(void)snprintf(text, sizeof text, "%s.%s", keys[i], extensions[i]);
		fixture_tar_member(&tar, member, text);
		fixture_tar_member(&tar, "folder without a key/README", "nothing");
	}
	fixture_tar_write(&tar, in(name));
}

static void test_classes(void **state)
{
	(void)state;
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
	check(d, 0, "a-b/1.png", 1, "a-b/1.png");
	check(d, 1, "a/1.jpg", 0, "a/1.jpg");
	check(d, 2, "a/2.JPEG", 0, "a/2.JPEG");
	check(d, 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	struct sample sample;
	struct fault fault;
	assert_int_equal(dataset_sample(d, 4, &sample, &fault), -ERANGE);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), 0);
	dataset_free(d);
	d = open_good("set");
	assert_int_equal(dataset_indexed_ns(d), 0);
	assert_int_equal(dataset_classes(d), 3);
	dataset_free(d);
	dataset_free(NULL);
}

static void test_tar(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	assert_int_equal(dataset_kind(d), DATASET_TARS);
	assert_int_equal(dataset_classes(d), 0);
	assert_int_equal(dataset_root_fd(d), -1);
	assert_true(dataset_labelled(d));
	assert_string_equal(dataset_shard_path(d, 0), in("x.tar"));
	check(d, 0, "a-b/1.png", 1, "a-b/1.png");
	check(d, 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	dataset_free(d);
	assert_true(exists("x.tar.idx"));
}

/* Folder or tar, one shard or three, labels from wherever: the same samples have the same
 * fingerprint. */
static void test_fingerprint(void **state)
{
	(void)state;
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

/* Cmocka's assertions belong to its own thread: this one counts instead. */
static void *read_randomly(void *context)
{
	const struct dataset *d = context;
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < 2000; i++) {
		struct sample sample = {0};
		struct fault fault;
		uint64_t number = i * 7919 % dataset_count(d);
		int rc = dataset_sample(d, number, &sample, &fault);
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
	(void)state;
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
			check(d, i, "a-b/1.png", 1, "a-b/1.png");
			check(d, i + 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
			check(d, i + 5, "a/2.JPEG", 0, "a/2.JPEG");
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
	(void)state;
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
	(void)state;
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
	struct fault fault;
	static const int expected[] = {[DATASET_LABELS_AUTO] = 8,
		[DATASET_LABELS_NONE] = -1,
		[DATASET_LABELS_CLS] = 8,
		[DATASET_LABELS_JSON] = 9};
	for (int turn = 0; turn < 2; turn++) /* the second turn finds all indexes fresh */
		for (enum dataset_labels labels = 0; labels <= DATASET_LABELS_JSON; labels++) {
			if (labels == DATASET_LABELS_FOLDER)
				continue;
			assert_int_equal(open_labels("both.tar", labels, &d, &fault), 0);
			check(d, 0, "k.jpg", expected[labels], "k");
			assert_true(dataset_labelled(d) == (labels != DATASET_LABELS_NONE));
			assert_true(turn == 0 || dataset_indexed_ns(d) == 0);
			dataset_free(d);
		}
	assert_true(exists("both.tar.json.idx") && !exists("both.tar.cls.idx"));
	expect_labels("json.tar", DATASET_LABELS_CLS, -EINVAL,
		"json.tar!a-b/1.png has no .cls beside it");
	expect_labels("none.tar", DATASET_LABELS_JSON, -EINVAL, "none.tar!a-b/1.png has no .json");
	expect_labels("none.tar", DATASET_LABELS_FOLDER, -EINVAL, "not from class folders");
	expect_labels("set", DATASET_LABELS_CLS, -EINVAL, "not from .cls or .json");
	assert_int_equal(open_labels("set", DATASET_LABELS_FOLDER, &d, &fault), 0);
	dataset_free(d);
	assert_int_equal(open_labels("set", DATASET_LABELS_NONE, &d, &fault), 0);
	assert_int_equal(dataset_classes(d), 0);
	check(d, 1, "a/1.jpg", -1, "a/1.jpg");
	dataset_free(d);
}

/* Members and their texts, two by two. */
static void make_members(const char *name, const char *const *members)
{
	struct fixture_tar tar = {0};
	for (; *members; members += 2)
		fixture_tar_member(&tar, members[0], members[1]);
	fixture_tar_write(&tar, in(name));
}

#define MEMBERS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_grouping(void **state)
{
	(void)state;
	make_members("g.tar",
		MEMBERS("dir.x/a.b.jpg", "left out: second dot", ".hidden.jpg", "x",
			"__MACOSX/a.jpg", "x", "x/__MACOSX/a.jpg", "x", "noext", "x", "only.cls",
			"7", "a.JPG", "1", "a.Cls", "1", "b.seg.png", "2", "b.jpeg", "3", "b.cls",
			"2", "x__MACOSX/c.png", "5", "x__MACOSX/c.cls", "3"));
	struct dataset *d = open_good("g.tar");
	assert_int_equal(dataset_count(d), 3);
	check(d, 0, "a.JPG", 1, "1");
	check(d, 1, "b.jpeg", 2, "3");
	check(d, 2, "x__MACOSX/c.png", 3, "5");
	assert_non_null(strstr(dataset_notice(d), "2 images"));
	dataset_free(d);

	make_members("m.tar", MEMBERS("a.jpg", "1", "a.cls", "1", "b.jpg", "2"));
	expect_fault("m.tar", -EINVAL,
		"m.tar!b.jpg has no label beside it, but a.jpg before it has one (.cls)");
	make_members("m.tar", MEMBERS("a.jpg", "1", "b.jpg", "2", "b.cls", "2"));
	expect_fault("m.tar", -EINVAL, "m.tar!b.jpg has a label, but a.jpg before it has none");
	make_members("m.tar",
		MEMBERS("a.jpg", "1", "a.json", "{\"cls\": 1}", "b.jpg", "2", "b.json", "{}"));
	expect_fault("m.tar", -EINVAL,
		"m.tar!b.jpg has no label beside it, but a.jpg before it has one (.json)");
	make_members("m.tar",
		MEMBERS("a.jpg", "1", "a.json", "{}", "b.jpg", "2", "b.json", "{\"cls\": 1}"));
	expect_fault("m.tar", -EINVAL, "m.tar!b.jpg has a label, but a.jpg");
	expect_labels("m.tar", DATASET_LABELS_NONE, 0, "");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.json", "{}", "b.jpg", "2", "b.json", "[]"));
	for (int pass = 0; pass < 2; pass++) { /* built, loaded */
		d = open_good("m.tar");
		assert_non_null(strstr(dataset_notice(d), "no labels: 2 .json beside them hold"));
		dataset_free(d);
	}
	const struct dataset_options unlabelled = {
		.cache_dir = cache, .labels = DATASET_LABELS_NONE};
	struct fault fault;
	assert_int_equal(dataset_open(in("m.tar"), &unlabelled, &d, &fault), 0);
	assert_string_equal(dataset_notice(d), "");
	dataset_free(d);
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.png", "2"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.png belong to the same sample (key a)");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.cls", "2", "a.CLS", "2"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.CLS belong to the same sample");
	make_members("m.tar", MEMBERS("a.jpg", "1", "b.jpg", "2", "a.cls", "2", "b.cls", "3"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.cls is a label with no image beside it");
	expect_labels("m.tar", DATASET_LABELS_NONE, 0, "");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.cls", "tabby"));
	expect_fault("m.tar", -EINVAL,
		"m.tar!a.cls: expected an integer from 0 to 2147483647, found \"tabby\"; to ignore "
		"labels, ask for labels: none (--labels none)");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.json", "{\"label\": \"tabby\"}"));
	expect_fault("m.tar", -EINVAL, "found a string");
	make_members("m.tar",
		MEMBERS("a.jpg", "1", "a.cls",
			"12345678901234567890123456789012345678901234567890123456789012345"));
	expect_fault("m.tar", -EINVAL, "has 65 bytes: a label has at most 64");
	struct fixture_tar tar = {0};
	fixture_tar_pax(&tar, 'x', "GNU.sparse.name", "a.jpg");
	fixture_tar_member(&tar, "a.jpg", "map");
	fixture_tar_write(&tar, in("m.tar"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.jpg is a sparse member");
	make_tar("l.tar", 1, 0, 2, "");
	make_tar("n.tar", 0, 2, 4, "");
	expect_fault("{l,n}.tar", -EINVAL, "label all shards in the same way");
	expect_labels("{l,n}.tar", DATASET_LABELS_NONE, 0, "");
}

static void test_bad_input(void **state)
{
	(void)state;
	expect_fault("gone", -ENOENT, "gone does not exist");
	expect_fault("gone-*.tar", -ENOENT, "nothing matches");
	assert_int_equal(mkdir(in("empty"), 0755), 0);
	expect_fault("empty", -EINVAL, "holds no images");
	fixture_file(root, "empty/readme.txt", "x");
	fixture_file(root, "empty/a/b/readme.txt", "x");
	expect_fault("empty", -EINVAL, "holds no images");
	fixture_file(root, "empty/x.tar", "x");
	expect_fault("empty", -EINVAL, "/*.tar");
	fixture_file(root, "text.tar", "not a tar");
	expect_fault("text.tar", -EINVAL, "is not a tar");
	fixture_file(root, "zero.tar", "");
	expect_fault("zero.tar", -EINVAL, "is empty");
	make_members("none.tar", MEMBERS("a.txt", "1", "b.c.jpg", "2"));
	expect_fault("none.tar", -EINVAL,
		"no images among 2 members (1 of them for a second dot before the extension), the "
		"first is a.txt: expected");
	make_members("webp.tar", MEMBERS("dir/a.webp", "1", "dir/b.webp", "2"));
	expect_fault("webp.tar", -EINVAL,
		"no images among 2 members, the first is dir/a.webp: expected KEY.jpg");
	make_classes("set");
	assert_int_equal(mkdir(in("set/zz"), 0755), 0);
	expect_fault("set", -EINVAL, "1 class folder without an image (zz)");
	expect_labels("set", DATASET_LABELS_NONE, 0, "");
	expect_fault("{set,none.tar}", -EINVAL, "names both folders");
	make_tar("locked.tar", 1, 0, 4, "");
	assert_int_equal(chmod(in("locked.tar"), 0), 0);
	if (geteuid() == 0)
		print_message("root reads everything: an unreadable shard was not tested\n");
	else
		expect_fault(
			"locked.tar", -EACCES, "locked.tar cannot be opened: Permission denied");
	assert_int_equal(symlink("nowhere.tar", in("dangling.tar")), 0);
	expect_fault("dangling.tar", -ENOENT, "does not exist");
}

/* Whatever is cut off a shard: a fault that names it, or the samples before a boundary. */
static void test_cut(void **state)
{
	(void)state;
	make_tar("whole.tar", 1, 0, 4, "");
	size_t size;
	uint8_t *data = fixture_read(in("whole.tar"), &size);
	for (size_t cut = 1; cut < size; cut += cut % 512 < 2 || cut % 512 > 510 ? 1 : 73) {
		struct dataset *d;
		struct fault fault;
		fixture_write(in("cut.tar"), data, cut);
		int rc = open_labels("cut.tar", DATASET_LABELS_AUTO, &d, &fault);
		if (rc == 0) {
			assert_true(cut % 512 == 0 ||
				    cut > size - 512); /* behind the first block of zeros */
			assert_true(dataset_count(d) <= 4);
			dataset_free(d);
		} else {
			assert_int_equal(rc, -EINVAL);
			assert_non_null(strstr(fault.text, "cut.tar"));
		}
	}
	free(data);
}

static void test_stale(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	struct fault fault;
	struct sample sample;
	char data[64];
	assert_int_equal(dataset_sample(d, 1, &sample, &fault), 0);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), 0);
	make_tar("new.tar", 2, 1, 3, "");
	assert_int_equal(rename(in("new.tar"), in("x.tar")), 0);
	assert_int_equal(dataset_verify_shard(d, 0, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "x.tar is no longer what it was"));
	assert_int_equal(dataset_read(d, &sample, data, sizeof data, &fault), -ESTALE);
	struct dataset *e = open_good("x.tar");
	assert_int_equal(dataset_count(e), 2);
	assert_true(dataset_indexed_ns(e) > 0);
	assert_string_equal(dataset_notice(e), "");
	check(e, 0, "a/1.jpg", 0, "a/1.jpg");
	dataset_free(e);
	/* The index has been replaced; the old dataset still has the old one open, or says that it
	 * is gone. */
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

/* A dataset whose index is replaced before it was read from. */
static void test_index_replaced(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	make_tar("y.tar", 1, 0, 3, "");
	dataset_free(open_good("y.tar"));
	assert_int_equal(rename(in("y.tar.idx"), in("x.tar.idx")), 0);
	struct fault fault;
	struct sample sample;
	assert_int_equal(dataset_sample(d, 0, &sample, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "x.tar.idx was replaced"));
	dataset_free(d);
}

static void test_stale_folder(void **state)
{
	(void)state;
	make_classes("set");
	struct dataset *d = open_good("set");
	struct fault fault;
	struct sample sample;
	char data[64];
	assert_int_equal(dataset_sample(d, 1, &sample, &fault), 0);
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

/* Everything a dataset says, as one number, or 0 when it failed as a damaged index may: -EIO with a
 * hint. */
static uint64_t say_everything(const struct dataset *d)
{
	uint64_t h = dataset_fingerprint(d);
	for (uint64_t i = 0; i < dataset_count(d); i++) {
		struct sample sample;
		struct fault fault;
		int rc = dataset_sample(d, i, &sample, &fault);
		if (rc < 0) {
			assert_int_equal(rc, -EIO);
			assert_non_null(strstr(fault.text, "delete the index"));
			assert_non_null(strstr(fault.text, ".idx"));
			return 0;
		}
		h = h * 31 + crc32(0, (const uint8_t *)sample.name, (unsigned)strlen(sample.name)) +
		    sample.offset + sample.size * 7 + (uint64_t)sample.label * 3 + sample.format;
	}
	return h;
}

static void test_index_flipped(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	uint64_t truth = say_everything(d), faults = 0;
	assert_true(truth != 0);
	dataset_free(d);
	size_t size;
	uint8_t *data = fixture_read(in("x.tar.idx"), &size);
	assert_int_equal(size, 3 * 4096);
	char *cached = store_cache_path(cache, in("x.tar"), ".idx");
	for (size_t at = 0; at < size; at += at >= 168 && at < 4096 - 311 ? 311 : 1) {
		data[at] ^= (uint8_t)(1 << at % 8);
		fixture_write(in("x.tar.idx"), data, size);
		data[at] ^= (uint8_t)(1 << at % 8);
		d = open_good("x.tar");
		uint64_t said = say_everything(d);
		assert_true(said == truth || (said == 0 && at >= 4096));
		assert_true((dataset_indexed_ns(d) > 0) == (at < 4096));
		bool foreign = at >= 16 && at < 24; /* its magic: not ours to replace */
		assert_true((dataset_notice(d)[0] != 0) == (at < 4096 && !foreign));
		assert_true(exists(cached + strlen(root) + 1) == foreign);
		(void)unlink(cached);
		faults += said == 0;
		dataset_free(d);
	}
	assert_int_equal(faults, 2 * 4096);
	free(cached);
	for (size_t cut = 0; cut < size; cut += 501) {
		fixture_write(in("x.tar.idx"), data, cut);
		d = open_good("x.tar");
		assert_true(say_everything(d) == truth);
		dataset_free(d);
	}
	free(data);
}

static void page_seal(uint8_t *page)
{
	uint32_t crc = (uint32_t)crc32(0, page + 4, INDEX_PAGE - 4);
	memcpy(page, &crc, sizeof crc);
}

/* An index with sound checksums and false contents, as somebody who means harm would write it. */
static void test_index_forged(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	dataset_free(open_good("x.tar"));
	size_t size;
	uint8_t *data = fixture_read(in("x.tar.idx"), &size);
	for (int i = 0; i < 7; i++) {
		uint8_t forged[3 * INDEX_PAGE];
		struct index_record record;
		memcpy(forged, data, sizeof forged);
		memcpy(&record, forged + INDEX_PAGE + INDEX_PAGE_HEAD, sizeof record);
		record.offset = i == 0 ? UINT64_MAX : i == 1 ? 100000 : record.offset;
		record.size = i == 2 ? UINT32_MAX : record.size;
		record.label = i == 3 ? -1 : record.label;
		record.name_page = i == 4 ? UINT64_MAX / 4096 : record.name_page;
		record.name_size = i == 5 ? 5000 : record.name_size;
		record.format = i == 6 ? 9 : record.format;
		memcpy(forged + INDEX_PAGE + INDEX_PAGE_HEAD, &record, sizeof record);
		page_seal(forged + INDEX_PAGE);
		fixture_write(in("x.tar.idx"), forged, sizeof forged);
		struct dataset *d = open_good("x.tar");
		assert_int_equal(say_everything(d), 0);
		dataset_free(d);
	}
	free(data);
	fixture_file(root, "set/a/x.jpg", "x");
	fixture_file(root, "x.jp", "outside");
	dataset_free(open_good("set"));
	char *index = store_cache_path(cache, in("set"), ".idx");
	data = fixture_read(index, &size);
	assert_memory_equal(data + 2 * INDEX_PAGE + INDEX_PAGE_HEAD, "a/x.jpg", 7);
	memcpy(data + 2 * INDEX_PAGE + INDEX_PAGE_HEAD, "../x.jp", 7);
	page_seal(data + 2 * INDEX_PAGE);
	fixture_write(index, data, size);
	struct dataset *d = open_good("set");
	assert_int_equal(say_everything(d), 0);
	dataset_free(d);
	free(data);
	free(index);
}

/* The same of the head: every number in it may be a lie. Such an index is built again. */
static void test_head_forged(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	dataset_free(open_good("x.tar"));
	size_t size;
	uint8_t *data = fixture_read(in("x.tar.idx"), &size);
	for (int i = 0; i < 8; i++) {
		uint8_t forged[3 * INDEX_PAGE];
		struct index_head head;
		memcpy(forged, data, sizeof forged);
		memcpy(&head, forged + INDEX_PAGE_HEAD, sizeof head);
		head.source = i == 0 ? 1000000 : i == 1 ? DATASET_LABELS_AUTO : head.source;
		head.source = i == 2 ? DATASET_LABELS_FOLDER : head.source;
		head.asked = i == 3 ? 5 : head.asked;
		head.classes = i == 4 ? UINT64_MAX : i == 5 ? UINT64_C(1) << 32 : head.classes;
		head.record_pages -= i == 6; /* and so many samples that their pages wrap to none */
		head.samples = i == 6 ? UINT64_MAX : head.samples;
		head.table_bytes = i == 7 ? 1 : head.table_bytes;
		memcpy(forged + INDEX_PAGE_HEAD, &head, sizeof head);
		page_seal(forged);
		fixture_write(in("x.tar.idx"), forged, sizeof forged - (i == 6 ? INDEX_PAGE : 0));
		struct dataset *d = open_good("x.tar");
		assert_int_equal(dataset_count(d), 4);
		if (i != 3) /* asked for with other labels: merely of no use */
			assert_non_null(strstr(dataset_notice(d), "1 damaged index"));
		dataset_free(d);
	}
	free(data);
}

/* A link to nothing is a sample that is missing; mended, it has another size than its index says.
 */
static void test_dangling_link(void **state)
{
	(void)state;
	make_classes("set");
	assert_int_equal(symlink(in("away.jpg"), in("set/a/0.jpg")), 0);
	for (int pass = 0; pass < 3; pass++) { /* built, loaded, mended */
		struct dataset *d = open_good("set");
		struct sample sample;
		struct fault fault;
		char data[64];
		assert_int_equal(dataset_sample(d, 1, &sample, &fault), 0);
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

/* A file that is written anew in its place does not show in its folder's times. */
static void test_changed_in_place(void **state)
{
	(void)state;
	make_classes("set");
	dataset_free(open_good("set"));
	fixture_file(root, "set/a/1.jpg", "longer than it was");
	struct dataset *d = open_good("set");
	struct sample sample;
	struct fault fault;
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

static void *sample_thread(void *dataset)
{
	struct sample sample;
	struct fault fault;
	for (uint64_t i = 0; i < 200 * dataset_count(dataset); i++)
		if (dataset_sample(dataset, i % dataset_count(dataset), &sample, &fault) < 0)
			return "cannot read a sample";
	return NULL;
}

/* More threads than index files may be open: they wait for each other. */
static void test_more_threads_than_files(void **state)
{
	(void)state;
	enum { THREADS = 24, SHARDS = 20 };
	char name[32];
	for (int i = 0; i < SHARDS; i++) {
		(void)snprintf(name, sizeof name, "s-%d.tar", i);
		make_tar(name, 1, 0, 4, "");
	}
	struct rlimit before, few;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 48;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	struct dataset *d = open_good("s-{0..19}.tar");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(dataset_index_files(d), 16);
	pthread_t thread[THREADS];
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, sample_thread, d), 0);
	for (int i = 0; i < THREADS; i++) {
		void *fault;
		assert_int_equal(pthread_join(thread[i], &fault), 0);
		assert_null(fault);
	}
	/* With all of them held by this very thread it ends all the same. */
	int fd;
	struct fault fault;
	struct sample sample;
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(dataset_index_acquire(d, i, &fd, &fault), 0);
	assert_int_equal(dataset_sample(d, 79, &sample, &fault), -EAGAIN);
	for (uint32_t i = 0; i < 16; i++)
		dataset_index_release(d, i);
	dataset_free(d);
}

static void test_index_places(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	/* Not ours: left as it is, the cache is used. */
	fixture_file(root, "x.tar.idx", "0\n512\n1024\n");
	struct dataset *d = open_good("x.tar");
	check(d, 1, "a/1.jpg", 0, "a/1.jpg");
	dataset_free(d);
	size_t size;
	uint8_t *data = fixture_read(in("x.tar.idx"), &size);
	assert_memory_equal(data, "0\n512\n1024\n", 11);
	free(data);
	d = open_good("x.tar");
	assert_int_equal(dataset_indexed_ns(d), 0);
	dataset_free(d);
	/* Neither place can be written: an unlinked file, and a notice. */
	make_tar("y.tar", 1, 0, 4, "");
	make_tar("z.tar", 1, 0, 4, "");
	fixture_file(root, "y.tar.idx", "0\n512\n1024\n");
	fixture_file(root, "z.tar.idx", "0\n512\n1024\n");
	struct dataset_options options = {.cache_dir = "/dev/null/cache"};
	struct fault fault;
	assert_int_equal(dataset_open(in("{y,z}.tar"), &options, &d, &fault), 0);
	assert_non_null(strstr(dataset_notice(d), "2 of 2 indexes"));
	assert_non_null(strstr(dataset_notice(d), "beside the shard none can be written (File ex"));
	assert_non_null(strstr(dataset_notice(d),
		"the cache folder /dev/null/cache cannot be used (Not a directory)."));
	for (uint64_t i = 0; i < 8; i += 4) {
		check(d, i + 1, "a/1.jpg", 0, "a/1.jpg");
		check(d, i + 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	}
	dataset_free(d);
	make_classes("set");
	assert_int_equal(dataset_open(in("set"), &options, &d, &fault), 0);
	check(d, 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	dataset_free(d);
	/* Not even that: a fault. */
	assert_int_equal(setenv("TMPDIR", "/dev/null", 1), 0);
	assert_int_equal(dataset_open(in("set"), &options, &d, &fault), -ENOTDIR);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_non_null(strstr(fault.text, "give write permission"));
	/* A confined daemon leaves no file beside the shards. */
	make_tar("w.tar", 1, 0, 4, "");
	options = (struct dataset_options){.cache_dir = cache, .index_in_cache = true};
	assert_int_equal(dataset_open(in("w.tar"), &options, &d, &fault), 0);
	dataset_free(d);
	assert_false(exists("w.tar.idx"));
}

/* A record page goes bad while the dataset is open. */
static void test_index_damaged_in_use(void **state)
{
	(void)state;
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	int fd = open(in("x.tar.idx"), O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "garbage", 7, INDEX_PAGE + 100), 7);
	assert_int_equal(close(fd), 0);
	struct sample sample;
	struct fault fault;
	assert_int_equal(dataset_sample(d, 0, &sample, &fault), -EIO);
	assert_non_null(strstr(fault.text, "x.tar.idx"));
	assert_non_null(strstr(fault.text, "delete the index"));
	dataset_free(d);
}

static void child_builds(int gate)
{
	struct dataset *d;
	struct fault fault;
	struct dataset_options options = {.cache_dir = cache};
	char byte;
	if (read(gate, &byte, 1) != 0) /* the parent closes its end: all go at once */
		_exit(2);
	for (int i = 0; i < 2; i++) {
		if (dataset_open(in(i ? "set" : "s-{0..9}.tar"), &options, &d, &fault) < 0) {
			(void)fprintf(stderr, "%s\n", fault.text);
			_exit(3);
		}
		if (say_everything(d) == 0)
			_exit(4);
		dataset_free(d);
	}
	_exit(0);
}

static void test_built_twice_at_once(void **state)
{
	(void)state;
	int gate[2], status;
	char name[32];
	pid_t child[4];
	for (int i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof name, "s-%d.tar", i);
		make_tar(name, 1, 0, 4, "");
	}
	make_classes("set");
	assert_int_equal(pipe(gate), 0);
	for (int i = 0; i < 4; i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0) {
			(void)close(gate[1]);
			(void)alarm(60);
			child_builds(gate[0]);
		}
	}
	assert_int_equal(close(gate[0]) + close(gate[1]), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		assert_int_equal(status, 0);
	}
	char command[FIXTURE_PATH + 64];
	(void)snprintf(command, sizeof command, "ls -A %s %s | grep -q tmp-", root, cache);
	assert_int_not_equal(system(command), 0);
	struct dataset *d = open_good("s-{0..9}.tar");
	assert_int_equal(dataset_indexed_ns(d), 0);
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
	(void)state;
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
	struct fault fault;
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
		cmocka_unit_test_setup_teardown(test_tar, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fingerprint, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shards, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flat, setup, teardown),
		cmocka_unit_test_setup_teardown(test_labels_asked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_grouping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_input, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stale_folder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_head_forged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_dangling_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_in_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_more_threads_than_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_flipped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_forged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_damaged_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_built_twice_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_progress, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

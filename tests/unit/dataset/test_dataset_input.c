/* dataset: how the members of a tar become samples, and the sentence for every kind of bad
 * input. */
#include "base/host/roots.h"
#include "unit/dataset/dataset_fixture.h"

/* Writes a tar of members, given as pairs of name and text. */
static void make_members(const char *name, const char *const *members)
{
	struct fixture_tar tar = {0};
	for (; *members; members += 2)
		fixture_tar_member(&tar, members[0], members[1]);
	fixture_tar_write(&tar, in(name));
}

#define MEMBERS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The only warning of a dataset contains `part`, or there is none. */
static void warns(const char *name, uint64_t count, const char *part)
{
	for (int pass = 0; pass < 2; pass++) { /* built, loaded */
		struct dataset *d = open_good(name);
		const char *text = dataset_warning(d, 0);
		assert_int_equal(dataset_count(d), count);
		if (part && (!text || !strstr(text, part)))
			fail_msg("%s: \"%s\" does not say \"%s\"", name, text ? text : "", part);
		if (!part)
			assert_null(text);
		assert_null(dataset_warning(d, 1));
		assert_string_equal(dataset_notice(d), "");
		dataset_free(d);
	}
}

/* A tar without its end, or with more after it, is read as by tarfile, and noticed. */
static void test_tails(void **state)
{
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "a.jpg", "1");
	fixture_tar_member(&tar, "b.jpg", "2");
	fixture_write(in("cut-0.tar"), tar.data, tar.size);
	fixture_write(in("cut-1.tar"), tar.data, 1024);
	warns("cut-0.tar", 2,
		"cut-0.tar ends at byte 2048 without the two blocks of zeros that end a tar: it "
		"may "
		"have been cut off");
	warns("cut-{0..1}.tar", 3,
		"cut-0.tar, like 1 more of the 2 shards, ends at byte 2048 without");
	size_t one = tar.size + 1024;
	fixture_tar_raw(&tar, NULL, 1024);
	fixture_write(in("whole.tar"), tar.data, tar.size);
	warns("whole.tar", 2, NULL);
	fixture_tar_member(&tar, "c.jpg", "3");
	fixture_tar_raw(&tar, NULL, 1024);
	fixture_write(in("cat.tar"), tar.data, tar.size);
	warns("cat.tar", 2,
		"cat.tar has another tar after its end, from byte 3072 on, which is not");
	tar.data[one] ^= 1;
	fixture_write(in("more.tar"), tar.data, tar.size);
	warns("more.tar", 2, "more.tar has other bytes after its end, from byte 3072 on");
	free(tar.data);
}

/* A tar's images of other types than JPEG and PNG: only where a sample has none of those. */
static void test_other_images(void **state)
{
	make_members("o.tar",
		MEMBERS("a.tif", "mask", "a.jpg", "1", "b.WebP", "2", "c.png", "3", "c.pgm",
			"depth", "c.bmp", "4", "d.gif", "5", "e.pnm", "6", "f.avif", "7"));
	struct dataset *d = open_good("o.tar");
	assert_int_equal(dataset_count(d), 5);
	check(d, 0, "a.jpg", -1, "1");
	check(d, 1, "b.WebP", -1, "2");
	check(d, 2, "c.png", -1, "3");
	check(d, 3, "d.gif", -1, "5");
	check(d, 4, "e.pnm", -1, "6");
	struct sample sample;
	assert_int_equal(dataset_sample(d, 1, &sample, &fault), 0);
	assert_int_equal(sample.format, SAMPLE_OTHER);
	dataset_free(d);
	make_members("o.tar", MEMBERS("a.ppm", "1", "a.pgm", "2"));
	expect_fault("o.tar", -EINVAL, "o.tar!a.ppm and ");
	expect_fault("o.tar", -EINVAL, "o.tar!a.pgm belong to the same sample (key a)");

	/* As a field it is not the image, and in a folder it cannot be a field. */
	struct field_list fields = {.count = 1, .at = {{.name = "pgm", .max = 16}}};
	struct dataset_options options = {.cache_dir = cache, .fields = &fields};
	uint8_t bytes[16];
	uint32_t size;
	bool longer;
	assert_int_equal(dataset_open(in("o.tar"), &options, &d, &fault), 0);
	check(d, 0, "a.ppm", -1, "1");
	assert_int_equal(dataset_field_read(d, 0, &fields, 0, bytes, &size, &longer, &fault), 0);
	assert_true(size == 1 && bytes[0] == '2');
	dataset_free(d);
	fixture_file(root, "flat/a.ppm", "1");
	assert_int_equal(dataset_open(in("flat"), &options, &d, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "in a folder, files named .pgm are samples"));
	struct dataset *flat = open_good("flat");
	check(flat, 0, "a.ppm", -1, "1");
	dataset_free(flat);
}

static void test_grouping(void **state)
{
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
	assert_non_null(strstr(dataset_warning(d, 0), "2 images"));
	assert_null(dataset_warning(d, 1));
	dataset_free(d);

	make_members("m.tar", MEMBERS("a.jpg", "1", "a.cls", "1", "b.jpg", "2"));
	expect_fault("m.tar", -EINVAL,
		"m.tar!b.jpg has no label beside it, but a.jpg before it has one (.cls)");
	make_members("m.tar", MEMBERS("a.jpg", "1", "b.jpg", "2", "b.cls", "2"));
	expect_fault("m.tar", -EINVAL, "m.tar!b.jpg has a label, but a.jpg before it has none");
	make_members("m.tar",
		MEMBERS("a.jpg", "1", "a.json", "{\"cls\": 1}", "b.jpg", "2", "b.json", "{}"));
	expect_fault("m.tar", -EINVAL,
		"m.tar!b.json has neither \"label\" nor \"cls\", but a.jpg before it has a label "
		"in "
		"its .json: label all");
	make_members("m.tar",
		MEMBERS("a.jpg", "1", "a.json", "{\"cls\": 1}", "b.jpg", "2", "b.json", "[1]"));
	expect_fault("m.tar", -EINVAL, "m.tar!b.json has neither \"label\" nor \"cls\"");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.json", "{\"cls\": 1}", "b.jpg", "2"));
	expect_fault("m.tar", -EINVAL,
		"m.tar!b.jpg has no label beside it, but a.jpg before it has one (.json)");
	make_members("m.tar",
		MEMBERS("a.jpg", "1", "a.json", "{}", "b.jpg", "2", "b.json", "{\"cls\": 1}"));
	expect_fault("m.tar", -EINVAL, "m.tar!b.jpg has a label, but a.jpg");
	expect_labels("m.tar", DATASET_LABELS_NONE, 0, "");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.json", "{}", "b.jpg", "2", "b.json", "[]"));
	for (int pass = 0; pass < 2; pass++) { /* built, loaded */
		d = open_good("m.tar");
		assert_non_null(
			strstr(dataset_notice(d), "no labels: 2 .json files beside them have"));
		dataset_free(d);
	}
	const struct dataset_options unlabelled = {
		.cache_dir = cache, .labels = DATASET_LABELS_NONE};
	assert_int_equal(dataset_open(in("m.tar"), &unlabelled, &d, &fault), 0);
	assert_string_equal(dataset_notice(d), "");
	dataset_free(d);
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.png", "2"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.png belong to the same sample (key a)");
	make_members("m.tar", MEMBERS("a.jpg", "1", "a.cls", "2", "a.CLS", "2"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.CLS belong to the same sample");
	make_members("m.tar", MEMBERS("a.jpg", "1", "b.jpg", "2", "a.cls", "2", "b.cls", "3"));
	expect_fault("m.tar", -EINVAL, "m.tar!a.cls is a label without an image");
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

/* A folder without images that holds something else: the sentence says what to name. */
static void test_folder_hint(void **state)
{
	static const char zip[] = "PK\3\4";
	fixture_file(root, "zips/b.zip", zip);
	fixture_file(root, "zips/a.zip", zip);
	fixture_file(root, "zips/readme.txt", "x");
	expect_fault("zips", -EINVAL, "zips holds ZIP files, but no images: name the files, as in");
	expect_fault("zips", -EINVAL, "/zips/*.zip\"");
	fixture_file(root, "zips/sub/c.tar", "");
	expect_fault("zips", -EINVAL, "/zips/*.zip\"");
	fixture_file(root, "shards/train-00000-of-00002.zip", zip);
	expect_fault("shards", -EINVAL, "/shards/train-*.zip\"");
	fixture_file(root, "kinds/a.zip", zip);
	fixture_file(root, "kinds/b.parquet", "PAR1");
	expect_fault("kinds", -EINVAL,
		"files of several kinds (a.zip is ZIP, b.parquet is Parquet): name files of one "
		"kind, as in");
	fixture_file(root, "outer/middle/data/a.zip", zip);
	expect_fault("outer", -EINVAL, "outer holds no images, but ZIP files in ");
	expect_fault("outer", -EINVAL, "/outer/middle/data/*.zip\"");
	fixture_file(root, "deep/1/2/3/a.zip", zip);
	expect_fault("deep", -EINVAL, "expected files in it or in its folders that are named .jpg");
	fixture_file(root, "hub/README.md", "x");
	fixture_file(root, "hub/data/train-00000-of-00001.parquet", "PAR1");
	expect_fault("hub", -EINVAL, "hub/data\" is a dataset (Parquet): name that");
	fixture_file(root, "hub/data/test-00000-of-00001.parquet", "PAR1");
	expect_fault("hub", -EINVAL, "/hub/data/train*.parquet\"");
	fixture_file(root, "more/data/train.parquet", "PAR1");
	fixture_file(root, "more/other/train.parquet", "PAR1");
	expect_fault("more", -EINVAL, "its folders hold datasets: name one of them, as in");
	fixture_file(root, "gz/a.tar.gz", "\x1f\x8b\b");
	expect_fault("gz", -EINVAL, "gz holds no images: ");
	expect_fault("gz", -EINVAL, "a.tar.gz is compressed with gzip");
	fixture_file(root, "saved/data-00000-of-00001.arrow", "\xff\xff\xff\xff");
	expect_fault("saved", -EINVAL, "to_parquet(\"train.parquet\")");
	assert_int_equal(mkdir(in("linked"), 0755), 0);
	assert_int_equal(symlink(in("zips/a.zip"), in("linked/a.zip")), 0);
	expect_fault("linked", -EINVAL, "/linked/*.zip\"");
	assert_int_equal(roots_add(in("linked"), &fault), 0);
	expect_fault("linked", -EINVAL, "expected files in it");
	roots_clear();
}

/* Files that are known by their names only. */
static void test_unread_names(void **state)
{
	fixture_file(root, "a.npz", "PK\3\4");
	expect_fault("a.npz", -EINVAL, "a.npz is an archive of NumPy arrays");
	fixture_file(root, "a.pt", "PK\3\4");
	expect_fault("a.pt", -EINVAL, "a.pt is a file of torch.save");
	fixture_file(root, "x/index.json", "{}");
	expect_fault("x/index.json", -EINVAL, "name its folder");
	fixture_file(root, "a.csv", "x,1");
	expect_fault("a.csv", -EINVAL, "{manifest: FILE.csv}");
	fixture_file(root, "train.idx", "0\t0\n");
	expect_fault("train.idx", -EINVAL, "train.idx is an index");
	fixture_file(root, "text", "not a tar");
	expect_fault("text", -EINVAL, "nor of another kind that is read");
}

static void test_bad_input(void **state)
{
	expect_fault("gone", -ENOENT, "gone does not exist");
	expect_fault("gone-*.tar", -ENOENT, "nothing matches");
	assert_int_equal(mkdir(in("empty"), 0755), 0);
	expect_fault("empty", -EINVAL, "holds no images");
	fixture_file(root, "empty/readme.txt", "x");
	fixture_file(root, "empty/a/b/readme.txt", "x");
	expect_fault("empty", -EINVAL, "holds no images");
	fixture_file(root, "empty/x.tar", "x");
	expect_fault("empty", -EINVAL, "empty holds tars, but no images: name the tars, as in \"");
	expect_fault("empty", -EINVAL, "empty/*.tar\"");
	fixture_file(root, "text.tar", "not a tar");
	expect_fault("text.tar", -EINVAL, "is not a tar");
	fixture_file(root, "zero.tar", "");
	expect_fault("zero.tar", -EINVAL, "is empty");
	make_members("none.tar", MEMBERS("a.txt", "1", "b.c.jpg", "2"));
	expect_fault("none.tar", -EINVAL,
		"no images among 2 members (including 1 with a second dot before the extension), "
		"the "
		"first is a.txt: expected");
	make_members("avif.tar", MEMBERS("dir/a.avif", "1", "dir/b.avif", "2"));
	expect_fault("avif.tar", -EINVAL,
		"no images among 2 members, the first is dir/a.avif: expected KEY.jpg");
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

/* A shard that is cut off gives a fault that names it, or the samples before a boundary. */
static void test_cut(void **state)
{
	make_tar("whole.tar", 1, 0, 4, "");
	size_t size;
	uint8_t *data = fixture_read(in("whole.tar"), &size);
	for (size_t cut = 1; cut < size; cut += cut % 512 < 2 || cut % 512 > 510 ? 1 : 73) {
		struct dataset *d;
		fixture_write(in("cut.tar"), data, cut);
		int rc = open_labels("cut.tar", DATASET_LABELS_AUTO, &d);
		if (rc == 0) {
			assert_true(cut % 512 == 0 ||
				    cut > size - 512); /* after the first block of zeros */
			assert_true(dataset_count(d) <= 4);
			dataset_free(d);
		} else {
			assert_int_equal(rc, -EINVAL);
			assert_non_null(strstr(fault.text, "cut.tar"));
		}
	}
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_tails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_folder_hint, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unread_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_grouping, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_images, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_input, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

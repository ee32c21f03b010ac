/* Files beside a shard: an index that was made from one is built again when it changes, and no
 * other file can stand in for it. */
#include "dataset_fixture.h"

#include "dataset/container/beside.h"

#include "base/host/roots.h"

static const char images[] = "\0\0\x8\3\0\0\0\2\0\0\0\1\0\0\0\1xy";
static const char name[] = "d/train-images-idx3-ubyte", labels[] = "d/train-labels-idx1-ubyte";

static void write_labels(uint8_t first)
{
	const uint8_t bytes[] = {0, 0, 8, 1, 0, 0, 0, 2, first, 3};
	struct timespec times[2] = {{0}};
	fixture_write(in(labels), bytes, sizeof bytes);
	/* Not two changes within a tick of the file system's clock. */
	times[0].tv_sec = times[1].tv_sec = 1000 + first;
	assert_int_equal(utimensat(AT_FDCWD, in(labels), times, 0), 0);
}

static void write_images(void)
{
	assert_int_equal(mkdir(in("d"), 0755), 0);
	fixture_write(in(name), images, sizeof images - 1);
}

static int64_t label_of(const char *spec, uint64_t number)
{
	struct sample sample;
	struct dataset *dataset = open_good(spec);
	assert_int_equal(dataset_sample(dataset, number, &sample, &fault), 0);
	dataset_free(dataset);
	return sample.label;
}

static void test_changed_labels(void **state)
{
	write_images();
	write_labels(7);
	assert_int_equal(label_of("d", 0), 7);
	assert_int_equal(label_of("d", 1), 3);
	write_labels(8);
	assert_int_equal(label_of("d", 0), 8);
	assert_int_equal(unlink(in(labels)), 0);
	expect_fault("d", -EINVAL, "train-labels-idx1-ubyte, which does not exist");
	struct dataset *dataset = NULL;
	assert_int_equal(open_labels("d", DATASET_LABELS_NONE, &dataset), 0);
	dataset_free(dataset);
}

/* A record without labels of MXNet, whose payload is "image" and one byte. */
static size_t record(uint8_t *to, uint32_t label, char last)
{
	const uint32_t head[2] = {0xced7230a, 24 + 6};
	const float value = (float)label;
	memset(to, 0, 40);
	memcpy(to, head, 8);
	memcpy(to + 12, &value, 4);
	memcpy(to + 32, "image", 5);
	to[37] = (uint8_t)last;
	return 40;
}

static void test_changed_idx(void **state)
{
	uint8_t bytes[80];
	size_t size = record(bytes, 1, 'a');
	size += record(bytes + size, 2, 'b');
	fixture_write(in("x.rec"), bytes, size);
	assert_int_equal(label_of("x.rec", 0), 1);
	fixture_file(root, "x.idx", "k\t40\n");
	assert_int_equal(label_of("x.rec", 0), 2);
	struct dataset *dataset = open_good("x.rec");
	assert_int_equal(dataset_count(dataset), 1);
	dataset_free(dataset);
	assert_int_equal(unlink(in("x.idx")), 0);
	assert_int_equal(label_of("x.rec", 1), 2);
}

static void test_refused(void **state)
{
	write_images();
	assert_int_equal(mkdir(in(labels), 0755), 0);
	expect_fault("d", -EINVAL, "is not a regular file");
	assert_int_equal(rmdir(in(labels)), 0);
	assert_int_equal(mkfifo(in(labels), 0644), 0);
	expect_fault("d", -EINVAL, "is not a regular file");
	assert_int_equal(unlink(in(labels)), 0);
	/* A link to a file outside the roots. */
	fixture_file(root, "secret", "0123456789");
	assert_int_equal(symlink("../secret", in(labels)), 0);
	assert_int_equal(roots_add(in("d"), &fault), 0);
	expect_fault("d", -EACCES, "train-labels-idx1-ubyte");
	roots_clear();
	expect_fault("d", -EINVAL, "byte 0: found type 50 and 51 dimensions");
}

static void test_paths(void **state)
{
	struct beside beside;
	char longest[BESIDE_PATH];
	memset(longest, 'x', sizeof longest);
	longest[0] = '/';
	(void)strcpy(longest + sizeof longest - 5, "/a");
	assert_int_equal(beside_open(longest, "index.json", &beside, &fault), -ENAMETOOLONG);
	beside_close(&beside);
	assert_int_equal(beside_open(in("a"), "index.json", &beside, &fault), BESIDE_E_NONE);
	assert_string_equal(beside.path, in("index.json"));
	beside_close(&beside);
	uint32_t none = 0, some = 0;
	assert_int_equal(beside_state(&none, in("a"), "b", &fault), 0);
	fixture_file(root, "b", "");
	assert_int_equal(beside_state(&some, in("a"), "b", &fault), 0);
	assert_int_not_equal(some, none);
	assert_int_equal(beside_state(&some, longest, "index.json", &fault), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_changed_labels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_changed_idx, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_paths, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

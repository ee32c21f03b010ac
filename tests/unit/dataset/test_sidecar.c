/* sidecar: places do not overlap, what is written is read back, and a file that belongs to other
 * samples, to another program or to no one is handled as its header says. */
#include "unit/source_fixture.h"

#include "base/store.h"
#include "base/util.h"
#include "dataset/dataset_impl.h"
#include "dataset/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { SAMPLES = 300 };

struct course {
	char *root;
	struct dataset *dataset;
	struct sidecar *sidecar;
};

/* The sizes of samples: many small ones, some large. */
static size_t size_of(unsigned i)
{
	return i % 50 == 7 ? 900000 : i % 9 == 0 ? 0 : 40 + i * 97 % 5000;
}

static void make_folder(const char *root)
{
	char *text = malloc(1000000);
	assert_non_null(text);
	memset(text, 'x', 1000000);
	for (unsigned i = 0; i < SAMPLES; i++) {
		char name[64];
		(void)snprintf(name, sizeof name, "set/%05u.jpg", i);
		fixture_file(root, name, "");
		fixture_write(fixture_path(root, name), text, size_of(i));
	}
	free(text);
}

static void make_tar(const char *path, unsigned first, unsigned count)
{
	struct fixture_tar tar = {0};
	for (unsigned i = first; i < first + count; i++) {
		char name[64];
		size_t size = size_of(i);
		uint8_t *bytes = calloc(1, size + 1);
		assert_non_null(bytes);
		(void)snprintf(name, sizeof name, "%05u.jpg", i);
		fixture_tar_header(&tar, name, '0', size);
		fixture_tar_data(&tar, bytes, size);
		free(bytes);
	}
	fixture_tar_write(&tar, path);
}

static struct course course; /* of the current test */

static int setup(void **state)
{
	course = (struct course){.root = fixture_folder()};
	return 0;
}

static int teardown(void **state)
{
	fixture_remove(course.root);
	return 0;
}

static void course_open(struct course *c, const char *what)
{
	const struct dataset_options options = {.cache_dir = fixture_path(c->root, "cache")};
	struct fault fault = {{0}};
	if (dataset_open(fixture_path(c->root, what), &options, &c->dataset, &fault))
		fail_msg("%s", fault.text);
	assert_int_equal(sidecar_new(c->dataset, &c->sidecar), 0);
}

static void course_close(struct course *c)
{
	sidecar_free(c->sidecar);
	dataset_free(c->dataset);
	c->sidecar = NULL;
	c->dataset = NULL;
}

static void place_of(const struct course *c, uint64_t number, struct sidecar_place *ret)
{
	struct sample sample;
	struct fault fault = {{0}};
	assert_int_equal(dataset_sample(c->dataset, number, &sample, &fault), 0);
	sidecar_place(c->sidecar, number, sample.shard, sample.position, sample.size, ret);
}

/* Fills the room of a place with bytes that depend on the sample. */
static void fill(const struct sidecar_place *place, uint64_t number, uint8_t *bytes)
{
	for (uint32_t i = 0; i < place->room; i++)
		bytes[i] = (uint8_t)(number * 31 + i * 7 + 1);
}

/* Fills all places, from last to first, then reads them. */
static void write_and_read(struct course *c)
{
	static uint8_t bytes[SIDECAR_MOST], found[SIDECAR_MOST + 1];
	struct sidecar_place place;
	for (uint64_t n = dataset_count(c->dataset); n--;) {
		place_of(c, n, &place);
		assert_in_range(place.room, SIDECAR_LEAST, SIDECAR_MOST);
		fill(&place, n, bytes);
		assert_true(sidecar_write(c->sidecar, &place, bytes, place.room));
	}
	for (uint64_t n = 0; n < dataset_count(c->dataset); n++) {
		place_of(c, n, &place);
		fill(&place, n, bytes);
		sidecar_ahead(c->sidecar, &place);
		assert_int_equal(sidecar_read(c->sidecar, &place, found, sizeof found), place.room);
		assert_memory_equal(found, bytes, place.room);
		assert_int_equal(sidecar_read(c->sidecar, &place, found, 10), 10);
	}
}

static void test_places(void **state)
{
	char text[FAULT_TEXT];
	make_folder(course.root);
	make_tar(fixture_path(course.root, "a-0.tar"), 0, 100);
	make_tar(fixture_path(course.root, "a-1.tar"), 100, 0);
	make_tar(fixture_path(course.root, "a-2.tar"), 100, SAMPLES - 100);
	static const char *const sources[] = {"set", "a-0.tar", "a-*.tar"};
	for (size_t i = 0; i < UTIL_COUNT(sources); i++) {
		course_open(&course, sources[i]);
		write_and_read(&course);
		assert_false(sidecar_notice(course.sidecar, text, sizeof text));
		course_close(&course);
	}
	assert_int_equal(access(fixture_path(course.root, "a-0.tar.ckp"), R_OK), 0);
	assert_int_equal(access(fixture_path(course.root, "a-2.tar.ckp"), R_OK), 0);
}

static void test_nothing_there(void **state)
{
	uint8_t bytes[SIDECAR_MOST], zeros[SIDECAR_MOST] = {0};
	struct sidecar_place place;
	make_tar(fixture_path(course.root, "a.tar"), 0, 20);
	course_open(&course, "a.tar");
	place_of(&course, 3, &place);
	assert_int_equal(sidecar_read(course.sidecar, &place, bytes, sizeof bytes), 0);
	place_of(&course, 19, &place);
	assert_true(sidecar_write(course.sidecar, &place, (const uint8_t *)"x", 1));
	assert_false(sidecar_write(course.sidecar, &place, bytes, place.room + 1));
	place_of(&course, 3, &place);
	assert_int_equal(sidecar_read(course.sidecar, &place, bytes, sizeof bytes), place.room);
	assert_memory_equal(bytes, zeros, place.room);
	course_close(&course);
}

/* Whether sample 2 is kept after the file was changed and the dataset opened again. */
static bool kept(struct course *c)
{
	uint8_t bytes[SIDECAR_MOST], wanted[SIDECAR_MOST];
	struct sidecar_place place;
	course_open(c, "a.tar");
	place_of(c, 2, &place);
	fill(&place, 2, wanted);
	size_t n = sidecar_read(c->sidecar, &place, bytes, sizeof bytes);
	bool same = n == place.room && memcmp(bytes, wanted, n) == 0;
	course_close(c);
	return same;
}

static void test_other_samples(void **state)
{
	make_tar(fixture_path(course.root, "a.tar"), 0, 20);
	course_open(&course, "a.tar");
	write_and_read(&course);
	course_close(&course);
	assert_true(kept(&course));
	size_t size;
	uint8_t *data = fixture_read(fixture_path(course.root, "a.tar.ckp"), &size);
	for (size_t at = 8; at < 56; at++) { /* every field of the head */
		data[at] ^= 1;
		fixture_write(fixture_path(course.root, "a.tar.ckp"), data, size);
		assert_false(kept(&course));
		data[at] ^= 1;
	}
	for (size_t cut = 0; cut < 4096; cut = cut * 2 + 1) {
		fixture_write(fixture_path(course.root, "a.tar.ckp"), data, cut < 8 ? 0 : cut);
		assert_false(kept(&course));
	}
	fixture_write(fixture_path(course.root, "a.tar.ckp"), data, size);
	assert_true(kept(&course));
	/* A head of zeros, as after a crash of the machine: the file is begun again and can be
	 * used. */
	uint8_t *zeros = calloc(1, size);
	assert_non_null(zeros);
	fixture_write(fixture_path(course.root, "a.tar.ckp"), zeros, size);
	free(zeros);
	assert_false(kept(&course));
	course_open(&course, "a.tar");
	write_and_read(&course);
	course_close(&course);
	assert_true(kept(&course));
	make_tar(fixture_path(course.root, "a.tar"), 1, 20);
	assert_false(kept(&course));
	free(data);
}

/* Files that a killed process left are removed by the next process that begins a file; files that
 * are still being written, or have other names, are not. */
static void test_leftovers(void **state)
{
	make_tar(fixture_path(course.root, "a.tar"), 0, 20);
	fixture_file(course.root, "a.tar.ckp.tmp-a1B2c3", "half");
	fixture_file(course.root, "a.tar.idx.tmp-a1B2c3", "half");
	fixture_file(course.root, "b.tar.idx.tmp-000000", "being written");
	fixture_file(course.root, "a.tar.ckp.tmp-long12345", "somebody's");
	int fd = open(fixture_path(course.root, "b.tar.idx.tmp-000000"), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
	course_open(&course, "a.tar");
	assert_int_equal(access(fixture_path(course.root, "a.tar.idx.tmp-a1B2c3"), F_OK), -1);
	fixture_file(course.root, "a.tar.ckp.tmp-a1B2c3", "half, of later");
	fixture_file(course.root, "cache/0123.ckp.tmp-a1B2c3", "half");
	write_and_read(&course);
	assert_int_equal(access(fixture_path(course.root, "a.tar.ckp.tmp-a1B2c3"), F_OK), -1);
	assert_int_equal(access(fixture_path(course.root, "cache/0123.ckp.tmp-a1B2c3"), F_OK), -1);
	assert_int_equal(access(fixture_path(course.root, "b.tar.idx.tmp-000000"), F_OK), 0);
	assert_int_equal(access(fixture_path(course.root, "a.tar.ckp.tmp-long12345"), F_OK), 0);
	course_close(&course);
	assert_int_equal(close(fd), 0);
}

/* A reader of a replaced file keeps its contents. */
static void test_replaced_under_a_reader(void **state)
{
	struct course old = course, new = course;
	uint8_t bytes[SIDECAR_MOST], wanted[SIDECAR_MOST];
	struct sidecar_place place;
	make_tar(fixture_path(old.root, "a.tar"), 0, 20);
	course_open(&old, "a.tar");
	write_and_read(&old);
	make_tar(fixture_path(old.root, "b.tar"), 1, 20);
	assert_int_equal(
		rename(fixture_path(old.root, "b.tar"), fixture_path(old.root, "a.tar")), 0);
	course_open(&new, "a.tar");
	write_and_read(&new);
	sidecar_place(old.sidecar, 2, 0, 4000, 1000, &place);
	fill(&place, 77, wanted);
	assert_true(sidecar_write(old.sidecar, &place, wanted, place.room));
	assert_int_equal(sidecar_read(old.sidecar, &place, bytes, sizeof bytes), place.room);
	assert_memory_equal(bytes, wanted, place.room);
	course_close(&old);
	course_close(&new);
}

static void test_somebody_elses(void **state)
{
	size_t size;
	make_tar(fixture_path(course.root, "a.tar"), 0, 20);
	fixture_file(course.root, "a.tar.ckp", "notes");
	course_open(&course, "a.tar");
	write_and_read(&course); /* in the cache folder */
	course_close(&course);
	uint8_t *data = fixture_read(fixture_path(course.root, "a.tar.ckp"), &size);
	assert_int_equal(size, 5);
	free(data);
	/* A symbolic link must not be followed for writing. */
	assert_int_equal(unlink(fixture_path(course.root, "a.tar.ckp")), 0);
	fixture_file(course.root, "elsewhere", "");
	assert_int_equal(symlink("elsewhere", fixture_path(course.root, "a.tar.ckp")), 0);
	course_open(&course, "a.tar");
	write_and_read(&course);
	course_close(&course);
	data = fixture_read(fixture_path(course.root, "elsewhere"), &size);
	assert_int_equal(size, 0);
	free(data);
}

static void test_no_place(void **state)
{
	uint8_t bytes[SIDECAR_MOST] = {0};
	char text[FAULT_TEXT];
	struct sidecar_place place;
	make_tar(fixture_path(course.root, "a.tar"), 0, 20);
	fixture_file(course.root, "a.tar.ckp/in the way", "");
	fixture_file(course.root, "cache", "in the way");
	course_open(&course, "a.tar");
	place_of(&course, 2, &place);
	assert_int_equal(sidecar_read(course.sidecar, &place, bytes, sizeof bytes), 0);
	assert_false(sidecar_write(course.sidecar, &place, bytes, place.room));
	sidecar_ahead(course.sidecar, &place);
	assert_false(sidecar_keeps(course.sidecar, &place));
	assert_true(sidecar_notice(course.sidecar, text, sizeof text));
	assert_non_null(strstr(text, "a.tar cannot be kept"));
	assert_false(sidecar_notice(course.sidecar, text, sizeof text));
	course_close(&course);
}

/* A limit on file sizes simulates a full disk. */
static void test_no_room(void **state)
{
	uint8_t bytes[SIDECAR_MOST] = {0};
	char text[FAULT_TEXT];
	struct sidecar_place place;
	struct rlimit limit, little;
	make_tar(fixture_path(course.root, "a.tar"), 0, 60);
	course_open(&course, "a.tar");
	place_of(&course, 0, &place);
	assert_true(sidecar_write(course.sidecar, &place, bytes, place.room));
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	little = (struct rlimit){.rlim_cur = 8192, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
	place_of(&course, 59, &place);
	assert_true(sidecar_keeps(course.sidecar, &place));
	assert_false(sidecar_write(course.sidecar, &place, bytes, place.room));
	assert_false(sidecar_keeps(course.sidecar, &place));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_true(sidecar_notice(course.sidecar, text, sizeof text));
	assert_non_null(strstr(text, "a.tar cannot be written"));
	assert_false(sidecar_write(course.sidecar, &place, bytes, place.room));
	assert_false(sidecar_notice(course.sidecar, text, sizeof text));
	place_of(&course, 0, &place);
	assert_int_equal(sidecar_read(course.sidecar, &place, bytes, sizeof bytes), place.room);
	course_close(&course);
}

/* The file can be written in later runs even if the shard is read-only. If the file itself is
 * read-only, a notice says so. */
static void test_protected(void **state)
{
	uint8_t bytes[SIDECAR_MOST] = {0};
	char text[FAULT_TEXT];
	struct sidecar_place place;
	struct stat status;
	make_tar(fixture_path(course.root, "a.tar"), 0, 20);
	assert_int_equal(chmod(fixture_path(course.root, "a.tar"), 0444), 0);
	course_open(&course, "a.tar");
	write_and_read(&course);
	course_close(&course);
	assert_int_equal(stat(fixture_path(course.root, "a.tar.ckp"), &status), 0);
	assert_int_equal(status.st_mode & 0777, 0644);
	if (geteuid() == 0) /* for whom permissions do not count */
		return;
	assert_int_equal(chmod(fixture_path(course.root, "a.tar.ckp"), 0444), 0);
	course_open(&course, "a.tar");
	place_of(&course, 2, &place);
	assert_int_equal(sidecar_read(course.sidecar, &place, bytes, sizeof bytes), place.room);
	assert_false(sidecar_keeps(course.sidecar, &place));
	assert_false(sidecar_write(course.sidecar, &place, bytes, place.room));
	assert_true(sidecar_notice(course.sidecar, text, sizeof text));
	assert_non_null(strstr(text, "a.tar cannot be written (their file may only be read)"));
	course_close(&course);
}

static void *many_worker(void *context)
{
	struct course *c = context;
	uint8_t bytes[SIDECAR_MOST], found[SIDECAR_MOST];
	struct sidecar_place place;
	for (unsigned round = 0; round < 3; round++)
		for (uint64_t n = 0; n < dataset_count(c->dataset); n++) {
			place_of(c, n, &place);
			fill(&place, n, bytes);
			sidecar_ahead(c->sidecar, &place);
			/* Nothing is written while all files that may be open are borrowed. */
			if (sidecar_write(c->sidecar, &place, bytes, place.room) &&
				sidecar_read(c->sidecar, &place, found, sizeof found))
				assert_memory_equal(found, bytes, place.room);
		}
	return NULL;
}

/* More shards than files that may be open, from several threads. */
static void test_many_shards(void **state)
{
	enum { SHARDS = 40, THREADS = 4 };
	struct rlimit limit, little;
	pthread_t thread[THREADS];
	for (unsigned i = 0; i < SHARDS; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "m-%02u.tar", i);
		make_tar(fixture_path(course.root, name), i * 6, 6);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	little = (struct rlimit){.rlim_cur = 64, .rlim_max = limit.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &little), 0);
	course_open(&course, "m-*.tar");
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, many_worker, &course), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	write_and_read(&course);
	course_close(&course);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A bound on the cache folder. */
struct bound {
	uint64_t left, taken, stored;
};

static int bound_take(void *context, uint64_t bytes)
{
	struct bound *bound = context;
	if (bytes > bound->left)
		return STORE_E_BOUND;
	bound->left -= bytes;
	bound->taken += bytes;
	return 0;
}

static void bound_settle(void *context, uint64_t taken, uint64_t stored)
{
	struct bound *bound = context;
	bound->stored += stored;
	assert_true(stored <= taken);
}

static uint64_t disk_bytes(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* In a bounded folder a file has all its room from the beginning, or is not made. */
static void test_bounded(void **state)
{
	struct bound room = {.left = 64 << 20};
	char text[512], folder[FIXTURE_PATH];
	(void)snprintf(folder, sizeof folder, "%s", fixture_path(course.root, "cache"));
	const struct store_bound bound = {.folder = folder,
		.size = 64 << 20,
		.take = bound_take,
		.settle = bound_settle,
		.context = &room};
	make_folder(course.root);
	store_bound_set(&bound);
	course_open(&course, "set");
	const uint64_t index = room.stored; /* the index asked for its room */
	assert_true(index > 0);
	struct sidecar_place place;
	uint8_t bytes[SIDECAR_MOST];
	place_of(&course, 0, &place);
	fill(&place, 0, bytes);
	assert_true(sidecar_write(course.sidecar, &place, bytes, place.room));
	char *path = store_cache_path(folder, dataset_shard_path(course.dataset, 0), ".ckp");
	const uint64_t taken = room.taken - index;
	assert_true(taken >= dataset_bytes(course.dataset) / SIDECAR_PART);
	assert_int_equal(room.stored, room.taken);
	write_and_read(&course);
	/* A file system may need blocks for its own tables. */
	assert_in_range(disk_bytes(path), taken / 2, taken + taken / 16 + 4096);
	assert_int_equal(room.taken - index, taken);
	course_close(&course);
	/* Without room: one that exists is read, and none is made. */
	room = (struct bound){0};
	course_open(&course, "set");
	assert_true(sidecar_read(course.sidecar, &place, bytes, sizeof bytes) > 0);
	course_close(&course);
	assert_int_equal(unlink(path), 0);
	free(path);
	course_open(&course, "set");
	assert_false(sidecar_write(course.sidecar, &place, bytes, place.room));
	assert_true(sidecar_notice(course.sidecar, text, sizeof text));
	assert_non_null(strstr(text, "cache_size has no room for it"));
	assert_non_null(strstr(text, "raise cache_size"));
	course_close(&course);
	/* An index that has no room is made in a temporary file, and a sentence says so. */
	const struct dataset_options options = {.cache_dir = folder};
	struct dataset *dataset;
	fixture_file(course.root, "other/1.jpg", "x");
	assert_int_equal(
		dataset_open(fixture_path(course.root, "other"), &options, &dataset, NULL), 0);
	assert_non_null(strstr(dataset_notice(dataset), "cache_size has no room for it"));
	dataset_free(dataset);
	store_bound_set(NULL);
}

/* Where a bounded cache does not hold a remote dataset, entry points take a small part of it. */
static void test_halved(void **state)
{
	enum { SHARDS = 4, EACH = 2500, SIZE = 110000 };
	static const struct {
		uint64_t percent; /* of the dataset */
		uint32_t room; /* of each place; 0: nothing is kept */
	} rows[] = {
		{120, SIDECAR_LEAST + SIZE / SIDECAR_PART},
		{102, SIDECAR_LEAST / 2 + SIZE / SIDECAR_PART / 2},
		{50, SIDECAR_LEAST / 4 + SIZE / SIDECAR_PART / 4},
		{25, SIDECAR_LEAST / 8 + SIZE / SIDECAR_PART / 8},
		{2, 0},
	};
	static char url[] = "s3://bucket/x.tar";
	char folder[FIXTURE_PATH], text[512];
	struct bound room = {.left = UINT64_MAX};
	struct dataset_shard shards[SHARDS];
	const uint64_t bytes = (uint64_t)EACH * SIZE;
	for (uint64_t i = 0; i < SHARDS; i++)
		shards[i] = (struct dataset_shard){.path = url,
			.first = i * EACH,
			.samples = EACH,
			.bytes = bytes,
			.size = bytes + EACH * 1024};
	(void)snprintf(folder, sizeof folder, "%s", fixture_path(course.root, "cache"));
	const struct dataset dataset = {.kind = DATASET_TARS,
		.container = container_of(DATASET_TARS),
		.shards = SHARDS,
		.shard = shards,
		.cache_folder = folder};
	for (size_t i = 0; i < UTIL_COUNT(rows); i++) {
		const struct store_bound bound = {.folder = folder,
			.size = SHARDS * shards[0].size / 100 * rows[i].percent,
			.take = bound_take,
			.settle = bound_settle,
			.context = &room};
		struct sidecar *sidecar;
		struct sidecar_place place, last;
		uint8_t mark[4] = {1, 2, 3, (uint8_t)i}, found[4];
		store_bound_set(&bound);
		assert_int_equal(sidecar_new(&dataset, &sidecar), 0);
		sidecar_place(sidecar, 3 * EACH - 2, 2, bytes - 2 * SIZE, SIZE, &place);
		sidecar_place(sidecar, 3 * EACH - 1, 2, bytes - SIZE, SIZE, &last);
		assert_int_equal(place.room, rows[i].room);
		if (rows[i].room) {
			assert_true(place.offset + place.room <= last.offset);
			if (rows[i].percent <= 100)
				assert_true(SHARDS * (last.offset + last.room) < bound.size / 48);
			assert_true(sidecar_write(sidecar, &place, mark, sizeof mark));
			assert_int_equal(sidecar_read(sidecar, &place, found, sizeof found), 4);
			assert_memory_equal(found, mark, sizeof mark);
		} else {
			assert_true(sidecar_notice(sidecar, text, sizeof text));
			assert_non_null(strstr(text, "are not kept (cache_size has no room"));
			/* Those of before made room for data. */
			char *path = store_cache_path(folder, url, ".ckp");
			assert_int_equal(access(path, F_OK), -1);
			free(path);
		}
		sidecar_free(sidecar);
	}
	store_bound_set(NULL);
}

int main(void)
{
#define SIDECAR_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		SIDECAR_TEST(test_places),
		SIDECAR_TEST(test_nothing_there),
		SIDECAR_TEST(test_other_samples),
		SIDECAR_TEST(test_leftovers),
		SIDECAR_TEST(test_replaced_under_a_reader),
		SIDECAR_TEST(test_somebody_elses),
		SIDECAR_TEST(test_no_place),
		SIDECAR_TEST(test_no_room),
		SIDECAR_TEST(test_protected),
		SIDECAR_TEST(test_many_shards),
		SIDECAR_TEST(test_bounded),
		SIDECAR_TEST(test_halved),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* dataset: indexes that are damaged, forged, without a place, built twice at once, and read by more
 * threads than there may be open files. */
#include "base/store.h"
#include "fuzz/parquet_make.h"
#include "unit/dataset/dataset_fixture.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <zlib.h>

/* Everything that a dataset answers, as one number; 0 if it failed as a damaged index must: with
 * -EIO and a hint. */
static uint64_t say_everything(const struct dataset *d)
{
	uint64_t h = dataset_fingerprint(d);
	for (uint64_t i = 0; i < dataset_count(d); i++) {
		struct sample sample;
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
		/* its magic: not one of our indexes, so it must not be replaced */
		bool foreign = at >= 16 && at < 24;
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

/* An index with right checksums and false contents, as an attacker would write it. */
static void test_index_forged(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	dataset_free(open_good("x.tar"));
	size_t size;
	uint8_t *data = fixture_read(in("x.tar.idx"), &size);
	for (int i = 0; i < 8; i++) {
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
		if (i == 7) { /* a page of version 6, which has other records and fewer */
			const uint32_t packed = 'P';
			memcpy(forged + INDEX_PAGE + offsetof(struct index_page_head, kind),
				&packed, sizeof packed);
			record.position = record.offset;
			record.packed = (struct packed){0};
		}
		memcpy(forged + INDEX_PAGE + INDEX_PAGE_HEAD, &record, sizeof record);
		page_seal(forged + INDEX_PAGE);
		fixture_write(in("x.tar.idx"), forged, sizeof forged);
		struct dataset *d = open_good("x.tar");
		struct sample first;
		assert_int_equal(dataset_sample(d, 0, &first, &fault), -EIO);
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

/* The same for the head: every number in it may be false. Such an index is built again. */
static void test_head_forged(void **state)
{
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
		/* with so many samples that the number of their pages wraps to zero */
		head.record_pages -= i == 6;
		head.samples = i == 6 ? UINT64_MAX : head.samples;
		head.table_bytes = i == 7 ? 1 : head.table_bytes;
		memcpy(forged + INDEX_PAGE_HEAD, &head, sizeof head);
		page_seal(forged);
		fixture_write(in("x.tar.idx"), forged, sizeof forged - (i == 6 ? INDEX_PAGE : 0));
		struct dataset *d = open_good("x.tar");
		assert_int_equal(dataset_count(d), 4);
		if (i != 3) /* built for other labels: it cannot be used, but is not damaged */
			assert_non_null(strstr(dataset_notice(d), "1 damaged index"));
		dataset_free(d);
	}
	free(data);
}

static void *sample_thread(void *dataset)
{
	struct sample sample;
	for (uint64_t i = 0; i < 200 * dataset_count(dataset); i++)
		if (dataset_sample(dataset, i % dataset_count(dataset), &sample, NULL) < 0)
			return "cannot read a sample";
	return NULL;
}

/* More threads than index files may be open: they wait for each other. */
static void test_more_threads_than_files(void **state)
{
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
		void *why;
		assert_int_equal(pthread_join(thread[i], &why), 0);
		assert_null(why);
	}
	/* If this thread holds all of them, the wait must still end. */
	int fd;
	struct sample sample;
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(dataset_index_acquire(d, i, &fd, &fault), 0);
	assert_int_equal(dataset_sample(d, 79, &sample, &fault), -EAGAIN);
	for (uint32_t i = 0; i < 16; i++)
		dataset_index_release(d, i);
	dataset_free(d);
}

/* Indexes of folders that earlier releases made have another order: they are made anew, and the
 * notice says so. Indexes of tars have the order of the tar, and stay. */
static void test_index_earlier(void **state)
{
	make_classes("set");
	make_tar("x.tar", 1, 0, 4, "");
	dataset_free(open_good("set"));
	dataset_free(open_good("x.tar"));
	char *folder = store_cache_path(cache, in("set"), ".idx");
	size_t size;
	struct index_head head;
	uint8_t *data = fixture_read(folder, &size);
	memcpy(&head, data + INDEX_PAGE_HEAD, sizeof head);
	assert_int_equal(head.version, INDEX_VERSION_FOLDER);
	head.version = INDEX_VERSION_TAR_OLD;
	memcpy(data + INDEX_PAGE_HEAD, &head, sizeof head);
	page_seal(data);
	fixture_write(folder, data, size);
	free(data);
	free(folder);
	struct dataset *d = open_good("set");
	assert_true(dataset_indexed_ns(d) > 0);
	assert_non_null(strstr(dataset_notice(d), "had the order of an earlier release and was"));
	dataset_free(d);
	d = open_good("set");
	assert_true(dataset_indexed_ns(d) == 0);
	assert_string_equal(dataset_notice(d), "");
	dataset_free(d);
	data = fixture_read(in("x.tar.idx"), &size);
	memcpy(&head, data + INDEX_PAGE_HEAD, sizeof head);
	assert_int_equal(head.version, INDEX_VERSION);
	free(data);
}

/* Gives an index the version of an earlier release, and replaces the first `from` in it by `to`, of
 * the same length. */
static void make_old(const char *path, uint32_t version, const char *from, const char *to)
{
	size_t size;
	struct index_head head;
	uint8_t *data = fixture_read(path, &size);
	memcpy(&head, data + INDEX_PAGE_HEAD, sizeof head);
	head.version = version;
	memcpy(data + INDEX_PAGE_HEAD, &head, sizeof head);
	uint8_t *found = memmem(data, size, from, strlen(from));
	assert_non_null(found);
	memcpy(found, to, strlen(to));
	page_seal(data);
	page_seal(data + (size_t)(found - data) / INDEX_PAGE * INDEX_PAGE);
	fixture_write(path, data, size);
	free(data);
}

/* Opens the dataset, whose index must or must not be built anew. Its fingerprint. */
static uint64_t open_again(const char *name, bool built, uint64_t count, const char *notice)
{
	struct dataset *d = open_good(name);
	assert_int_equal(dataset_indexed_ns(d) > 0, built);
	assert_int_equal(dataset_count(d), count);
	if (notice[0] ? !strstr(dataset_notice(d), notice) : dataset_notice(d)[0])
		fail_msg("the notice is \"%s\", not \"%s\"", dataset_notice(d), notice);
	uint64_t fingerprint = dataset_fingerprint(d);
	dataset_free(d);
	return fingerprint;
}

/* Puts back the time at which a file or folder was changed. */
static void restore_time(const char *path, const struct stat *was)
{
	const struct timespec times[2] = {was->st_atim, was->st_mtim};
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* An earlier release took fewer extensions for images. Its index of a folder serves unless it
 * passed over a file that is an image now. */
static void test_index_of_fewer_images(void **state)
{
	make_classes("set");
	fixture_file(root, "set/a/notes.txt", "x");
	const uint64_t is = open_again("set", true, 4, "");
	char *index = store_cache_path(cache, in("set"), ".idx");
	make_old(index, INDEX_VERSION_FOLDER_OLD, ".txt", ".gif");
	assert_true(open_again("set", false, 4, "") == is);
	struct stat st;
	assert_int_equal(stat(in("set/a"), &st), 0);
	char *old = strdup(in("set/a/notes.txt"));
	assert_int_equal(rename(old, in("set/a/notes.TIF")), 0);
	restore_time(in("set/a"), &st);
	assert_true(open_again("set", false, 4, "") == is);
	make_old(index, INDEX_VERSION_FOLDER_OLD, ".gif", ".tif");
	assert_true(open_again("set", true, 5, "1 sample was added to") != is);
	(void)open_again("set", false, 5, "");
	free(old);
	free(index);
}

/* An earlier release's index of Parquet has whole pages for images in compressed ones: it is made
 * anew, with the same fingerprint. */
static void test_index_of_whole_pages(void **state)
{
	static struct made made;
	const struct made_plan plan = {
		.rows = 12, .group_rows = 12, .page_rows = 12, .codec = 1, .version = 1};
	made_file(&made, &plan);
	fixture_write(in("a.parquet"), made.bytes, made.size);
	const uint64_t is = open_again("a.parquet", true, 12, "");
	(void)open_again("a.parquet", false, 12, "");
	char *path = strdup(in("a.parquet.idx"));
	struct index_head head;
	size_t size;
	uint8_t *data = fixture_read(path, &size);
	memcpy(&head, data + INDEX_PAGE_HEAD, sizeof head);
	assert_int_equal(head.packed, INDEX_PACKED);
	head.packed = INDEX_PACKED_WHOLE;
	memcpy(data + INDEX_PAGE_HEAD, &head, sizeof head);
	page_seal(data);
	fixture_write(path, data, size);
	assert_true(open_again("a.parquet", true, 12, "Indexes of an earlier release") == is);
	(void)open_again("a.parquet", false, 12, "");
	free(data);
	free(path);
}

/* The same for a tar, whose index does not say what its other members are. */
static void test_index_of_fewer_members(void **state)
{
	static const char *const others[] = {"b.cls", "c.txt", "c.bmp"};
	struct stat st;
	uint64_t is = 0;
	for (int i = 0; i < 3; i++) {
		struct fixture_tar tar = {0};
		fixture_tar_member(&tar, "b.jpg", "1");
		fixture_tar_member(&tar, "b.cls", "1");
		if (i > 0)
			fixture_tar_member(&tar, others[i], "2");
		fixture_tar_write(&tar, in("y.tar"));
		if (i == 2)
			restore_time(in("y.tar"), &st);
		else
			is = open_again("y.tar", true, 1, "");
		make_old(in("y.tar.idx"), INDEX_VERSION_TAR_OLD, "b.jpg", "b.jpg");
		assert_int_equal(stat(in("y.tar"), &st), 0);
		if (i == 0)
			assert_true(open_again("y.tar", false, 1, "") == is);
		else if (i == 1)
			assert_true(open_again("y.tar", true, 1, "") == is);
	}
	expect_fault("y.tar", -EINVAL, "c.bmp has no label beside it");
	struct dataset *d;
	assert_int_equal(open_labels("y.tar", DATASET_LABELS_NONE, &d), 0);
	assert_int_equal(dataset_count(d), 2);
	assert_non_null(strstr(dataset_notice(d), "1 sample was added to"));
	dataset_free(d);
}

static void test_index_places(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	/* A file that is not our index is left as it is, and the cache folder is used. */
	fixture_file(root, "x.tar.idx", "0\n512\n1024\n");
	struct dataset *d = open_good("x.tar");
	check(d, 0, "a/1.jpg", 0, "a/1.jpg");
	dataset_free(d);
	size_t size;
	uint8_t *data = fixture_read(in("x.tar.idx"), &size);
	assert_memory_equal(data, "0\n512\n1024\n", 11);
	free(data);
	d = open_good("x.tar");
	assert_int_equal(dataset_indexed_ns(d), 0);
	dataset_free(d);
	/* Neither place can be written: an unlinked file is used, and a notice says so. */
	make_tar("y.tar", 1, 0, 4, "");
	make_tar("z.tar", 1, 0, 4, "");
	fixture_file(root, "y.tar.idx", "0\n512\n1024\n");
	fixture_file(root, "z.tar.idx", "0\n512\n1024\n");
	struct dataset_options options = {.cache_dir = "/dev/null/cache"};
	assert_int_equal(dataset_open(in("{y,z}.tar"), &options, &d, &fault), 0);
	assert_non_null(strstr(dataset_notice(d), "2 of 2 indexes"));
	assert_non_null(
		strstr(dataset_notice(d), "an index beside the shard cannot be written (File ex"));
	assert_non_null(strstr(dataset_notice(d),
		"the cache folder /dev/null/cache cannot be used (Not a directory)."));
	for (uint64_t i = 0; i < 8; i += 4) {
		check(d, i, "a/1.jpg", 0, "a/1.jpg");
		check(d, i + 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	}
	dataset_free(d);
	make_classes("set");
	assert_int_equal(dataset_open(in("set"), &options, &d, &fault), 0);
	check(d, 3, "b/deep/1.jpg", 2, "b/deep/1.jpg");
	dataset_free(d);
	/* If even that is impossible, a fault says so. */
	assert_int_equal(setenv("TMPDIR", "/dev/null", 1), 0);
	assert_int_equal(dataset_open(in("set"), &options, &d, &fault), -ENOTDIR);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_non_null(strstr(fault.text, "grant write permission"));
	/* A confined daemon writes no file beside the shards. */
	make_tar("w.tar", 1, 0, 4, "");
	options = (struct dataset_options){.cache_dir = cache, .index_in_cache = true};
	assert_int_equal(dataset_open(in("w.tar"), &options, &d, &fault), 0);
	dataset_free(d);
	assert_false(exists("w.tar.idx"));
}

/* A page of records is damaged while the dataset is open. */
static void test_index_damaged_in_use(void **state)
{
	make_tar("x.tar", 1, 0, 4, "");
	struct dataset *d = open_good("x.tar");
	int fd = open(in("x.tar.idx"), O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "garbage", 7, INDEX_PAGE + 100), 7);
	assert_int_equal(close(fd), 0);
	struct sample sample;
	assert_int_equal(dataset_sample(d, 0, &sample, &fault), -EIO);
	assert_non_null(strstr(fault.text, "x.tar.idx"));
	assert_non_null(strstr(fault.text, "delete the index"));
	dataset_free(d);
}

static void child_builds(int gate)
{
	struct dataset *d;
	struct dataset_options options = {.cache_dir = cache};
	char byte;
	/* the parent closes its end, and all children begin at once */
	if (read(gate, &byte, 1) != 0)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_head_forged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_more_threads_than_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_flipped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_forged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_earlier, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_of_fewer_images, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_of_whole_pages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_of_fewer_members, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_places, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index_damaged_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_built_twice_at_once, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* dimensions: sizes are measured once and kept; files that are damaged, cut, out of date, of
 * another program or half made are handled as their heads say. A sample's "image" is any bytes
 * here: its width is its number of bytes, and its height its first byte. */
#include "dataset_fixture.h"

#include "dataset/dimensions.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SAMPLES = 600 };

static atomic_uint calls;
static unsigned die_at, fail_at; /* after that many calls; 0: never */
static struct dimension found[SAMPLES];
static char notice[640];
static uint64_t unreadable;

static size_t size_of(unsigned i)
{
	return i % 100 == 7 ? 0 : 1 + i % 700;
}

static int measure(int fd, uint64_t offset, uint32_t size, uint32_t *width, uint32_t *height)
{
	uint8_t byte;
	unsigned number = atomic_fetch_add(&calls, 1) + 1;
	if (number == die_at)
		(void)raise(SIGKILL);
	if (number == fail_at)
		return -EIO;
	if (!size)
		return 1;
	assert_int_equal(pread(fd, &byte, 1, (off_t)offset), 1);
	*width = size;
	*height = byte;
	return 0;
}

static void take(void *context, uint64_t first, const struct dimension *dimension, size_t count)
{
	assert_ptr_equal(context, found);
	assert_true(first + count <= SAMPLES);
	memcpy(found + first, dimension, count * sizeof *dimension);
}

static int stop(void *context, uint64_t samples, uint64_t bytes, uint64_t total)
{
	(void)context, (void)bytes, (void)total;
	return samples > 500;
}

static int walk(const struct dataset *dataset, progress_fn *progress)
{
	const struct dimensions_job job = {.dataset = dataset,
		.measure = measure,
		.take = take,
		.context = found,
		.progress = progress};
	atomic_store(&calls, 0);
	memset(found, 0xff, sizeof found);
	return dimensions_walk(&job, &unreadable, notice, sizeof notice, &fault);
}

/* The samples in the order of both kinds of datasets. */
static void make_samples(bool folder, bool tarred)
{
	static uint8_t bytes[1000];
	struct fixture_tar tar = {0};
	for (unsigned i = 0; i < SAMPLES; i++) {
		char name[64];
		memset(bytes, (int)(1 + i % 250), sizeof bytes);
		(void)snprintf(name, sizeof name, "f/%05u.jpg", i);
		if (folder) {
			fixture_file(root, name, "");
			fixture_write(in(name), bytes, size_of(i));
		}
		fixture_tar_header(&tar, name + 2, '0', size_of(i));
		fixture_tar_data(&tar, bytes, size_of(i));
	}
	if (tarred)
		fixture_tar_write(&tar, in("t.tar"));
	else
		free(tar.data);
}

static void expect(const char *name, unsigned measured)
{
	struct dataset *dataset = open_good(name);
	unsigned empty = 0;
	if (walk(dataset, NULL))
		fail_msg("%s", fault.text);
	assert_string_equal(notice, "");
	assert_int_equal(atomic_load(&calls), measured);
	for (unsigned i = 0; i < SAMPLES; i++) {
		assert_int_equal(found[i].width, size_of(i));
		assert_int_equal(found[i].height, size_of(i) ? 1 + i % 250 : 0);
		empty += !size_of(i);
	}
	assert_int_equal(unreadable, empty);
	dataset_free(dataset);
}

/* The file of the folder's sizes, in the cache folder; or a temporary one. */
static char *cached(const char *part)
{
	static char path[4096];
	DIR *dir = opendir(cache);
	path[0] = 0;
	for (const struct dirent *e; dir && (e = readdir(dir));)
		if (strstr(e->d_name, part))
			(void)snprintf(path, sizeof path, "%s/%s", cache, e->d_name);
	if (dir)
		(void)closedir(dir);
	return path;
}

static void flip(const char *path, off_t at)
{
	uint8_t byte = 0;
	int fd = open(path, O_RDWR);
	assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	(void)close(fd);
}

static void keeps_what_it_measured(void **state)
{
	(void)state;
	static const off_t flips[] = {9, 40, 60, 70, 4000, 72 + SAMPLES * 8 - 1};
	make_samples(true, true);
	expect("f", SAMPLES);
	expect("f", 0);
	expect("t.tar", SAMPLES);
	expect("t.tar", 0);
	for (size_t i = 0; i < sizeof flips / sizeof *flips; i++) {
		flip(in("t.tar.dim"), flips[i]);
		expect("t.tar", SAMPLES);
		expect("t.tar", 0);
	}
	assert_int_equal(truncate(in("t.tar.dim"), 72 + SAMPLES * 8 - 3), 0);
	expect("t.tar", SAMPLES);
	assert_int_equal(truncate(in("t.tar.dim"), 0), 0);
	expect("t.tar", SAMPLES);
	flip(cached(".dim"), 100);
	expect("f", SAMPLES);
	expect("f", 0);
	/* A file that does not begin as one of these belongs to another program: it stays. */
	flip(in("t.tar.dim"), 0);
	expect("t.tar", SAMPLES);
	expect("t.tar", 0);
	/* The time of a tar's change counts. */
	struct timespec times[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
	assert_int_equal(utimensat(AT_FDCWD, in("t.tar"), times, 0), 0);
	expect("t.tar", SAMPLES);
	expect("t.tar", 0);
}

static void leaves_other_files_alone(void **state)
{
	(void)state;
	struct stat st;
	make_samples(false, true);
	fixture_file(root, "t.tar.dim", "mine");
	expect("t.tar", SAMPLES);
	expect("t.tar", 0);
	assert_int_equal(stat(in("t.tar.dim"), &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(unlink(in("t.tar.dim")), 0);
	assert_int_equal(unlink(cached(".dim")), 0);
	assert_int_equal(symlink("elsewhere", in("t.tar.dim")), 0);
	expect("t.tar", SAMPLES);
	assert_int_equal(lstat(in("t.tar.dim"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
}

/* The process is killed while it measures: nothing half made is in place, and the next one cleans
 * up. */
static void survives_a_kill(void **state)
{
	(void)state;
	make_samples(true, false);
	struct dataset *dataset = open_good("f");
	for (unsigned at = 1; at <= SAMPLES; at += 560) {
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			die_at = at;
			(void)walk(dataset, NULL);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_string_not_equal(cached(".dim.tmp-"), "");
		const char *path = cached(".dim");
		assert_true(strstr(path, ".dim.tmp-") != NULL);
	}
	dataset_free(dataset);
	expect("f", SAMPLES);
	assert_string_equal(cached(".dim.tmp-"), "");
	expect("f", 0);
}

static void says_what_it_cannot_do(void **state)
{
	(void)state;
	make_samples(true, false);
	struct dataset *dataset = open_good("f");
	fail_at = 560;
	assert_int_equal(walk(dataset, NULL), -EIO);
	fail_at = 0;
	assert_non_null(strstr(fault.text, "cannot be read, and without it the sample has no "
					   "bucket"));
	assert_string_equal(cached(".dim"), "");
	assert_int_equal(walk(dataset, stop), -ECANCELED);
	assert_string_equal(cached(".dim"), "");
	/* A file that is gone since it was indexed. */
	assert_int_equal(unlink(in("f/00234.jpg")), 0);
	assert_int_equal(walk(dataset, NULL), -ENOENT);
	assert_non_null(strstr(fault.text, "00234.jpg"));
	fixture_write(in("f/00234.jpg"), "", 0);
	assert_int_equal(walk(dataset, NULL), -ESTALE);
	dataset_free(dataset);
}

static void goes_on_where_nothing_can_be_written(void **state)
{
	(void)state;
	make_samples(true, false);
	struct dataset *dataset = open_good("f");
	/* A file in the place of the folder. */
	char *moved = in("moved");
	assert_int_equal(rename(cache, moved), 0);
	fixture_write(cache, "", 0);
	assert_int_equal(walk(dataset, NULL), 0);
	assert_int_equal(atomic_load(&calls), SAMPLES);
	assert_non_null(strstr(notice, "cannot be kept"));
	assert_int_equal(found[300].width, size_of(300));
	assert_int_equal(unlink(cache), 0);
	assert_int_equal(rename(moved, cache), 0);
	dataset_free(dataset);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keeps_what_it_measured, setup, teardown),
		cmocka_unit_test_setup_teardown(leaves_other_files_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(survives_a_kill, setup, teardown),
		cmocka_unit_test_setup_teardown(says_what_it_cannot_do, setup, teardown),
		cmocka_unit_test_setup_teardown(
			goes_on_where_nothing_can_be_written, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* disk: what is stored is found again, bounds hold, and only our own files are removed. Another
 * process is another opening of the folder, since its locks belong to openings; where a process
 * dies, it is a child that is killed. */
#include "base/util.h"
#include "base/whole.h"
#include "remote/cache/disk_file.h"
#include "remote/cache/disk_map.h"
#include "unit/folder_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static char *folder;
static uint8_t data[DISK_BLOCK];

static int setup(void **state)
{
	(void)state;
	folder = fixture_folder();
	return 0;
}

static int teardown(void **state)
{
	fixture_remove(folder);
	return 0;
}

static uint64_t used_in(const char *path)
{
	DIR *stream = opendir(path);
	uint64_t sum = 0;
	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		struct stat status;
		if (strcmp(entry->d_name, "..") != 0 &&
			fstatat(dirfd(stream), entry->d_name, &status, 0) == 0)
			sum += (uint64_t)status.st_blocks * 512;
	}
	if (stream)
		(void)closedir(stream);
	return sum;
}

static uint64_t used(void)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote", folder);
	return used_in(path);
}

static struct disk *disk_of(uint64_t size)
{
	struct disk *disk;
	struct fault fault;
	assert_int_equal(disk_open(folder, size, &disk, &fault), 0);
	return disk;
}

static const uint8_t *block_of(unsigned object, uint64_t block)
{
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)(i * 7 + object * 31 + block * 101 + (i >> 8));
	return data;
}

static const char *url_of(unsigned object)
{
	static char url[64];
	(void)snprintf(url, sizeof url, "s3://bucket/train/%u.tar", object);
	return url;
}

/* Takes credit as the objects do. */
static int take(struct disk *disk, uint64_t bytes, bool drop)
{
	while (!disk_take(disk, bytes)) {
		const int code = disk_credit(disk, bytes, drop);
		if (code != 0)
			return code;
	}
	return 0;
}

static int open_object(
	struct disk *disk, unsigned object, const char *etag, uint64_t size, struct disk_file **ret)
{
	const int code = take(disk, disk_file_cost(size), true);
	if (code != 0)
		return code;
	disk_give(disk, disk_file_cost(size));
	return disk_file_open(disk, url_of(object), etag, size, true, ret);
}

/* Stores blocks until there is no room; returns how many. */
static uint64_t fill(
	struct disk *disk, struct disk_file *file, unsigned object, uint64_t from, uint64_t to)
{
	uint64_t i = from;
	for (; i < to && take(disk, disk_cost(DISK_BLOCK), true) == 0; i++)
		assert_int_equal(disk_file_write(file, i, block_of(object, i)), 0);
	return i - from;
}

static void test_stores(void **state)
{
	struct disk *disk = disk_of(16 * MIB);
	struct disk_file *file;
	const uint64_t size = 5 * DISK_BLOCK + 100;
	assert_int_equal(
		disk_file_open(disk, url_of(0), "\"a\"", size, false, &file), DISK_E_ABSENT);
	assert_int_equal(open_object(disk, 0, "\"a\"", size, &file), 0);
	assert_int_equal(fill(disk, file, 0, 1, 3), 2);
	assert_int_equal(fill(disk, file, 0, 5, 6), 1); /* the short one */
	assert_int_equal(disk_file_state(file, 0), DISK_MISSING);
	assert_true(disk_file_local(file, DISK_BLOCK, 2 * DISK_BLOCK));
	assert_true(disk_file_local(file, 5 * DISK_BLOCK, 100));
	assert_false(disk_file_local(file, 5 * DISK_BLOCK, 101));
	assert_false(disk_file_local(file, DISK_BLOCK - 1, 2));
	assert_false(disk_file_local(file, size, 1));
	assert_false(disk_file_local(file, 0, 0));
	disk_file_close(file);
	disk_close(disk);

	uint8_t buffer[DISK_BLOCK];
	disk = disk_of(16 * MIB);
	assert_int_equal(disk_file_open(disk, url_of(0), "\"a\"", size, false, &file), 0);
	assert_int_equal(disk_file_state(file, 1), DISK_STORED);
	assert_int_equal(disk_file_state(file, 3), DISK_MISSING);
	assert_false(disk_file_local(file, DISK_BLOCK, 1));
	assert_int_equal(disk_file_verify(file, 1, buffer), 0);
	assert_memory_equal(buffer, block_of(0, 1), DISK_BLOCK);
	assert_int_equal(disk_file_verify(file, 5, buffer), 0);
	assert_memory_equal(buffer, block_of(0, 5), 100);
	assert_true(disk_file_local(file, DISK_BLOCK, DISK_BLOCK));
	assert_int_equal(whole_read(disk_file_fd(file), buffer, 10, DISK_BLOCK + 5), 10);
	assert_memory_equal(buffer, block_of(0, 1) + 5, 10);
	disk_file_close(file);
	disk_close(disk);
}

/* A block that another process stores is found without opening again. */
static void test_shared(void **state)
{
	struct disk *one = disk_of(16 * MIB), *two = disk_of(16 * MIB);
	struct disk_file *a, *b;
	assert_int_equal(open_object(one, 0, "\"a\"", MIB, &a), 0);
	assert_int_equal(open_object(two, 0, "\"a\"", MIB, &b), 0);
	assert_int_equal(fill(one, a, 0, 2, 3), 1);
	assert_int_equal(disk_file_state(b, 2), DISK_MISSING);
	assert_int_equal(disk_file_refresh(b, 2), DISK_STORED);
	assert_int_equal(disk_file_refresh(b, 3), DISK_MISSING);
	disk_file_close(a);
	disk_file_close(b);
	disk_close(one);
	disk_close(two);
}

static void test_flipped_bits(void **state)
{
	struct disk *disk = disk_of(16 * MIB);
	struct disk_file *file;
	struct disk_stats stats;
	uint8_t buffer[DISK_BLOCK], byte;
	assert_int_equal(open_object(disk, 0, "\"a\"", MIB, &file), 0);
	assert_int_equal(fill(disk, file, 0, 0, 16), 16);
	assert_int_equal(pread(disk_file_fd(file), &byte, 1, 3 * DISK_BLOCK + 777), 1);
	byte ^= 4;
	assert_int_equal(pwrite(disk_file_fd(file), &byte, 1, 3 * DISK_BLOCK + 777), 1);
	disk_file_close(file);

	struct disk_verified verified;
	assert_int_equal(disk_file_open(disk, url_of(0), "\"a\"", MIB, false, &file), 0);
	assert_int_equal(disk_file_verify(file, 2, buffer), 0);
	assert_int_equal(disk_file_verify(file, 3, buffer), DISK_E_BROKEN);
	assert_int_equal(disk_file_state(file, 3), DISK_MISSING);
	assert_int_equal(disk_file_refresh(file, 3), DISK_MISSING);
	disk_stats_read(disk, &stats);
	assert_int_equal(stats.broken_blocks, 1);
	disk_file_close(file);
	assert_int_equal(disk_verify(disk, "", NULL, NULL, &verified), 0);
	assert_int_equal(verified.blocks, 15);
	assert_int_equal(verified.broken_blocks, 0);
	disk_close(disk);
}

static void test_bounded(void **state)
{
	const uint64_t size = 4 * MIB;
	struct disk *one = disk_of(size), *two = disk_of(size);
	struct disk_file *a, *b;
	assert_int_equal(open_object(one, 0, "\"a\"", 16 * MIB, &a), 0);
	assert_int_equal(open_object(two, 1, "\"a\"", 16 * MIB, &b), 0);
	uint64_t stored = 0;
	for (uint64_t i = 0; i < 200; i++) {
		stored += fill(one, a, 0, i, i + 1);
		stored += fill(two, b, 1, i, i + 1);
		assert_true(used() <= size);
	}
	/* Most of it is blocks, and both objects are read: neither replaced the other. */
	assert_true(stored * DISK_BLOCK >= size / 100 * 91);
	assert_true(disk_file_local(a, 0, DISK_BLOCK));
	assert_true(disk_file_local(b, 0, DISK_BLOCK));
	disk_file_close(a);
	disk_file_close(b);
	disk_close(one);
	disk_close(two);
	/* A smaller size is kept at once. */
	one = disk_of(2 * MIB);
	assert_true(used() <= 2 * MIB);
	disk_close(one);
}

/* Indexes beside the folder count, and blocks leave room for some that are still to come. */
static void test_indexes(void **state)
{
	const uint64_t size = 4 * MIB;
	struct disk *disk = disk_of(size);
	struct disk_file *file;
	char path[512];
	assert_int_equal(open_object(disk, 0, "\"a\"", 16 * MIB, &file), 0);
	assert_true(fill(disk, file, 0, 0, 200) > 0);
	assert_true(used() <= size - size / 48);
	disk_file_close(file);
	disk_close(disk);
	(void)snprintf(path, sizeof path, "%s/0123456789abcdef0123456789abcdef.idx", folder);
	const int fd = open(path, O_WRONLY | O_CREAT, 0600);
	for (int i = 0; i < 2 * MIB / DISK_BLOCK; i++)
		assert_int_equal(write(fd, block_of(9, 0), DISK_BLOCK), DISK_BLOCK);
	(void)close(fd);
	disk = disk_of(size);
	assert_true(used() <= 2 * MIB);
	assert_int_equal(open_object(disk, 0, "\"a\"", 16 * MIB, &file), 0);
	(void)fill(disk, file, 0, 0, 200);
	assert_true(used() <= 2 * MIB);
	assert_int_equal(access(path, F_OK), 0);
	disk_file_close(file);
	disk_close(disk);
}

/* Room for an index is taken from what blocks leave free, then by dropping what nobody reads, and
 * is refused if all is read; what is taken is counted before it is on disk. */
static void test_reserve(void **state)
{
	const uint64_t size = 4 * MIB;
	struct disk *disk = disk_of(size), *other = disk_of(size);
	struct disk_file *file;
	assert_int_equal(open_object(disk, 0, "\"a\"", 16 * MIB, &file), 0);
	(void)fill(disk, file, 0, 0, 200);
	assert_int_equal(disk_reserve(disk, size / 64), 0);
	assert_int_equal(disk_reserve(other, MIB), DISK_E_FULL);
	assert_int_equal(disk_reserve(other, UINT64_MAX), DISK_E_FULL);
	disk_settle(disk, size / 64, 0);
	assert_int_equal(disk_reserve(other, size / 64), 0);
	disk_settle(other, size / 64, 0);
	disk_file_close(file);
	/* Now nobody reads the object. */
	assert_int_equal(disk_reserve(other, 3 * MIB), 0);
	assert_true(used() < MIB);
	assert_int_equal(open_object(disk, 1, "\"a\"", 16 * MIB, &file), 0);
	(void)fill(disk, file, 1, 0, 200);
	assert_true(used() < MIB);
	disk_settle(other, 3 * MIB, 0);
	assert_true(fill(disk, file, 1, 100, 200) > 0);
	assert_true(used() > 2 * MIB && used() <= size);
	disk_file_close(file);
	disk_close(disk);
	disk_close(other);
}

/* Numbers of a damaged account do not make room by overflowing. */
static void test_damaged_account(void **state)
{
	const uint64_t size = 4 * MIB,
		       huge[4] = {UINT64_MAX - MIB, UINT64_MAX, UINT64_MAX - MIB, UINT64_MAX - 5};
	struct disk *disk = disk_of(size);
	struct disk_file *file;
	char path[512];
	assert_int_equal(open_object(disk, 0, "\"a\"", 16 * MIB, &file), 0);
	(void)fill(disk, file, 0, 0, 200);
	(void)snprintf(path, sizeof path, "%s/remote/account", folder);
	const int fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, huge, sizeof huge, 8), sizeof huge);
	(void)close(fd);
	assert_int_equal(disk_credit(disk, 2 * MIB, false), DISK_E_FULL);
	assert_true(used() <= size);
	disk_file_close(file);
	disk_close(disk);
	disk = disk_of(size);
	assert_int_equal(open_object(disk, 1, "\"a\"", 16 * MIB, &file), 0);
	(void)fill(disk, file, 1, 0, 200);
	assert_true(used() <= size);
	disk_file_close(file);
	disk_close(disk);
}

static int count_object(void *context, const struct disk_object *object)
{
	*(uint64_t *)context += object->size;
	return object->stored == 0 ? 0 : -1;
}

/* A map that says that its object has 2^62 bytes costs no more time than its own entries. */
static void test_huge_map(void **state)
{
	struct disk *disk = disk_of(4 * MIB);
	struct disk_map_header header;
	struct disk_verified verified;
	char name[DISK_NAME + 1], path[160];
	uint64_t bytes = 0;
	disk_map_name(url_of(7), name);
	assert_int_equal(disk_map_fill(&header, url_of(7), "\"a\"", UINT64_C(1) << 62), 0);
	const char *const suffixes[] = {"map", "data"};
	for (size_t i = 0; i < UTIL_COUNT(suffixes); i++) {
		(void)snprintf(path, sizeof path, "%s/remote/%s.%s", folder, name, suffixes[i]);
		const int fd = open(path, O_WRONLY | O_CREAT, 0600);
		assert_int_equal(write(fd, &header, sizeof header), sizeof header);
		(void)close(fd);
	}
	(void)alarm(30);
	assert_int_equal(disk_each(disk, count_object, &bytes), 0);
	assert_true(bytes == UINT64_C(1) << 62);
	assert_int_equal(disk_verify(disk, "", NULL, NULL, &verified), 0);
	assert_int_equal(verified.blocks, 0);
	(void)alarm(0);
	disk_close(disk);
}

static void set_read(const char *url, int64_t seconds)
{
	char name[DISK_NAME + 1], path[160];
	disk_map_name(url, name);
	(void)snprintf(path, sizeof path, "%s/remote/%s.map", folder, name);
	const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool exists(struct disk *disk, unsigned object)
{
	struct disk_file *file;
	if (disk_file_open(disk, url_of(object), "\"a\"", MIB, false, &file) != 0)
		return false;
	disk_file_close(file);
	return true;
}

static void foreign_make(const char *name, const char *text)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote/%s", folder, name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	(void)close(fd);
}

static bool foreign_is(const char *name)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote/%s", folder, name);
	return access(path, F_OK) == 0;
}

static void test_makes_room(void **state)
{
	static const char *const foreign[] = {"notes.txt", "0123456789abcdef0123456789abcdef.map",
		"0123456789abcdef0123456789abcdee.data", "hold-me", "0123.map"};
	struct disk *disk = disk_of(5 * MIB), *other = disk_of(5 * MIB);
	struct disk_file *file, *open_file;
	struct disk_hold *hold;
	struct disk_stats stats;
	for (size_t i = 0; i < UTIL_COUNT(foreign); i++)
		foreign_make(foreign[i], "not penstock's");
	for (unsigned object = 0; object < 4; object++) {
		assert_int_equal(open_object(disk, object, "\"a\"", MIB, &file), 0);
		assert_int_equal(fill(disk, file, object, 0, 16), 16);
		disk_file_close(file);
	}
	set_read(url_of(0), 1000); /* open in another process */
	set_read(url_of(1), 2000); /* held */
	set_read(url_of(2), 4000);
	set_read(url_of(3), 3000); /* the longest unread */
	assert_int_equal(disk_file_open(other, url_of(0), "\"a\"", MIB, false, &open_file), 0);
	set_read(url_of(0), 1000);
	assert_int_equal(disk_hold(other, "s3://bucket/train/1", &hold), 0);

	assert_int_equal(open_object(disk, 4, "\"a\"", 3 * MIB / 2, &file), 0);
	assert_int_equal(fill(disk, file, 4, 0, 24), 24);
	assert_true(used() <= 5 * MIB);
	disk_stats_read(disk, &stats);
	assert_int_equal(stats.dropped_objects, 1);
	assert_true(exists(other, 0));
	assert_true(exists(other, 1));
	assert_true(exists(other, 2));
	assert_false(exists(other, 3));
	disk_hold_free(hold);
	disk_file_close(open_file);
	disk_file_close(file);

	struct disk_cleared cleared;
	assert_int_equal(disk_clear(disk, "s3://bucket/train/1", &cleared), 0);
	assert_int_equal(cleared.objects, 1);
	assert_false(exists(disk, 1));
	assert_true(exists(disk, 0));
	assert_int_equal(disk_file_open(other, url_of(0), "\"a\"", MIB, false, &open_file), 0);
	assert_int_equal(disk_clear(disk, "", &cleared), 0);
	assert_int_equal(cleared.open_objects, 1);
	disk_file_close(open_file);
	for (size_t i = 0; i < UTIL_COUNT(foreign); i++)
		assert_true(foreign_is(foreign[i]));
	disk_close(disk);
	disk_close(other);
}

/* A file that is dropped is unlinked, and its readers keep their bytes. */
static void test_version(void **state)
{
	struct disk *disk = disk_of(5 * MIB), *other = disk_of(5 * MIB);
	struct disk_file *old, *new;
	uint8_t buffer[DISK_BLOCK];
	assert_int_equal(open_object(disk, 0, "\"old\"", MIB, &old), 0);
	assert_int_equal(fill(disk, old, 0, 0, 2), 2);
	/* Somebody reads it: the new version is not stored, and the old one stays. */
	assert_int_equal(open_object(other, 0, "\"new\"", MIB, &new), DISK_E_ABSENT);
	assert_int_equal(whole_read(disk_file_fd(old), buffer, DISK_BLOCK, 0), DISK_BLOCK);
	assert_memory_equal(buffer, block_of(0, 0), DISK_BLOCK);
	disk_file_close(old);
	assert_int_equal(open_object(other, 0, "\"new\"", MIB, &new), 0);
	assert_int_equal(disk_file_state(new, 0), DISK_MISSING);
	disk_file_close(new);
	assert_int_equal(
		disk_file_open(disk, url_of(0), "\"old\"", MIB, false, &old), DISK_E_ABSENT);
	/* The same ETag with another size is another object too. */
	assert_int_equal(open_object(other, 0, "\"new\"", 2 * MIB, &new), 0);
	disk_file_close(new);
	disk_close(disk);
	disk_close(other);
}

/* A data file that another program put in the place of ours is neither written nor removed. */
static void test_foreign_data(void **state)
{
	static const char text[] = "not penstock's";
	struct disk *disk = disk_of(5 * MIB);
	struct disk_file *file;
	struct disk_cleared cleared;
	char name[DISK_NAME + 1], path[160], found[sizeof text];
	disk_map_name(url_of(0), name);
	(void)snprintf(path, sizeof path, "%s/remote/%s.data", folder, name);
	for (int what = 0; what < 3; what++) {
		assert_int_equal(open_object(disk, 0, "\"a\"", MIB, &file), 0);
		assert_int_equal(fill(disk, file, 0, 0, 2), 2);
		disk_file_close(file);
		assert_int_equal(unlink(path), 0);
		const int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
		assert_int_equal(whole_write(fd, text, sizeof text, 0), 0);
		/* As long as ours would be. */
		assert_int_equal(ftruncate(fd, MIB + 15), 0);
		assert_int_equal(whole_write(fd, text, sizeof text, MIB + 16 - sizeof text), 0);
		struct disk *other = NULL;
		if (what == 0)
			assert_int_equal(open_object(disk, 0, "\"a\"", MIB, &file), DISK_E_ABSENT);
		else if (what == 1)
			assert_int_equal(disk_clear(disk, "", &cleared), 0);
		else
			other = disk_of(4096);
		disk_close(other);
		assert_int_equal(whole_read(fd, found, sizeof found, 0), sizeof found);
		assert_memory_equal(found, text, sizeof text);
		(void)close(fd);
		assert_int_equal(unlink(path), 0);
	}
	disk_close(disk);
}

/* What a process may leave that is killed while it makes or removes files. */
static void test_remains(void **state)
{
	char name[DISK_NAME + 1], map[160], file_path[160];
	disk_map_name(url_of(0), name);
	(void)snprintf(map, sizeof map, "%s/remote/%s.map", folder, name);
	(void)snprintf(file_path, sizeof file_path, "%s/remote/%s.data", folder, name);
	for (int what = 0; what < 6; what++) {
		struct disk *disk = disk_of(5 * MIB);
		struct disk_file *file;
		assert_int_equal(open_object(disk, 0, "\"a\"", MIB, &file), 0);
		assert_int_equal(fill(disk, file, 0, 0, 2), 2);
		disk_file_close(file);
		static const uint8_t zeros[DISK_MAP_HEADER];
		const int fd = open(map, O_RDWR);
		if (what == 0)
			assert_int_equal(truncate(map, 0), 0);
		else if (what == 1)
			assert_int_equal(unlink(file_path), 0);
		else if (what == 2)
			assert_int_equal(unlink(map), 0);
		else if (what == 3)
			assert_int_equal(truncate(file_path, 0), 0);
		else if (what == 4)
			assert_int_equal(whole_write(fd, zeros, sizeof zeros, 0), 0);
		else
			assert_int_equal(truncate(map, DISK_MAP_HEADER), 0);
		(void)close(fd);
		assert_int_equal(open_object(disk, 0, "\"a\"", MIB, &file), 0);
		assert_int_equal(disk_file_state(file, 0), DISK_MISSING);
		assert_int_equal(fill(disk, file, 0, 0, 1), 1);
		disk_file_close(file);
		disk_close(disk);
	}
	/* An orphan is removed for room; data that was never written is a block that is broken. */
	struct disk *disk = disk_of(5 * MIB);
	struct disk_file *file;
	assert_int_equal(unlink(map), 0);
	disk_close(disk);
	disk = disk_of(4096);
	assert_int_equal(access(file_path, F_OK), -1);
	disk_close(disk);
	disk = disk_of(5 * MIB);
	assert_int_equal(open_object(disk, 0, "\"a\"", MIB, &file), 0);
	assert_int_equal(fill(disk, file, 0, 0, 2), 2);
	assert_int_equal(fallocate(disk_file_fd(file), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 0, DISK_BLOCK),
		0);
	disk_file_close(file);
	uint8_t buffer[DISK_BLOCK];
	assert_int_equal(disk_file_open(disk, url_of(0), "\"a\"", MIB, false, &file), 0);
	assert_int_equal(disk_file_verify(file, 0, buffer), DISK_E_BROKEN);
	assert_int_equal(disk_file_verify(file, 1, buffer), 0);
	disk_file_close(file);
	disk_close(disk);
}

/* The credit and the holds of a process that is killed are found to be free. */
static void test_killed(void **state)
{
	const uint64_t size = 4 * MIB;
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	const pid_t child = fork();
	if (child == 0) {
		struct disk *disk = disk_of(size);
		struct disk_hold *hold;
		struct disk_file *file;
		if (take(disk, 3 * MIB, true) != 0 || disk_hold(disk, "s3://", &hold) != 0 ||
			disk_file_open(disk, url_of(0), "\"a\"", MIB, true, &file) < 0 ||
			write(ready[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
	}
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	struct disk *disk = disk_of(size);
	assert_int_equal(take(disk, 2 * MIB, true), DISK_E_FULL);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(take(disk, 3 * MIB, false), DISK_E_FULL);
	assert_int_equal(take(disk, 3 * MIB, true), 0);
	disk_close(disk);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

/* A process that is stopped while it has the lock holds up nobody. */
static void test_stopped(void **state)
{
	struct disk *disk = disk_of(4 * MIB), *late;
	struct fault fault;
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote/account", folder);
	const int fd = open(path, O_RDWR);
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)1 << 40, .l_len = 1};
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
	assert_int_equal(disk_credit(disk, MIB, true), DISK_E_FULL);
	assert_int_equal(disk_open(folder, 4 * MIB, &late, &fault), -EBUSY);
	assert_non_null(strstr(fault.text, "another process has kept the lock"));
	/* An object is not given up for that. */
	struct disk_file *file;
	disk_give(disk, MIB);
	assert_int_equal(disk_file_open(disk, url_of(0), "\"a\"", MIB, true, &file), DISK_E_FULL);
	assert_true(disk_take(disk, MIB));
	(void)close(fd);
	assert_int_equal(disk_credit(disk, MIB, true), 0);
	assert_int_equal(disk_file_open(disk, url_of(0), "\"a\"", MIB, true, &file), 0);
	disk_file_close(file);
	disk_close(disk);
}

/* Files of others with the names that penstock uses are neither written to nor removed. */
static void test_foreign(void **state)
{
	static const char text[] = "not penstock's";
	struct disk *disk = disk_of(4 * MIB);
	struct disk_hold *hold;
	struct fault fault;
	char path[512], bytes[sizeof text];
	(void)snprintf(path, sizeof path, "%s/remote/hold-0-0", folder);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	assert_int_equal(whole_write(fd, text, sizeof text, 0), 0);
	assert_int_equal(disk_hold(disk, "s3://bucket/", &hold), 0);
	disk_hold_free(hold);
	disk_close(disk);
	assert_int_equal(whole_read(fd, bytes, sizeof text, 0), sizeof text);
	assert_string_equal(bytes, text);
	assert_int_equal(access(path, F_OK), 0);
	(void)close(fd);
	(void)snprintf(path, sizeof path, "%s/remote/account", folder);
	fd = open(path, O_RDWR | O_TRUNC);
	assert_int_equal(whole_write(fd, text, sizeof text, 0), 0);
	assert_int_equal(disk_open(folder, 4 * MIB, &disk, &fault), -EPERM);
	assert_non_null(strstr(fault.text, "cannot store remote data in it"));
	assert_int_equal(whole_read(fd, bytes, sizeof text, 0), sizeof text);
	assert_string_equal(bytes, text);
	(void)close(fd);
}

static void test_refused(void **state)
{
	struct disk *disk;
	struct fault fault;
	char path[512];
	(void)snprintf(path, sizeof path, "%s/file", folder);
	(void)close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_true(disk_open(path, MIB, &disk, &fault) < 0);
	assert_non_null(strstr(fault.text, "cannot store remote data in it"));
	assert_int_equal(disk_open_existing(folder, &disk, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "nothing of remote data is kept"));
	/* An address that has no room in a header. */
	static char url[5000] = "s3://";
	memset(url + 5, 'a', sizeof url - 6);
	struct disk_file *file;
	disk = disk_of(4 * MIB);
	assert_int_equal(take(disk, MIB, true), 0);
	disk_give(disk, MIB);
	assert_int_equal(disk_file_open(disk, url, "\"a\"", MIB, true, &file), DISK_E_ABSENT);
	/* A signature does not get to disk. */
	assert_int_equal(disk_file_open(disk, "https://h/k?X-Amz-Signature=secret", "\"a\"", MIB,
				 true, &file),
		0);
	char name[DISK_NAME + 1], map[DISK_MAP_HEADER];
	disk_map_name("https://h/k?X-Amz-Signature=secret", name);
	(void)snprintf(path, sizeof path, "%s/remote/%s.map", folder, name);
	const int fd = open(path, O_RDONLY);
	assert_int_equal(read(fd, map, sizeof map), sizeof map);
	assert_null(memmem(map, sizeof map, "secret", 6));
	(void)close(fd);
	disk_file_close(file);
	disk_close(disk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stores, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flipped_bits, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_indexes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reserve, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_account, setup, teardown),
		cmocka_unit_test_setup_teardown(test_huge_map, setup, teardown),
		cmocka_unit_test_setup_teardown(test_makes_room, setup, teardown),
		cmocka_unit_test_setup_teardown(test_version, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign_data, setup, teardown),
		cmocka_unit_test_setup_teardown(test_remains, setup, teardown),
		cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

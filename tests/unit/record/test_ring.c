/* ring: entries that were written are read; a reader skips what a crash, a full disk or a flipped
 * bit damaged.
 *
 * The linker wraps fallocate, pwrite and flock, which stand in for a file system that cannot
 * reserve room, and for a disk that is full or fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "record/ring.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static int fallocate_error; /* 0: the real one */
static int pwrite_error;
static long pwrite_left = -1; /* bytes until it fails; negative: it does not */
static uint64_t pwritten;
static int flock_taken; /* how many new files another process locks or removes first */

int __real_fallocate(int fd, int mode, off_t offset, off_t size);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t size);
ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t size)
{
	if (fallocate_error) {
		errno = fallocate_error;
		return -1;
	}
	return __real_fallocate(fd, mode, offset, size);
}

/* The last write before a failure is short, as at the end of a disk. */
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset)
{
	if (pwrite_left == 0) {
		errno = pwrite_error;
		return -1;
	}
	if (pwrite_left > 0)
		size = UTIL_MIN(size, (size_t)pwrite_left);
	ssize_t n = __real_pwrite(fd, data, size, offset);
	if (n > 0) {
		pwritten += (uint64_t)n;
		pwrite_left -= pwrite_left > 0 ? n : 0;
	}
	return n;
}

int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);

static char folder[] = "/tmp/penstock-ring-XXXXXX";
static char path[sizeof folder + 32];

static int begin(void **state)
{
	(void)state;
	memcpy(folder, "/tmp/penstock-ring-XXXXXX", sizeof folder);
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(path, sizeof path, "%s/recorder.ring", folder);
	fallocate_error = pwrite_error = 0;
	pwrite_left = -1;
	flock_taken = 0;
	return 0;
}

int __wrap_flock(int fd, int how)
{
	if (flock_taken <= 0)
		return __real_flock(fd, how);
	if (flock_taken-- % 2) {
		errno = EWOULDBLOCK;
		return -1;
	}
	assert_int_equal(unlink(path), 0);
	return __real_flock(fd, how);
}

static int end(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(folder);
}

static struct ring *make(uint64_t bytes)
{
	struct fault fault;
	struct ring *ring;
	int result = ring_create(path, bytes, &ring, &fault);
	if (result)
		fail_msg("%d: %s", result, fault.text);
	return ring;
}

static struct record note(uint64_t number)
{
	struct record r = {.time_ns = number, .kind = RECORD_NOTE, .bytes = sizeof r.body.note};
	(void)snprintf(
		r.body.note.text, sizeof r.body.note.text, "note %llu", (unsigned long long)number);
	return r;
}

static struct record moment(uint64_t number)
{
	struct record r = {
		.time_ns = number, .kind = RECORD_TRAINER, .bytes = sizeof r.body.trainer};
	r.body.trainer = (struct record_trainer){
		.trainer = number, .pid = (int32_t)(number % 1000), .gpu_bytes = UINT64_MAX};
	return r;
}

static void append(struct ring *ring, struct record record)
{
	assert_int_equal(ring_append(ring, &record), 0);
}

struct entries {
	struct record *record;
	size_t count;
};

static struct entries read_back(void)
{
	struct entries entries;
	struct fault fault;
	int result = ring_read(path, &entries.record, &entries.count, &fault);
	if (result)
		fail_msg("%d: %s", result, fault.text);
	return entries;
}

/* Whether the file has exactly these entries: pairs of times, by their order. */
static void read_times(const uint64_t *times, size_t count)
{
	struct entries entries = read_back();
	assert_int_equal(entries.count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(entries.record[i].time_ns, times[i]);
	free(entries.record);
}

static void refused(int expected, const char *words)
{
	struct record *records = NULL;
	size_t count = 77;
	struct fault fault = {{0}};
	assert_int_equal(ring_read(path, &records, &count, &fault), expected);
	assert_non_null(strstr(fault.text, path));
	if (!strstr(fault.text, words))
		fail_msg("expected \"%s\" in \"%s\"", words, fault.text);
	assert_int_equal(count, 77);
}

static void put_bytes(off_t offset, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(__real_pwrite(fd, data, size, offset), size);
	assert_int_equal(close(fd), 0);
}

static struct record every_kind(uint32_t kind)
{
	struct record r = {.time_ns = 1000 + kind, .kind = kind, .bytes = sizeof r.body};
	memset(&r.body, (int)kind, sizeof r.body);
	return r;
}

static void entries_that_were_written_are_read(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	for (uint32_t kind = RECORD_START; kind < RECORD_KINDS; kind++)
		append(ring, every_kind(kind));
	append(ring, note(7));
	struct entries entries = read_back(); /* while it is open to be written */
	assert_int_equal(entries.count, RECORD_KINDS);
	for (uint32_t kind = RECORD_START; kind < RECORD_KINDS; kind++) {
		const struct record *r = &entries.record[kind - 1];
		assert_int_equal(r->kind, kind);
		assert_int_equal(r->time_ns, 1000 + kind);
		assert_int_equal(r->bytes, sizeof r->body);
		assert_int_equal(*(const uint8_t *)&r->body, kind);
	}
	const struct record *last = &entries.record[RECORD_KINDS - 1];
	assert_string_equal(last->body.note.text, "note 7");
	assert_int_equal(last->bytes, strlen("note 7"));
	free(entries.record);
	ring_free(ring);
	ring_free(NULL);
}

/* every_kind fills texts to their last byte: each must have been terminated. */
static void texts_are_terminated(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	append(ring, every_kind(RECORD_START));
	append(ring, every_kind(RECORD_ATTACH));
	append(ring, every_kind(RECORD_MACHINE));
	struct entries entries = read_back();
	assert_int_equal(strlen(entries.record[0].body.start.kernel), 71);
	assert_int_equal(strlen(entries.record[0].body.start.cgroup.path), RECORD_PATH - 1);
	assert_int_equal(strlen(entries.record[1].body.attach.command), RECORD_TEXT - 1);
	assert_int_equal(strlen(entries.record[2].body.machine.cgroup.path), RECORD_PATH - 1);
	free(entries.record);
	ring_free(ring);
}

static void its_size_is_fixed(void **state)
{
	(void)state;
	struct stat before, after;
	struct ring *ring = make(RING_LEAST);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(before.st_size, RING_LEAST);
	assert_int_equal(before.st_mode & 07777, 0600);
	assert_true(before.st_blocks * 512 >= RING_LEAST);
	for (uint64_t i = 0; i < 40000; i++) {
		append(ring, moment(i));
		if (i % 8 == 0)
			append(ring, note(i));
	}
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_size, RING_LEAST);
	assert_int_equal(after.st_blocks, before.st_blocks);
	ring_free(ring);
}

/* After many laps of either ring, the newest entries are all there, without a gap; only newer marks
 * push out marks, and nothing pushes out the start. */
static void the_newest_stay(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	struct record start = every_kind(RECORD_START);
	append(ring, start);
	for (uint64_t i = 0; i < 3; i++)
		append(ring, note(i));
	for (uint64_t i = 100; i < 100000; i++)
		append(ring, moment(i));
	struct entries entries = read_back();
	assert_int_equal(entries.record[0].kind, RECORD_START);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(entries.record[1 + i].time_ns, i);
	assert_true(entries.count > 4000);
	for (size_t i = 4; i < entries.count; i++)
		assert_int_equal(entries.record[i].time_ns, 100000 - (entries.count - i));
	free(entries.record);

	for (uint64_t i = 0; i < 10000; i++)
		append(ring, note(i));
	entries = read_back();
	size_t notes = 0;
	assert_int_equal(entries.record[0].kind, RECORD_START);
	for (size_t i = entries.count; entries.record[i - 1].kind == RECORD_NOTE; i--)
		assert_int_equal(entries.record[i - 1].time_ns, 10000 - ++notes);
	assert_true(notes > 1000);
	free(entries.record);
	ring_free(ring);
}

static void others_are_not_touched(void **state)
{
	(void)state;
	struct fault fault;
	struct ring *ring = NULL;
	char target[sizeof path + 8];
	(void)snprintf(target, sizeof target, "%s.other", path);
	FILE *file = fopen(target, "we");
	assert_true(file && fputs("precious", file) >= 0 && fclose(file) == 0);

	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(ring_create(path, RING_LEAST, &ring, &fault), -EEXIST);
	assert_non_null(strstr(fault.text, "remove it"));
	assert_null(ring);
	assert_int_equal(unlink(path), 0);

	assert_int_equal(link(target, path), 0);
	assert_int_equal(ring_create(path, RING_LEAST, &ring, &fault), -EEXIST);
	struct stat s;
	assert_int_equal(stat(target, &s), 0);
	assert_int_equal(s.st_size, strlen("precious"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(target), 0);

	(void)snprintf(target, sizeof target, "%s.no/x", path);
	assert_int_equal(ring_create(target, RING_LEAST, &ring, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, target));
	assert_int_equal(ring_create(path, RING_LEAST - 1, &ring, &fault), -EINVAL);
	assert_int_equal(ring_create(path, UINT64_MAX, &ring, &fault), -EINVAL);
	assert_int_equal(access(path, F_OK), -1);
}

static void a_file_in_use_is_locked(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
	ring_free(ring);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(close(fd), 0);
}

/* ---- disks ---- */

static void a_full_disk_leaves_nothing(void **state)
{
	(void)state;
	static const int errors[] = {ENOSPC, EDQUOT, EFBIG, EIO};
	for (size_t i = 0; i < UTIL_COUNT(errors); i++) {
		struct fault fault;
		struct ring *ring = NULL;
		fallocate_error = errors[i];
		assert_int_equal(ring_create(path, RING_LEAST, &ring, &fault), -errors[i]);
		assert_non_null(strstr(fault.text, path));
		assert_int_equal(strstr(fault.text, "recorder_size") != NULL, errors[i] != EIO);
		assert_null(ring);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void room_that_cannot_be_reserved_is_written(void **state)
{
	(void)state;
	static const int errors[] = {EOPNOTSUPP, ENOSYS};
	for (size_t i = 0; i < UTIL_COUNT(errors); i++) {
		struct stat s;
		fallocate_error = errors[i];
		pwritten = 0;
		struct ring *ring = make(RING_LEAST + 1000);
		assert_true(pwritten >= RING_LEAST + 1000);
		assert_int_equal(stat(path, &s), 0);
		assert_int_equal(s.st_size, RING_LEAST + 1000);
		append(ring, note(1));
		read_times((const uint64_t[]){1}, 1);
		ring_free(ring);
		assert_int_equal(unlink(path), 0);
	}
	struct fault fault;
	struct ring *ring = NULL;
	pwrite_error = ENOSPC;
	pwrite_left = RING_LEAST / 2;
	assert_int_equal(ring_create(path, RING_LEAST, &ring, &fault), -ENOSPC);
	assert_int_equal(access(path, F_OK), -1);
}

/* Also where half an entry was written. */
static void a_failing_disk_costs_only_the_entries_that_failed(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	append(ring, note(0));
	for (long left = 0; left < 40; left += 13) {
		struct record lost = note(666);
		pwrite_error = EIO;
		pwrite_left = left;
		assert_int_equal(ring_append(ring, &lost), -EIO);
		assert_int_equal(ring_append(ring, &lost), -EIO);
		pwrite_left = -1;
	}
	append(ring, note(1));
	read_times((const uint64_t[]){0, 1}, 2);
	ring_free(ring);
}

/* ---- other files, and damaged ones ---- */

static void other_files_are_refused(void **state)
{
	(void)state;
	refused(-ENOENT, "No such file");
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fclose(file), 0);
	refused(-EINVAL, "not a flight recorder's file");
	char text[5000];
	memset(text, 'x', sizeof text);
	put_bytes(0, text, 3);
	refused(-EINVAL, "not a flight recorder's file");
	put_bytes(0, text, sizeof text);
	refused(-EINVAL, "not a flight recorder's file");
	assert_int_equal(truncate(path, (off_t)4 << 30), 0);
	refused(-EINVAL, "not a flight recorder's file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(-EINVAL, "not a flight recorder's file");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	refused(-EINVAL, "not a flight recorder's file");
	assert_int_equal(rmdir(path), 0);
}

static void another_version_is_refused(void **state)
{
	(void)state;
	ring_free(make(RING_LEAST));
	uint32_t version = RECORD_VERSION + 1;
	put_bytes(8, &version, sizeof version);
	refused(-EINVAL, "of version 2, and this penstock reads version 1");
}

static void a_file_without_entries_is_good(void **state)
{
	(void)state;
	ring_free(make(RING_LEAST));
	read_times(NULL, 0);
}

/* Kinds and longer bodies of a later release. */
static void newer_entries_are_left_out(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	append(ring, note(0));
	struct record later = note(1);
	later.kind = RECORD_KINDS;
	append(ring, later);
	later.kind = 0;
	append(ring, later);
	later.kind = RECORD_NOTE;
	later.bytes = UINT32_MAX;
	append(ring, later);
	struct entries entries = read_back();
	assert_int_equal(entries.count, 2);
	assert_string_equal(entries.record[1].body.note.text, "note 1");
	free(entries.record);
	ring_free(ring);
}

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

/* The time of each record says what it must contain, so that a damaged one is found. */
static void expect_whole(const struct entries *entries)
{
	uint64_t last = 0;
	for (size_t i = 0; i < entries->count; i++) {
		const struct record *r = &entries->record[i];
		assert_true(r->time_ns > last || i == 0);
		last = r->time_ns;
		if (r->kind == RECORD_NOTE) {
			char text[RECORD_TEXT];
			(void)snprintf(text, sizeof text, "note %llu", (unsigned long long)last);
			assert_string_equal(r->body.note.text, text);
		} else {
			assert_int_equal(r->kind, RECORD_TRAINER);
			assert_int_equal(r->body.trainer.trainer, last);
			assert_int_equal(r->body.trainer.pid, last % 1000);
			assert_true(r->body.trainer.gpu_bytes == UINT64_MAX);
		}
	}
}

static size_t read_whole(void)
{
	struct entries entries = read_back();
	size_t count = entries.count;
	expect_whole(&entries);
	free(entries.record);
	return count;
}

static void fill(uint64_t count)
{
	struct ring *ring = make(RING_LEAST);
	for (uint64_t i = 1; i <= count; i++)
		append(ring, i % 5 ? moment(i) : note(i));
	ring_free(ring);
}

/* Flipped bits, overwritten stretches, and files that were cut. */
static void random_damage_costs_only_the_entries_it_hits(void **state)
{
	(void)state;
	uint8_t rubbish[3000];
	for (int round = 0; round < 40; round++) {
		fill(30000);
		size_t whole = read_whole();
		unsigned hits = 1 + (unsigned)draw(20);
		for (unsigned i = 0; i < hits; i++) {
			off_t at = (off_t)(16 + draw(RING_LEAST - 4000));
			size_t size = 1 + (size_t)draw(round % 2 ? 1 : sizeof rubbish);
			for (size_t k = 0; k < size; k++)
				rubbish[k] = (uint8_t)draw(256);
			put_bytes(at, rubbish, size);
		}
		size_t left = read_whole();
		assert_true(left <= whole);
		assert_true(left + hits * 150ul > whole);
		if (round % 4 == 0) {
			assert_int_equal(truncate(path, (off_t)(16 + draw(RING_LEAST - 16))), 0);
			assert_true(read_whole() <= left);
		}
		assert_int_equal(unlink(path), 0);
	}
}

/* Another daemon that starts meanwhile may remove it as an old file. */
static void a_file_that_is_tidied_away_is_made_anew(void **state)
{
	(void)state;
	struct fault fault;
	struct ring *ring;
	struct stat status;
	flock_taken = 2;
	ring = make(RING_LEAST);
	append(ring, note(1));
	assert_int_equal(stat(path, &status), 0);
	read_times((const uint64_t[]){1}, 1);
	ring_free(ring);
	assert_int_equal(unlink(path), 0);
	flock_taken = 1000;
	assert_int_equal(ring_create(path, RING_LEAST, &ring, &fault), -EAGAIN);
	assert_int_equal(stat(path, &status), -1); /* and nothing is left */
}

/* An entry that is cut at any byte is skipped, and the entries around it are read. */
static void a_torn_entry_is_skipped(void **state)
{
	(void)state;
	struct ring *ring = make(RING_LEAST);
	append(ring, note(1));
	append(ring, note(2));
	append(ring, note(3));
	ring_free(ring);
	static const uint8_t zeros[40];
	for (size_t cut = 0; cut < 39; cut++) { /* the entry's head and "note 2": 38 bytes */
		uint8_t saved[40];
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_int_equal(pread(fd, saved, sizeof saved, 4096 + 40), sizeof saved);
		assert_int_equal(close(fd), 0);
		put_bytes(4096 + 40 + (off_t)cut, zeros, sizeof zeros - cut);
		struct entries entries = read_back();
		assert_int_equal(entries.count, cut < 38 ? 2 : 3);
		assert_int_equal(entries.record[0].time_ns, 1);
		assert_int_equal(entries.record[entries.count - 1].time_ns, 3);
		free(entries.record);
		put_bytes(4096 + 40, saved, sizeof saved);
	}
}

/* ---- files that no recorder wrote ---- */

/* Entries without bodies, which are many for the size of the file: each would take a kilobyte. */
static void of_tiny_entries_the_newest_are_kept(void **state)
{
	(void)state;
	enum { MOST = 4096 + RING_LEAST / 96 };
	struct ring *ring = make(RING_LEAST);
	append(ring, every_kind(RECORD_START));
	for (uint64_t i = 1; i < 20000; i++) {
		append(ring, (struct record){.time_ns = 10000 + i, .kind = RECORD_TRAINER});
		if (i != MOST - 1 && i != MOST && i != 19999)
			continue;
		struct entries entries = read_back();
		assert_int_equal(entries.count, UTIL_MIN(i + 1, (uint64_t)MOST));
		assert_int_equal(entries.record[0].kind, RECORD_START);
		for (size_t k = 1; k < entries.count; k++)
			assert_int_equal(
				entries.record[k].time_ns, 10000 + i + 1 - (entries.count - k));
		free(entries.record);
	}
	ring_free(ring);
}

/* Heads of entries that overlap, with wrong checksums, each of which would be read to its end. */
static void of_overlapping_entries_few_are_read(void **state)
{
	(void)state;
	enum { MARKS = 4096 + RING_LEAST / 8, LAST = RING_LEAST - 4096, STEP = 4096 };
	static const uint8_t head[8] = {0x50, 0x43, 0x45, 0x52, RECORD_NOTE, 0, 0xff, 0xff};
	struct ring *ring = make(RING_LEAST);
	uint8_t entry[40];
	append(ring, note(1));
	append(ring, note(2));
	ring_free(ring);
	/* The second one, at the end of the file. */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, entry, sizeof entry, 4096 + 40), sizeof entry);
	assert_int_equal(close(fd), 0);
	put_bytes(4096 + 40, (uint8_t[40]){0}, 40);
	put_bytes(LAST, entry, sizeof entry);
	/* 8 MiB: few enough. */
	for (unsigned i = 0; i < 120; i++)
		put_bytes(MARKS + (off_t)i * STEP, head, sizeof head);
	read_times((const uint64_t[]){1, 2}, 2);
	for (unsigned i = 0; i < 240; i++)
		put_bytes(MARKS + (off_t)i * STEP / 2, head, sizeof head);
	read_times((const uint64_t[]){1}, 1);
}

/* ---- read while it is written ---- */

static atomic_bool written; /* release by the writer, acquire by the reader: it is done */

static void *write_on(void *context)
{
	struct ring *ring = context;
	for (uint64_t i = 1; i <= 60000; i++) {
		struct record r = i % 5 ? moment(i) : note(i);
		if (ring_append(ring, &r))
			break;
	}
	atomic_store_explicit(&written, true, memory_order_release);
	return NULL;
}

static void it_is_read_while_it_is_written(void **state)
{
	(void)state;
	pthread_t thread;
	struct ring *ring = make(RING_LEAST);
	unsigned rounds = 0;
	atomic_store(&written, false);
	assert_int_equal(pthread_create(&thread, NULL, write_on, ring), 0);
	while (!atomic_load_explicit(&written, memory_order_acquire) || !rounds) {
		(void)read_whole();
		rounds++;
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	struct entries entries = read_back();
	assert_int_equal(entries.record[entries.count - 1].time_ns, 60000);
	free(entries.record);
	ring_free(ring);
}

int main(void)
{
#define RING_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		RING_TEST(entries_that_were_written_are_read),
		RING_TEST(texts_are_terminated),
		RING_TEST(its_size_is_fixed),
		RING_TEST(the_newest_stay),
		RING_TEST(others_are_not_touched),
		RING_TEST(a_file_in_use_is_locked),
		RING_TEST(a_file_that_is_tidied_away_is_made_anew),
		RING_TEST(a_full_disk_leaves_nothing),
		RING_TEST(room_that_cannot_be_reserved_is_written),
		RING_TEST(a_failing_disk_costs_only_the_entries_that_failed),
		RING_TEST(other_files_are_refused),
		RING_TEST(another_version_is_refused),
		RING_TEST(a_file_without_entries_is_good),
		RING_TEST(newer_entries_are_left_out),
		RING_TEST(random_damage_costs_only_the_entries_it_hits),
		RING_TEST(a_torn_entry_is_skipped),
		RING_TEST(of_tiny_entries_the_newest_are_kept),
		RING_TEST(of_overlapping_entries_few_are_read),
		RING_TEST(it_is_read_while_it_is_written),
	};
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}

/* index: what is written is read back; every changed byte is detected; digests do not depend on
 * where a list is cut. */
#include "dataset/dataset.h"
#include "dataset/digest.h"
#include "dataset/index.h"
#include "dataset/index_files.h"
#include "unit/source_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

enum { SAMPLES = 400 }; /* more than three pages of records */

static int memory_file(void)
{
	int fd = memfd_create("index", MFD_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static size_t name_of(int i, char *name)
{
	size_t size = (size_t)sprintf(name, "class/%d", i);
	if (i % 50 == 0) { /* sometimes one that fills most of a page */
		memset(name + size, 'x', INDEX_NAME_MAX - size);
		size = INDEX_NAME_MAX;
	}
	name[size] = 0;
	return size;
}

static struct index_record record_of(int i)
{
	return (struct index_record){.offset = (uint64_t)i << 33,
		.size = (uint32_t)i * 3,
		.label = i % 7,
		.format = SAMPLE_PNG};
}

/* Writes an index at `base`; returns its size. */
static uint64_t write_index(int fd, uint64_t base)
{
	struct index_writer writer;
	char name[INDEX_NAME_MAX + 1];
	int names = memory_file(), tables = memory_file();
	uint64_t bytes = 0;
	assert_int_equal(index_writer_init(&writer, fd, base, names, tables), 0);
	for (int i = 0; i < SAMPLES; i++) {
		struct index_record record = record_of(i);
		size_t size = name_of(i, name);
		assert_int_equal(index_writer_name(&writer, name, size, &record), 0);
		assert_int_equal(index_writer_add(&writer, &record, name, size), 0);
		assert_int_equal(
			index_writer_entry(&writer, i & 1 ? 'C' : 'D', i - 5, name, size), 0);
	}
	assert_int_equal(index_writer_finish(&writer, &bytes), 0);
	assert_int_equal(writer.head.samples, SAMPLES);
	assert_int_equal(writer.head.classes + writer.head.directories, SAMPLES);
	assert_int_equal(writer.head.largest, (SAMPLES - 1) * 3);
	index_writer_deinit(&writer);
	assert_int_equal(close(names) + close(tables), 0);
	return bytes;
}

static void check_sample(int fd, uint64_t base, const struct index_head *head, int i)
{
	uint8_t page[INDEX_PAGE];
	struct index_record record, expected = record_of(i);
	char name[INDEX_NAME_MAX + 1], text[4096];
	uint64_t number = 1 + (uint64_t)i / INDEX_RECORDS;
	size_t size = name_of(i, name);
	assert_int_equal(index_read(fd, base + number * INDEX_PAGE, page, sizeof page, NULL), 0);
	assert_int_equal(
		index_page_record(page, false, number, (uint32_t)i % INDEX_RECORDS, &record, NULL),
		0);
	assert_true(record.offset == expected.offset && record.size == expected.size);
	assert_true(record.label == expected.label && record.format == expected.format);
	assert_int_equal(record.name_size, size);
	uint64_t at = base + (1 + head->record_pages + record.name_page) * INDEX_PAGE;
	assert_int_equal(index_read(fd, at, page, sizeof page, NULL), 0);
	assert_int_equal(index_page_name(page, false, &record, text, sizeof text, NULL), 0);
	assert_string_equal(text, name);
	assert_int_equal(index_page_name(page, false, &record, text, size, NULL),
		-EIO); /* no room for the zero */
	record.name_offset = 15;
	assert_int_equal(index_page_name(page, false, &record, text, sizeof text, NULL), -EIO);
	record.name_offset = (uint16_t)(INDEX_PAGE - size + 1);
	assert_int_equal(index_page_name(page, false, &record, text, sizeof text, NULL), -EIO);
	record.name_page++;
	assert_int_equal(index_page_name(page, false, &record, text, sizeof text, NULL), -EIO);
}

static void test_round(void **state)
{
	uint64_t base = 3 * INDEX_PAGE;
	int fd = memory_file();
	uint64_t bytes = write_index(fd, base);
	struct index_head head;
	struct index_entry entry;
	struct index_table table;
	char text[INDEX_NAME_MAX + 1], name[INDEX_NAME_MAX + 1];
	uint32_t crc;
	assert_int_equal(index_head_read(fd, base, bytes, &head, &crc), 0);
	assert_int_equal(
		index_head_read(fd, base, bytes + INDEX_PAGE, &head, &crc), INDEX_E_DAMAGED);
	for (int i = 0; i < SAMPLES; i++)
		check_sample(fd, base, &head, i);
	index_table_init(&table, fd, base, &head);
	for (int i = 0; i < SAMPLES; i++) {
		(void)name_of(i, name);
		assert_int_equal(index_table_next(&table, &entry, text), 1);
		assert_string_equal(text, name);
		assert_true(entry.mtime_ns == i - 5 && entry.kind == (i & 1 ? 'C' : 'D'));
	}
	assert_int_equal(index_table_next(&table, &entry, text), 0);
	assert_int_equal(close(fd), 0);
}

/* ETags are after the names of version 9: none, one as long as can be, one that is too long, one
 * for which the name leaves no room. Damaged ones are refused. */
static void test_etags(void **state)
{
	enum { ROWS = 5 };
	static char longest[INDEX_ETAG], longer[INDEX_ETAG + 1], wide[INDEX_NAME_MAX + 1];
	memset(longest, 'e', sizeof longest - 1);
	memset(longer, 'e', sizeof longer - 1);
	memset(wide, 'w', sizeof wide - 1);
	const struct {
		const char *name, *etag, *found;
	} rows[ROWS] = {
		{"a.jpg", "\"abc-3\"", "\"abc-3\""},
		{"b.jpg", NULL, ""},
		{"c.jpg", longest, longest},
		{"d.jpg", longer, ""},
		{wide, longest, ""},
	};
	int fd = memory_file(), names = memory_file(), tables = memory_file();
	struct index_writer writer;
	struct index_head head;
	uint8_t page[INDEX_PAGE];
	char etag[INDEX_ETAG], text[4096];
	uint64_t bytes = 0;
	uint32_t crc;
	assert_int_equal(index_writer_init(&writer, fd, 0, names, tables), 0);
	writer.head.version = INDEX_VERSION_BUCKET;
	for (size_t i = 0; i < ROWS; i++) {
		struct index_record record = record_of((int)i);
		writer.etag = rows[i].etag;
		assert_int_equal(
			index_writer_name(&writer, rows[i].name, strlen(rows[i].name), &record), 0);
		assert_int_equal(index_writer_add(&writer, &record, "k", 1), 0);
	}
	assert_int_equal(index_writer_finish(&writer, &bytes), 0);
	index_writer_deinit(&writer);
	assert_int_equal(index_head_read(fd, 0, bytes, &head, &crc), 0);
	for (uint32_t i = 0; i < ROWS; i++) {
		struct index_record record;
		assert_int_equal(index_read(fd, INDEX_PAGE, page, sizeof page, NULL), 0);
		assert_int_equal(index_page_record(page, false, 1, i, &record, NULL), 0);
		const uint64_t at = (1 + head.record_pages + record.name_page) * INDEX_PAGE;
		assert_int_equal(index_read(fd, at, page, sizeof page, NULL), 0);
		assert_int_equal(index_page_name(page, false, &record, text, sizeof text, NULL), 0);
		assert_string_equal(text, rows[i].name);
		assert_int_equal(
			index_page_etag(page, false, head.version, &record, etag, NULL), 0);
		assert_string_equal(etag, rows[i].found);
		/* Other versions have none. */
		assert_int_equal(
			index_page_etag(page, false, INDEX_VERSION_FOLDER, &record, etag, NULL), 0);
		assert_string_equal(etag, "");
		const size_t place = (size_t)record.name_offset + record.name_size;
		page[place] = INDEX_ETAG;
		assert_int_equal(
			index_page_etag(page, true, head.version, &record, etag, NULL), -EIO);
		assert_int_equal(
			index_page_etag(page, false, head.version, &record, etag, NULL), -EIO);
		record.name_offset = (uint16_t)(INDEX_PAGE - record.name_size);
		assert_int_equal(
			index_page_etag(page, true, head.version, &record, etag, NULL), -EIO);
	}
	assert_int_equal(close(fd) + close(names) + close(tables), 0);
}

/* Everything that an index says, as one number; 0 if any part of it was refused. */
static uint64_t read_everything(int fd, uint64_t bytes)
{
	struct index_head head;
	struct index_table table;
	struct index_entry entry;
	static char text[4096];
	uint8_t page[INDEX_PAGE];
	uint32_t crc;
	uint64_t h = HASH_SEED;
	if (index_head_read(fd, 0, bytes, &head, &crc) != 0)
		return 0;
	h = hash_bytes(h, &head, sizeof head);
	for (uint64_t i = 0; i < head.samples; i++) {
		struct index_record record;
		uint64_t number = 1 + i / INDEX_RECORDS;
		if (index_read(fd, number * INDEX_PAGE, page, sizeof page, NULL) < 0 ||
			index_page_record(page, false, number, (uint32_t)(i % INDEX_RECORDS),
				&record, NULL) < 0)
			return 0;
		uint64_t at = (1 + head.record_pages + record.name_page) * INDEX_PAGE;
		if (index_read(fd, at, page, sizeof page, NULL) < 0 ||
			index_page_name(page, false, &record, text, sizeof text, NULL) < 0)
			return 0;
		h = hash_bytes(hash_bytes(h, &record, sizeof record), text, record.name_size);
	}
	index_table_init(&table, fd, 0, &head);
	int rc;
	while ((rc = index_table_next(&table, &entry, text)) > 0)
		h = hash_bytes(hash_bytes(h, &entry, sizeof entry), text, entry.size);
	return rc < 0 ? 0 : hash_mix(h);
}

/* A byte of every page changed, at places that walk over the whole page; and the file cut at every
 * page. */
static void test_damage(void **state)
{
	int fd = memory_file();
	uint64_t bytes = write_index(fd, 0);
	assert_true(read_everything(fd, bytes) != 0);
	for (uint64_t page = 0; page < bytes / INDEX_PAGE; page++) {
		for (uint64_t i = 0; i < 4; i++) {
			off_t at = (off_t)(page * INDEX_PAGE + (page * 37 + i * 1031) % INDEX_PAGE);
			uint8_t old, new;
			assert_int_equal(pread(fd, &old, 1, at), 1);
			new = old ^ (uint8_t)(1 << (page + i) % 8);
			assert_int_equal(pwrite(fd, &new, 1, at), 1);
			assert_true(read_everything(fd, bytes) == 0);
			assert_int_equal(pwrite(fd, &old, 1, at), 1);
		}
	}
	for (uint64_t size = 0; size < bytes; size += 511) {
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		if (size)
			assert_true(read_everything(fd, size) == 0);
	}
	assert_int_equal(close(fd), 0);
}

/* Two pages are exchanged: each is valid by itself. */
static void test_misplaced(void **state)
{
	int fd = memory_file();
	uint64_t bytes = write_index(fd, 0);
	uint8_t a[INDEX_PAGE], b[INDEX_PAGE];
	for (uint64_t page = 1; page < bytes / INDEX_PAGE; page++) {
		off_t at = (off_t)(page * INDEX_PAGE), before = at - INDEX_PAGE;
		assert_int_equal(pread(fd, a, sizeof a, before), sizeof a);
		assert_int_equal(pread(fd, b, sizeof b, at), sizeof b);
		assert_int_equal(pwrite(fd, b, sizeof b, before) + pwrite(fd, a, sizeof a, at),
			2 * INDEX_PAGE);
		assert_true(read_everything(fd, bytes) == 0);
		assert_int_equal(pwrite(fd, a, sizeof a, before) + pwrite(fd, b, sizeof b, at),
			2 * INDEX_PAGE);
	}
	assert_int_equal(close(fd), 0);
}

static void test_head(void **state)
{
	struct index_head head;
	uint32_t crc;
	int fd = memory_file();
	assert_int_equal(write(fd, "not an index", 12), 12);
	assert_int_equal(index_head_read(fd, 0, 12, &head, &crc), INDEX_E_FOREIGN);
	assert_int_equal(index_head_read(fd, 0, 0, &head, &crc), -EIO);
	assert_int_equal(ftruncate(fd, 0), 0);
	uint64_t bytes = write_index(fd, 0), magic;
	assert_int_equal(pread(fd, &magic, 8, INDEX_PAGE_HEAD), 8);
	uint64_t swapped = __builtin_bswap64(magic);
	assert_int_equal(pwrite(fd, &swapped, 8, INDEX_PAGE_HEAD), 8);
	assert_int_equal(index_head_read(fd, 0, bytes, &head, &crc), INDEX_E_OTHER);
	assert_int_equal(close(fd), 0);
}

/* A full file system: the writer reports it and keeps the error. */
static void test_full(void **state)
{
	int full = open("/dev/full", O_RDWR | O_CLOEXEC);
	if (full < 0)
		skip();
	struct index_writer writer;
	uint64_t bytes;
	struct index_record record = record_of(1);
	int names = memory_file(), tables = memory_file();
	assert_int_equal(index_writer_init(&writer, full, 0, names, tables), 0);
	assert_int_equal(index_writer_name(&writer, "a", 1, &record), 0);
	int rc = 0;
	for (int i = 0; rc == 0 && i < 100000; i++)
		rc = index_writer_add(&writer, &record, "a", 1);
	assert_int_equal(rc, -ENOSPC);
	assert_int_equal(writer.error, -ENOSPC);
	index_writer_deinit(&writer);
	assert_int_equal(index_writer_init(&writer, full, 0, names, tables), 0);
	assert_int_equal(index_writer_finish(&writer, &bytes), -ENOSPC);
	assert_int_equal(writer.error, -ENOSPC);
	index_writer_deinit(&writer);
	assert_int_equal(close(full) + close(names) + close(tables), 0);
}

static void test_digest(void **state)
{
	uint64_t whole = 0, sample[40];
	for (int i = 0; i < 40; i++) {
		sample[i] = digest_sample(&i, sizeof i, (uint64_t)i, i % 3);
		whole = digest_append(whole, sample[i]);
	}
	assert_true(whole < DIGEST_PRIME);
	for (int cut = 0; cut <= 40; cut++) {
		uint64_t front = 0, back = 0;
		for (int i = 0; i < 40; i++)
			*(i < cut ? &front : &back) =
				digest_append(i < cut ? front : back, sample[i]);
		assert_true(digest_concat(front, back, (uint64_t)(40 - cut)) == whole);
	}
	/* Order, key, size, label and number of samples all matter. */
	assert_true(digest_append(digest_append(0, sample[1]), sample[2]) !=
		    digest_append(digest_append(0, sample[2]), sample[1]));
	assert_true(digest_sample("a", 1, 5, 0) != digest_sample("b", 1, 5, 0));
	assert_true(digest_sample("a", 1, 5, 0) != digest_sample("a", 1, 6, 0));
	assert_true(digest_sample("a", 1, 5, 0) != digest_sample("a", 1, 5, -1));
	assert_true(digest_finish(5, 1) != digest_finish(5, 2));
	assert_true(digest_multiply(DIGEST_PRIME - 1, DIGEST_PRIME - 1) == 1);
}

static int index_files_opens[8];

static int index_files_open_test(const void *context, uint32_t shard, struct fault *fault)
{
	index_files_opens[shard]++;
	if (shard == 7)
		return fault_set(fault, -ENOENT, "%s", (const char *)context);
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void test_index_files(void **state)
{
	struct index_files *files;
	struct fault fault;
	int fd, same;
	memset(index_files_opens, 0, sizeof index_files_opens);
	assert_int_equal(index_files_new(8, 2, index_files_open_test, "gone", &files), 0);
	assert_int_equal(index_files_acquire(files, 0, &fd, &fault), 0);
	assert_int_equal(index_files_acquire(files, 0, &same, &fault), 0);
	assert_int_equal(fd, same);
	assert_int_equal(index_files_acquire(files, 1, &fd, &fault), 0);
	assert_int_equal(index_files_acquire(files, 2, &fd, &fault), -EAGAIN);
	index_files_release(files, 0);
	assert_int_equal(index_files_acquire(files, 2, &fd, &fault), -EAGAIN); /* held twice */
	index_files_release(files, 1);
	assert_int_equal(index_files_acquire(files, 2, &fd, &fault), 0);
	index_files_release(files, 0);
	index_files_release(files, 2);
	assert_int_equal(index_files_acquire(files, 7, &fd, &fault), -ENOENT);
	assert_string_equal(fault.text, "gone");
	assert_int_equal(index_files_acquire(files, 2, &fd, &fault),
		0); /* still open: shard 0 was the older one */
	index_files_release(files, 2);
	assert_int_equal(index_files_opens[0] + index_files_opens[1] + index_files_opens[2], 3);
	index_files_free(files);
	index_files_free(NULL);
	assert_int_equal(index_files_slots_for(9), 16);
	assert_int_equal(index_files_slots_for(300), 100);
	assert_int_equal(index_files_slots_for(UINT64_MAX), 512);
}

static sem_t index_files_opening, index_files_go_on;

/* Storage that is slow for shard 1. */
static int index_files_open_slowly(const void *context, uint32_t shard, struct fault *fault)
{
	if (shard == 1) {
		(void)sem_post(&index_files_opening);
		(void)sem_wait(&index_files_go_on);
	}
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void *index_files_other(void *context)
{
	int fd;
	if (index_files_acquire(context, 1, &fd, NULL) == 0)
		index_files_release(context, 1);
	return NULL;
}

/* index_files_try does not wait for storage, not even while another thread does. */
static void test_index_files_try(void **state)
{
	struct index_files *files;
	pthread_t other;
	int fd, same;
	assert_int_equal(sem_init(&index_files_opening, 0, 0), 0);
	assert_int_equal(sem_init(&index_files_go_on, 0, 0), 0);
	assert_int_equal(index_files_new(2, 2, index_files_open_slowly, NULL, &files), 0);
	assert_int_equal(index_files_try(files, 1, &fd), -EAGAIN); /* not open: it is not opened */
	assert_int_equal(index_files_acquire(files, 0, &fd, NULL), 0);
	assert_int_equal(index_files_try(files, 0, &same), 0);
	assert_int_equal(fd, same);
	assert_int_equal(pthread_create(&other, NULL, index_files_other, files), 0);
	assert_int_equal(sem_wait(&index_files_opening), 0);
	(void)alarm(60);
	assert_int_equal(index_files_try(files, 0, &same), -EAGAIN);
	index_files_release(files, 0);
	index_files_release(files, 0);
	(void)alarm(0);
	assert_int_equal(sem_post(&index_files_go_on), 0);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(index_files_try(files, 1, &fd), 0);
	index_files_release(files, 1);
	index_files_free(files);
	(void)sem_destroy(&index_files_opening);
	(void)sem_destroy(&index_files_go_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_etags),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_misplaced),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_digest),
		cmocka_unit_test(test_index_files),
		cmocka_unit_test(test_index_files_try),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

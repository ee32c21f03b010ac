/* RecordIO: records of one and of several parts, their headers, and .idx files. */
#include "dataset/container/records/recordio.h"

#include "unit/source_fixture.h"

#include <errno.h>
#include <sys/mman.h>

static struct fault fault;
static struct recordio reader;
static struct recordio_idx idx;
static uint8_t file[4096];
static size_t size;

static struct blob blob;

static int file_open(void)
{
	int fd = memfd_create("rec", MFD_CLOEXEC);
	assert_int_equal(pwrite(fd, file, size, 0), size);
	fault.text[0] = 0;
	return fd;
}

static void put(uint32_t which, const char *bytes, uint32_t count)
{
	const uint32_t head[2] = {RECORDIO_MAGIC, which << 29 | count};
	memcpy(file + size, head, sizeof head);
	memcpy(file + size + sizeof head, bytes, count);
	size += sizeof head + (count + 3u) / 4 * 4;
}

static void begin(void)
{
	memset(file, 0, sizeof file);
	size = 0;
}

static int first(struct recordio_record *ret)
{
	blob = BLOB_OF(file_open());
	recordio_init(&reader, &blob, "x.rec", size);
	return recordio_at(&reader, 0, ret, &fault);
}

static void end(void)
{
	blob_close(&blob);
	recordio_deinit(&reader);
}

static void refuse(const char *sentence)
{
	struct recordio_record record;
	assert_int_equal(first(&record), -EINVAL);
	if (!strstr(fault.text, sentence) || !strstr(fault.text, "x.rec: byte "))
		fail_msg("expected \"%s\" in: %s", sentence, fault.text);
	end();
}

static void test_parts(void **state)
{
	static const char joined[] = "abcd\x0a\x23\xd7\xce\x0a\x23\xd7\xce"
				     "efg";
	struct recordio_record record;
	char bytes[16];
	begin();
	put(1, "abcd", 4);
	put(2, "", 0);
	put(3, "efg", 3);
	put(0, "next", 4);
	assert_int_equal(first(&record), 1);
	assert_int_equal(record.parts, 3);
	assert_int_equal(record.size, 15);
	assert_int_equal(record.stored, 12 + 8 + 11);
	assert_int_equal(record.next, 32);
	for (uint32_t from = 0; from < 15; from++)
		for (uint32_t count = 0; count <= 15 - from; count++) {
			assert_int_equal(
				recordio_copy(&reader, &record, from, bytes, count, &fault), 0);
			assert_memory_equal(bytes, joined + from, count);
		}
	assert_int_equal(recordio_at(&reader, record.next, &record, &fault), 1);
	assert_int_equal(recordio_at(&reader, record.next, &record, &fault), 0);
	end();
}

static void test_parts_refused(void **state)
{
	begin();
	put(2, "abcd", 4);
	refuse("byte 0: found a middle part, expected the beginning of a record");
	begin();
	put(3, "abcd", 4);
	refuse("byte 0: found a last part, expected the beginning of a record");
	begin();
	put(1, "abcd", 4);
	put(0, "abcd", 4);
	refuse("byte 12: found a whole record, expected the next part of a record");
	begin();
	put(1, "abc", 3);
	put(3, "abcd", 4);
	refuse("expected a part whose length is a multiple of 4");
	begin();
	put(1, "abcd", 4);
	put(2, "abc", 3);
	refuse("byte 12: found a middle part, expected a part whose length is a multiple of 4");
	begin();
	put(1, "abcd", 4);
	refuse("byte 12: the header of a record needs 8 bytes, but the file ends at byte 12");
	begin();
	put(5, "abcd", 4);
	refuse("a record's header says that it is part 5");
	begin();
	put(0, "abcd", 4);
	size -= 1;
	refuse("a record of 4 bytes begins here, but the file ends at byte 11");
	begin();
	put(0, "abcd", 4);
	memset(file + 4, 0xff, 3);
	file[7] = 0x1f;
	refuse("a record of 536870911 bytes begins here, but the file ends at byte 12");
}

/* Each file that is cut is refused, or has the record up to its last byte. */
static void test_cut(void **state)
{
	struct recordio_record record;
	begin();
	put(1, "abcd", 4);
	put(3, "efg", 3);
	const size_t whole = size;
	for (size = 1; size < whole - 1; size++)
		refuse("");
	assert_int_equal(first(&record), 1);
	assert_int_equal(record.next, size);
	end();
}

static void test_image(void **state)
{
	struct recordio_record record;
	struct recordio_image image;
	char bytes[64] = {0};
	begin();
	put(0, bytes, 23);
	assert_int_equal(first(&record), 1);
	assert_int_equal(recordio_image(&reader, &record, &image, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "byte 0: a record has 23 bytes, but MXNet's header"));
	end();
	begin();
	bytes[0] = 3;
	bytes[8] = 7;
	put(0, bytes, 40);
	assert_int_equal(first(&record), 1);
	assert_int_equal(recordio_image(&reader, &record, &image, &fault), 0);
	assert_int_equal(image.flag, 3);
	assert_int_equal(image.skip, 36);
	assert_int_equal(image.id, 7);
	end();
	begin();
	bytes[3] = (char)0xff; /* four billion labels */
	put(0, bytes, 40);
	assert_int_equal(first(&record), 1);
	assert_int_equal(recordio_image(&reader, &record, &image, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "a record says that it has 4278190083 labels"));
	end();
}

static int line(const char *text, struct recordio_line *ret)
{
	size = strlen(text);
	memcpy(file, text, size);
	blob = BLOB_OF(file_open());
	recordio_idx_init(&idx, &blob, "x.idx", size);
	return recordio_idx_next(&idx, ret, &fault);
}

static void line_end(void)
{
	blob_close(&blob);
	recordio_idx_deinit(&idx);
}

static void test_lines(void **state)
{
	static const char *const bad[] = {"1\t\n", "1\n", "1\t-4\n", "1\t4x\n", "1\t0x10\n",
		"1\t99999999999999999999\n", "\x01\t4\n", "1\t4\t5\n"};
	struct recordio_line found;
	assert_int_equal(line("\n7\t16\r\n\n8 20", &found), 1);
	assert_string_equal(found.key, "7");
	assert_int_equal(found.record, 16);
	assert_int_equal(recordio_idx_next(&idx, &found, &fault), 1);
	assert_string_equal(found.key, "8");
	assert_int_equal(found.record, 20);
	assert_int_equal(recordio_idx_next(&idx, &found, &fault), 0);
	line_end();
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		assert_int_equal(line(bad[i], &found), -EINVAL);
		if (!strstr(fault.text, "x.idx: byte 0: line 1 is not of the form"))
			fail_msg("%s: %s", bad[i], fault.text);
		line_end();
	}
	char longest[1024];
	memset(longest, '7', sizeof longest);
	(void)strcpy(longest + RECORDIO_KEY_MAX, "\t4\n");
	assert_int_equal(line(longest, &found), 1);
	line_end();
	memset(longest, '7', sizeof longest);
	(void)strcpy(longest + RECORDIO_KEY_MAX + 1, "\t4\n");
	assert_int_equal(line(longest, &found), -EINVAL);
	line_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_parts_refused),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_image),
		cmocka_unit_test(test_lines),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

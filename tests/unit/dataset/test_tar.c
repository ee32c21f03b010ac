/* tar: numbers, names and their precedence, which members are skipped, and which input is refused:
 * cuts at every byte, random headers. tests/e2e/streams/tar_corpus.py compares whole archives with
 * Python's tarfile. */
#include "dataset/container/tar.h"
#include "unit/source_fixture.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

struct listed {
	int rc; /* of the last tar_next */
	int count;
	struct fault fault;
	struct {
		enum tar_kind kind;
		uint64_t size, offset;
		char name[TAR_NAME_MAX + 1];
	} member[8];
};

/* Lists an archive in memory, through a memfd. */
static void list_bytes(const void *data, size_t size, struct listed *ret)
{
	static struct tar_reader reader;
	int fd = memfd_create("tar", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	const struct blob blob = {.fd = fd};
	tar_init(&reader, &blob, size, "test.tar");
	struct tar_member member;
	ret->count = 0;
	while ((ret->rc = tar_next(&reader, &member, &ret->fault)) > 0) {
		assert_true(member.offset + member.size <= size);
		assert_int_equal(strlen(member.name), member.name_size);
		if (ret->count < 8) {
			ret->member[ret->count].kind = member.kind;
			ret->member[ret->count].size = member.size;
			ret->member[ret->count].offset = member.offset;
			(void)strcpy(ret->member[ret->count].name, member.name);
		}
		ret->count++;
	}
	tar_deinit(&reader);
	assert_int_equal(close(fd), 0);
}

static struct listed *list(const struct fixture_tar *tar)
{
	static struct listed listed;
	list_bytes(tar->data, tar->size, &listed);
	return &listed;
}

/* The archive must be refused with a sentence that contains `part`. Frees it. */
static void refuse(struct fixture_tar *tar, const char *part)
{
	struct listed *l = list(tar);
	assert_int_equal(l->rc, -EINVAL);
	assert_non_null(strstr(l->fault.text, "test.tar"));
	if (!strstr(l->fault.text, part))
		fail_msg("\"%s\" does not say \"%s\"", l->fault.text, part);
	free(tar->data);
	*tar = (struct fixture_tar){0};
}

static void number(const char *field, size_t size, int rc, uint64_t expected)
{
	uint64_t value = 77;
	assert_int_equal(tar_number((const uint8_t *)field, size, &value), rc);
	assert_true(value == (rc ? 77 : expected));
}

static void test_numbers(void **state)
{
	number("00000000017", 12, 0, 15);
	number("       17  ", 12, 0, 15);
	number("17\0zzzzzzzz", 12, 0, 15);
	number("777777777777", 12, 0, 0xfffffffff);
	number("\0\0\0\0\0\0\0\0\0\0\0\0", 12, 0, 0);
	number("            ", 12, 0, 0);
	number("00000000018", 12, -EINVAL, 0);
	number("0x000000017", 12, -EINVAL, 0);
	number("1 7        ", 12, -EINVAL, 0);
	number("-0000000017", 12, -ERANGE, 0);
	number("\200\0\0\0\0\0\0\0\0\0\1\2", 12, 0, 258);
	number("\200\0\0\0\177\377\377\377\377\377\377\377", 12, 0, INT64_MAX);
	number("\200\0\0\0\200\0\0\0\0\0\0\0", 12, -ERANGE, 0);
	number("\200\0\1\0\0\0\0\0\0\0\0\0", 12, -ERANGE, 0);
	number("\377\377\377\377\377\377\377\377\377\377\377\377", 12, -ERANGE, 0);
}

static void test_plain(void **state)
{
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "a.jpg", "hello");
	fixture_tar_header(&tar, "folder/", '5', 0);
	fixture_tar_header(&tar, "old folder/", 0, 0);
	fixture_tar_header(&tar, "link", '2', 0);
	fixture_tar_header(&tar, "hard link with a size that has no data", '1', 4000);
	fixture_tar_header(&tar, "unknown", 'Z', 600);
	fixture_tar_data(&tar, NULL, 600);
	uint8_t *block = fixture_tar_header(&tar, "b.jpg", 0, 0);
	memcpy(block + 345, "some/prefix", 11);
	fixture_checksum(block);
	fixture_tar_raw(&tar, NULL, 512);
	fixture_tar_raw(&tar, "rubbish behind the end is nobody's", 34);
	struct listed *l = list(&tar);
	assert_int_equal(l->rc, 0);
	assert_int_equal(l->count, 7);
	assert_string_equal(l->member[0].name, "a.jpg");
	assert_true(l->member[0].size == 5 && l->member[0].offset == 512);
	for (int i = 1; i < 6; i++)
		assert_int_equal(l->member[i].kind, TAR_OTHER);
	assert_string_equal(l->member[6].name, "some/prefix/b.jpg");
	assert_int_equal(l->member[6].kind, TAR_FILE);
	free(tar.data);
}

static void test_checksum_signed(void **state)
{
	struct fixture_tar tar = {0};
	uint8_t *block = fixture_tar_header(&tar, "\xe9t\xe9.jpg", '0', 0);
	int sum = 0;
	memset(block + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += (int8_t)block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", (unsigned)sum);
	assert_true(tar_block_valid(block));
	assert_int_equal(list(&tar)->count, 1);
	tar.data[3] ^= 1;
	assert_false(tar_block_valid(tar.data));
	refuse(&tar, "not a tar");
}

static void test_long_names(void **state)
{
	struct fixture_tar tar = {0};
	char name[TAR_NAME_MAX + 2];
	memset(name, 'n', sizeof name);
	name[TAR_NAME_MAX] = 0;
	fixture_tar_extension(&tar, 'L', name, TAR_NAME_MAX + 1);
	fixture_tar_member(&tar, name, "1");
	fixture_tar_extension(
		&tar, 'K', name, TAR_NAME_MAX + 1); /* a link's target, which is ignored */
	fixture_tar_pax(&tar, 'x', "path", name);
	fixture_tar_member(&tar, "short", "2");
	struct listed *l = list(&tar);
	assert_int_equal(l->rc, 0);
	assert_int_equal(l->count, 2);
	assert_string_equal(l->member[0].name, name);
	assert_string_equal(l->member[1].name, name);
	free(tar.data);

	tar = (struct fixture_tar){0};
	name[TAR_NAME_MAX] = 'n';
	fixture_tar_member(&tar, "first", "1");
	fixture_tar_extension(&tar, 'L', name, TAR_NAME_MAX + 1);
	fixture_tar_member(&tar, name, "1");
	refuse(&tar, "byte 1024 has a name of more than 4000");
	fixture_tar_header(&tar, "x", 'x', TAR_EXTENSION_MAX + 1);
	fixture_tar_data(&tar, NULL, TAR_EXTENSION_MAX + 1);
	fixture_tar_member(&tar, "first", "1");
	refuse(&tar, "1048577 bytes, at most 1048576");
}

static void test_precedence(void **state)
{
	struct fixture_tar tar = {0};
	fixture_tar_pax(&tar, 'g', "path", "global");
	fixture_tar_member(&tar, "header", "1");
	fixture_tar_pax(&tar, 'x', "path", "local");
	fixture_tar_member(&tar, "header", "1");
	fixture_tar_pax(&tar, 'x', "path", "outer");
	fixture_tar_extension(&tar, 'L', "inner", 6);
	fixture_tar_member(&tar, "header", "1");
	fixture_tar_pax(&tar, 'g', "path", "newer global/");
	fixture_tar_pax(&tar, 'x', "size", "3");
	fixture_tar_header(&tar, "header", '0', 0);
	fixture_tar_data(&tar, "abc", 3);
	fixture_tar_pax(&tar, 'x', "comment", "nothing of interest");
	fixture_tar_member(&tar, "header", "1");
	struct listed *l = list(&tar);
	const char *const names[] = {"global", "local", "outer", "newer global", "newer global"};
	assert_int_equal(l->rc, 0);
	assert_int_equal(l->count, 5);
	for (int i = 0; i < 5; i++)
		assert_string_equal(l->member[i].name, names[i]);
	assert_int_equal(l->member[3].size, 3);
	free(tar.data);
}

static void test_sparse(void **state)
{
	struct fixture_tar tar = {0};
	uint8_t *block = fixture_tar_header(&tar, "old.jpg", 'S', 4);
	block[482] = 1;
	fixture_checksum(block);
	fixture_tar_raw(&tar, NULL, 512)[504] = 1;
	fixture_tar_raw(&tar, NULL, 512);
	fixture_tar_data(&tar, "data", 4);
	fixture_tar_pax(&tar, 'x', "GNU.sparse.name", "new.jpg");
	fixture_tar_member(&tar, "GNUSparseFile.1/new.jpg", "map and data");
	fixture_tar_member(&tar, "plain.jpg", "data");
	struct listed *l = list(&tar);
	assert_int_equal(l->rc, 0);
	assert_int_equal(l->count, 3);
	assert_int_equal(l->member[0].kind, TAR_SPARSE);
	assert_int_equal(l->member[0].offset, 3 * 512);
	assert_int_equal(l->member[1].kind, TAR_SPARSE);
	assert_string_equal(l->member[1].name, "new.jpg");
	assert_int_equal(l->member[2].kind, TAR_FILE);
	free(tar.data);
	tar = (struct fixture_tar){0};
	block = fixture_tar_header(&tar, "old.jpg", 'S', 0);
	block[482] = 1;
	fixture_checksum(block);
	refuse(&tar, "map of a sparse member");
}

static void test_refused(void **state)
{
	struct fixture_tar tar = {0};
	refuse(&tar, "is empty");
	fixture_tar_raw(&tar, "a text of fewer bytes than a header", 35);
	refuse(&tar, "not a tar file (it has 35 bytes");
	memset(fixture_tar_raw(&tar, NULL, 4096), 'x', 4096);
	refuse(&tar, "not a tar file (its first 512");
	fixture_tar_raw(&tar, "\x89PNG\r\n", 6);
	refuse(&tar, "is an image, not a tar file: name the folder that contains it");
	memcpy(memset(fixture_tar_raw(&tar, NULL, 4096), 'x', 4096), "\xff\xd8\xff\xe0", 4);
	refuse(&tar, "is an image, not a tar file: name the folder that contains it");
	fixture_tar_member(&tar, "a", "1");
	memset(fixture_tar_raw(&tar, NULL, 512), 'x', 512);
	refuse(&tar, "damaged: expected a member's header at byte 1024");
	uint8_t *block = fixture_tar_header(&tar, "a", '0', 0);
	memset(block + 124, 0xff, 12);
	fixture_checksum(block);
	refuse(&tar, "a size that is not a number");
	fixture_tar_pax(&tar, 'x', "size", "-3");
	fixture_tar_member(&tar, "a", "1");
	refuse(&tar, "a size that is not a number");
	fixture_tar_pax(&tar, 'x', "size", "9223372036854775808");
	fixture_tar_member(&tar, "a", "1");
	refuse(&tar, "a size that is not a number");
	fixture_tar_pax(&tar, 'x', "size", "9223372036854775800");
	fixture_tar_member(&tar, "a", "1");
	refuse(&tar, "is cut off: at byte 1536");
	fixture_tar_extension(&tar, 'x', "12 path=abc\n99999 path=b\n", 25);
	fixture_tar_member(&tar, "a", "1");
	refuse(&tar, "no record of the form");
	fixture_tar_extension(&tar, 'x', "0 path=abc\n", 11);
	refuse(&tar, "no record of the form");
	fixture_tar_pax(&tar, 'x', "path", "b");
	refuse(&tar,
		"is cut off: expected the member of the previous extended header at byte 1024");
	fixture_tar_pax(&tar, 'x', "path", "b");
	fixture_tar_raw(&tar, NULL, 1024);
	refuse(&tar, "the member of the previous extended header");
}

static void ends(const struct fixture_tar *tar, size_t size, enum tar_end want, uint64_t want_at)
{
	static struct tar_reader reader;
	int fd = memfd_create("tar", MFD_CLOEXEC);
	assert_int_equal(write(fd, tar->data, size), size);
	const struct blob blob = {.fd = fd};
	tar_init(&reader, &blob, size, "test.tar");
	struct tar_member member;
	struct fault fault;
	while (tar_next(&reader, &member, &fault) > 0)
		;
	enum tar_end end = TAR_END_UNKNOWN;
	uint64_t at = 0;
	assert_int_equal(tar_end_read(&reader, &end, &at, &fault), 0);
	assert_int_equal(end, want);
	assert_true(at == want_at);
	tar_deinit(&reader);
	assert_int_equal(close(fd), 0);
}

/* Two blocks of zeros and padding end an archive; everything else is noticed. */
static void test_ends(void **state)
{
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "a.jpg", "hello");
	ends(&tar, 1024, TAR_END_CUT, 1024);
	fixture_tar_raw(&tar, NULL, 512);
	ends(&tar, 1536, TAR_END_CUT, 1536);
	fixture_tar_raw(&tar, NULL, 512);
	ends(&tar, 2047, TAR_END_CUT, 2047);
	ends(&tar, 2048, TAR_END_WHOLE, 2048);
	fixture_tar_raw(&tar, NULL, 8192);
	ends(&tar, 10240, TAR_END_WHOLE, 10240);
	tar.data[10239] = 1;
	ends(&tar, 10240, TAR_END_BYTES, 10239);
	tar.data[1024 + 511] = 0;
	tar.data[1024 + 512 + 3] = 7; /* in the second block of zeros */
	ends(&tar, 10240, TAR_END_BYTES, 1539);
	tar.data[1539] = 0;
	tar.data[10239] = 0;
	fixture_tar_member(&tar, "b.jpg", "world");
	ends(&tar, 11264, TAR_END_TAR, 10240);
	ends(&tar, 10241, TAR_END_BYTES, 10240);
	fixture_tar_raw(&tar, NULL, 1024);
	ends(&tar, 12288, TAR_END_TAR, 10240);
	tar.data[10240] ^= 1;
	ends(&tar, 12288, TAR_END_BYTES, 10240);
	free(tar.data);
}

/* Compressed archives, also small ones, are named with what unpacks them. */
static void test_packed(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *said;
	} packed[] = {
		{"\x1f\x8b", 2,
			"is compressed with gzip, but samples are read in place: unpack it "
			"first (gunzip)"},
		{"BZh91AY", 7,
			"is compressed with bzip2, but samples are read in place: unpack it "
			"first (bunzip2)"},
		{"\xfd"
		 "7zXZ\0",
			6,
			"is compressed with xz, but samples are read in place: unpack it first "
			"(unxz)"},
		{"\x5d\0\0\x80", 4, "is compressed with lzma"},
		{"\x28\xb5\x2f\xfd", 4,
			"is compressed with zstd, but samples are read in place: "
			"unpack it first (unzstd)"},
		{"\x04\x22\x4d\x18", 4, "is compressed with LZ4"},
		{"LZIP\1", 5, "is compressed with lzip"},
		{"\x1f\x9d\x90", 3, "is compressed with compress"},
		{"PK\3\4", 4, "is a zip archive, which is not read: unpack it"},
		{"7z\xbc\xaf\x27\x1c", 6, "is a 7z archive"},
	};
	for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
		struct fixture_tar tar = {0};
		memcpy(fixture_tar_raw(&tar, NULL, 4096), packed[i].bytes, packed[i].size);
		refuse(&tar, packed[i].said);
		fixture_tar_raw(&tar, packed[i].bytes, packed[i].size);
		refuse(&tar, packed[i].said);
	}
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "BZh", "a member with the name of a compressed file");
	assert_int_equal(list(&tar)->count, 1);
	free(tar.data);
}

/* Wherever the archive is cut off, the result is a fault, or the members before a boundary. */
static void test_cut_everywhere(void **state)
{
	struct fixture_tar tar = {0};
	fixture_tar_member(&tar, "a.jpg", "hello");
	fixture_tar_extension(&tar, 'L', "long name.jpg", 14);
	fixture_tar_member(&tar, "long", "some more bytes");
	fixture_tar_pax(&tar, 'x', "path", "dir/pax.jpg");
	fixture_tar_member(&tar, "pax", "");
	size_t ends[] = {0, 1024, 3072, 4608};
	fixture_tar_raw(&tar, NULL, 1024);
	for (size_t size = 1; size < tar.size; size++) {
		static struct listed listed;
		list_bytes(tar.data, size, &listed);
		int whole = 0;
		bool boundary = false;
		for (int i = 1; i < 4; i++) {
			whole += ends[i] <= size;
			boundary |= ends[i] == size;
		}
		if (size >= ends[3] + 512)
			boundary = true;
		if (boundary) {
			assert_int_equal(listed.rc, 0);
			assert_int_equal(listed.count, whole);
		} else {
			assert_int_equal(listed.rc, -EINVAL);
			assert_true(listed.count <= whole);
		}
	}
	free(tar.data);
}

/* The file becomes shorter while it is read. */
static void test_shrinks(void **state)
{
	static struct tar_reader reader;
	struct tar_member member;
	struct fault fault;
	int fd = memfd_create("tar", MFD_CLOEXEC);
	const struct blob blob = {.fd = fd};
	tar_init(&reader, &blob, 10240, "test.tar");
	assert_int_equal(tar_next(&reader, &member, &fault), -ESTALE);
	assert_non_null(strstr(fault.text, "became shorter"));
	tar_deinit(&reader);
	assert_int_equal(close(fd), 0);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Random changes to a valid archive, with right checksums: no crash, and no member outside the
 * file. */
static void test_random(void **state)
{
	uint64_t seed = 88172645463325252u;
	struct fixture_tar tar = {0};
	fixture_tar_pax(&tar, 'g', "comment", "everything");
	fixture_tar_pax(&tar, 'x', "size", "5");
	fixture_tar_member(&tar, "a.jpg", "hello");
	fixture_tar_extension(&tar, 'L', "long name.jpg", 14);
	fixture_tar_member(&tar, "S", "some more bytes");
	fixture_tar_raw(&tar, NULL, 1024);
	uint8_t *copy = malloc(tar.size);
	assert_non_null(copy);
	for (int round = 0; round < 20000; round++) {
		static struct listed listed;
		memcpy(copy, tar.data, tar.size);
		for (uint64_t n = random_next(&seed) % 8; n > 0; n--) {
			uint64_t r = random_next(&seed);
			copy[r % tar.size] = (uint8_t)(r >> 32);
		}
		uint64_t r = random_next(&seed);
		uint8_t *block = copy + 512 * (r % (tar.size / 512));
		static const char types[] = "0157SLKxgXZD";
		block[156] = (uint8_t)(r & 1 << 20 ? types[(r >> 32) % 12] : (char)(r >> 40));
		if (r & 1 << 21)
			block[124 + (r >> 24) % 12] = (uint8_t)(r >> 48);
		for (size_t at = 0; at < tar.size; at += 512)
			if (copy[at + 257] == 'u')
				fixture_checksum(copy + at);
		list_bytes(copy, tar.size, &listed);
		assert_true(listed.rc == 0 || listed.rc == -EINVAL);
	}
	free(copy);
	free(tar.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_checksum_signed),
		cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_precedence),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_packed),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

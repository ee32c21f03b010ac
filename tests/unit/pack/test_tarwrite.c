/* Tars as written, read back by our own reader: names of all lengths, sizes around a block, the
 * size foretold, and no room. tests/e2e/commands/pack.py has Python's tarfile read them. */
#include "unit/source_fixture.h"

#include "client/cli/pack/tarwrite.h"

#include "base/util.h"
#include "dataset/container/tar.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>

enum { MEMBERS = 420 };

/* Lengths 1 to 420, with slashes here and there, or none. */
static void make_name(char *name, size_t length, bool slashes)
{
	for (size_t i = 0; i < length; i++)
		name[i] = slashes && i % 37 == 36 && i + 1 < length
				  ? '/'
				  : (char)('a' + (i + length) % 26);
	name[length] = 0;
}

static uint8_t make_byte(size_t member, size_t at)
{
	return (uint8_t)(member * 31 + at * 7 + 1);
}

static int open_new(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	return fd;
}

static uint64_t write_all(int fd, const char *path, bool slashes)
{
	struct tarwrite tar;
	struct fault fault;
	uint64_t foretold = TARWRITE_END;
	uint8_t data[1600];
	char name[MEMBERS + 1];
	assert_int_equal(tarwrite_init(&tar, fd, path, &fault), 0);
	for (size_t i = 1; i <= MEMBERS; i++) {
		size_t size = i * 5 % 1600;
		make_name(name, i, slashes);
		for (size_t k = 0; k < size; k++)
			data[k] = make_byte(i, k);
		foretold += tarwrite_member_bytes(name, size);
		assert_int_equal(tarwrite_member(&tar, name, data, size, &fault), 0);
	}
	assert_int_equal(tarwrite_end(&tar, &fault), 0);
	assert_int_equal(tar.size, foretold);
	tarwrite_deinit(&tar);
	return foretold;
}

static void read_all(int fd, const char *path, uint64_t bytes, bool slashes)
{
	static struct tar_reader reader;
	struct tar_member member;
	struct fault fault;
	uint8_t data[1600];
	char name[MEMBERS + 1];
	const struct blob blob = {.fd = fd};
	tar_init(&reader, &blob, bytes, path);
	for (size_t i = 1; i <= MEMBERS; i++) {
		make_name(name, i, slashes);
		assert_int_equal(tar_next(&reader, &member, &fault), 1);
		assert_int_equal(member.kind, TAR_FILE);
		assert_string_equal(member.name, name);
		assert_int_equal(member.size, i * 5 % 1600);
		assert_int_equal(
			tar_read(&reader, member.offset, data, (size_t)member.size, &fault), 0);
		for (size_t k = 0; k < member.size; k++)
			assert_int_equal(data[k], make_byte(i, k));
	}
	assert_int_equal(tar_next(&reader, &member, &fault), 0);
	tar_deinit(&reader);
}

static void test_round_trip(void **state)
{
	(void)state;
	char *folder = fixture_folder();
	for (int slashes = 0; slashes < 2; slashes++) {
		const char *path = fixture_path(folder, "a.tar");
		int fd = open_new(path);
		uint64_t bytes = write_all(fd, path, slashes);
		struct stat status;
		assert_int_equal(fstat(fd, &status), 0);
		assert_int_equal(status.st_size, bytes);
		read_all(fd, path, bytes, slashes);
		(void)close(fd);
	}
	fixture_remove(folder);
}

static void test_no_room(void **state)
{
	(void)state;
	char *folder = fixture_folder();
	const char *path = fixture_path(folder, "a.tar");
	int fd = open_new(path);
	struct rlimit before, small;
	struct tarwrite tar;
	struct fault fault = {{0}};
	enum { SIZE = 3 << 20 };
	uint8_t *data = calloc(1, SIZE);
	assert_non_null(data);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	small.rlim_cur = 1500000;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(tarwrite_init(&tar, fd, path, &fault), 0);
	assert_int_equal(tarwrite_member(&tar, "x.jpg", data, SIZE, &fault), -EFBIG);
	assert_non_null(strstr(fault.text, path));
	tarwrite_deinit(&tar);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	free(data);
	(void)close(fd);
	fixture_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

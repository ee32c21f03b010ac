/* source_fixture: temporary folders, files and tars for tests. Every helper asserts its own
 * success. */
#pragma once

#include "unit/folder_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIXTURE_PATH = 4600 };

/* A folder for each test, as its state. */
static inline int fixture_setup(void **state)
{
	*state = fixture_folder();
	return 0;
}

static inline int fixture_teardown(void **state)
{
	fixture_remove(*state);
	return 0;
}

/* FOLDER/NAME in one of four buffers, taken in turn. */
static inline char *fixture_path(const char *folder, const char *name)
{
	static char buffers[4][FIXTURE_PATH];
	static unsigned turn;
	char *buffer = buffers[turn++ % 4];
	assert_true(snprintf(buffer, FIXTURE_PATH, "%s/%s", folder, name) < FIXTURE_PATH);
	return buffer;
}

/* Truncated after it is written, not before: some file systems flush a file that was empty for a
 * moment when it is closed, and some tests write a file thousands of times. */
static inline void fixture_write(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(close(fd), 0);
}

/* Writes a file and the folders above it; `name` is relative to `folder`. */
static inline void fixture_file(const char *folder, const char *name, const char *text)
{
	char *path = fixture_path(folder, name);
	for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')); at++) {
		*at = 0;
		(void)mkdir(path, 0755);
		*at = '/';
	}
	fixture_write(path, text, strlen(text));
}

/* Reads a whole file; the caller frees it. */
static inline uint8_t *fixture_read(const char *path, size_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	uint8_t *data = malloc((size_t)st.st_size + 1);
	assert_non_null(data);
	assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
	assert_int_equal(close(fd), 0);
	*ret_size = (size_t)st.st_size;
	return data;
}

/* A tar under construction. */
struct fixture_tar {
	uint8_t *data;
	size_t size, room;
};

static inline uint8_t *fixture_tar_raw(struct fixture_tar *tar, const void *data, size_t size)
{
	if (tar->room < tar->size + size + 1) {
		tar->room = 2 * (tar->size + size + 1);
		tar->data = realloc(tar->data, tar->room);
		assert_non_null(tar->data);
	}
	uint8_t *at = tar->data + tar->size;
	if (data && size)
		memcpy(at, data, size);
	else
		memset(at, 0, size);
	tar->size += size;
	return at;
}

static inline void fixture_checksum(uint8_t *block)
{
	unsigned sum = 0;
	memset(block + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum & 0777777);
}

/* A header block; `name` is cut at 100 bytes. */
static inline uint8_t *fixture_tar_header(
	struct fixture_tar *tar, const char *name, char type, uint64_t size)
{
	uint8_t *block = fixture_tar_raw(tar, NULL, 512);
	memcpy(block, name, strnlen(name, 100));
	memcpy(block + 100, "0000644", 7);
	char octal[32];
	(void)snprintf(octal, sizeof octal, "%011llo", (unsigned long long)size);
	memcpy(block + 124, octal, 12);
	memcpy(block + 257, "ustar\00000", 8);
	block[156] = (uint8_t)type;
	fixture_checksum(block);
	return block;
}

static inline void fixture_tar_data(struct fixture_tar *tar, const void *data, size_t size)
{
	fixture_tar_raw(tar, data, size);
	fixture_tar_raw(tar, NULL, (512 - size % 512) % 512);
}

static inline void fixture_tar_member(struct fixture_tar *tar, const char *name, const char *text)
{
	fixture_tar_header(tar, name, '0', strlen(text));
	fixture_tar_data(tar, text, strlen(text));
}

static inline void fixture_tar_extension(
	struct fixture_tar *tar, char type, const void *data, size_t size)
{
	fixture_tar_header(tar, "extension", type, size);
	fixture_tar_data(tar, data, size);
}

/* Adds "LENGTH KEYWORD=VALUE\n" as a pax header of its own. */
static inline void fixture_tar_pax(
	struct fixture_tar *tar, char type, const char *keyword, const char *value)
{
	char record[8192];
	size_t base = strlen(keyword) + strlen(value) + 3, length = base + 1;
	while (length != base + (size_t)snprintf(NULL, 0, "%zu", length))
		length++;
	assert_true(length < sizeof record);
	(void)snprintf(record, sizeof record, "%zu %s=%s\n", length, keyword, value);
	fixture_tar_extension(tar, type, record, length);
}

/* Appends two blocks of zeros and writes the tar to a file. */
static inline void fixture_tar_write(struct fixture_tar *tar, const char *path)
{
	fixture_tar_raw(tar, NULL, 1024);
	fixture_write(path, tar->data, tar->size);
	free(tar->data);
	*tar = (struct fixture_tar){0};
}

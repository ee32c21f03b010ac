/* calls_files: see calls_impl.h. Files and folders. */
#include "torture_unit/calls_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The C library's names for parameters are not for others.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

static mode_t mode_of(int flags, va_list list)
{
	return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(list, unsigned) : 0;
}

#define OPEN_CALL(name, counted, parameters, arguments)          \
	int name parameters                                      \
	{                                                        \
		REAL(name);                                      \
		va_list list;                                    \
		va_start(list, flags);                           \
		mode_t mode = mode_of(flags, list);              \
		va_end(list);                                    \
		FAIL_OR(counted, CALLS_OPEN, false, EMFILE, -1); \
		return real arguments;                           \
	}

OPEN_CALL(open, open, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(open64, open, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(
	openat, openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPEN_CALL(openat64, openat, (int folder, const char *path, int flags, ...),
	(folder, path, flags, mode))

CALL(FILE *, fopen, (const char *path, const char *how), (path, how), CALLS_OPEN, EMFILE, NULL)
CALL(DIR *, opendir, (const char *path), (path), CALLS_OPEN, EMFILE, NULL)
CALL(DIR *, fdopendir, (int fd), (fd), CALLS_MEMORY, ENOMEM, NULL)
CALL(struct dirent *, readdir, (DIR * folder), (folder), CALLS_READ, EIO, NULL)

enum what { REGULAR, FOLDER, OTHER, NOTHING };

/* What a descriptor is: only storage fails with EIO and ENOSPC, and counters (eventfd and the like)
 * with nothing. */
static enum what what_is(int fd)
{
	struct stat st;
	if (syscall(SYS_fstat, fd, &st) < 0)
		return NOTHING;
	if (S_ISREG(st.st_mode))
		return REGULAR;
	if (S_ISDIR(st.st_mode))
		return FOLDER;
	return S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) ? OTHER
										   : NOTHING;
}

static bool is_storage(int fd)
{
	return atomic_load_explicit(&calls_armed, memory_order_relaxed) && what_is(fd) == REGULAR;
}

/* *size becomes half where it is to be short. */
static int transfer_fails(const char *name, enum calls_family family, int fd, size_t *size)
{
	if (!is_storage(fd))
		return -1;
	int mode = calls_fails(name, family, true, true);
	if (mode == CALLS_SHORT) {
		*size = *size > 1 ? *size / 2 : *size;
		return -1;
	}
	if (mode >= 0)
		errno = mode == CALLS_EINTR ? EINTR : family == CALLS_READ ? EIO : ENOSPC;
	return mode;
}

ssize_t read(int fd, void *to, size_t size)
{
	REAL(read);
	return transfer_fails("read", CALLS_READ, fd, &size) >= 0 ? -1 : real(fd, to, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
	REAL(pread);
	return transfer_fails("pread", CALLS_READ, fd, &size) >= 0 ? -1
								   : real(fd, to, size, offset);
}

ssize_t pread64(int fd, void *to, size_t size, off_t offset)
{
	return pread(fd, to, size, offset);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
	REAL(preadv);
	size_t size = 0;
	int mode = is_storage(fd) ? calls_fails("preadv", CALLS_READ, true, true) : -1;
	if (mode == CALLS_SHORT) {
		size = parts[0].iov_len > 1 ? parts[0].iov_len / 2 : parts[0].iov_len;
		return pread(fd, parts[0].iov_base, size, offset);
	}
	if (mode >= 0) {
		errno = mode == CALLS_EINTR ? EINTR : EIO;
		return -1;
	}
	return real(fd, parts, count, offset);
}

ssize_t write(int fd, const void *from, size_t size)
{
	REAL(write);
	return transfer_fails("write", CALLS_WRITE, fd, &size) >= 0 ? -1 : real(fd, from, size);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t offset)
{
	REAL(pwrite);
	return transfer_fails("pwrite", CALLS_WRITE, fd, &size) >= 0 ? -1
								     : real(fd, from, size, offset);
}

ssize_t pwrite64(int fd, const void *from, size_t size, off_t offset)
{
	return pwrite(fd, from, size, offset);
}

int close(int fd)
{
	REAL(close);
	if (is_storage(fd)) {
		int mode = calls_fails("close", CALLS_CLOSE, true, false);
		if (mode >= 0) {
			(void)real(fd);
			errno = mode == CALLS_EINTR ? EINTR : EIO;
			return -1;
		}
	}
	return real(fd);
}

CALL(int, fstat, (int fd, struct stat *ret), (fd, ret), CALLS_STAT, EIO, -1)
CALL(int, stat, (const char *restrict path, struct stat *restrict ret), (path, ret), CALLS_STAT,
	EIO, -1)
CALL(int, lstat, (const char *restrict path, struct stat *restrict ret), (path, ret), CALLS_STAT,
	EIO, -1)
CALL(int, fstatat, (int folder, const char *restrict path, struct stat *restrict ret, int flags),
	(folder, path, ret, flags), CALLS_STAT, EIO, -1)
CALL(int, statx,
	(int folder, const char *restrict path, int flags, unsigned mask,
		struct statx *restrict ret),
	(folder, path, flags, mask, ret), CALLS_STAT, EIO, -1)
CALL(int, access, (const char *path, int how), (path, how), CALLS_STAT, EIO, -1)

CALL(int, rename, (const char *from, const char *to), (from, to), CALLS_NAME, EIO, -1)
CALL(int, renameat, (int from_folder, const char *from, int to_folder, const char *to),
	(from_folder, from, to_folder, to), CALLS_NAME, EIO, -1)
CALL(int, linkat, (int from_folder, const char *from, int to_folder, const char *to, int flags),
	(from_folder, from, to_folder, to, flags), CALLS_NAME, ENOSPC, -1)
CALL(int, unlink, (const char *path), (path), CALLS_NAME, EIO, -1)
CALL(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), CALLS_NAME,
	EIO, -1)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), CALLS_NAME, ENOSPC, -1)
CALL(int, mkdirat, (int folder, const char *path, mode_t mode), (folder, path, mode), CALLS_NAME,
	ENOSPC, -1)
CALL(int, fsync, (int fd), (fd), CALLS_SYNC, EIO, -1)
CALL(int, fdatasync, (int fd), (fd), CALLS_SYNC, EIO, -1)
CALL(int, ftruncate, (int fd, off_t size), (fd, size), CALLS_SIZE, EIO, -1)
CALL(int, fallocate, (int fd, int how, off_t offset, off_t size), (fd, how, offset, size),
	CALLS_SIZE, ENOSPC, -1)

int posix_fallocate(int fd, off_t offset, off_t size)
{
	REAL(posix_fallocate);
	int mode = calls_fails("posix_fallocate", CALLS_SIZE, false, false);
	if (mode >= 0)
		return ENOSPC;
	return real(fd, offset, size);
}

CALL(int, flock, (int fd, int how), (fd, how), CALLS_LOCK, ENOLCK, -1)

/* NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

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
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

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

FILE *fopen(const char *path, const char *how)
{
	REAL(fopen);
	FAIL_OR(fopen, CALLS_OPEN, false, EMFILE, NULL);
	return real(path, how);
}

DIR *opendir(const char *path)
{
	REAL(opendir);
	FAIL_OR(opendir, CALLS_OPEN, false, EMFILE, NULL);
	return real(path);
}

DIR *fdopendir(int fd)
{
	REAL(fdopendir);
	FAIL_OR(fdopendir, CALLS_MEMORY, false, ENOMEM, NULL);
	return real(fd);
}

struct dirent *readdir(DIR *folder)
{
	REAL(readdir);
	FAIL_OR(readdir, CALLS_READ, false, EIO, NULL);
	return real(folder);
}

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

#define STAT_CALL(name, ...) FAIL_OR(name, CALLS_STAT, false, EIO, -1)

int fstat(int fd, struct stat *ret)
{
	REAL(fstat);
	STAT_CALL(fstat);
	return real(fd, ret);
}

int stat(const char *restrict path, struct stat *restrict ret)
{
	REAL(stat);
	STAT_CALL(stat);
	return real(path, ret);
}

int lstat(const char *restrict path, struct stat *restrict ret)
{
	REAL(lstat);
	STAT_CALL(lstat);
	return real(path, ret);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict ret, int flags)
{
	REAL(fstatat);
	STAT_CALL(fstatat);
	return real(folder, path, ret, flags);
}

int statx(
	int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict ret)
{
	REAL(statx);
	STAT_CALL(statx);
	return real(folder, path, flags, mask, ret);
}

int access(const char *path, int how)
{
	REAL(access);
	STAT_CALL(access);
	return real(path, how);
}

int rename(const char *from, const char *to)
{
	REAL(rename);
	FAIL_OR(rename, CALLS_NAME, false, EIO, -1);
	return real(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	REAL(renameat);
	FAIL_OR(renameat, CALLS_NAME, false, EIO, -1);
	return real(from_folder, from, to_folder, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
	REAL(linkat);
	FAIL_OR(linkat, CALLS_NAME, false, ENOSPC, -1);
	return real(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path)
{
	REAL(unlink);
	FAIL_OR(unlink, CALLS_NAME, false, EIO, -1);
	return real(path);
}

int unlinkat(int folder, const char *path, int flags)
{
	REAL(unlinkat);
	FAIL_OR(unlinkat, CALLS_NAME, false, EIO, -1);
	return real(folder, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
	REAL(mkdir);
	FAIL_OR(mkdir, CALLS_NAME, false, ENOSPC, -1);
	return real(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
	REAL(mkdirat);
	FAIL_OR(mkdirat, CALLS_NAME, false, ENOSPC, -1);
	return real(folder, path, mode);
}

int fsync(int fd)
{
	REAL(fsync);
	FAIL_OR(fsync, CALLS_SYNC, false, EIO, -1);
	return real(fd);
}

int fdatasync(int fd)
{
	REAL(fdatasync);
	FAIL_OR(fdatasync, CALLS_SYNC, false, EIO, -1);
	return real(fd);
}

int ftruncate(int fd, off_t size)
{
	REAL(ftruncate);
	FAIL_OR(ftruncate, CALLS_SIZE, false, EIO, -1);
	return real(fd, size);
}

int fallocate(int fd, int how, off_t offset, off_t size)
{
	REAL(fallocate);
	FAIL_OR(fallocate, CALLS_SIZE, false, ENOSPC, -1);
	return real(fd, how, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
	REAL(posix_fallocate);
	int mode = calls_fails("posix_fallocate", CALLS_SIZE, false, false);
	if (mode >= 0)
		return ENOSPC;
	return real(fd, offset, size);
}

int flock(int fd, int how)
{
	REAL(flock);
	FAIL_OR(flock, CALLS_LOCK, false, ENOLCK, -1);
	return real(fd, how);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

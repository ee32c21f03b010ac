/* output: see output.h. */
#include "client/cli/output.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Moves a finished file to its place. */
static int output_rename(const char *from, const char *to, bool replace)
{
	if (replace)
		return rename(from, to);
	int r = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
	if (r == 0 || (errno != EINVAL && errno != ENOSYS))
		return r;
	/* This file system cannot do it in one step. */
	if (access(to, F_OK) == 0) {
		errno = EEXIST;
		return -1;
	}
	return rename(from, to);
}

static void output_permit(int fd)
{
	mode_t mask = umask(0);
	(void)umask(mask);
	(void)fchmod(fd, 0666 & ~mask);
}

static int output_fail(const char *path, struct fault *fault)
{
	int saved = errno;
	return fault_set(fault, -saved, "cannot write %s: %s", path,
		saved == EEXIST ? "the file exists; give --force to replace it" : strerror(saved));
}

/* Writes and closes. */
static int output_put(
	FILE *file, const char *path, output_put_fn *put, const void *context, struct fault *fault)
{
	errno = 0;
	int r = put(file, path, context, fault);
	if (r == 0 && (fflush(file) != 0 || ferror(file))) {
		errno = errno ? errno : EIO;
		r = output_fail(path, fault);
	}
	if (fclose(file) != 0 && r == 0)
		r = output_fail(path, fault);
	return r;
}

static int output_beside(const char *path, bool replace, output_put_fn *put, const void *context,
	struct fault *fault)
{
	char temporary[PATH_MAX];
	if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary)
		return fault_set(
			fault, -ENAMETOOLONG, "cannot write %s: its name is too long", path);
	int fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return output_fail(path, fault);
	output_permit(fd);
	FILE *file = fdopen(fd, "wb");
	if (!file) {
		(void)close(fd);
		(void)unlink(temporary);
		return output_fail(path, fault);
	}
	int r = output_put(file, path, put, context, fault);
	if (r == 0 && output_rename(temporary, path, replace) != 0)
		r = output_fail(path, fault);
	if (r < 0)
		(void)unlink(temporary);
	return r;
}

static int output_through(
	const char *path, output_put_fn *put, const void *context, struct fault *fault)
{
	FILE *file = fopen(path, "wbe");
	if (!file)
		return output_fail(path, fault);
	return output_put(file, path, put, context, fault);
}

int output_write(const char *path, bool replace, output_put_fn *put, const void *context,
	struct fault *fault)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return output_beside(path, replace, put, context, fault);
	if (!S_ISREG(st.st_mode))
		return output_through(path, put, context, fault);
	if (!replace) {
		errno = EEXIST;
		return output_fail(path, fault);
	}
	cleanup(free_ptr) char *real = realpath(path, NULL);
	return output_beside(real ? real : path, replace, put, context, fault);
}

int output_check(const char *path, struct fault *fault)
{
	struct stat st;
	bool there = stat(path, &st) == 0;
	if (there && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return output_fail(path, fault);
	}
	if (there && !S_ISREG(st.st_mode))
		return access(path, W_OK) == 0 ? 0 : output_fail(path, fault);
	/* The file is first written in its folder, so the folder decides. */
	cleanup(free_ptr) char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	if (slash)
		slash[slash == folder] = 0;
	return access(slash ? folder : ".", W_OK) == 0 ? 0 : output_fail(path, fault);
}

/* blob: see blob.h. */
#include "dataset/blob.h"

#include "base/host/limits.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/mtime.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int blob_look(const struct blob *blob, struct blob *ret)
{
	struct stat st;
	if (fstat(blob->fd, &st) < 0)
		return -errno;
	ret->size = (uint64_t)st.st_size;
	ret->stamp = mtime_of(&st);
	ret->regular = S_ISREG(st.st_mode);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

int blob_open(const char *path, struct blob *ret, struct fault *fault)
{
	*ret = BLOB_OF(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	if (ret->fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", path, strerror(errno),
			limits_hint(errno));
	int rc = blob_look(ret, ret);
	return rc < 0 ? fault_set(fault, rc, "%s cannot be examined: %s", path, strerror(-rc)) : 0;
}

void blob_close(struct blob *blob)
{
	util_close_fd(&blob->fd);
	blob->fd = -1;
}

ssize_t blob_read(const struct blob *blob, void *buffer, size_t size, uint64_t offset)
{
	return whole_read(blob->fd, buffer, size, offset);
}

const char *blob_error(int code)
{
	return strerror(code < 0 ? -code : code);
}

ssize_t blob_part_read(void *context, uint64_t at, void *buffer, size_t size)
{
	const struct blob_part *part = context;
	return blob_read(part->blob, buffer, size, part->offset + at);
}

/* blob: see blob.h. */
#include "dataset/blob.h"

#include "base/host/limits.h"
#include "base/util.h"
#include "base/whole.h"
#include "dataset/mtime.h"
#include "remote/object.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum {
	/* Bytes that may be passed over between two reads in a row. Walking the headers of a tar or
	 * of records passes over each member; to fetch a member that is not larger takes no longer
	 * than a request of its own for each header. In the time of a request a stream fetches
	 * REMOTE_STREAM_BYTES at most, so that larger gaps gain nothing and cost bytes. */
	AHEAD_GAP = 4 << 20,
	AHEAD_READS = 2, /* in a row, before more is requested than was asked for */
};

/* Reads of a remote object by one thread. A container that looks up small things here and there (an
 * index at the end, the pages of a database) gets what it asks for; one that reads on is served
 * from ranges that are requested ahead of it. */
struct blob_ahead {
	struct remote_stream *stream; /* NULL: not yet */
	uint64_t end; /* of the last read */
	unsigned row; /* reads in a row that went on where the last one ended */
	bool streamed; /* the last read was served from ranges that were requested ahead */
};

/* The sentence of this thread's last failed read of a remote object. */
static _Thread_local struct fault blob_fault;
static _Thread_local int blob_fault_code;

bool blob_is_url(const char *path)
{
	size_t n = 0;
	while (isalnum((unsigned char)path[n]) || (n && strchr("+-.", path[n]) && path[n]))
		n++;
	return n > 0 && isalpha((unsigned char)path[0]) && !strncmp(path + n, "://", 3);
}

struct blob blob_of_remote(struct remote_object *object)
{
	return (struct blob){.fd = -1,
		.remote = remote_object_ref(object),
		.size = remote_object_size(object),
		.stamp = remote_object_stamp(object),
		.regular = true};
}

int blob_look(const struct blob *blob, struct blob *ret)
{
	struct stat st;
	if (blob->remote) {
		ret->size = blob->size;
		ret->stamp = blob->stamp;
		ret->regular = true;
		ret->dev = 0;
		ret->ino = 0;
		return 0;
	}
	if (fstat(blob->fd, &st) < 0)
		return -errno;
	ret->size = (uint64_t)st.st_size;
	ret->stamp = mtime_of(&st);
	ret->regular = S_ISREG(st.st_mode);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	return 0;
}

static int remote_open(const char *url, struct blob *ret, struct fault *fault)
{
	struct remote_object *object = NULL;
	*ret = BLOB_OF(-1);
	int rc = remote_object_open(url, &object, fault);
	if (rc < 0)
		return rc;
	*ret = blob_of_remote(object);
	remote_object_unref(object);
	return 0;
}

int blob_open(const char *path, struct blob *ret, struct fault *fault)
{
	if (blob_is_url(path))
		return remote_open(path, ret, fault);
	*ret = BLOB_OF(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	if (ret->fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", path, strerror(errno),
			limits_hint(errno));
	int rc = blob_look(ret, ret);
	return rc < 0 ? fault_set(fault, rc, "%s cannot be examined: %s", path, strerror(-rc)) : 0;
}
int blob_open_listed(
	const char *url, uint64_t size, const char *etag, struct blob *ret, struct fault *fault)
{
	struct remote_object *object = NULL;
	*ret = BLOB_OF(-1);
	int rc = remote_object_open_listed(url, size, etag, 0, &object, fault);
	if (rc < 0)
		return rc;
	*ret = blob_of_remote(object);
	remote_object_unref(object);
	return 0;
}

void blob_close(struct blob *blob)
{
	if (blob->ahead)
		remote_stream_close(blob->ahead->stream);
	free(blob->ahead);
	if (blob->remote)
		remote_object_unref(blob->remote);
	else
		util_close_fd(&blob->fd);
	*blob = BLOB_OF(-1);
}

void blob_ahead(struct blob *blob)
{
	if (blob->remote && !blob->ahead)
		blob->ahead = calloc(1, sizeof *blob->ahead);
}

/* Whether the read is to be served from ranges that were requested ahead. */
static bool ahead_wanted(struct blob_ahead *ahead, const struct blob *blob, uint64_t offset)
{
	const bool on = offset >= ahead->end && offset - ahead->end <= AHEAD_GAP;
	ahead->row = on ? ahead->row + 1 : 0;
	if (ahead->row < AHEAD_READS)
		return false;
	return ahead->stream || remote_stream_open(blob->remote, &ahead->stream) == 0;
}

/* Looks into each range that is passed over: a stream that jumps has fewer ranges under way. */
static int gap_pass(const struct blob_ahead *ahead, uint64_t offset)
{
	uint8_t byte;
	int rc = 0;
	for (uint64_t range = ahead->end / REMOTE_STREAM_RANGE + 1;
		rc == 0 && ahead->streamed && range < offset / REMOTE_STREAM_RANGE; range++)
		rc = remote_stream_read(
			ahead->stream, &byte, 1, range * REMOTE_STREAM_RANGE, &blob_fault);
	return rc;
}

static int ahead_read(const struct blob *blob, void *buffer, size_t size, uint64_t offset)
{
	struct blob_ahead *ahead = blob->ahead;
	const bool wanted = ahead_wanted(ahead, blob, offset);
	int rc = wanted ? gap_pass(ahead, offset) : 0;
	if (rc == 0)
		rc = wanted ? remote_stream_read(ahead->stream, buffer, size, offset, &blob_fault)
			    : remote_object_read(blob->remote, buffer, size, offset, &blob_fault);
	ahead->streamed = wanted;
	ahead->end = offset + size;
	return rc;
}

static ssize_t remote_get(const struct blob *blob, void *buffer, size_t size, uint64_t offset)
{
	if (offset >= blob->size || !size)
		return 0;
	size = (size_t)UTIL_MIN((uint64_t)size, blob->size - offset);
	int rc = blob->ahead ? ahead_read(blob, buffer, size, offset)
			     : remote_object_read(blob->remote, buffer, size, offset, &blob_fault);
	blob_fault_code = rc;
	return rc < 0 ? rc : (ssize_t)size;
}

ssize_t blob_read(const struct blob *blob, void *buffer, size_t size, uint64_t offset)
{
	blob_fault_code = 0;
	return blob->remote ? remote_get(blob, buffer, size, offset)
			    : whole_read(blob->fd, buffer, size, offset);
}

const char *blob_error(int code)
{
	if (code < 0 && code == blob_fault_code && blob_fault.text[0])
		return blob_fault.text;
	return strerror(code < 0 ? -code : code);
}

ssize_t blob_part_read(void *context, uint64_t at, void *buffer, size_t size)
{
	const struct blob_part *part = context;
	return blob_read(part->blob, buffer, size, part->offset + at);
}

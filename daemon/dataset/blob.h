/* blob: a file that a dataset is read from: a local file, or an object behind a URL. Readers of
 * containers and of samples ask a blob, not a file descriptor, so that they need not know where its
 * bytes are.
 *
 * A blob belongs to its opener; reading does not change it, so any thread may read it, except
 * between blob_ahead and blob_close: then one thread at a time. Blocks. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct remote_object;
struct blob_ahead;

struct blob {
	int fd; /* of a local file, or of the root of a folder; -1: remote, or not open */
	struct remote_object *remote; /* NULL: local, or not open */
	struct blob_ahead *ahead; /* NULL: each read is a request of its own */
	uint64_t size;
	int64_t stamp; /* when it was last changed, in ns (mtime.h); or remote_object_stamp */
	bool regular; /* a file, neither a folder nor a device */
	dev_t dev; /* and ino: 0 of a remote object */
	ino_t ino;
};

/* Whether a path is a URL: SCHEME://. Pure. */
bool blob_is_url(const char *path);

/* Opens a file or a URL for reading. 0; or a negative errno with a fault. The caller calls
 * blob_close in every case. A FIFO or a device is opened without waiting, and fails when it is
 * read. */
int blob_open(const char *path, struct blob *ret, struct fault *fault);
/* The same for a URL of which a listing gave size and ETag: asks the server nothing. */
int blob_open_listed(
	const char *url, uint64_t size, const char *etag, struct blob *ret, struct fault *fault);
void blob_close(struct blob *blob); /* takes one that is not open or already closed */

/* A blob that borrows a descriptor. Only `fd` of it is known. */
#define BLOB_OF(descriptor) ((struct blob){.fd = (descriptor)})

/* A blob of an object that is open; it takes a reference of its own. */
struct blob blob_of_remote(struct remote_object *object);

/* From now on one thread reads, mostly from front to back: a remote object is then requested ahead
 * of the reader, in large ranges. Changes nothing for a local file, or without memory. */
void blob_ahead(struct blob *blob);

/* Looks again at an open file. 0, with `size`, `stamp`, `regular`, `dev` and `ino` in *ret; or
 * -errno. An open remote object stays the same: a read of one that was replaced is -ESTALE. */
int blob_look(const struct blob *blob, struct blob *ret);

/* Reads `size` bytes at `offset`; fewer only at the end of the file. Returns how many, or
 * -errno. */
ssize_t blob_read(const struct blob *blob, void *buffer, size_t size, uint64_t offset);

/* Why this thread's last blob_read failed with `code`, for the end of a sentence. Valid until this
 * thread reads again. */
const char *blob_error(int code);

/* For unpack.h: the bytes of a blob from `offset` on, read by blob_part_read. */
struct blob_part {
	const struct blob *blob; /* borrowed */
	uint64_t offset;
};
ssize_t blob_part_read(void *context, uint64_t at, void *buffer, size_t size);

static inline void util_close_blob(struct blob *blob)
{
	blob_close(blob);
}

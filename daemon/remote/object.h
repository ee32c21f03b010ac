/* object: an open remote object: reads through the cache and the client.
 *
 * The life of one: remote_object_open asks the server for its size and ETag, and each read is of
 * that ETag: an object that was replaced in between is -ESTALE and not a mixture. Openings of one
 * URL share one object, which is counted.
 *
 * A read gets what the cache has from there, and requests the rest: neighboring missing blocks
 * with one request. While the cache has room, missing ranges are rounded out to the cache's blocks
 * and stored; without room exactly the missing bytes are requested. Readers that want the same
 * missing bytes at the same time share a request; if one of them cancels, the others still get
 * theirs. Storing is done after the reader has its bytes, by a thread of its own.
 *
 * For a reader of local files: remote_object_local gives it the cache's file, in which the bytes
 * have the object's own offsets.
 *
 * All functions may be called from any thread. Those that block say so; they return -ECANCELED
 * where their thread is interrupted (remote/interrupt.h). */
#pragma once

#include "base/fault.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct remote_object;
struct remote_stream;
struct remote_hold;
struct remote_kept;

/* Opens the object of a URL: one request, or none where it is open already. Blocks. 0; -ENOENT,
 * -EACCES, -ETIMEDOUT and others with a fault that names the URL, the status and the remedy. */
int remote_object_open(const char *url, struct remote_object **ret, struct fault *fault);

/* The same without a request: what a listing said of it. `etag` may be NULL. Blocks for a look into
 * the cache folder only. */
int remote_object_open_listed(const char *url, uint64_t size, const char *etag, int64_t modified_s,
	struct remote_object **ret, struct fault *fault);

struct remote_object *remote_object_ref(struct remote_object *object);

/* Accepts NULL. No read of it may be under way that this reference was for. */
void remote_object_unref(struct remote_object *object);

const char *remote_object_url(const struct remote_object *object);
uint64_t remote_object_size(const struct remote_object *object);
/* As the server wrote it, with its quotes; "" where it gave none. */
const char *remote_object_etag(const struct remote_object *object);
/* Stands for the time of modification in indexes: a positive hash of the ETag, or of size and
 * Last-Modified where there is no ETag. */
int64_t remote_object_stamp(const struct remote_object *object);

/* Reads exactly `size` bytes. Blocks. 0; -ESTALE: the object was replaced; -ENODATA: it ends
 * before; -ETIMEDOUT and others, with a fault. */
int remote_object_read(struct remote_object *object, void *buffer, size_t size, uint64_t offset,
	struct fault *fault);

/* Whether the whole range is in the cache and its checksums were verified: then *ret_fd is the
 * cache's file, where the range has the same offsets. The descriptor stays valid, and the bytes
 * stay in it, until the object is unreferenced. Does not block and takes no lock; false also where
 * the blocks are stored, but not yet verified: a read verifies them. */
bool remote_object_local(struct remote_object *object, uint64_t offset, uint64_t size, int *ret_fd);

/* An asynchronous read. The caller fills the first part; it may not touch the struct and `buffer`
 * from remote_object_begin until `done` is called. */
struct remote_read {
	struct remote_object *object;
	void *buffer;
	uint64_t offset;
	uint32_t size;
	/* Called once, on a thread of remote/, or by remote_object_begin itself before it returns.
	 * It may not block. The read may be used again from within it. */
	void (*done)(struct remote_read *read);
	void *user;

	int result; /* 0 or a negative errno, as of remote_object_read */
	struct fault fault; /* the sentence of a negative result */

	/* The object's own. */
	struct list_node node;
	unsigned parts;
	bool canceled, finished;
};

/* Begins a read. Does not block. */
void remote_object_begin(struct remote_read *read);

/* Asks for the end of a read: `done` is called soon, with -ECANCELED or with the read's result.
 * May also be called when `done` was called already, and does nothing then; but the read must
 * not go, or be begun again, before this returns. */
void remote_object_cancel(struct remote_read *read);

/* Reading from front to back, as the making of an index does: large ranges are requested ahead of
 * the reader, several at once, and what the cache has room for is kept. A stream has one reader.
 *
 * remote_stream_read reads exactly `size` bytes as remote_object_read does. Offsets may jump: a
 * jump ahead by more than the window starts reading ahead there; a jump back is a plain read. A
 * stream takes REMOTE_STREAM_BYTES of memory, from its first read on. */
enum { REMOTE_STREAM_RANGE = 2 << 20, REMOTE_STREAM_RANGES = 4 };
#define REMOTE_STREAM_BYTES ((size_t)REMOTE_STREAM_RANGE * REMOTE_STREAM_RANGES)

/* References the object. 0 or -ENOMEM. */
int remote_stream_open(struct remote_object *object, struct remote_stream **ret);
int remote_stream_read(struct remote_stream *stream, void *buffer, size_t size, uint64_t offset,
	struct fault *fault);
/* Blocks until its requests ended. Accepts NULL. */
void remote_stream_close(struct remote_stream *stream);

/* Fetches a range before it is read, with requests of up to REMOTE_KEEP bytes, and keeps it in
 * memory until remote_kept_drop: reads inside it get their bytes from there, or wait for its
 * requests. What the cache has is not fetched, and what it has room for is stored, too. Bytes that
 * are being fetched for a read now are left out; what others keep already is shared. A request that
 * fails is as if the range had not been kept.
 *
 * Does not wait for servers; may look into the cache's files. 0, or -ENOMEM: then nothing is
 * kept. */
enum { REMOTE_KEEP = 8 << 20 };
int remote_object_keep(
	struct remote_object *object, uint64_t offset, uint64_t size, struct remote_kept **ret);
/* The memory it takes, also where it is shared: the range's bytes that are not in the cache, and
 * at most REMOTE_KEEP_MORE bytes for each request of its own, since the cache has whole blocks. */
uint64_t remote_kept_bytes(const struct remote_kept *kept);
enum { REMOTE_KEEP_MORE = 128 << 10 };
/* Cancels requests that nobody else waits for. Accepts NULL. */
void remote_kept_drop(struct remote_kept *kept);

/* While an object is open, no process drops it from the cache. A dataset of many small objects,
 * which does not keep them open, holds all objects whose URL begins with `prefix` instead. Blocks
 * for a file. 0 or -ENOMEM; where the cache cannot be written, a hold has no effect. */
int remote_hold(const char *prefix, struct remote_hold **ret);
/* Accepts NULL. */
void remote_hold_free(struct remote_hold *hold);

/* upload: writes objects to s3:// and gs://, and never over another's.
 *
 * A file of at most UPLOAD_PART bytes is one PUT. A larger one is a multipart upload, several parts
 * at a time; the store shows the object when all parts have come, and not before. Bodies are
 * memory maps of the file, so that memory does not depend on its size, and each is sent with its
 * SHA-256, which the store checks.
 *
 * Requests that create an object have "If-None-Match: *", and those that replace one "If-Match". A
 * store that does not know these answers 501, or overwrites: so HEAD is asked before each.
 *
 * The client retries. An answer may be lost after the store has done what was asked: then the
 * object itself shows whether that was so.
 *
 * Circle: upload, upload_absent, upload_parts: the second replaces the others.
 *
 * For commands: one thread per call; blocks. In builds without libcurl, upload_absent.c replaces
 * it. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	UPLOAD_PART = 8 << 20, /* bytes, at least; S3 wants 5 MiB */
	UPLOAD_PARTS_MAX = 10000, /* of S3 */
	UPLOAD_ETAG = 160,
};

/* What the store says of an object. */
struct upload_found {
	uint64_t size;
	char etag[UPLOAD_ETAG]; /* "" where it gives none */
};

/* Whether objects can be written below the URL (BUCKET or BUCKET/PREFIX). 0; -ENOTSUP, -EINVAL with
 * a sentence. Pure. */
int upload_check(const char *url, struct fault *fault);

/* 1: the object exists; 0: it, or its bucket, does not; a negative errno with a sentence. */
int upload_look(const char *url, struct upload_found *ret, struct fault *fault);

/* Reads an object of at most `most` bytes: malloc'ed, with a zero after it. As upload_look; -EFBIG.
 */
int upload_read(const char *url, uint64_t most, char **ret, struct upload_found *ret_found,
	struct fault *fault);

/* Writes a small object. `instead` NULL: where none exists; else in the place of that one. 0;
 * -EEXIST: another object is there, or another one than `instead`; a negative errno. With a
 * sentence. `ret` becomes what was written. */
int upload_write(const char *url, const void *bytes, size_t size,
	const struct upload_found *instead, struct upload_found *ret, struct fault *fault);

/* Writes the first `size` bytes of a file, where no object exists, or where the same bytes are
 * already. 0; -EEXIST: other bytes are there; a negative errno. With a sentence. After a fault
 * nothing remains of it in the store, if the store can be reached. */
int upload_file(const char *url, int fd, uint64_t size, struct fault *fault);

/* An object or an unfinished upload directly below a prefix; `name` begins after the last slash of
 * the prefix. An answer below 0 ends it. */
typedef int upload_take_fn(void *context, const char *name, uint64_t size, struct fault *fault);

/* Gives the objects whose URL begins with `prefix`, without those of deeper folders. 0; -ENOENT:
 * the bucket does not exist; a negative errno. With a sentence. */
int upload_list(const char *prefix, upload_take_fn *take, void *context, struct fault *fault);

/* Aborts the unfinished uploads below a prefix for which `take` answers 1. A store that cannot list
 * them is left alone. 0; -EPROTO: the store shows the same ones after they were aborted, or 100,000
 * of them; a negative errno. With a sentence. */
int upload_sweep(const char *prefix, upload_take_fn *take, void *context, struct fault *fault);

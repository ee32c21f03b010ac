/* output_bucket: an output that is a URL: the tar files and the manifest as objects of a bucket.
 *
 *   NAME-000000.tar        finished shards
 *   NAME.pack.json         the manifest, always replaced as a whole
 *
 * A shard is made in an unlinked file in TMPDIR and written to the bucket when it is complete. The
 * manifest that lists it is written after that. So every shard of the manifest is in the bucket;
 * and after an interruption there may be one more, which pack makes again and, if the object has
 * the same bytes, takes as it is. Any other object with a shard's name belongs to someone else, and
 * pack never overwrites it. Unfinished uploads of shards are aborted by the next run.
 *
 * Two packs of one output notice each other by the manifest: it is replaced only where it is what
 * this pack has written. Main thread; blocks. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/manifest.h"
#include "client/cli/pack/pattern.h"
#include "remote/upload.h"

#include <stdbool.h>
#include <stdint.h>

struct output_bucket {
	const struct pattern *pattern; /* borrowed */
	bool begun; /* there is a manifest, which is `manifest` */
	struct upload_found manifest;
	char manifest_path[PATTERN_PATH + PATTERN_NAME]; /* its URL */
};

/* Checks the URL. 0 or a negative errno. */
int output_bucket_open(
	struct output_bucket *place, const struct pattern *pattern, struct fault *fault);

/* 0 and the manifest's text (malloc'ed); -ENOENT without a fault: no manifest; another negative
 * errno. */
int output_bucket_manifest_read(
	struct output_bucket *place, char **ret_text, size_t *ret_size, struct fault *fault);
/* 0; -EBUSY: another pack has written it; another negative errno. */
int output_bucket_manifest_write(
	struct output_bucket *place, const char *text, struct fault *fault);

/* Makes sure that the manifest's shards are in the bucket, with at most one more, and aborts
 * unfinished uploads. 0; -EEXIST: an object that the manifest does not list; -ESTALE: one of its
 * shards is missing or has another size. */
int output_bucket_settle(
	const struct output_bucket *place, const struct manifest *manifest, struct fault *fault);

/* A file for the next shard, or -errno. */
int output_bucket_shard_create(struct fault *fault);
/* Writes the file to the bucket. 0; -EEXIST; another negative errno. */
int output_bucket_shard_store(const struct output_bucket *place, const char *name, int fd,
	uint64_t bytes, struct fault *fault);

/* The folder of a shard that is being made, and the bytes that may still be written there. 0 or
 * -errno. */
const char *output_bucket_scratch(void);
int output_bucket_room(uint64_t *ret_bytes, struct fault *fault);

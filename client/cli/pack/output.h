/* output: where a pack writes: a folder (output_folder.h) or a bucket (output_bucket.h).
 *
 * A shard is made in the file of output_shard_create. When it is complete, output_shard_store, the
 * manifest that lists it, and output_shard_commit follow in this order: a bucket gets the shard by
 * the first, a folder by the last. Main thread; blocks. */
#pragma once

#include "client/cli/pack/output_bucket.h"
#include "client/cli/pack/output_folder.h"

struct output {
	const struct pattern *pattern; /* borrowed; NULL: not opened */
	bool remote;
	struct output_folder folder;
	struct output_bucket bucket;
};

/* As output_folder_open and output_bucket_open. */
int output_open(struct output *output, const struct pattern *pattern, struct fault *fault);
/* Accepts a zeroed struct, too. */
void output_close(struct output *output);

/* For faults. */
const char *output_manifest_path(const struct output *output);
int output_manifest_read(
	struct output *output, char **ret_text, size_t *ret_size, struct fault *fault);
int output_manifest_write(struct output *output, const char *text, struct fault *fault);

int output_settle(
	const struct output *output, const struct manifest *manifest, struct fault *fault);

int output_shard_create(const struct output *output, const char *name, struct fault *fault);
int output_shard_store(
	const struct output *output, const char *name, int fd, uint64_t bytes, struct fault *fault);
int output_shard_commit(const struct output *output, const char *name, struct fault *fault);
void output_shard_remove(const struct output *output, const char *name);

/* The folder in which shards are made, and the bytes that may still be written there. */
const char *output_scratch(const struct output *output);
int output_room(const struct output *output, uint64_t *ret_bytes, struct fault *fault);

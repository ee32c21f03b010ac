/* place: the folder that the output goes into, and how files get there whole.
 *
 *   NAME-000000.tar        finished shards
 *   NAME-000001.tar.part   the one under way; renamed when all of it is on the disk
 *   NAME.pack.json         the manifest, replaced as a whole
 *   NAME.pack.lock         held by the pack that runs; goes with it
 *
 * The order of steps is what makes a pack safe to kill: a shard is written and synced under its
 * temporary name, then the manifest that lists it is put into place and synced, then the shard is
 * renamed. So what the manifest lists is either there or lies complete under the temporary name,
 * and nothing else under a shard's name is ours: it is never overwritten. Main thread; blocks. */
#pragma once

#include "base/fault.h"
#include "client/cli/pack/manifest.h"
#include "client/cli/pack/pattern.h"

#include <stdint.h>

struct output_folder {
	const struct pattern *pattern; /* borrowed */
	int folder_fd, lock_fd;
	char manifest_path[PATTERN_PATH + PATTERN_NAME]; /* for faults */
};

/* Opens the folder and takes the lock. 0; -ENOENT no such folder; -EBUSY another pack runs there;
 * -EACCES and the like. */
int output_folder_open(
	struct output_folder *place, const struct pattern *pattern, struct fault *fault);
/* Gives the lock back. Takes a zeroed place, too. */
void output_folder_close(struct output_folder *place);

/* 0 and the manifest's text (malloc'ed); -ENOENT without a fault: there is none; -errno. */
int output_folder_manifest_read(
	const struct output_folder *place, char **ret_text, size_t *ret_size, struct fault *fault);
int output_folder_manifest_write(
	const struct output_folder *place, const char *text, struct fault *fault);

/* Sees to it that exactly the manifest's shards lie under the pattern's names: renames the last one
 * if that was still to be done, and removes the temporary one of a pack that was ended. 0; -EEXIST:
 * there is a file that the manifest does not list; -ESTALE: one of its shards is missing or has
 * another size. */
int output_folder_settle(
	const struct output_folder *place, const struct manifest *manifest, struct fault *fault);

/* An empty file for shard `name`, under its temporary name: a descriptor or -errno. */
int output_folder_shard_create(
	const struct output_folder *place, const char *name, struct fault *fault);
/* Renames it; the manifest lists it already. */
int output_folder_shard_commit(
	const struct output_folder *place, const char *name, struct fault *fault);
void output_folder_shard_remove(const struct output_folder *place, const char *name);

/* Bytes that an ordinary user may still write there. 0 or -errno. */
int output_folder_room(const struct output_folder *place, uint64_t *ret_bytes, struct fault *fault);

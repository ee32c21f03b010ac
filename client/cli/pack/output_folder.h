/* output_folder: the folder of the output, and how complete files get there.
 *
 *   NAME-000000.tar        finished shards
 *   NAME-000001.tar.part   the current shard; renamed when all of it is on the disk
 *   NAME.pack.json         the manifest, always replaced as a whole
 *   NAME.pack.lock         the lock of the running pack; removed at its end
 *
 * The order of the steps makes a pack safe to kill: pack writes and syncs a shard under its
 * temporary name, then puts the manifest that lists it into place and syncs it, then renames the
 * shard. So every shard of the manifest is either in place or complete under its temporary name.
 * Any other file with a shard's name belongs to someone else, and pack never overwrites it. Main
 * thread; blocks. */
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

/* Opens the folder and takes the lock. 0; -ENOENT: no such folder; -EBUSY: another pack runs there;
 * -EACCES and similar. */
int output_folder_open(
	struct output_folder *place, const struct pattern *pattern, struct fault *fault);
/* Releases the lock. Accepts a zeroed struct, too. */
void output_folder_close(struct output_folder *place);

/* 0 and the manifest's text (malloc'ed); -ENOENT without a fault: no manifest; -errno. */
int output_folder_manifest_read(
	const struct output_folder *place, char **ret_text, size_t *ret_size, struct fault *fault);
int output_folder_manifest_write(
	const struct output_folder *place, const char *text, struct fault *fault);

/* Makes sure that exactly the manifest's shards have the pattern's names: renames the last one
 * if that is still to be done, and removes the temporary file of an interrupted pack. 0;
 * -EEXIST: there is a file that the manifest does not list; -ESTALE: one of its shards is
 * missing or has another size. */
int output_folder_settle(
	const struct output_folder *place, const struct manifest *manifest, struct fault *fault);

/* Creates an empty file for shard `name` under its temporary name. A descriptor or -errno. */
int output_folder_shard_create(
	const struct output_folder *place, const char *name, struct fault *fault);
/* Renames the shard; the manifest already lists it. */
int output_folder_shard_commit(
	const struct output_folder *place, const char *name, struct fault *fault);
void output_folder_shard_remove(const struct output_folder *place, const char *name);

/* The bytes that an ordinary user may still write there. 0 or -errno. */
int output_folder_room(const struct output_folder *place, uint64_t *ret_bytes, struct fault *fault);

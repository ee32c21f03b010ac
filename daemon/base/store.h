/* store: where indexes are kept, and how one comes into its place whole or not at all.
 *
 * A place is a path beside the shard or in the cache folder. An index for it is written to a
 * temporary file in the same directory, with two unlinked ones for its parts, then synced and
 * renamed. Where no place can be written, the parts and the index are unlinked files in TMPDIR,
 * gone when the dataset is closed. Blocks; one thread per store_file.
 *
 * Whoever writes a temporary file holds a lock on it (flock), which goes with the process: what is
 * not locked was left by one that was killed, and is removed by the next who writes there. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct store_file {
	int fd; /* where the index is written; borrowed when `temporary` is NULL */
	uint64_t base; /* from this byte on */
	int names_fd, tables_fd;
	int folder_fd; /* -1 without a place */
	char *path, *temporary;
};

/* Opens the files for an index at `path`, which gets the permissions of `mode`. 0 or -errno: the
 * place cannot be used. */
int store_begin(struct store_file *file, const char *path, mode_t mode);

/* The same without a place: the index goes into `fd` (see store_unlinked) from byte `base` on. */
int store_begin_unlinked(struct store_file *file, int fd, uint64_t base);

/* Syncs and renames into place. 0 or -errno. Either way store_end follows. */
int store_commit(struct store_file *file);

/* Closes everything; removes the temporary file unless it was committed. */
void store_end(struct store_file *file);

/* A new file beside `path`, with the permissions of `mode`, to be renamed to it, and locked. A
 * descriptor or -errno; *ret_name is allocated, and NULL where there is no file. */
int store_temporary(const char *path, mode_t mode, char **ret_name);

/* Removes our temporary files that nobody writes any more from the folder of `path`. Reads all of
 * that folder: not for each shard. */
void store_tidy(const char *path);

/* An unlinked file in `folder` (NULL: TMPDIR, else /tmp), open for reading and writing. A
 * descriptor or -errno. */
int store_unlinked(const char *folder);

/* Makes the folder (0700) with its parents where they are missing. 0 or -errno. */
int store_folder_make(const char *folder);

/* The path of an index in the cache folder: a hash of the shard's path, and `suffix`. Allocated,
 * NULL without memory. */
char *store_cache_path(const char *folder, const char *shard, const char *suffix);

/* Where indexes go that cannot lie beside their shard: `given` unless it is NULL or "", else
 * $XDG_CACHE_HOME/penstock, else
 * ~/.cache/penstock, else a folder of the user's own in $TMPDIR or /tmp. 0, -ENAMETOOLONG, or
 * -EPERM and other errors where that last one is not the user's alone. */
int store_cache_folder(const char *given, char *buffer, size_t room);

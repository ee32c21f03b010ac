/* store: where index files are stored, and how one appears in its place complete or not at all.
 *
 * The place of an index is a path beside the shard or in the cache folder. The index is written to
 * a temporary file in the same directory, with two unlinked files for its parts, then synced and
 * renamed. Where no place can be written, index and parts are unlinked files in TMPDIR, which are
 * gone when the dataset is closed. Blocks; one thread per store_file.
 *
 * A process that writes a temporary file holds a lock on it (flock), which ends with the process. A
 * temporary file without a lock was left by a killed process, and the next process that writes
 * there removes it. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct store_file {
	int fd; /* of the index; borrowed where `temporary` is NULL */
	uint64_t base; /* the index begins at this byte */
	int names_fd, tables_fd;
	int folder_fd; /* -1 where the index has no place */
	char *path, *temporary;
};

/* Opens the files for an index at `path`, which gets the permissions of `mode`. 0, or -errno where
 * the place cannot be used. */
int store_begin(struct store_file *file, const char *path, mode_t mode);

/* The same for an index without a place, which is written to `fd` (see store_unlinked) from byte
 * `base` on. */
int store_begin_unlinked(struct store_file *file, int fd, uint64_t base);

/* Syncs the index and renames it into its place. 0 or -errno; call store_end in both cases. */
int store_commit(struct store_file *file);

/* Closes everything; removes the temporary file unless it was committed. */
void store_end(struct store_file *file);

/* Makes a temporary file beside `path`, to be renamed to `path`, with the permissions of `mode` and
 * a lock. Returns a descriptor or -errno; *ret_name is allocated, and NULL after an error. */
int store_temporary(const char *path, mode_t mode, char **ret_name);

/* Removes the temporary files that killed processes left in the folder of `path`. Reads the whole
 * folder, so do not call it for each shard. */
void store_tidy(const char *path);

/* Makes an unlinked file in `folder` (NULL: TMPDIR, else /tmp), open for reading and writing.
 * Returns a descriptor or -errno. */
int store_unlinked(const char *folder);

/* Makes the folder (0700) and its missing parents. 0 or -errno. */
int store_folder_make(const char *folder);

/* The path of an index in the cache folder: a hash of the shard's path, and `suffix`. Allocated,
 * NULL without memory. */
char *store_cache_path(const char *folder, const char *shard, const char *suffix);

/* A bound leaves no room. No call to a file system gives this code. */
#define STORE_E_BOUND (-EXFULL)

/* A folder whose files count in a bound that another module keeps: the cache of remote data. Before
 * store_commit puts a file there, `take` is asked for the bytes of disk that it has: 0; or a
 * negative errno, and then the file is not put there. Afterwards `settle` is told how many of these
 * bytes are in use. STORE_E_BOUND: the bound leaves no room.
 *
 * There is one bound at a time. It stays until another one, or NULL, is set, which waits until no
 * thread uses it. Any thread. */
struct store_bound {
	const char *folder;
	uint64_t size;
	int (*take)(void *context, uint64_t bytes);
	void (*settle)(void *context, uint64_t taken, uint64_t stored);
	void *context;
};
void store_bound_set(const struct store_bound *bound);

/* The size of the bound on the files in a folder; 0: there is none. */
uint64_t store_bound_size(const char *folder);

/* For files that are put in place without store_commit: as `take` and `settle`, where the folder of
 * `path` has a bound. */
int store_bound_take(const char *path, uint64_t bytes);
void store_bound_settle(const char *path, uint64_t taken, uint64_t stored);

/* What a file takes of the disk. 0 where that is not known. */
uint64_t store_bytes(int fd);

/* "cache_size has no room for it" for STORE_E_BOUND, else what strerror says. */
const char *store_error(int code);

/* The folder for indexes that cannot be stored beside their shard: `given` unless it is NULL or "",
 * else $XDG_CACHE_HOME/penstock, else ~/.cache/penstock, else a folder of this user in $TMPDIR or
 * /tmp. 0; -ENAMETOOLONG; -EPERM or another error where the folder in /tmp does not belong to this
 * user only. */
int store_cache_folder(const char *given, char *buffer, size_t room);

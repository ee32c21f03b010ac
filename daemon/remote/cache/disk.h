/* disk: a bounded folder on local disk in which blocks of remote objects are kept.
 *
 * A map of this folder:
 *   disk.[ch]         the folder: what it may use, what it uses, making room
 *   disk_file.[ch]    the blocks of one object
 *   disk_map.[ch]     the map file of an object: its header, and an entry for each block
 *   disk_walk.[ch]    which files the folder has, and what each is
 *   disk_tools.c      what `penstock cache` does: list, clear, verify
 *   disk_internal.h   what these files share
 *
 * The folder CACHE_DIR/remote has two files for each object, named after a hash of its URL: a
 * sparse .data file, in which bytes have the object's own offsets, and a .map file with the URL,
 * the ETag and, for each block that is stored, its checksum. A URL has one version of its object:
 * another ETag replaces it, once no process reads the old one.
 *
 * Never larger than its size: a process takes credit from the folder's account before it requests
 * bytes, and spends it when they are written. The account is in the file `account`: what is used by
 * files, plus the credit of each process. Credit of a process that died is found by the lock that
 * it no longer holds. What is used is what the file system says (st_blocks), measured again each
 * time that room is short.
 *
 * Indexes and entry points of shards in CACHE_DIR count as used. Those who store them ask for room
 * before (disk_reserve), and a part of the size is kept free for them. Files that other processes
 * stored there without asking are found by the next measurement.
 *
 * Safe to kill: an object's map is complete before its data file exists; a block is written before
 * its entry; data is removed before its map. Whatever a power loss leaves of this order, a block
 * counts only if its checksum fits, which is verified when a process first uses it.
 *
 * Room is made by removing whole objects, the longest unread first. A process that reads an object
 * holds a shared lock on its map, and a dataset of many small objects is held by a lock on a file
 * that names its prefix: what is held is never removed, so a dataset that is being read is never
 * replaced by parts of itself. Only files with our names, our headers and our user are removed.
 * Files are unlinked and never truncated while they are open somewhere.
 *
 * All locks end with the process that holds them (flock and open file description locks). A process
 * that holds the account's lock and is stopped holds up nobody: the others go on without storing.
 *
 * All functions may be called from any thread. Those that only count say so; the others block on
 * the file system. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>

struct disk;
struct disk_hold;

enum {
	DISK_BLOCK = 64 << 10,
	DISK_E_FULL = 1, /* an outcome: no room, now */
};

struct disk_stats {
	uint64_t size, used;
	uint64_t broken_blocks;
	uint64_t dropped_objects, dropped_bytes;
};

/* Opens the folder, making it if needed, and removes what is more than `size`. 0, or a negative
 * errno with a fault that says what to do: then there is no cache. */
int disk_open(const char *cache_dir, uint64_t size, struct disk **ret, struct fault *fault);

/* Opens it to look at and to remove, if it exists: nothing can be stored. -ENOENT: there is
 * none. */
int disk_open_existing(const char *cache_dir, struct disk **ret, struct fault *fault);

/* All files of it must have been closed. Accepts NULL. */
void disk_close(struct disk *disk);

/* What storing `bytes` of an object's data takes from the account at most. Pure. */
uint64_t disk_cost(uint64_t bytes);

/* Takes credit that this process has already. Only counts. */
bool disk_take(struct disk *disk, uint64_t bytes);

/* Returns credit that was taken and not spent. Only counts. */
void disk_give(struct disk *disk, uint64_t bytes);

/* Gets at least `bytes` of credit for disk_take from the account. Without `drop` it never walks the
 * folder. 0; DISK_E_FULL; -errno. */
int disk_credit(struct disk *disk, uint64_t bytes, bool drop);

/* Takes credit for a file that is to be stored beside the folder, also from the part that is kept
 * free for that. Drops objects that nobody reads. 0; DISK_E_FULL: there is no room even so;
 * -errno. */
int disk_reserve(struct disk *disk, uint64_t bytes);

/* Spends credit of disk_reserve: `stored` of the `taken` bytes are on disk now, and the rest is
 * free again. */
void disk_settle(struct disk *disk, uint64_t taken, uint64_t stored);

/* Stops storing for good: the disk is full or cannot be written. Returns whether this was the first
 * call, so that one warning is logged. Only counts. */
bool disk_stop(struct disk *disk);
bool disk_stopped(const struct disk *disk);

/* Holds all objects whose URL begins with `prefix`. 0 or -errno. */
int disk_hold(struct disk *disk, const char *prefix, struct disk_hold **ret);
void disk_hold_free(struct disk_hold *hold);

/* Only counts: as last measured. */
void disk_stats_read(const struct disk *disk, struct disk_stats *ret);

/* One object of the folder, for `penstock cache`. */
struct disk_object {
	const char *url, *etag; /* the URL without its query */
	uint64_t size, stored; /* of the object; bytes of blocks that are stored */
	uint64_t disk_bytes; /* of both files */
	int64_t read_s; /* when it was last read, since 1970 */
	bool open; /* some process reads it now */
};

/* Calls `each` for every object. Ends early with what `each` returns, if that is not 0. */
int disk_each(struct disk *disk, int (*each)(void *context, const struct disk_object *object),
	void *context);

/* Removes all objects whose URL begins with `prefix` and that no process reads. */
struct disk_cleared {
	uint64_t objects, bytes, open_objects, open_bytes;
};
int disk_clear(struct disk *disk, const char *prefix, struct disk_cleared *ret);

/* Reads all stored blocks of all objects whose URL begins with `prefix` and compares their
 * checksums. Blocks that are broken are marked as missing, so that they are fetched again.
 * `broken` is called for each object that has some. */
struct disk_verified {
	uint64_t objects, blocks, bytes, broken_blocks;
};
int disk_verify(struct disk *disk, const char *prefix,
	void (*broken)(void *context, const struct disk_object *object, uint64_t blocks),
	void *context, struct disk_verified *ret);

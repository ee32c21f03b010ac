/* disk_walk: which files the folder has, and what each is. Blocks on the file system; any
 * thread. */
#pragma once

#include "remote/cache/disk_internal.h"

struct stat;

enum disk_kind { DISK_OTHER, DISK_MAP, DISK_DATA, DISK_HOLD, DISK_ACCOUNT };

/* What a name says; a name that is not ours is DISK_OTHER. Pure. */
enum disk_kind disk_kind(const char *name);

/* An object of the folder: at least one of its two files exists. */
struct disk_entry {
	char name[DISK_NAME + 1];
	bool map, data;
	uint64_t bytes; /* of disk, of both */
	int64_t read_ns; /* when it was last read: the time of its map */
};

struct disk_walk {
	struct disk_entry *entries; /* the longest unread first; freed by disk_walk_free */
	size_t count;
	uint64_t bytes; /* of disk, of all files that are ours, and of the indexes beside */
	uint64_t indexes; /* of these, the indexes and the files of holds */
};

/* 0 or -errno. */
int disk_walk(const struct disk *disk, struct disk_walk *ret);
void disk_walk_free(struct disk_walk *walk);

/* The prefixes that live processes hold, each ended by a zero, and an empty one at the end.
 * Holds of processes that died are removed, where the caller has the account's lock. Allocated;
 * -errno. */
int disk_walk_holds(const struct disk *disk, bool tidy, char **ret);
/* Removes a file that a hold had, and no other. */
void disk_hold_remove(const struct disk *disk, const char *name);
bool disk_is_held(const char *holds, const char *url);

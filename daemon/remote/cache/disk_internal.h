/* disk_internal: what the files of this folder share; nothing else includes it. */
#pragma once

#include "remote/cache/disk.h"
#include "remote/cache/disk_map.h"

#include <pthread.h>
#include <stdatomic.h>

struct disk {
	int folder_fd; /* CACHE_DIR/remote */
	int parent_fd; /* CACHE_DIR, whose indexes count as well */
	int account_fd; /* -1: cannot be opened for writing */
	unsigned slot; /* of this process in the account; DISK_SLOTS: none */
	uint64_t size;
	/* Held with the account's lock, and around each change of this process's slot. */
	pthread_mutex_t lock, slot_lock;
	uint64_t credit; /* as in the slot: free and taken. Under slot_lock. */
	_Atomic uint64_t available; /* of it, not taken */
	_Atomic uint64_t used; /* of the account, as last seen */
	_Atomic uint64_t broken_blocks, dropped_objects, dropped_bytes;
	atomic_bool stopped;
	atomic_bool measuring; /* the folder is walked, under the lock */
	atomic_uint holds; /* made so far: part of their names */
};

enum { DISK_WAIT_MS = 500, DISK_SHORT_MS = 20 };

/* The account's lock, of this process and among processes. 0, or -EBUSY where another process keeps
 * it for DISK_WAIT_MS. */
int disk_lock(struct disk *disk);
/* The same for a reader: -EBUSY after DISK_SHORT_MS where another process has it, and while another
 * thread walks the folder. */
int disk_lock_short(struct disk *disk);
void disk_unlock(struct disk *disk);

/* Spends credit that was taken. */
void disk_spend(struct disk *disk, uint64_t bytes);

/* Opens the map of an object that nobody reads, with an exclusive lock, and reads its header.
 * The header of a map that was never written is zero. Returns a descriptor; -EBUSY: it is read;
 * -EBADMSG: not ours; another -errno. */
int disk_map_open_unused(
	const struct disk *disk, const char *name, struct disk_map_header *ret_header);

/* Removes the files of an object of `size` bytes, whose map the caller has locked. A data file that
 * is not ours stays. Returns whether there is no data file any more. */
bool disk_unlink(const struct disk *disk, const char *name, uint64_t size);

/* Whether a data file without a map, which a power loss leaves, is one of ours. */
bool disk_is_orphan(const struct disk *disk, const char *file);

/* What the end of a data file says: it is one of ours. After the object's last byte. */
struct disk_trailer {
	char magic[8];
	uint64_t url_hash;
};
void disk_trailer_fill(struct disk_trailer *ret, uint64_t hash);

/* What an open data file is that belongs to the map of an object of `size` bytes. */
enum disk_data {
	DISK_DATA_OURS,
	DISK_DATA_LOST, /* ours, but a crash cut it off before its end was on disk */
	DISK_DATA_FOREIGN,
};
enum disk_data disk_data_look(int fd, uint64_t size);

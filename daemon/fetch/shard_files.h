/* files: the bounded table of open shards.
 *
 * A dataset may have more shards than a process may have files, so shards are opened when they are
 * needed and the one unused for longest makes room. A shard in use by a read is never closed.
 * Entries double as the numbers of registered files: entry i is slot i of the ring's table.
 *
 * No locks: the planner's caller holds them. Opening is an op like any other; the table itself
 * never blocks, except that closing may on a network file system. */
#pragma once

#include "fetch/fetch_op.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;

enum file_state {
	FILE_FREE, /* in no list; may become OPENING */
	FILE_OPENING, /* its op is in flight; becomes OPEN, or FREE when that failed */
	FILE_OPEN, /* fd may be read; becomes FREE when evicted or doomed, with no users */
};

struct file {
	struct fetch_op op; /* the opening; first, so that the op is the file */
	const struct dataset *dataset;
	uint32_t shard;
	enum file_state state;
	bool doomed; /* no longer to be found; closed when the last user goes */
	bool direct;
	uint32_t users;
	int fd, slot;
	uint32_t align;
	uint64_t verified_ns; /* when it was last seen to be what was indexed */
	struct file *hash_next;
	struct file *older, *newer; /* among all that are not FREE */
};

/* Told before a file is closed (fd -1) and after it was opened, with its slot. */
typedef void files_slot_fn(void *context, int slot, int fd);

struct files {
	struct file *file;
	unsigned bound, hash_size;
	struct file **hash;
	struct file *free; /* through hash_next */
	struct file *oldest, *newest;
	files_slot_fn *slot;
	void *context;
};

/* How many files a process with this RLIMIT_NOFILE can spare: a quarter, at least 4, at most 512.
 */
unsigned files_bound(uint64_t nofile);

/* 0 or -ENOMEM. `slot` may be NULL. */
int files_init(struct files *files, unsigned bound, files_slot_fn *slot, void *context);
/* Closes everything; nothing may be in use. Takes a zeroed table. */
void files_deinit(struct files *files);

/* The shard's entry, in use no longer than the caller holds its lock unless it counts itself in
 * `users`; becomes the newest. NULL when it is not there. */
struct file *files_find(struct files *files, const struct dataset *dataset, uint32_t shard);

/* A new entry in state OPENING, its op ready to be asked; makes room when it must. NULL when all
 * are in use. `path` outlives the entry. */
struct file *files_claim(struct files *files, const struct dataset *dataset, uint32_t shard,
	const char *path, bool direct);

/* The opening's op is done: OPEN and true, or FREE and false. */
bool files_opened(struct files *files, struct file *file, uint64_t now_ns);

/* A user goes. */
void files_drop(struct files *files, struct file *file);

/* No longer to be found: another shard lies at its path, or its dataset goes. */
void files_doom(struct files *files, struct file *file);

/* Closes the oldest that nobody uses; false when there is none. For EMFILE. */
bool files_evict(struct files *files);

/* Dooms all of a dataset's. True when none are left, not even in use. */
bool files_forget(struct files *files, const struct dataset *dataset);

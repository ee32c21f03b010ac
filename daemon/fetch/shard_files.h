/* shard_files: the bounded table of open shards.
 *
 * A dataset may have more shards than a process may have open files, so shards are opened when they
 * are needed, and the one unused for longest is closed to make room. A shard that is being read is
 * never closed. Entry i is also slot i of the ring's registered files.
 *
 * A remote shard is an object in place of a descriptor, and counts as one: the cache has a file of
 * it open.
 *
 * No locks: the callers hold the planner's lock. Opening is an op like any other. The table itself
 * never blocks, except that closing may on a network file system. */
#pragma once

#include "base/list.h"
#include "fetch/fetch_op.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;

enum file_state {
	FILE_FREE, /* in no list; may become OPENING */
	FILE_OPENING, /* its op is in flight; becomes OPEN, or FREE if that fails */
	FILE_OPEN, /* can be read; becomes FREE when it is evicted or doomed and has no users */
};

struct file {
	struct fetch_op op; /* first, so that a pointer to the op is one to the file */
	const struct dataset *dataset;
	uint32_t shard;
	enum file_state state;
	bool doomed; /* can no longer be found; closed when its last user is done */
	bool direct;
	uint32_t users;
	int fd, slot;
	struct remote_object *object; /* in place of `fd`, of a remote shard */
	uint32_t align;
	uint64_t verified_ns; /* when it was last checked to be what was indexed */
	struct file *hash_next;
	struct list_node age; /* in `by_age`, unless it is FREE */
};

/* Called before a file is closed (fd -1) and after it was opened, with its slot. */
typedef void files_slot_fn(void *context, int slot, int fd);

struct files {
	struct file *file;
	unsigned bound, hash_size;
	struct file **hash;
	struct file *free; /* linked by hash_next */
	struct list_head by_age; /* the oldest first */
	files_slot_fn *slot;
	void *context;
};

/* How many files a process with this RLIMIT_NOFILE may use for shards: a quarter, at least 4, at
 * most 512. */
unsigned files_bound(uint64_t nofile);

/* 0 or -ENOMEM. `slot` may be NULL. */
int files_init(struct files *files, unsigned bound, files_slot_fn *slot, void *context);
/* Closes all files; none may be in use. Accepts a zeroed table. */
void files_deinit(struct files *files);

/* The shard's entry, which becomes the newest; NULL if it is not in the table. Valid while the
 * caller holds its lock, or as long as it counts itself in `users`. */
struct file *files_find(struct files *files, const struct dataset *dataset, uint32_t shard);

/* A new entry in state OPENING, whose op is ready to be asked; closes another file if it must. NULL
 * if all are in use. `path` outlives the entry. */
struct file *files_claim(struct files *files, const struct dataset *dataset, uint32_t shard,
	const char *path, bool direct);

/* The entry cannot be opened: FREE again. */
void files_abandon(struct files *files, struct file *file);

/* The opening's op is done: OPEN and true, or FREE and false. */
bool files_opened(struct files *files, struct file *file, uint64_t now_ns);

/* A user is done. */
void files_drop(struct files *files, struct file *file);

/* The entry can no longer be found: another file is at its path, or its dataset is forgotten. */
void files_doom(struct files *files, struct file *file);

/* Closes the oldest file without users; false if there is none. For EMFILE. */
bool files_evict(struct files *files);

/* Dooms all files of a dataset. True if none is left, not even in use. */
bool files_forget(struct files *files, const struct dataset *dataset);

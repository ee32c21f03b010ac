/* lend: a bounded table of open index files, lent to whoever reads pages.
 *
 * Slots are found through the caller's `place` (one per shard, -1: not open), so lending a file
 * that is open costs a lock and two stores. What nobody holds is kept open until its slot is
 * wanted: the least recently lent goes first. Any thread; a file is opened with the lock held,
 * because two readers of one shard must not open it twice. */
#pragma once

#include "base/fault.h"

#include <stdint.h>

struct index_files;

/* Opens the file of shard `shard`: a descriptor or a negative errno with a fault. Called with the
 * table locked. */
typedef int index_files_open_fn(const void *context, uint32_t shard, struct fault *fault);

/* A table of `slots` files for `shards` shards. 0 or -ENOMEM. */
int index_files_new(uint32_t shards, uint32_t slots, index_files_open_fn *open, const void *context,
	struct index_files **ret);
void index_files_free(struct index_files *lend);

/* 0; -EAGAIN when every slot is held; or what `open` returned. */
int index_files_acquire(struct index_files *lend, uint32_t shard, int *ret_fd, struct fault *fault);

/* The same without waiting for storage: -EAGAIN too when the file is not open, or the table is busy
 * with another. */
int index_files_try(struct index_files *lend, uint32_t shard, int *ret_fd);

/* Never waits. */
void index_files_release(struct index_files *lend, uint32_t shard);

uint32_t index_files_slots(const struct index_files *lend);

/* How many slots a process with this many files (RLIMIT_NOFILE) can spare: a third, at least 16, at
 * most 512. */
uint32_t index_files_slots_for(uint64_t nofile);

/* index_files: a bounded table of open index files and sidecars, lent to readers.
 *
 * Slots are found through `place` (one number per shard, -1: not open), so lending a file that is
 * open costs a lock and two stores. A file that no reader holds stays open until its slot is
 * needed: the least recently lent file is closed first. Any thread. A file is opened with the lock
 * held, because two readers of one shard must not open it twice. */
#pragma once

#include "base/fault.h"

#include <stdint.h>

struct index_files;

/* Opens the file of shard `shard`: a descriptor, or a negative errno with a fault. Called with the
 * table locked. */
typedef int index_files_open_fn(const void *context, uint32_t shard, struct fault *fault);

/* A table of `slots` files for `shards` shards. 0 or -ENOMEM. */
int index_files_new(uint32_t shards, uint32_t slots, index_files_open_fn *open, const void *context,
	struct index_files **ret);
void index_files_free(struct index_files *files);

/* Lends the file until index_files_release. 0; -EAGAIN if every slot is held; or what `open`
 * returned. */
int index_files_acquire(
	struct index_files *files, uint32_t shard, int *ret_fd, struct fault *fault);

/* The same without waiting for storage: also -EAGAIN if the file is not open, or if another thread
 * is using the table. */
int index_files_try(struct index_files *files, uint32_t shard, int *ret_fd);

/* Never waits. */
void index_files_release(struct index_files *files, uint32_t shard);

uint32_t index_files_slots(const struct index_files *files);

/* How many slots a process may use whose RLIMIT_NOFILE is `nofile`: a third, at least 16, at most
 * 512. */
uint32_t index_files_slots_for(uint64_t nofile);

/* index_files: see index_files.h. */
#include "dataset/index_files.h"

#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

enum { INDEX_FILES_MIN = 16, INDEX_FILES_MAX = 512 };

struct index_files_slot {
	int fd; /* -1: empty */
	uint32_t shard;
	/* Grows under the lock. The release in index_files_release pairs with the acquire in
	 * slot_free. */
	_Atomic uint32_t held;
	uint64_t turn; /* of the last lending */
};

struct index_files {
	pthread_mutex_t lock;
	index_files_open_fn *open;
	const void *context;
	uint64_t turn;
	uint32_t slots;
	int32_t *place; /* per shard: its slot, or -1 */
	struct index_files_slot slot[];
};

uint32_t index_files_slots_for(uint64_t nofile)
{
	uint64_t third = nofile / 3;
	return (uint32_t)UTIL_MIN(UTIL_MAX(third, INDEX_FILES_MIN), INDEX_FILES_MAX);
}

int index_files_new(uint32_t shards, uint32_t slots, index_files_open_fn *open, const void *context,
	struct index_files **ret)
{
	slots = UTIL_MAX(UTIL_MIN(slots, shards), 1);
	struct index_files *files = calloc(1, sizeof *files + slots * sizeof files->slot[0]);
	int32_t *place = malloc(UTIL_MAX(shards, 1) * sizeof *place);
	if (!files || !place) {
		free(files);
		free(place);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < shards; i++)
		place[i] = -1;
	for (uint32_t i = 0; i < slots; i++)
		files->slot[i].fd = -1;
	(void)pthread_mutex_init(&files->lock, NULL);
	files->open = open;
	files->context = context;
	files->slots = slots;
	files->place = place;
	*ret = files;
	return 0;
}

void index_files_free(struct index_files *files)
{
	if (!files)
		return;
	for (uint32_t i = 0; i < files->slots; i++) {
		assert(files->slot[i].held == 0);
		if (files->slot[i].fd >= 0)
			(void)close(files->slot[i].fd);
	}
	(void)pthread_mutex_destroy(&files->lock);
	free(files->place);
	free(files);
}

uint32_t index_files_slots(const struct index_files *files)
{
	return files->slots;
}

/* An empty slot, or else the one that was lent longest ago and is not held; NULL if all are
 * held. */
static struct index_files_slot *slot_free(struct index_files *files)
{
	struct index_files_slot *best = NULL;
	for (uint32_t i = 0; i < files->slots; i++) {
		struct index_files_slot *slot = &files->slot[i];
		if (slot->fd < 0)
			return slot;
		if (atomic_load_explicit(&slot->held, memory_order_acquire) == 0 &&
			(!best || slot->turn < best->turn))
			best = slot;
	}
	return best;
}

static int slot_open(struct index_files *files, uint32_t shard, struct fault *fault)
{
	struct index_files_slot *slot = slot_free(files);
	if (!slot)
		return fault_set(fault, -EAGAIN, "all %u index files that may be open are in use",
			files->slots);
	if (slot->fd >= 0) {
		(void)close(slot->fd);
		slot->fd = -1;
		files->place[slot->shard] = -1;
	}
	int fd = files->open(files->context, shard, fault);
	if (fd < 0)
		return fd;
	slot->fd = fd;
	slot->shard = shard;
	files->place[shard] = (int32_t)(slot - files->slot);
	return 0;
}

/* Lends an open file. Called with the table locked. */
static int slot_hold(struct index_files *files, uint32_t shard)
{
	struct index_files_slot *slot = &files->slot[files->place[shard]];
	(void)atomic_fetch_add_explicit(&slot->held, 1, memory_order_relaxed);
	slot->turn = ++files->turn;
	return slot->fd;
}

int index_files_acquire(struct index_files *files, uint32_t shard, int *ret_fd, struct fault *fault)
{
	(void)pthread_mutex_lock(&files->lock);
	int rc = files->place[shard] < 0 ? slot_open(files, shard, fault) : 0;
	if (rc == 0)
		*ret_fd = slot_hold(files, shard);
	(void)pthread_mutex_unlock(&files->lock);
	return rc;
}

int index_files_try(struct index_files *files, uint32_t shard, int *ret_fd)
{
	if (pthread_mutex_trylock(&files->lock) != 0)
		return -EAGAIN;
	int rc = files->place[shard] < 0 ? -EAGAIN : 0;
	if (rc == 0)
		*ret_fd = slot_hold(files, shard);
	(void)pthread_mutex_unlock(&files->lock);
	return rc;
}

void index_files_release(struct index_files *files, uint32_t shard)
{
	/* Without the lock: place and slot of a shard do not change while it is held. */
	assert(files->place[shard] >= 0);
	uint32_t held = atomic_fetch_sub_explicit(
		&files->slot[files->place[shard]].held, 1, memory_order_release);
	assert(held > 0);
	(void)held;
}

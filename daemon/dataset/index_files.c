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
	struct index_files *lend = calloc(1, sizeof *lend + slots * sizeof lend->slot[0]);
	int32_t *place = malloc(UTIL_MAX(shards, 1) * sizeof *place);
	if (!lend || !place) {
		free(lend);
		free(place);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < shards; i++)
		place[i] = -1;
	for (uint32_t i = 0; i < slots; i++)
		lend->slot[i].fd = -1;
	(void)pthread_mutex_init(&lend->lock, NULL);
	lend->open = open;
	lend->context = context;
	lend->slots = slots;
	lend->place = place;
	*ret = lend;
	return 0;
}

void index_files_free(struct index_files *lend)
{
	if (!lend)
		return;
	for (uint32_t i = 0; i < lend->slots; i++) {
		assert(lend->slot[i].held == 0);
		if (lend->slot[i].fd >= 0)
			(void)close(lend->slot[i].fd);
	}
	(void)pthread_mutex_destroy(&lend->lock);
	free(lend->place);
	free(lend);
}

uint32_t index_files_slots(const struct index_files *lend)
{
	return lend->slots;
}

/* An empty slot, or else the one that was lent longest ago and is not held; NULL if all are
 * held. */
static struct index_files_slot *slot_free(struct index_files *lend)
{
	struct index_files_slot *best = NULL;
	for (uint32_t i = 0; i < lend->slots; i++) {
		struct index_files_slot *slot = &lend->slot[i];
		if (slot->fd < 0)
			return slot;
		if (atomic_load_explicit(&slot->held, memory_order_acquire) == 0 &&
			(!best || slot->turn < best->turn))
			best = slot;
	}
	return best;
}

static int slot_open(struct index_files *lend, uint32_t shard, struct fault *fault)
{
	struct index_files_slot *slot = slot_free(lend);
	if (!slot)
		return fault_set(fault, -EAGAIN, "all %u index files that may be open are in use",
			lend->slots);
	if (slot->fd >= 0) {
		(void)close(slot->fd);
		slot->fd = -1;
		lend->place[slot->shard] = -1;
	}
	int fd = lend->open(lend->context, shard, fault);
	if (fd < 0)
		return fd;
	slot->fd = fd;
	slot->shard = shard;
	lend->place[shard] = (int32_t)(slot - lend->slot);
	return 0;
}

/* Lends an open file. Called with the table locked. */
static int slot_hold(struct index_files *lend, uint32_t shard)
{
	struct index_files_slot *slot = &lend->slot[lend->place[shard]];
	(void)atomic_fetch_add_explicit(&slot->held, 1, memory_order_relaxed);
	slot->turn = ++lend->turn;
	return slot->fd;
}

int index_files_acquire(struct index_files *lend, uint32_t shard, int *ret_fd, struct fault *fault)
{
	(void)pthread_mutex_lock(&lend->lock);
	int rc = lend->place[shard] < 0 ? slot_open(lend, shard, fault) : 0;
	if (rc == 0)
		*ret_fd = slot_hold(lend, shard);
	(void)pthread_mutex_unlock(&lend->lock);
	return rc;
}

int index_files_try(struct index_files *lend, uint32_t shard, int *ret_fd)
{
	if (pthread_mutex_trylock(&lend->lock) != 0)
		return -EAGAIN;
	int rc = lend->place[shard] < 0 ? -EAGAIN : 0;
	if (rc == 0)
		*ret_fd = slot_hold(lend, shard);
	(void)pthread_mutex_unlock(&lend->lock);
	return rc;
}

void index_files_release(struct index_files *lend, uint32_t shard)
{
	/* Without the lock: place and slot of a shard do not change while it is held. */
	assert(lend->place[shard] >= 0);
	uint32_t held = atomic_fetch_sub_explicit(
		&lend->slot[lend->place[shard]].held, 1, memory_order_release);
	assert(held > 0);
	(void)held;
}

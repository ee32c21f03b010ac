/* cache: see cache.h.
 *
 * The states of a block:
 *
 *   kept       in its share's list; samples are put into it (while it is `open`) and lent from it
 *   doomed     after block_detach: its samples cannot be found and its share is NULL. It lives
 *              while samples of it are lent; then it is unmapped, without the lock, and returned to
 *              the
 *              ledger
 *
 * A thread that writes into a block counts as a borrower of a sample. Locks are taken in the order
 * yielding, lock, the ledger's. */
#include "fetch/cache.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/host/ledger.h"
#include "base/list.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
	CACHE_PAGE = 4096,
	CACHE_ALIGN = 64,
	/* Blocks of a dataset that are filled at the same time: a sample goes into the first one
	 * that it fits into, so that little is left over at their ends. */
	CACHE_OPEN = 4,
	CACHE_OWN = CACHE_BLOCK / 4, /* a larger sample has a mapping of its own */
	CACHE_LOT = 64, /* blocks taken apart while the lock is held once */
	/* Returning more bytes than this takes too long for the caller of cache_leave: a GiB some
	 * 100 ms. */
	CACHE_MANY = 64 << 20,
};

/* How long a reservation waits for the next lent sample to come back. Samples are lent until they
 * are decoded, and streams read far ahead, so all of them may take much longer. */
#define CACHE_WAIT_NS 2000000000ull

/* The head of a sample in its block; its bytes follow it. */
struct cache_entry {
	struct cache_entry *next; /* in its bucket */
	struct cache_block *block;
	uint64_t number, position;
	int64_t label;
	uint32_t shard, size;
	bool held; /* its bytes are written and it is in the table */
};

/* The head of a block, at the beginning of its mapping. */
struct cache_block {
	struct list_node node; /* in its share's list, or in one of blocks to be unmapped */
	struct cache_share *share; /* NULL: doomed */
	uint64_t bytes, used;
	uint32_t lent;
};

struct cache_share {
	const struct dataset *dataset; /* NULL: free */
	uint64_t weight; /* about the memory for the whole dataset */
	uint64_t bytes; /* of its blocks */
	uint64_t samples; /* held */
	struct cache_entry **bucket; /* NULL: not made yet */
	uint64_t buckets; /* a power of two */
	struct list_head blocks;
	struct cache_block *open[CACHE_OPEN];
	bool stopped;
	bool mapping; /* a thread is mapping a block to be filled */
};

struct cache {
	struct ledger *ledger;
	pthread_mutex_t yielding; /* one thread gives memory back at a time */
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t settled; /* `arrivals` has grown, or a mapping has ended */
	struct cache_share share[CACHE_DATASETS];
	unsigned shares; /* no entry after these is in use */
	uint64_t doomed; /* bytes of blocks and tables that will be unmapped */
	unsigned mapping; /* blocks and tables being mapped: borrowed, but not yet in a share */
	/* counts released samples of doomed blocks, and finished mappings and unmappings */
	uint64_t arrivals;
	struct list_head left; /* blocks for the reaper */
	pthread_cond_t reap;
	pthread_t reaper;
	bool reaping; /* the reaper runs */
	bool over; /* the reaper must end */
	struct cache_stats stats;
};

static uint64_t entry_bytes(uint64_t size)
{
	return util_align(sizeof(struct cache_entry) + size + CACHE_SLACK, CACHE_ALIGN);
}

static uint64_t block_head(void)
{
	return util_align(sizeof(struct cache_block), CACHE_ALIGN);
}

/* Linux 5.14; older headers lack it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* --- memory, without the lock --- */

static void *cache_map(struct cache *cache, uint64_t bytes, bool whole)
{
	if (!ledger_borrow(cache->ledger, bytes))
		return NULL;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		ledger_return(cache->ledger, bytes);
		return NULL;
	}
	/* A huge page across several mappings would not be freed with one of them. */
	(void)madvise(at, bytes, MADV_NOHUGEPAGE);
	/* The whole block will be written: saves a page fault per page. Kernels before 5.14
	 * cannot. */
	if (whole)
		(void)madvise(at, bytes, MADV_POPULATE_WRITE);
	return at;
}

/* Unmaps memory that was counted as doomed. */
static void cache_unmap(struct cache *cache, void *at, uint64_t bytes)
{
	(void)munmap(at, bytes);
	ledger_return(cache->ledger, bytes);
	pthread_mutex_lock(&cache->lock);
	cache->doomed -= bytes;
	cache->arrivals++;
	pthread_cond_broadcast(&cache->settled);
	pthread_mutex_unlock(&cache->lock);
}

static void cache_unmap_all(struct cache *cache, struct list_head *gone)
{
	struct cache_block *block;
	while ((block = list_take(gone, struct cache_block, node)))
		cache_unmap(cache, block, block->bytes);
}

/* Releases the lock to map, and takes it again. NULL: no room. Meanwhile the memory belongs to no
 * share, which `mapping` counts. */
static void *cache_map_opened(struct cache *cache, uint64_t bytes, bool whole)
{
	cache->mapping++;
	pthread_mutex_unlock(&cache->lock);
	void *at = cache_map(cache, bytes, whole);
	pthread_mutex_lock(&cache->lock);
	cache->mapping--;
	cache->arrivals += at != NULL;
	pthread_cond_broadcast(&cache->settled);
	return at;
}

/* --- tables, with the lock --- */

static struct cache_share *share_of(struct cache *cache, const struct dataset *dataset)
{
	for (unsigned i = 0; i < cache->shares; i++)
		if (cache->share[i].dataset == dataset)
			return &cache->share[i];
	return NULL;
}

static struct cache_entry **share_bucket(const struct cache_share *share, uint64_t number)
{
	return &share->bucket[hash_mix(number) & (share->buckets - 1)];
}

static struct cache_entry *share_find(const struct cache_share *share, uint64_t number)
{
	struct cache_entry *entry = share->bucket ? *share_bucket(share, number) : NULL;
	while (entry && entry->number != number)
		entry = entry->next;
	return entry;
}

static void entry_link(struct cache_entry *entry)
{
	struct cache_entry **bucket = share_bucket(entry->block->share, entry->number);
	entry->next = *bucket;
	*bucket = entry;
	entry->held = true;
	entry->block->share->samples++;
}

static void entry_unlink(struct cache_entry *entry)
{
	struct cache_entry **at = share_bucket(entry->block->share, entry->number);
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	entry->held = false;
	entry->block->share->samples--;
}

/* --- blocks, with the lock --- */

static void block_attach(struct cache_share *share, struct cache_block *block)
{
	block->share = share;
	list_append(&share->blocks, &block->node);
	share->bytes += block->bytes;
}

/* Makes a block doomed, and puts it into `gone` if it can be unmapped at once. */
static void block_detach(struct cache *cache, struct cache_block *block, struct list_head *gone)
{
	struct cache_share *share = block->share;
	for (uint64_t at = block_head(); at < block->used;) {
		struct cache_entry *entry = (void *)((uint8_t *)block + at);
		if (entry->held)
			entry_unlink(entry);
		at += entry_bytes(entry->size);
	}
	list_remove(&share->blocks, &block->node);
	for (unsigned i = 0; i < CACHE_OPEN; i++)
		if (share->open[i] == block)
			share->open[i] = NULL;
	share->bytes -= block->bytes;
	block->share = NULL;
	cache->doomed += block->bytes;
	if (block->lent == 0)
		list_append(gone, &block->node);
}

/* The block to give back next: the oldest without lent samples, or else the oldest. */
static struct cache_block *share_oldest(const struct cache_share *share)
{
	list_each (block, &share->blocks, struct cache_block, node)
		if (block->lent == 0)
			return block;
	return list_first(&share->blocks, struct cache_block, node);
}

void cache_release(struct cache *cache, struct cache_block *block)
{
	pthread_mutex_lock(&cache->lock);
	assert(block->lent > 0);
	bool doomed = !block->share, gone = --block->lent == 0 && doomed;
	if (doomed) {
		cache->arrivals++;
		pthread_cond_broadcast(&cache->settled);
	}
	pthread_mutex_unlock(&cache->lock);
	if (gone)
		cache_unmap(cache, block, block->bytes);
}

/* --- how much each dataset may have --- */

/* The memory that all blocks may have together. Called without the lock or with it: the ledger does
 * not know it. */
static uint64_t cache_room(struct cache *cache)
{
	return ledger_free(cache->ledger);
}

static uint64_t cache_weight(const struct cache *cache)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < cache->shares; i++)
		sum += cache->share[i].weight;
	return sum;
}

/* A dataset's share of the room; without a bound if all datasets fit. */
static uint64_t share_most(
	const struct cache *cache, const struct cache_share *share, uint64_t room)
{
	uint64_t sum = cache_weight(cache);
	return sum <= room ? UINT64_MAX
			   : (uint64_t)((double)room * ((double)share->weight / (double)sum));
}

/* The share with the most bytes for its weight. NULL: none has any. */
static struct cache_share *cache_richest(struct cache *cache)
{
	struct cache_share *richest = NULL;
	double most = 0;
	for (unsigned i = 0; i < cache->shares; i++) {
		struct cache_share *share = &cache->share[i];
		double has = share->bytes ? (double)share->bytes / (double)share->weight : 0;
		if (has > most) {
			most = has;
			richest = share;
		}
	}
	return richest;
}

/* Dooms blocks of at least `bytes`, but at most CACHE_LOT. */
static void cache_detach(struct cache *cache, uint64_t bytes, struct list_head *gone)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < CACHE_LOT && sum < bytes; i++) {
		struct cache_share *share = cache_richest(cache);
		if (!share)
			break;
		struct cache_block *block = share_oldest(share);
		sum += block->bytes;
		block_detach(cache, block, gone);
	}
}

/* Tables go last, and only those of empty shares: they are made again when there is room. NULL:
 * none. */
static void *cache_detach_table(struct cache *cache, uint64_t *ret_bytes)
{
	for (unsigned i = 0; i < cache->shares; i++) {
		struct cache_share *share = &cache->share[i];
		void *table = share->bytes == 0 ? share->bucket : NULL;
		if (table) {
			*ret_bytes = share->buckets * sizeof(void *);
			share->bucket = NULL;
			cache->doomed += *ret_bytes;
			return table;
		}
	}
	return NULL;
}

/* Waits until something that is on its way arrives. False: nothing has arrived for too long. */
static bool cache_await(struct cache *cache)
{
	uint64_t until_ns = clock_ns() + CACHE_WAIT_NS, arrivals = cache->arrivals;
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u)};
	/* A thread that fails to map is not an arrival, or its repeated attempts would prolong the
	 * wait. */
	while (cache->arrivals == arrivals && (cache->doomed > 0 || cache->mapping > 0))
		if (pthread_cond_timedwait(&cache->settled, &cache->lock, &until) != 0)
			return false;
	return true;
}

/* One step toward returning `excess` bytes: dooms blocks, or waits for what is on its way, or frees
 * a table. False: nothing arrives, or nothing more can be done. */
static bool cache_shrink(struct cache *cache, uint64_t excess)
{
	struct list_head gone = {0};
	void *table = NULL;
	uint64_t bytes = 0;
	bool came = false;
	pthread_mutex_lock(&cache->lock);
	if (excess > cache->doomed)
		cache_detach(cache, excess - cache->doomed, &gone);
	bool some = !list_is_empty(&gone);
	if (!some && (cache->doomed > 0 || cache->mapping > 0))
		came = cache_await(cache);
	else if (!some)
		table = cache_detach_table(cache, &bytes);
	pthread_mutex_unlock(&cache->lock);
	cache_unmap_all(cache, &gone);
	if (table)
		cache_unmap(cache, table, bytes);
	return some || table || came;
}

/* Called by the ledger when a reservation needs memory that is borrowed. */
static bool cache_yield(void *context)
{
	struct cache *cache = context;
	uint64_t excess;
	pthread_mutex_lock(&cache->yielding);
	pthread_mutex_lock(&cache->lock);
	cache->stats.shrinks++;
	pthread_mutex_unlock(&cache->lock);
	while ((excess = ledger_excess(cache->ledger)) > 0)
		if (!cache_shrink(cache, excess))
			break;
	pthread_mutex_unlock(&cache->yielding);
	return excess == 0;
}

/* Shrinks all datasets to their shares after another one has joined. */
static void cache_balance(struct cache *cache)
{
	uint64_t room = cache_room(cache);
	bool some;
	do {
		struct list_head gone = {0};
		pthread_mutex_lock(&cache->lock);
		for (unsigned i = 0, lot = 0; i < cache->shares; i++) {
			struct cache_share *share = &cache->share[i];
			while (share->bytes > share_most(cache, share, room) && lot++ < CACHE_LOT)
				block_detach(cache, share_oldest(share), &gone);
		}
		pthread_mutex_unlock(&cache->lock);
		some = !list_is_empty(&gone);
		cache_unmap_all(cache, &gone);
	} while (some);
}

/* --- datasets --- */

void cache_join(
	struct cache *cache, const struct dataset *dataset, uint64_t samples, uint64_t bytes)
{
	/* As many buckets as samples that can be held at most. */
	uint64_t weight = bytes + samples * entry_bytes(0), buckets = 1;
	double held = (double)cache->ledger->budget / (double)UTIL_MAX(weight, (uint64_t)1);
	double most = (double)samples * UTIL_MIN(held, 1.0);
	while ((double)buckets < most)
		buckets *= 2;
	pthread_mutex_lock(&cache->lock);
	assert(!share_of(cache, dataset));
	struct cache_share *share = share_of(cache, NULL);
	if (!share && cache->shares < CACHE_DATASETS)
		share = &cache->share[cache->shares++];
	if (share)
		*share = (struct cache_share){
			.dataset = dataset,
			.weight = UTIL_MAX(weight, (uint64_t)1),
			.buckets = UTIL_MAX(buckets, (uint64_t)(CACHE_PAGE / sizeof(void *))),
		};
	pthread_mutex_unlock(&cache->lock);
	cache_balance(cache);
}

/* Unmaps what large datasets leave behind. */
static void *cache_reap(void *context)
{
	struct cache *cache = context;
	pthread_mutex_lock(&cache->lock);
	for (;;) {
		while (list_is_empty(&cache->left) && !cache->over)
			pthread_cond_wait(&cache->reap, &cache->lock);
		struct list_head gone = {0};
		if (list_is_empty(&cache->left))
			break;
		list_join(&gone, &cache->left);
		pthread_mutex_unlock(&cache->lock);
		cache_unmap_all(cache, &gone);
		pthread_mutex_lock(&cache->lock);
	}
	pthread_mutex_unlock(&cache->lock);
	return NULL;
}

/* With the lock. */
static bool cache_start_reaper(struct cache *cache)
{
	sigset_t all, before;
	if (cache->reaping)
		return true;
	/* The event loop handles all signals. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	cache->reaping = pthread_create(&cache->reaper, NULL, cache_reap, cache) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return cache->reaping;
}

/* Dooms all blocks of a share that ends; puts those that can be unmapped into `gone`. Its table
 * goes too, so the samples need not be taken out of it one by one. */
static void share_clear(struct cache *cache, struct cache_share *share, struct list_head *gone)
{
	struct cache_block *block;
	while ((block = list_take(&share->blocks, struct cache_block, node))) {
		block->share = NULL;
		cache->doomed += block->bytes;
		if (block->lent == 0)
			list_append(gone, &block->node);
	}
	if (share->bucket)
		cache->doomed += share->buckets * sizeof(void *);
	*share = (struct cache_share){0};
}

void cache_leave(struct cache *cache, const struct dataset *dataset)
{
	struct list_head gone = {0};
	struct cache_share was = {0};
	pthread_mutex_lock(&cache->lock);
	struct cache_share *share = share_of(cache, dataset);
	if (share) {
		was = *share;
		share_clear(cache, share, &gone);
	}
	if (!list_is_empty(&gone) && was.bytes > CACHE_MANY && cache_start_reaper(cache)) {
		list_join(&cache->left, &gone);
		pthread_cond_signal(&cache->reap);
	}
	pthread_mutex_unlock(&cache->lock);
	cache_unmap_all(cache, &gone);
	if (was.bucket)
		cache_unmap(cache, was.bucket, was.buckets * sizeof(void *));
}

void cache_stop(struct cache *cache, const struct dataset *dataset)
{
	pthread_mutex_lock(&cache->lock);
	struct cache_share *share = share_of(cache, dataset);
	if (share) {
		share->stopped = true;
		/* The room that it will not take belongs to the others. */
		share->weight = UTIL_MAX(share->bytes, (uint64_t)1);
	}
	pthread_mutex_unlock(&cache->lock);
}

/* --- samples --- */

bool cache_take(struct cache *cache, const struct dataset *dataset, uint64_t number,
	struct cache_sample *ret, struct cache_block **ret_block)
{
	pthread_mutex_lock(&cache->lock);
	struct cache_share *share = share_of(cache, dataset);
	struct cache_entry *entry = share ? share_find(share, number) : NULL;
	if (entry) {
		entry->block->lent++;
		cache->stats.hits++;
		*ret_block = entry->block;
		*ret = (struct cache_sample){
			.number = entry->number,
			.position = entry->position,
			.label = entry->label,
			.shard = entry->shard,
			.size = entry->size,
			.data = (uint8_t *)(entry + 1),
		};
	}
	pthread_mutex_unlock(&cache->lock);
	return entry != NULL;
}

bool cache_has(struct cache *cache, const struct dataset *dataset, uint64_t number)
{
	pthread_mutex_lock(&cache->lock);
	struct cache_share *share = share_of(cache, dataset);
	bool has = share && share_find(share, number);
	pthread_mutex_unlock(&cache->lock);
	return has;
}

/* Releases the lock to map a table for the share, and takes it again. */
static void share_make_table(struct cache *cache, struct cache_share *share)
{
	uint64_t bytes = share->buckets * sizeof(void *);
	void *table = cache_map_opened(cache, bytes, false);
	if (!table)
		return;
	if (!share->bucket) {
		share->bucket = table;
		return;
	}
	cache->doomed += bytes;
	pthread_mutex_unlock(&cache->lock);
	cache_unmap(cache, table, bytes);
	pthread_mutex_lock(&cache->lock);
}

/* Releases the lock to map a block for a sample that takes `cost`, and takes it again. NULL: no
 * room. */
static struct cache_block *share_make_block(
	struct cache *cache, struct cache_share *share, uint64_t cost)
{
	uint64_t bytes = cost > CACHE_OWN ? util_align(block_head() + cost, CACHE_PAGE)
					  : (uint64_t)CACHE_BLOCK;
	uint64_t most = share_most(cache, share, cache_room(cache));
	if (share->bytes >= most || bytes > most - share->bytes)
		return NULL;
	struct cache_block *block = cache_map_opened(cache, bytes, true);
	if (!block)
		return NULL;
	/* Fresh memory is zero. */
	block->bytes = bytes;
	block->used = block_head();
	block_attach(share, block);
	return block;
}

/* Puts a block among those that are being filled, in place of the fullest. */
static void share_open_block(struct cache_share *share, struct cache_block *block)
{
	unsigned place = 0;
	for (unsigned i = 0; i < CACHE_OPEN && share->open[place]; i++)
		if (!share->open[i] || share->open[i]->used > share->open[place]->used)
			place = i;
	share->open[place] = block;
}

static struct cache_block *share_opened(const struct cache_share *share, uint64_t cost)
{
	for (unsigned i = 0; i < CACHE_OPEN; i++) {
		struct cache_block *block = share->open[i];
		if (block && block->bytes - block->used >= cost)
			return block;
	}
	return NULL;
}

/* A block with room for `cost`, or NULL. May release the lock meanwhile; while one thread maps a
 * block, others wait for that instead of mapping more. */
static struct cache_block *share_block(
	struct cache *cache, struct cache_share *share, uint64_t cost)
{
	if (cost > CACHE_OWN)
		return share_make_block(cache, share, cost);
	struct cache_block *block;
	while (!(block = share_opened(share, cost)) && share->mapping)
		pthread_cond_wait(&cache->settled, &cache->lock);
	if (block)
		return block;
	share->mapping = true;
	block = share_make_block(cache, share, cost);
	share->mapping = false;
	if (block)
		share_open_block(share, block);
	return block;
}

/* A place for a sample, whose block is then held. Called with the lock, which may be released
 * meanwhile. NULL: the sample is held already, or is not to be kept, or there is no room. */
static struct cache_entry *cache_place(
	struct cache *cache, const struct dataset *dataset, const struct cache_sample *sample)
{
	struct cache_share *share = share_of(cache, dataset);
	if (!share || share->stopped)
		return NULL;
	cache->stats.misses++;
	if (!share->bucket)
		share_make_table(cache, share);
	if (!share->bucket || share_find(share, sample->number))
		return NULL;
	struct cache_block *block = share_block(cache, share, entry_bytes(sample->size));
	/* While the lock was released, the table may have been freed; with the block there, it
	 * stays. */
	if (!block || !share->bucket)
		return NULL;
	struct cache_entry *entry = (void *)((uint8_t *)block + block->used);
	*entry = (struct cache_entry){
		.block = block,
		.number = sample->number,
		.position = sample->position,
		.label = sample->label,
		.shard = sample->shard,
		.size = sample->size,
	};
	block->used += entry_bytes(sample->size);
	block->lent++;
	return entry;
}

void cache_put(
	struct cache *cache, const struct dataset *dataset, const struct cache_sample *sample)
{
	pthread_mutex_lock(&cache->lock);
	struct cache_entry *entry = cache_place(cache, dataset, sample);
	pthread_mutex_unlock(&cache->lock);
	if (!entry)
		return;
	memcpy(entry + 1, sample->data, sample->size);
	struct cache_block *block = entry->block;
	pthread_mutex_lock(&cache->lock);
	/* The block may be doomed by now, or another thread may have put the sample. */
	if (block->share && !share_find(block->share, entry->number))
		entry_link(entry);
	pthread_mutex_unlock(&cache->lock);
	cache_release(cache, block);
}

/* --- beginning and end --- */

int cache_new(struct ledger *ledger, struct cache **ret)
{
	struct cache *cache = calloc(1, sizeof *cache);
	if (!cache)
		return -ENOMEM;
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&cache->settled, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&cache->lock, NULL);
	pthread_mutex_init(&cache->yielding, NULL);
	pthread_cond_init(&cache->reap, NULL);
	cache->ledger = ledger;
	ledger_set_borrower(ledger, "cache", cache_yield, cache);
	*ret = cache;
	return 0;
}

void cache_free(struct cache *cache)
{
	if (!cache)
		return;
	for (unsigned i = 0; i < cache->shares; i++)
		if (cache->share[i].dataset)
			cache_leave(cache, cache->share[i].dataset);
	if (cache->reaping) {
		pthread_mutex_lock(&cache->lock);
		cache->over = true;
		pthread_cond_signal(&cache->reap);
		pthread_mutex_unlock(&cache->lock);
		(void)pthread_join(cache->reaper, NULL);
	}
	assert(cache->doomed == 0);
	ledger_set_borrower(cache->ledger, NULL, NULL, NULL);
	pthread_cond_destroy(&cache->settled);
	pthread_cond_destroy(&cache->reap);
	pthread_mutex_destroy(&cache->lock);
	pthread_mutex_destroy(&cache->yielding);
	free(cache);
}

void cache_stats_read(struct cache *cache, struct cache_stats *ret)
{
	pthread_mutex_lock(&cache->lock);
	*ret = cache->stats;
	for (unsigned i = 0; i < cache->shares; i++) {
		const struct cache_share *share = &cache->share[i];
		ret->samples += share->samples;
		ret->bytes += share->bytes + (share->bucket ? share->buckets * sizeof(void *) : 0);
	}
	pthread_mutex_unlock(&cache->lock);
}

/* fetch_internal: what the door (fetch.c), the planner (fetch_plan.h) and the engines share; nobody
 * else includes it.
 *
 * The way of an item, each state with its single door into the next:
 *
 *   inbox      fetch_submit linked it, under the inbox's lock
 *   queue      plan_drain moved it into the heap of waiting items
 *              or it is finished out of the cache
 *   window     a request carries it: record page, name page (folders), then READY
 *   read       fetch_plan_read gave it a place in a buffer; an op of the engine's fills that. Or
 *              it follows another that is being read (fetch_share.h)
 *   finished   its result holds; fetch_deliver calls `done`, without any lock
 *
 * Everything but the inbox is the planner's, under `lock`. The ring's thread takes that lock once
 * per turn and meets nobody there but callers of fetch_cancel and fetch_forget; the pread threads
 * meet each other, for about a microsecond. Nobody sleeps or reads with it held (a shard's file may
 * be closed under it, and an index file opened).
 *
 * Locks are taken in the order lock, inbox.lock; the arena's is a leaf. */
#pragma once

#include "base/gauge.h"
#include "dataset/index.h"
#include "fetch/arena.h"
#include "fetch/fetch.h"
#include "fetch/fetch_pages.h"
#include "fetch/fetch_queue.h"
#include "fetch/quota.h"
#include "fetch/shard_files.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	FETCH_WINDOW = 220, /* requests: items looked up ahead of their reads; of one reader 192 */
	FETCH_WINDOW_LEAST = 16,
	FETCH_MERGE_GAP = 64 << 10,
	FETCH_MERGE_BYTES = 1 << 20,
	FETCH_VERIFY_NS = 1000000000, /* a shard in use is looked at this often */
	FETCH_RETRY_NS = 2000000, /* how soon to look again for what nobody announces: permits, lent
				     index files */
	FETCH_FLIGHTS = 256, /* buckets for samples that are being read; a power of two */
	FETCH_MODES = 64, /* datasets whose way of reading is remembered */
};

/* What fetch keeps in an item, in place of `internal`. */
struct fetch_state {
	uint64_t sequence; /* order among equally urgent items of its reader */
	uint64_t turn; /* order among readers; once it was taken from the queue */
	uint64_t charge; /* bytes of its buffer, as counted against its reader */
	struct fetch_item *child; /* in the queue's heap */
	uint8_t *buffer; /* to give back; NULL: none */
	struct cache_block *block; /* the same, where the cache lent it */
	struct fetch_item *flight; /* being read: next of its bucket */
	struct fetch_item *followers; /* that want the same sample, linked by `next` */
	uint64_t large; /* bytes of a buffer of its own; 0: the buffer is the arena's */
	bool solo; /* never merged: a merged read of it failed */
	bool told; /* the fault already says why */
	bool labelled; /* what the caller's `values` are to hold is there */
};
_Static_assert(
	sizeof(struct fetch_state) <= sizeof((struct fetch_item *)0)->internal, "fits an item");

static inline struct fetch_state *fetch_state(struct fetch_item *item)
{
	return (struct fetch_state *)(void *)item->internal;
}

/* Whether an item still has to be looked up in the index for its label's values, which neither the
 * cache nor another item's read brings. */
static inline bool fetch_wants_values(struct fetch_item *item)
{
	return item->values && !fetch_state(item)->labelled;
}

static inline const struct fetch_state *fetch_state_const(const struct fetch_item *item)
{
	return (const struct fetch_state *)(const void *)item->internal;
}

enum fetch_request_state {
	REQUEST_RECORD, /* wants its record's page */
	REQUEST_NAME, /* has its record, wants its name's page: for a folder's path, and for labels
			 that lie behind the name */
	REQUEST_READY, /* may be read; in a folder its name's page is pinned */
};

/* An item in the window. */
struct fetch_request {
	struct fetch_item *item;
	enum fetch_request_state state;
	struct page *waiting; /* for which LOADING page; NULL: for none */
	struct page *name; /* pinned */
	bool counted; /* its page is already in the counters */
	struct dataset_page at;
	struct index_record record;
	uint64_t position; /* its record's, see dataset_record */
	struct fetch_request *before, *after; /* the window, in the queue's order */
	struct fetch_request *next; /* free list, or the waiters of a page */
};

/* A read in flight: one buffer, one or several items. */
struct fetch_read {
	struct fetch_op op; /* first, so that the op is the read */
	struct fetch_item *items;
	unsigned count;
	struct file *file; /* its shard; NULL in a folder */
	uint8_t *buffer;
	uint64_t large;
	uint64_t begun_ns;
	struct fetch_read *next; /* free list */
};

/* How a dataset is read, decided when its first item comes, and how much of that is under way:
 * storage that hangs hangs by the dataset. */
struct fetch_mode {
	const struct dataset *dataset;
	bool direct;
	unsigned reads; /* of samples, of fetch->reads_used */
	unsigned asked; /* ops of all kinds, of fetch->asked */
};

/* Where submitters and the engine meet. `kicked` and `items` are what a sleeper waits for. */
struct fetch_inbox {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct fetch_item *items, **tail;
	bool kicked;
	bool timed; /* one of the sleepers looks again by itself: one is enough */
	unsigned sleepers;
	int eventfd; /* the ring's; -1: sleepers wait on `cond` */
};

struct fetch_counters {
	_Atomic uint64_t submitted, delivered, samples, reads, bytes, merged, index_hits,
		index_misses, arena_waits, shared;
};

/* What storage was asked and what had to wait for room, over time. Planners change it, whoever
 * reads statistics looks: its lock is a leaf, held for a few instructions. */
struct fetch_meter {
	pthread_mutex_t lock;
	struct gauge asked; /* fetch->asked */
	struct gauge short_of_room; /* 1: a read waits for a buffer */
};

struct fetch;

/* The two ways to ask the kernel. */
struct fetch_engine_ops {
	/* Starts the threads, writes fetch->describe. 0 or negative errno with a fault; then
	 * nothing is left behind. */
	int (*start)(struct fetch *fetch, struct fault *fault);
	/* After `stopping`: waits until every item has completed and the threads are gone. */
	void (*join)(struct fetch *fetch);
	unsigned reads; /* how many may be in flight; 0: one per thread, and other ops too */
};
extern const struct fetch_engine_ops fetch_uring, fetch_pread;

/* Who waits in fetch_forget until nothing of a dataset is left; on the waiting thread's stack. */
struct fetch_forgotten {
	const struct dataset *dataset;
	struct fetch_forgotten *next;
	bool done;
};

struct fetch {
	struct fetch_options options;
	const struct fetch_engine_ops *ops;
	void *engine;
	struct arena arena;
	struct fetch_inbox inbox;
	struct fetch_counters counters;
	struct fetch_meter meter;
	struct cache *cache; /* NULL: there is none */
	_Atomic bool large_wanted; /* a request waits for the permit pool */
	pthread_t threads[80]; /* quota_total(64) */
	unsigned thread_count;
	_Atomic pid_t tids[80]; /* of those that run, in the order in which they began; relaxed */
	atomic_uint tid_count;
	char describe[256];

	pthread_mutex_t lock; /* of all below */
	struct fetch_forgotten *forgotten;
	pthread_cond_t settled; /* one of them is done */
	struct fetch_queue queue;
	struct files files;
	struct pages pages;
	struct fetch_request *requests, *request_free, *window, *window_last;
	unsigned window_count, window_bound;
	struct fetch_read *reads, *read_free;
	unsigned reads_used, reads_bound;
	uint64_t pass; /* over the window */
	unsigned files_own, files_own_bound; /* folder's files open now */
	struct fetch_op *ready, **ready_tail; /* for the engine to ask */
	unsigned asked; /* ops handed to the engine */
	struct fetch_item *finished, **finished_tail;
	struct fetch_item *flight[FETCH_FLIGHTS];
	struct fetch_mode modes[FETCH_MODES];
	unsigned modes_next;
	bool short_of_room; /* a read had to wait for a buffer when they were planned last */
	bool stopping, retry; /* retry: look again after FETCH_RETRY_NS */
	char notice[512];
};

/* --- the planner, all with fetch->lock held --- */

/* Sizes the pools for `reads` reads in flight. 0 or -ENOMEM with a fault. */
int fetch_plan_init(struct fetch *fetch, unsigned reads, struct fault *fault);
void fetch_plan_deinit(struct fetch *fetch);

/* Takes what came in and makes ops ready, as far as window, arena and files allow. */
void fetch_plan(struct fetch *fetch);

/* The next op for the engine to ask; NULL when there is none, or others of its dataset have to come
 * back first. */
struct fetch_op *fetch_plan_next(struct fetch *fetch);

/* Whether there is one. */
bool fetch_plan_more(struct fetch *fetch);

/* An op came back, DONE. */
void fetch_plan_done(struct fetch *fetch, struct fetch_op *op);

/* All that finished since, linked by `next`, for fetch_deliver once the lock is open. */
struct fetch_item *fetch_plan_finished(struct fetch *fetch);

/* Appends an item to what finished. */
void fetch_plan_finish(struct fetch *fetch, struct fetch_item *item, int result);

/* How a dataset is read: with O_DIRECT? */
bool fetch_plan_direct(struct fetch *fetch, const struct dataset *dataset);

/* Completes what is queued or in the window, of one reader or (NULL) of all, with -ECANCELED. */
void fetch_plan_cancel(struct fetch *fetch, const struct fetch_reader *reader);

/* True when nothing is queued, ready, in flight or undelivered. */
bool fetch_plan_quiet(const struct fetch *fetch);

/* --- the door's services to the engines, without fetch->lock --- */

/* Completes faults and calls `done` of each. */
void fetch_deliver(struct fetch *fetch, struct fetch_item *items);

/* Makes a sleeping engine, or the next one to sleep, look again. */
void fetch_kick(struct fetch *fetch);

/* Before the ring's thread sleeps: true, and it counts as a sleeper, when nothing has come in. */
bool fetch_sleep_begin(struct fetch_inbox *inbox);
void fetch_sleep_end(struct fetch_inbox *inbox);

/* A pread thread sleeps, unless something has come in; with `retry` for FETCH_RETRY_NS at most. */
void fetch_sleep(struct fetch_inbox *inbox, bool retry);

/* Starts an engine thread, all signals blocked. 0 or negative errno. */
int fetch_thread_start(struct fetch *fetch, size_t stack_bytes, void *(*run)(void *));
void fetch_threads_join(struct fetch *fetch);
/* An engine thread has begun. */
void fetch_thread_note(struct fetch *fetch);

/* A reader's item holds so many bytes of the arena, until fetch_uncharge. Relaxed: who waits for
 * room is woken by the arena. */
static inline void fetch_charge(struct fetch_item *item, uint64_t bytes)
{
	fetch_state(item)->charge = bytes;
	atomic_fetch_add_explicit(&item->reader->held, bytes, memory_order_relaxed);
}

static inline void fetch_uncharge(struct fetch_item *item)
{
	atomic_fetch_sub_explicit(
		&item->reader->held, fetch_state(item)->charge, memory_order_relaxed);
	fetch_state(item)->charge = 0;
}

static inline void fetch_count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* fetch_internal: what the files of this folder share.
 *
 * The states of an item:
 *
 *   inbox      fetch_submit linked it, under the inbox's lock
 *   queue      plan_drain moved it into the heap of waiting items (or it is finished: the cache had
 *              it)
 *   window     a request carries it: it waits for its record's page, in a folder also for its
 *              name's page, and then is READY
 *   read       fetch_plan_read gave it a place in a buffer, which an op of the engine fills; or it
 *              follows another item that is being read (fetch_share.h)
 *   finished   its result is set; fetch_deliver calls `done`, without any lock
 *
 * A fetch has one or several lanes, each with a planner and an engine. An item belongs to one lane
 * by its sample's number, so that what shares a read or is read together meets there; nothing but
 * the arena, the cache and the meter is common to lanes. Each reader has a place in the queue of
 * each lane.
 *
 * The planner owns everything except the inbox, under `lock`. The thread of the ring takes that
 * lock once per turn and competes only with callers of fetch_cancel and fetch_forget; the pread
 * threads compete with each other for about a microsecond. No thread sleeps or reads while it holds
 * the lock, but it may close a shard's file or open an index file.
 *
 * Locks are taken in the order lock, room_lock, far.lock, inbox.lock; the arena's lock is a
 * leaf. */
#pragma once

#include "base/gauge.h"
#include "base/quota.h"
#include "dataset/index.h"
#include "fetch/arena.h"
#include "fetch/far/far.h"
#include "fetch/fetch.h"
#include "fetch/fetch_pages.h"
#include "fetch/fetch_queue.h"
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
	FETCH_VERIFY_NS = 1000000000, /* how often a shard in use is checked for changes */
	/* How soon to try again for permits and lent index files, whose return is not announced. */
	FETCH_RETRY_NS = 2000000,
	FETCH_FLIGHTS = 256, /* buckets for samples that are being read; a power of two */
	FETCH_MODES = 64, /* datasets whose way of reading is remembered */
	/* Samples in a row that belong to one lane: as many as are worth merging. */
	FETCH_RUN = 64,
};

/* What fetch keeps in an item's `internal`. */
struct fetch_state {
	uint64_t sequence; /* order among equally urgent items of its reader */
	uint64_t turn; /* order among readers; set when it was taken from the queue */
	uint64_t charge; /* bytes of its buffer, as counted against its reader */
	struct fetch_item *child; /* in the queue's heap */
	uint8_t *buffer; /* to give back; NULL: none */
	struct cache_block *block; /* the same, if the cache lent it */
	struct fetch_item *flight; /* while it is being read: next of its bucket */
	struct fetch_item *followers; /* items that want the same sample, linked by `next` */
	uint64_t large; /* bytes of a buffer of its own; 0: the buffer is the arena's */
	/* What tells the stored bytes of a packed sample apart, once they were looked up: several
	 * samples may be packed together (fetch_range_key), or a sample is a part of what is
	 * (fetch_part_key). 0: not known, or not packed. */
	uint64_t range;
	bool solo; /* never merged: a merged read of it failed */
	bool told; /* the fault already has its sentence */
	bool labelled; /* the caller's `values` are written */
};
_Static_assert(
	sizeof(struct fetch_state) <= sizeof((struct fetch_item *)0)->internal, "fits an item");

static inline struct fetch_state *fetch_state(struct fetch_item *item)
{
	return (struct fetch_state *)(void *)item->internal;
}

/* Whether an item must still be looked up in the index for the values of its label. Neither the
 * cache nor another item's read provides them. */
static inline bool fetch_wants_values(struct fetch_item *item)
{
	return item->values && !fetch_state(item)->labelled;
}

/* Whether an item needs the page with its sample's name: for a folder's path, for a label of
 * several values, and for the places of fields. The image waits for that page with its fields, so
 * that they can be read together. */
static inline bool fetch_wants_name(struct fetch_item *item)
{
	return item->field || item->fields_follow || fetch_wants_values(item);
}

static inline const struct fetch_state *fetch_state_const(const struct fetch_item *item)
{
	return (const struct fetch_state *)(const void *)item->internal;
}

/* What tells samples and fields of a dataset apart: no dataset has 2^48 samples. Packed ones are
 * told apart by where their stored bytes begin, so that samples that are packed together share a
 * read. */
static inline uint64_t fetch_key(const struct fetch_item *item)
{
	if (fetch_state_const(item)->range)
		return fetch_state_const(item)->range;
	return item->number | (item->field ? (uint64_t)item->field->id << 48 : 0);
}

/* The key of the stored bytes of a sample or field that no other has: no field's number has as many
 * bits. */
static inline uint64_t fetch_part_key(const struct fetch_item *item)
{
	return (uint64_t)1 << 62 | item->number |
	       (item->field ? (uint64_t)item->field->id << 48 : 0);
}

/* The key of the bytes from `offset` on in a shard; 0: the numbers are too large for one, and every
 * sample is read by itself. */
static inline uint64_t fetch_range_key(uint32_t shard, uint64_t offset)
{
	enum { SHARD_BITS = 16, OFFSET_BITS = 63 - SHARD_BITS };
	const bool fits = shard >> SHARD_BITS == 0 && offset >> OFFSET_BITS == 0;
	return fits ? (uint64_t)1 << 63 | (uint64_t)shard << OFFSET_BITS | offset : 0;
}

enum fetch_request_state {
	REQUEST_RECORD, /* waits for its record's page */
	/* Has its record, waits for its name's page: for a folder's path, and for labels stored
	 * after the name. */
	REQUEST_NAME,
	REQUEST_READY, /* can be read; in a folder its name's page is pinned */
};

/* An item in the window. */
struct fetch_request {
	struct fetch_item *item;
	enum fetch_request_state state;
	struct page *waiting; /* for this LOADING page; NULL: for none */
	struct page *name; /* pinned */
	bool counted; /* its page is already counted as a hit or a miss */
	struct dataset_page at;
	struct index_record record;
	uint64_t position; /* see dataset_record */
	struct fetch_request *before, *after; /* in the window, in the queue's order */
	struct fetch_request *next; /* in the free list, or among the waiters of a page */
};

/* The bytes to read for a request that was looked up. */
static inline uint32_t fetch_stored(const struct fetch_request *request)
{
	return (uint32_t)packed_stored(&request->record.packed, request->record.size);
}

/* A read in flight: one buffer, one or several items. */
struct fetch_read {
	struct fetch_op op; /* first, so that a pointer to the op is one to the read */
	struct fetch_item *items;
	unsigned count;
	struct file *file; /* its shard; NULL in a folder */
	uint8_t *buffer;
	uint64_t large;
	uint64_t begun_ns;
	struct fetch_read *next; /* free list */
};

/* How a dataset is read, decided when its first item comes, and how many of its reads are in
 * flight: if storage hangs, it usually hangs for a whole dataset. */
struct fetch_mode {
	const struct dataset *dataset;
	bool direct;
	bool remote;
	/* reads of samples, a part of lane->reads_used, or of far_used if it is remote */
	unsigned reads;
	unsigned asked; /* ops that take a thread, a part of lane->asked */
};

/* Where submitters hand items to the engine. A sleeper waits for `items` or `kicked`. */
struct fetch_inbox {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct fetch_item *items, **tail;
	bool kicked;
	bool timed; /* one of the sleepers wakes up by itself, which is enough */
	unsigned sleepers;
	int eventfd; /* the ring's; -1: sleepers wait on `cond` */
};

struct fetch_counters {
	_Atomic uint64_t submitted, delivered, samples, reads, bytes, merged, index_hits,
		index_misses, arena_waits, shared;
};

/* How much storage was asked and how long reads waited for room. Planners change it, and callers of
 * fetch_stats_read read it: its lock is a leaf, held for a few instructions. */
struct fetch_meter {
	pthread_mutex_t lock;
	struct gauge asked; /* the sum of lane->asked */
	struct gauge short_of_room; /* lanes in which a read waits for a buffer */
};

struct lane;

/* An engine: a way to ask the kernel. */
struct fetch_engine_ops {
	/* Starts the threads and writes lane->describe. 0, or negative errno with a fault; then
	 * nothing is left behind. */
	int (*start)(struct lane *lane, struct fault *fault);
	/* Called after `stopping` is set: waits until all items have completed and the threads have
	 * ended. */
	void (*join)(struct lane *lane);
	unsigned reads; /* how many may be in flight; 0: one per thread, other ops included */
};
extern const struct fetch_engine_ops fetch_uring, fetch_pread;

/* A caller of fetch_forget that waits until nothing of a dataset is left; on its stack. */
struct fetch_forgotten {
	const struct dataset *dataset;
	struct fetch_forgotten *next;
	bool done;
};

struct fetch {
	struct fetch_options options;
	struct arena arena;
	struct fetch_meter meter;
	struct cache *cache; /* NULL: there is none */
	_Atomic bool large_wanted; /* a request of some lane waits for a permit */
	/* The dataset whose file system was last found to refuse O_DIRECT. Compared only. */
	_Atomic(const struct dataset *) refused;
	char describe[320];
	pthread_mutex_t room_lock; /* held by a lane that gives buffers out */
	pthread_mutex_t fields_lock; /* a leaf; guards `fields` */
	struct fetch_field *fields;
	unsigned lane_count;
	struct lane *lanes[FETCH_LANES];
};

/* A planner with an engine of its own. */
struct lane {
	struct fetch *fetch;
	unsigned number;
	const struct fetch_engine_ops *ops;
	void *engine;
	struct fetch_inbox inbox;
	struct fetch_counters counters;
	struct far far;
	_Atomic bool wants_room; /* a request waits for a buffer */
	pthread_t threads[80]; /* quota_total(64) */
	unsigned thread_count;
	/* of the running threads, in the order in which they began; relaxed */
	_Atomic pid_t tids[80];
	atomic_uint tid_count;
	char describe[256];

	pthread_mutex_t lock; /* guards everything below */
	struct fetch_forgotten *forgotten;
	pthread_cond_t settled; /* one of the callers in `forgotten` is done */
	struct fetch_queue queue;
	struct files files;
	struct pages pages;
	struct fetch_request *requests, *request_free, *window, *window_last;
	unsigned window_count, window_bound;
	struct fetch_read *reads, *read_free;
	unsigned reads_used, reads_bound;
	unsigned far_used, far_bound; /* the same, of remote datasets */
	uint64_t pass; /* number of the current pass over the window */
	unsigned files_own, files_own_bound; /* files of folders that are open now */
	struct list_head ready; /* ops for the engine to ask */
	unsigned asked; /* ops handed to the engine */
	unsigned asked_far; /* those of them that ask remote storage, and take no thread */
	unsigned metered; /* `asked` as the meter has it */
	bool metered_short; /* and `short_of_room` */
	struct fetch_item *finished, **finished_tail;
	struct fetch_item *flight[FETCH_FLIGHTS];
	struct fetch_mode modes[FETCH_MODES];
	unsigned modes_next;
	bool short_of_room; /* in the last plan, a read had to wait for a buffer */
	bool stopping, retry; /* retry: plan again after FETCH_RETRY_NS */
	char notice[512];
};

static inline struct fetch_place *lane_place(const struct lane *lane, const struct fetch_item *item)
{
	return &item->reader->places[lane->number];
}

/* --- the planner; all functions are called with lane->lock held --- */

/* Sizes the pools for `reads` reads in flight. 0, or -ENOMEM with a fault. */
int fetch_plan_init(struct lane *lane, unsigned reads, struct fault *fault);
void fetch_plan_deinit(struct lane *lane);

/* Takes new items from the inbox and makes ops ready, as far as window, arena and files allow. */
void fetch_plan(struct lane *lane);

/* Tells the meter how much is asked and whether a read waits for room. After every turn. */
void fetch_plan_meter(struct lane *lane);

/* Appends an op to those that are ready. */
void fetch_plan_ready(struct lane *lane, struct fetch_op *op);

/* The next op for the engine to ask; NULL if none is ready, or if others of its dataset must come
 * back first. */
struct fetch_op *fetch_plan_next(struct lane *lane);

/* Whether fetch_plan_next would return an op. */
bool fetch_plan_more(struct lane *lane);

/* Takes an op that is DONE. */
void fetch_plan_done(struct lane *lane, struct fetch_op *op);

/* All items that have finished since the last call, linked by `next`, to be passed to fetch_deliver
 * after the lock is released. */
struct fetch_item *fetch_plan_finished(struct lane *lane);

/* Appends an item to the finished items. */
void fetch_plan_finish(struct lane *lane, struct fetch_item *item, int result);

/* How a dataset is read. */
struct fetch_mode *fetch_plan_mode(struct lane *lane, const struct dataset *dataset);

/* Completes with -ECANCELED the items that are queued or in the window, of one reader or (NULL) of
 * all. */
void fetch_plan_cancel(struct lane *lane, const struct fetch_reader *reader);

/* True if nothing is queued, ready, in flight or undelivered. */
bool fetch_plan_quiet(const struct lane *lane);

/* --- the inbox --- */

void fetch_inbox_init(struct fetch_inbox *inbox);
void fetch_inbox_deinit(struct fetch_inbox *inbox);

/* Called with the inbox's lock. Wakes one sleeper at a time: it looks at everything, and wakes the
 * next one if there is more to do than it can take. A kick that finds no sleeper is kept for the
 * next thread that would sleep. */
void fetch_inbox_kick(struct fetch_inbox *inbox);

/* --- what fetch.c does for the engines; called without lane->lock --- */

/* Writes the sentences of faults and calls each item's `done`. */
void fetch_deliver(struct lane *lane, struct fetch_item *items);

/* Makes a sleeping engine thread, or the next one that would sleep, plan again. */
void fetch_kick(struct lane *lane);

/* Gives a buffer back, of the arena or, with `large` bytes, of its own, and wakes the lanes that
 * wait for one (fetch_room.c). Any thread. */
void fetch_give_back(struct fetch *fetch, uint8_t *buffer, uint64_t large);

/* Called before the ring's thread sleeps: true if nothing has come in; it then counts as a sleeper
 * until fetch_sleep_end. */
bool fetch_sleep_begin(struct fetch_inbox *inbox);
void fetch_sleep_end(struct fetch_inbox *inbox);

/* Lets a pread thread sleep unless something has come in; with `retry`, for at most
 * FETCH_RETRY_NS. */
void fetch_sleep(struct fetch_inbox *inbox, bool retry);

/* Starts an engine thread, with all signals blocked. 0 or negative errno. */
int fetch_thread_start(struct lane *lane, size_t stack_bytes, void *(*run)(void *));
void fetch_threads_join(struct lane *lane);
/* Called by each engine thread when it begins. */
void fetch_thread_note(struct lane *lane);

/* Charges `bytes` of the arena to an item's reader until fetch_uncharge. seq_cst, as what the arena
 * knows of reads that wait for room: they look at `held` once more after they have told it. */
static inline void fetch_charge(struct fetch_item *item, uint64_t bytes)
{
	fetch_state(item)->charge = bytes;
	atomic_fetch_add_explicit(&item->reader->held, bytes, memory_order_relaxed);
}

static inline void fetch_uncharge(struct fetch_item *item)
{
	atomic_fetch_sub_explicit(
		&item->reader->held, fetch_state(item)->charge, memory_order_seq_cst);
	fetch_state(item)->charge = 0;
}

static inline void fetch_count(_Atomic uint64_t *counter, uint64_t by)
{
	atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

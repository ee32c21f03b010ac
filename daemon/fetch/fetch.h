/* fetch: sample numbers in, bytes out. This header is the only one that other folders use.
 *
 * A map of this folder:
 *   fetch.[ch]              the public functions: submit, cancel, release, forget; lanes, threads,
 *                           delivery
 *   fetch_internal.h        struct fetch, struct lane and the states of an item
 *   fetch_inbox.c           where a lane gets its items, and how it sleeps
 *   fetch_mode.c            how each dataset is read: with O_DIRECT or through the page cache
 *   fetch_lists.c           ops that are ready to be asked, items that are finished
 *   fetch_queue.[ch]        items that wait, by urgency; readers take turns by bytes
 *   fetch_lookup.[ch]       the window: finds the places of the next items in the index
 *   fetch_pages.[ch]        the bounded cache of index pages
 *   fetch_room.c            buffers come back, and the reads that wait for room go on
 *   fetch_share.[ch]        items without a read of their own: cached, or being read already
 *   fetch_plan.[ch]         the planner: which reads begin next
 *   fetch_plan_read.c       makes a read of one item, or of several neighbors
 *   fetch_plan_done.c       takes the result of a read or an opening
 *   fetch_op.[ch]           one question to the kernel, with retries, up to its final result
 *   fetch_uring.c           the engine that asks through io_uring
 *   fetch_pread.c           the engine that asks with threads and pread
 *   shard_files.[ch]        the bounded table of open shards
 *   far/                    what is read from remote storage
 *   arena.[ch]              the bounded read buffers
 *   cache.[ch]              samples kept in memory that is otherwise unused
 *
 * The way of one sample's bytes:
 *
 *   1  fetch_submit           puts the item into the inbox and wakes the engine's thread
 *   2  fetch_share_hit        the cache has the sample: continue at 8
 *   3  fetch_queue            the item waits for its reader's turn
 *   4  fetch_lookup           reads the index pages with its record and, in a folder, its name
 *   5  fetch_plan_read        takes a buffer from the arena and makes an op, merged with neighbors
 *                             of the same shard
 *   6  fetch_uring, _pread    ask the kernel until fetch_op says that the op is done; or ask remote
 *                             storage (far.h), whose answer wakes the engine's thread
 *   7  fetch_plan_done        the item and those that share its read get the bytes; the cache a
 *      copy
 *   8  fetch_deliver          calls item->done on an engine's thread
 *   9  fetch_release          the caller gives the buffer back, which may let a waiting read begin
 *
 * The caller owns the items and submits them in the order wanted. If the arena is full, reads wait:
 * that is the back-pressure of this stage. Items are taken by `urgency` (smallest first) and then
 * by order of submission; with an urgency of n, an item lets at most n later ones pass. Readers
 * that wait with the same urgency get the same share of storage in bytes (fetch_queue.h), and none
 * can hold so many buffers, reads and threads that others cannot continue (base/quota.h).
 *
 * A fetch has one or several lanes (FETCH_LANES), each with a planner and a ring of its own; a
 * sample belongs to one of them by its number, so that items that want the same sample, or
 * neighbors, meet. Buffers, cache and limits are common. All that is said here of the order of
 * items is true of the items of a lane; between lanes there is no order, but each lane's work is
 * done by a thread of its own.
 *
 * The engine is chosen at start and named by fetch_describe: io_uring (one thread, one ring,
 * registered files and buffers if memlock allows them) or pread (16 to 64 threads). Both give the
 * same bytes and the same outcomes. */
#pragma once

#include "base/fault.h"
#include "base/host/numa.h"
#include "base/permit.h"
#include "dataset/fields.h"
#include "dataset/packed.h"
#include "fetch/cache.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct fetch;

/* The most rings, each with a thread of its own. */
enum { FETCH_LANES = 16 };
/* How many threads that decode are served by one ring. */
enum { FETCH_LANE_WORKERS = 8 };

enum fetch_engine { FETCH_AUTO, FETCH_URING, FETCH_PREAD };
enum fetch_io { FETCH_IO_AUTO, FETCH_IO_BUFFERED, FETCH_IO_DIRECT };
/* Which datasets are cached. AUTO: those read with O_DIRECT, since the page cache holds the
 * others. */
enum fetch_cache { FETCH_CACHE_AUTO, FETCH_CACHE_ON, FETCH_CACHE_OFF };

/* Outcomes of one item: the sample is at fault, not the machine. Each has a name for counters and
 * for the quarantine. */
enum fetch_outcome {
	FETCH_OK = 0,
	FETCH_E_MISSING = 1, /* the file does not exist any more */
	FETCH_E_SHORT = 2, /* it ends before its size in the index */
	FETCH_E_CHANGED = 3, /* a folder's file has another size than the index says */
	FETCH_E_IO = 4, /* EIO: the storage cannot read it */
	/* Larger than all of fetch_options.large; or a field, for which there was no memory at
	 * once. The item has its size, label and place: a caller that wants it reads it itself. */
	FETCH_E_TOO_LARGE = 5,
	FETCH_E_FIELD_MISSING = 6, /* of a field: the sample has none */
	FETCH_E_FIELD_LONG = 7, /* for the caller: a field that is `longer` than it may be */
	FETCH_E_UNPACK = 8, /* for the caller: its bytes cannot be unpacked */
	FETCH_OUTCOMES = 9,
};
const char *fetch_outcome_name(enum fetch_outcome outcome); /* "missing", "short", ... */

/* The outcome of a failed dataset_read: above FETCH_OK if the sample is at fault, FETCH_OK if the
 * machine is. Pure. */
enum fetch_outcome fetch_outcome_of(int error);

/* A reader's place in one lane. */
struct fetch_place {
	struct fetch_reader *next; /* in the queue */
	struct fetch_item *root; /* the root of its heap of queued items */
	uint64_t sequence; /* of its next new item */
	uint64_t turn; /* of its first item in the queue, see fetch_queue.h */
	uint64_t pass; /* the planner's pass in which it must wait for room */
	unsigned window; /* its items in the window */
};

/* One reader, such as a stream: its items are canceled together. Belongs to the caller, who keeps
 * it longer than its items. */
struct fetch_reader {
	_Atomic uint64_t items; /* submitted and not yet done */
	_Atomic uint64_t held; /* bytes of read buffers */
	struct fetch_place places[FETCH_LANES]; /* fetch's own */
};

void fetch_reader_init(struct fetch_reader *reader);
/* All its items must be done and released. */
void fetch_reader_deinit(struct fetch_reader *reader);

/* A field that items may ask for: its first `limit` bytes. */
struct fetch_field {
	char name[FIELD_NAME_MAX + 1];
	uint32_t limit;
	uint32_t id; /* 1 .. FETCH_FIELDS: tells the fields of a sample apart */
	struct fetch_field *next;
};
enum { FETCH_FIELDS = 32767 };

struct fetch_item {
	/* set by the caller before fetch_submit */
	struct fetch_reader *reader;
	const struct dataset *dataset;
	uint64_t number; /* sample */
	uint64_t urgency;
	void (*done)(struct fetch_item *item); /* called on an engine's thread; must not block */
	/* Room for dataset_label_bytes of values, written before `done` (zeros, or classes of -1,
	 * until they are known). NULL: the type of the labels is CLASS, or the caller does not need
	 * them. */
	void *values;
	/* NULL: the item is the sample's image. Otherwise it is a field of it, with the number
	 * `place` in the list of fields that the dataset was opened with. */
	const struct fetch_field *field;
	uint32_t place;
	/* The items of an image's fields are submitted directly after it. It is then looked
	 * up together with them, so that one read serves all of them where they are neighbors. */
	bool fields_follow;
	/* set by fetch before `done` */
	int result; /* enum fetch_outcome, or a negative errno: a fault that ends the stream */
	struct fault *fault; /* The caller's; filled for negative results and for some outcomes. */
	/* `size` bytes, then at least 64 readable bytes; valid until fetch_release. Read-only:
	 * other items may have the same buffer. They are the sample's own unless packed.method
	 * says that they must be unpacked first (unpack.h). */
	uint8_t *data;
	uint32_t size;
	struct packed packed;
	uint32_t unpacked; /* the sample's own bytes; of a field, at most its limit */
	int64_t label;
	uint32_t shard; /* its place, with FETCH_OK: see struct sample */
	uint64_t position;
	uint64_t read_ns; /* from the beginning of the read to its completion */
	/* With FETCH_E_CHANGED and FETCH_E_SHORT: there is a file, of another size than the index
	 * says, and not a folder or a pipe in its place. */
	bool resized;
	/* A field, with FETCH_OK, has more bytes than its limit, and `size` is the limit. */
	bool longer;
	/* fetch's own */
	struct fetch_item *next;
	void *internal[11];
};

struct fetch_options {
	enum fetch_engine engine;
	enum fetch_io io;
	unsigned pread_threads; /* 0: 16 */
	unsigned lanes; /* rings; 0: 1. pread has one, whose threads are as many as one needs */
	/* Reads of remote storage in flight of all lanes; each lane has at least 128. */
	unsigned far_reads;
	uint64_t arena_bytes; /* read buffers; at least 1 MiB */
	uint64_t index_bytes; /* index pages kept; at least 64 pages */
	enum fetch_cache cache;
	struct ledger *ledger; /* the cache's memory; outlives fetch. NULL: no cache */
	/* A sample larger than a quarter of the arena takes its buffer from here, and so does one
	 * whose reader has no buffer where the arena has no room for it; outlives
	 * fetch. */
	struct permit *large;
};

struct fetch_stats { /* monotonic counters; read by any thread */
	uint64_t samples, reads, bytes; /* `bytes` as asked of the kernel */
	uint64_t merged; /* samples that were read together with a neighbor */
	uint64_t index_hits, index_misses;
	uint64_t cpu_ns; /* CPU time of fetch's threads */
	uint64_t arena_used, arena_peak, arena_waits;
	uint64_t inflight;
	/* Since the start: the number of questions to the kernel times their duration (also for
	 * indexes and for opening files); the time with at least one; the time in which a read
	 * waited for a buffer. */
	uint64_t asked_ns, busy_ns, short_ns;
	uint64_t shared; /* items that got their sample from another item's read */
	struct cache_stats cache;
};

/* How many lanes suit so many threads that decode, with so many bytes for buffers and pages: one
 * for every 8, as far as there is memory. Pure. */
unsigned fetch_lanes_for(unsigned workers, uint64_t arena_bytes, uint64_t index_bytes);

/* 0, or negative errno with a fault. FETCH_AUTO falls back to pread if io_uring is forbidden;
 * FETCH_URING fails with the reason (EPERM: seccomp or kernel.io_uring_disabled; ENOSYS; ENOMEM:
 * memlock on old kernels; EMFILE). */
int fetch_new(const struct fetch_options *options, struct fetch **ret, struct fault *fault);

/* Binds the threads to nodes: lane i, or of pread thread i, to node i modulo their number. Returns
 * how many are bound. Call it directly after fetch_new. */
unsigned fetch_place(struct fetch *fetch, const struct numa *numa);
/* How many threads belong on a node. */
unsigned fetch_placed(const struct fetch *fetch, const struct numa *numa, unsigned node);

/* Stops the threads. Items that are still queued complete with -ECANCELED. All delivered items must
 * have been released. */
void fetch_free(struct fetch *fetch);

/* A field for items of this fetch; valid as long as it. Any thread. NULL: no memory, or already
 * FETCH_FIELDS different ones. */
const struct fetch_field *fetch_field(struct fetch *fetch, const char *name, uint32_t limit);

/* Queues items linked by `next` (NULL-terminated), in order. Any thread; never blocks. */
void fetch_submit(struct fetch *fetch, struct fetch_item *items);

/* Cancels the items of `reader` that are still queued, or that are being read from remote storage:
 * they complete with -ECANCELED before this returns or soon after. Local reads are not canceled.
 * For closing a stream. */
void fetch_cancel(struct fetch *fetch, const struct fetch_reader *reader);

/* Announces items of a dataset: from now on its samples are cached, if its kind is. Once per
 * dataset; a dataset that was not announced is read without the cache. Blocks while the cache makes
 * room. */
void fetch_expect(struct fetch *fetch, const struct dataset *dataset);

/* Whether the cache has a sample, so that it will not be read. Any thread. */
bool fetch_has(const struct fetch *fetch, const struct dataset *dataset, uint64_t number);

/* Drops everything that is kept about a dataset: open shards, index pages, cached samples, how it
 * is read. Called before dataset_free, after all its items have completed. Waits for index pages
 * that are still being read; must not be called on an engine's thread. */
void fetch_forget(struct fetch *fetch, const struct dataset *dataset);

/* Gives an item's bytes back. Needed once per item that completed with FETCH_OK; further calls, and
 * calls for other items, do nothing. Any thread. */
void fetch_release(struct fetch *fetch, struct fetch_item *item);

void fetch_stats_read(struct fetch *fetch, struct fetch_stats *ret);

/* How long the engine's threads waited for a processor while they could run, as a sum, and the
 * number of threads; false if the kernel does not say. Reads a small file per thread: call it at
 * most once a second. */
bool fetch_delay_ns(const struct fetch *fetch, uint64_t *ret, unsigned *ret_threads);

/* Such as "io_uring (kernel 6.1, registered buffers 16 MiB, registered files 256)", for the log and
 * status. */
const char *fetch_describe(const struct fetch *fetch);

/* True once after something happened that the operator should know, with one sentence to be logged:
 * for example that a file system refuses O_DIRECT. Any thread. */
bool fetch_notice(struct fetch *fetch, char *ret_text, unsigned room);

/* How `io: auto` decides for this dataset: true for O_DIRECT. `ret_why` gets the reason, such as
 * "48 GiB do not fit into the 12 GiB of page cache that this cgroup can have". Pure apart from
 * reading the cgroup. */
int fetch_wants_direct(
	const struct fetch *fetch, const struct dataset *dataset, char *ret_why, unsigned room);

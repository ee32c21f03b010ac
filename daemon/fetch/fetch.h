/* fetch: sample numbers in, bytes out. The source stage's door.
 *
 * The caller owns the items and submits them in the order wanted; fetch looks each up in the index
 * (pages read ahead of need through the same engine), reads its bytes into a bounded arena, merging
 * neighbours of one shard, and calls `done` from one of its own threads. When the arena is full it
 * waits: that is the stage's back-pressure. A sample that the cache (cache.h) holds is handed out
 * from there, and one that is being read for another item already is not read twice. Items are
 * taken by `urgency` (smallest first) and order of submission: an urgency of n lets n later ones
 * pass, no more. Readers that wait alike share storage by bytes (fetch_queue.h), and none holds so
 * much of buffers, reads and threads that others cannot go on (quota.h).
 *
 * Two engines, chosen at start and stated in fetch_describe: io_uring (one thread, one ring,
 * registered files and buffers where memlock allows) and pread (16 to 64 threads). Both give the
 * same bytes and the same outcomes. */
#pragma once

#include "base/fault.h"
#include "base/permit.h"
#include "fetch/cache.h"

#include <stdbool.h>
#include <stdint.h>

struct dataset;
struct fetch;

enum fetch_engine { FETCH_AUTO, FETCH_URING, FETCH_PREAD };
enum fetch_io { FETCH_IO_AUTO, FETCH_IO_BUFFERED, FETCH_IO_DIRECT };
/* Which datasets are cached; auto: those read with O_DIRECT, since the page cache holds others. */
enum fetch_cache { FETCH_CACHE_AUTO, FETCH_CACHE_ON, FETCH_CACHE_OFF };

/* Outcomes of one item: the sample is at fault, not the machine. Each has a name for counters and
 * the quarantine. */
enum fetch_outcome {
	FETCH_OK = 0,
	FETCH_E_MISSING = 1, /* the file is gone */
	FETCH_E_SHORT = 2, /* it ends before its size in the index */
	FETCH_E_CHANGED = 3, /* a folder's file has another size than the index says */
	FETCH_E_IO = 4, /* EIO: the storage cannot read it */
	FETCH_E_TOO_LARGE = 5, /* larger than the memory budget lets one sample be */
	FETCH_OUTCOMES = 6,
};
const char *fetch_outcome_name(enum fetch_outcome outcome); /* "missing", "short", ... */

/* What a failed dataset_read says about its sample: an outcome above FETCH_OK, or FETCH_OK when the
 * machine is at fault. Pure. */
enum fetch_outcome fetch_outcome_of(int error);

/* One that reads, e.g. a stream: its items are cancelled together. Belongs to the caller and
 * outlives its items. */
struct fetch_reader {
	_Atomic uint64_t items; /* submitted and not yet done */
	_Atomic uint64_t held; /* bytes of read buffers */
	/* fetch's own */
	struct fetch_reader *next; /* in the queue */
	struct fetch_item *root; /* its items there */
	uint64_t sequence; /* of its next new item */
	uint64_t turn; /* of its first item in the queue, see fetch_queue.h */
	uint64_t pass; /* of the planner, in which it has to wait for room */
	unsigned window; /* its items that are being looked up */
};

void fetch_reader_init(struct fetch_reader *reader);
/* Every item of it must be done, and released. */
void fetch_reader_deinit(struct fetch_reader *reader);

struct fetch_item {
	/* set by the caller before fetch_submit */
	struct fetch_reader *reader;
	const struct dataset *dataset;
	uint64_t number; /* sample */
	uint64_t urgency;
	void (*done)(struct fetch_item *item); /* from a fetch thread; must not block */
	float *values; /* dataset_label_width of them, where the label's are written before `done`
			  (zeros until they are known); NULL: label_type is CLASS, or nobody asks */
	/* set by fetch before `done` */
	int result; /* enum fetch_outcome, or a negative errno: a fault that ends the stream */
	struct fault
		*fault; /* caller's; filled for negative results and, where it helps, outcomes */
	uint8_t *data; /* `size` bytes, then at least 64 readable bytes; until fetch_release. Not to
			  be written: others may have the same */
	uint32_t size;
	int64_t label;
	uint32_t shard; /* where it lies, with FETCH_OK: see struct sample */
	uint64_t position;
	uint64_t read_ns; /* from submission of the read to its completion */
	/* fetch's own */
	struct fetch_item *next;
	void *internal[10];
};

struct fetch_options {
	enum fetch_engine engine;
	enum fetch_io io;
	unsigned pread_threads; /* 0: 16 */
	uint64_t arena_bytes; /* read buffers; at least 1 MiB */
	uint64_t index_bytes; /* index pages kept; at least 64 pages */
	enum fetch_cache cache;
	struct ledger *ledger; /* the cache's memory; outlives fetch. NULL: there is no cache */
	struct permit *large; /* samples over a quarter of the arena take their buffer from here;
				 outlives fetch */
};

struct fetch_stats { /* monotonic counters; read by any thread */
	uint64_t samples, reads, bytes; /* bytes as asked from the kernel */
	uint64_t merged; /* samples that shared another's read */
	uint64_t index_hits, index_misses;
	uint64_t cpu_ns; /* CPU time of fetch's threads */
	uint64_t arena_used, arena_peak, arena_waits;
	uint64_t inflight;
	/* Since the start: reads under way times time (indexes and opening of files too); time with
	 * any; time in which one had to wait for buffers. */
	uint64_t asked_ns, busy_ns, short_ns;
	uint64_t shared; /* samples that another item's read brought */
	struct cache_stats cache;
};

/* 0 or negative errno with a fault. FETCH_AUTO falls back to pread where io_uring is forbidden;
 * FETCH_URING fails with the reason (EPERM: seccomp or kernel.io_uring_disabled; ENOSYS; ENOMEM:
 * memlock on old kernels; EMFILE). */
int fetch_new(const struct fetch_options *options, struct fetch **ret, struct fault *fault);

/* Stops the threads; items still queued complete with -ECANCELED. All items must have been
 * released. */
void fetch_free(struct fetch *fetch);

/* Queues items linked by `next` (NULL-terminated), in order. Any thread; never blocks. */
void fetch_submit(struct fetch *fetch, struct fetch_item *items);

/* Takes items of `reader` that are still queued out of the queue; they complete with -ECANCELED
 * before this returns or soon after. For closing a stream. */
void fetch_cancel(struct fetch *fetch, const struct fetch_reader *reader);

/* Items of a dataset will come: its samples are cached from now on, where they are to be. Once for
 * each dataset; others are read without the cache. Blocks while the cache makes room for it. */
void fetch_expect(struct fetch *fetch, const struct dataset *dataset);

/* Drops what is kept of a dataset: open shards, index pages, cached samples, how it is read. Before
 * dataset_free, once every item of it has completed. Waits for index pages still being read; not
 * from a fetch thread. */
void fetch_forget(struct fetch *fetch, const struct dataset *dataset);

/* Gives an item's bytes back. Once per item completed with FETCH_OK, from any thread; idempotent
 * for others. */
void fetch_release(struct fetch *fetch, struct fetch_item *item);

void fetch_stats_read(struct fetch *fetch, struct fetch_stats *ret);

/* How long fetch's threads that could run waited for a processor, all together, and how many they
 * are; false where the kernel does not say. Reads a small file for each: for once a second. */
bool fetch_delay_ns(const struct fetch *fetch, uint64_t *ret, unsigned *ret_threads);

/* E.g. "io_uring (kernel 6.1, registered buffers 16 MiB, registered files 256)" for the log and
 * status. */
const char *fetch_describe(const struct fetch *fetch);

/* Something the operator should know that came up since the last call, e.g. that a file system
 * refuses O_DIRECT: true, and one sentence to be logged. Any thread. */
bool fetch_notice(struct fetch *fetch, char *ret_text, unsigned room);

/* How `io: auto` decides for this dataset: true for O_DIRECT. `ret_why` gets e.g. "48 GiB do not
 * fit into the 12 GiB of page cache that this cgroup can have". Pure apart from reading the cgroup.
 */
int fetch_wants_direct(
	const struct fetch *fetch, const struct dataset *dataset, char *ret_why, unsigned room);

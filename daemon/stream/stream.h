/* stream: a row of batches: a dataset, an order, a transform and the slots that they flow through.
 *
 * A map of this folder:
 *   spec.[ch]      the definition of a stream, as people and clients write it; spec_meaning.c what
 * it comes to, spec_state.[ch] the state in it sampling.[ch]  its keys of which samples there are,
 * and the sampler that they come to label_keys.[ch]  `labels:` as a mapping split.[ch]
 * "train[:90%]" list.[ch]      what is read from .npy files, shared: subset.[ch] the numbers of
 * samples, weigh.[ch] weights, and the table of those that balance classes parts.[ch]     the
 * datasets of a stream as one row of samples transforms.[ch]  the operations of `transforms:`, in
 * one table shape.[ch]     what rows are: size by epoch, views, dtype, layout row.[ch]       one
 * sample's bytes -> one row (decode and pixel meet here) finish.[ch]    what is done to an image
 * before it is a row pool.[ch]      the workers stream.[ch]    this door: opening, the cursor,
 * slots and their batches fill.c         the tickets: which rows are being read and decoded right
 * now
 *
 * One batch's way: stream_pump names the next (epoch, batch) and gives it a FREE slot; fill.c turns
 * its rows into tickets, at most STREAM_TICKETS at a time, and submits them to fetch; fetch calls
 * back with bytes and the ticket goes to the pool; a worker writes the row; with the last row the
 * slot is marked and the event loop is woken; stream_collect makes it READY. Which slot holds what
 * and who has yet to give it back is the tally's to know (batch/tally.h).
 *
 * In a split group every rank has a stream of its own: the same order, cut into global batches, of
 * which this stream makes the rank's slice.
 *
 * Threads: stream_new blocks and belongs on a thread of its own; all else is the event loop's,
 * unless it says otherwise. */
#pragma once

#include "base/fault.h"
#include "base/host/ledger.h"
#include "batch/extent.h"
#include "batch/tally.h"
#include "dataset/dataset.h"
#include "decode/decode.h"
#include "decode/stepback.h"
#include "definition/spec.h"
#include "fetch/fetch.h"
#include "order/course.h"
#include "order/sampler.h"
#include "stats/histogram.h"
#include "stream/shelf.h"
#include "stream/workers.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	STREAM_TICKETS = 256,
	STREAM_ATTEMPTS = 16,
	STREAM_REASONS = FETCH_OUTCOMES + DECODE_OUTCOMES
};

struct stream;

struct stream_environment { /* what all streams of a daemon share; outlives them */
	struct fetch *fetch;
	struct shelf *shelf;
	struct list_shelf *lists;
	struct workers *pool;
	struct ledger *ledger;
	const char *cache_dir;
	uint64_t stream_memory; /* the most that the slots of one stream take; 0: no limit */
	bool entry_points; /* are kept beside the indexes, and used */
	/* The budget that would leave `bytes_more` more for streams than this one does: for
	 * refusals. */
	uint64_t (*budget_for)(void *context, uint64_t bytes_more);
	void *budget_context;
	void (*wake)(void *context); /* any thread: some stream has something to collect */
	void *wake_context;
	struct histogram *fills; /* gets how long each batch took, from its slot to its last row;
				    event loop only. NULL: nobody asks */
};

/* What the slots of such a stream are made for. `dataset` says what its labels are; NULL: one whole
 * number each. Pure. */
struct extent_geometry stream_geometry(
	const struct stream_spec *spec, const struct dataset *dataset);

/* What such a stream takes of the budget with `slots` slots and so many workers: the rows in flight
 * and what workers need for it included. Pure. */
uint64_t stream_bytes(const struct stream_spec *spec, const struct dataset *dataset,
	unsigned workers, uint32_t slots);

/* Opens datasets and shared memory. May take long (index building). `lists`: of the definition's
 * files; taken over, also on failure. 0 or negative errno with a fault: as dataset_open; -EINVAL no
 * batch in an epoch, a list is of another dataset, or sources do not agree; -ENOMEM not within the
 * budget (says what would fit). `progress` is called while indexing. */
int stream_new(const struct stream_environment *environment, const struct stream_spec *spec,
	struct sampling_lists *lists, progress_fn *progress, void *progress_context,
	struct stream **ret, struct fault *fault);

/* 0, or -ESTALE with a fault when a state belongs to another dataset, seed or order. `ret_note`
 * gets
 * "", or what is different but allowed. */
int stream_fits(const struct stream *stream, const struct spec_state *state, char *ret_note,
	size_t room, struct fault *fault);

/* Where the first batch begins; once, before stream_pump. */
void stream_begin(struct stream *stream, uint64_t epoch, uint64_t position);

/* Its batches by their serials; once begun. */
const struct course *stream_course(const struct stream *stream);

/* Tells fill to stop; stream_idle says when nothing is in flight any more, and only then
 * stream_free is allowed. */
void stream_cancel(struct stream *stream);
bool stream_idle(struct stream *stream);
void stream_free(struct stream *stream);

/* Before stream_free (NULL is taken): true when a client still has the memory of its slots, which
 * then stays reserved: the loan, and the line of the ledger, are the caller's. */
bool stream_take_kept(struct stream *stream, struct handout *ret, int *ret_line);

/* The next batches are given FREE slots and their rows to fetch. Call after opening and after every
 * release. */
void stream_pump(struct stream *stream);

/* No new batches from now on; those being filled will complete (draining). */
void stream_drain(struct stream *stream);

/* Makes filled slots READY. */
void stream_collect(struct stream *stream);

const struct tally *stream_tally(const struct stream *stream);

/* As the tally's functions of these names; after all but stream_lease, call stream_pump. */
void stream_join(struct stream *stream, struct tally_reader *reader, uint64_t serial, uint64_t end);
void stream_lease(struct stream *stream, struct tally_reader *reader, uint32_t slot);
void stream_release(struct stream *stream, struct tally_reader *reader, uint32_t slot);
void stream_leave(struct stream *stream, struct tally_reader *reader);

/* True when the stream cannot go on; the sentence stays valid while the stream lives. Code is a
 * negative errno. */
bool stream_failed(struct stream *stream, int *ret_code, const char **ret_text);

struct stream_batch { /* what a slot holds */
	uint64_t serial, epoch, batch;
	uint64_t position; /* of its first row */
	uint32_t count;
	bool last;
	bool padded; /* its only row is the epoch's last sample, which another rank has too */
};
const struct stream_batch *stream_batch(const struct stream *stream, uint32_t slot);

const struct stream_spec *stream_spec(const struct stream *stream);
/* What its samples are numbered by. */
const struct concat *stream_samples_of(const struct stream *stream);
/* The first of them, which has the classes of all. */
const struct dataset *stream_dataset(const struct stream *stream);
const struct extent *stream_extent(const struct stream *stream);
uint64_t stream_samples(const struct stream *stream); /* of an epoch */
uint64_t stream_batches(const struct stream *stream); /* of a full epoch */
/* Given out in a full epoch, all ranks together. */
uint64_t stream_epoch_samples(const struct stream *stream);
uint64_t stream_order_hash(const struct stream *stream);
uint64_t stream_transform_hash(const struct stream *stream);
const char *stream_notice(const struct stream *stream); /* "" or what the operator should know */
/* True once when something came up since that is worth logging: one sentence. */
bool stream_remark(struct stream *stream, char *ret_text, size_t room);

struct stream_stats {
	uint64_t batches, images; /* completed */
	uint64_t decode_ns, pixel_ns; /* CPU of the workers */
	uint64_t stage_ns[DECODE_STAGES]; /* decode_ns by stage */
	uint64_t broken[STREAM_REASONS]; /* by reason: fetch outcomes, then decode outcomes */
	uint64_t fallbacks[STEPBACKS]; /* left to libjpeg-turbo, by reason */
	/* Images: entered at kept checkpoints; whose checkpoints were made; whose kept ones did not
	 * fit. */
	uint64_t entry_points_used, entry_points_made, entry_points_dropped;
	uint64_t reading, queued; /* tickets with fetch; with the pool */
	uint64_t slots_free, slots_filling, slots_ready, slots_leased;
};
void stream_stats(struct stream *stream, struct stream_stats *ret);
const char *stream_reason_name(unsigned reason);

/* The broken samples seen since the last call, at most `room`; returns how many. For the quarantine
 * file. */
struct stream_broken {
	uint64_t sample;
	char reason[160];
};
unsigned stream_broken_take(struct stream *stream, struct stream_broken *ret, unsigned room);

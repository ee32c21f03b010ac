/* stream: a series of batches: a dataset, an order, a transform, and the slots that batches fill.
 *
 * A map of this folder:
 *   stream.[ch]       opens and frees a stream; the cursor: which batch each slot gets next
 *   stream_impl.h     the struct stream that stream.c and tickets.c share
 *   stream_groups.c   how the views of a sample are made, group by group
 *   stream_renew.c    goes on when images of a folder were rewritten in place
 *   tickets.c         the samples in flight: read, decoded and written into rows right now
 *   tickets_broken.c  those that are broken: counts and sentences
 *   ahead.[ch]        asks for the blocks that come next, with shuffle: blocks
 *   ahead_far.[ch]    the same in remote storage: fetches them in large ranges
 *   tickets_fields.c  their fields: the bytes beside an image
 *   field.[ch]        what a sample without a field, or with a long one, becomes
 *   workers.[ch]      the worker threads, and the queue of samples that wait for one
 *   unpacking.[ch]    the bytes of samples that a container stores packed
 *   large.[ch]        the bytes of a sample that no read buffer holds
 *   row_share.[ch]    which views of a sample are made from one decoding
 *   row.[ch]          makes one row of a sample's bytes; the place where decode and pixel meet
 *   raster.[ch]       memory for decoded images of any size
 *   sequence.[ch]     an image through a list of operations in any order
 *   postprocess.[ch]  what happens to an image between its resampling and its row
 *   shelf.[ch]        the open datasets; streams that read the same one share it
 *
 * The way of a batch: stream_pump names the next (epoch, batch) and gives it a FREE slot. tickets.c
 * turns the batch's samples into tickets, at most STREAM_TICKETS at a time, and submits them to
 * fetch. Fetch calls back with the bytes, and the ticket is queued for the workers. A worker writes
 * the row. The worker that writes a slot's last row marks the slot and wakes the event loop, and
 * stream_collect makes the slot READY. batch/tally.h knows which slot holds which batch and which
 * readers have yet to give it back.
 *
 * In a split group every rank has a stream of its own. All of them have the same order, cut into
 * global batches; each stream makes its rank's slice of them.
 *
 * Threads: stream_new blocks and needs a thread of its own. All other functions are called by the
 * event loop, unless they say otherwise. */
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
	/* Rows that the slots of a stream from remote storage hold, if memory allows. */
	STREAM_FAR_ROWS = 512,
	STREAM_ATTEMPTS = 16,
	STREAM_REASONS = FETCH_OUTCOMES + DECODE_OUTCOMES
};

struct stream;

/* What all streams of a daemon share; outlives them. */
struct stream_environment {
	struct fetch *fetch;
	struct shelf *shelf;
	struct list_shelf *lists;
	struct workers *workers;
	struct ledger *ledger;
	const char *cache_dir;
	const struct spill *spill; /* for samples that are too large for the budget */
	struct permit *large; /* fetch_options.large; NULL: memory is not limited */
	uint64_t stream_memory; /* the most that the slots of one stream take; 0: no limit */
	bool entry_points; /* JPEG entry points are kept next to the indexes, and used */
	/* The memory budget that would leave streams `bytes_more` more than this one does. For
	 * the sentence that refuses a stream. */
	uint64_t (*budget_for)(void *context, uint64_t bytes_more);
	void *budget_context;
	/* Called on any thread when a stream has something to collect. */
	void (*wake)(void *context);
	void *wake_context;
	/* Receives how long each batch took, from its slot to its last row. Event loop only. NULL:
	 * not measured. */
	struct histogram *fills;
};

/* The geometry of such a stream's slots. `dataset` says what its labels are; NULL: one integer for
 * each sample. Pure. */
struct extent_geometry stream_geometry(
	const struct stream_spec *spec, const struct dataset *dataset);

/* The part of the memory budget that such a stream takes with `slots` slots and `workers` workers:
 * slots, tickets, and the workers' scratch for it. Pure. */
uint64_t stream_bytes(const struct stream_spec *spec, const struct dataset *dataset,
	unsigned workers, uint32_t slots);

/* Opens the datasets and allocates the slots. May take long (it builds indexes). `lists` are the
 * lists that the definition names; the stream takes them over, also on failure. `progress` is
 * called while an index is built. 0, or a negative errno with a fault: as dataset_open; -EINVAL:
 * an epoch has no batch, a list belongs to another dataset, or the sources do not agree; -ENOMEM:
 * the budget is too small (the fault says what would fit). */
int stream_new(const struct stream_environment *environment, const struct stream_spec *spec,
	struct sampling_lists *lists, progress_fn *progress, void *progress_context,
	struct stream **ret, struct fault *fault);

/* The fingerprint that trainers are told: that of the samples as the stream was opened. */
uint64_t stream_fingerprint(const struct stream *stream);
/* Whether a state with this fingerprint is of the stream's samples (dataset_was). */
bool stream_was(const struct stream *stream, uint64_t fingerprint);

/* 0, or -ESTALE with a fault when a state belongs to another dataset, seed or order. `ret_note`
 * becomes "" or a difference that is allowed: another transform, which changes the pixels but not
 * the samples. */
int stream_fits(const struct stream *stream, const struct spec_state *state, char *ret_note,
	size_t room, struct fault *fault);

/* Sets where the first batch begins: at the place of a state that stream_fits has taken. Call once,
 * before stream_pump. */
void stream_begin(struct stream *stream, const struct spec_state *state);

/* Which samples each bucket has in an epoch; `count` 0 without buckets. */
const struct buckets *stream_buckets(const struct stream *stream);

/* Which batch has which serial. Valid after stream_begin. */
const struct course *stream_course(const struct stream *stream);

/* stream_cancel stops new samples from being read. stream_idle says when no ticket is in flight any
 * more; only then may stream_free be called. */
void stream_cancel(struct stream *stream);
bool stream_idle(struct stream *stream);
void stream_free(struct stream *stream);

/* Call before stream_free; takes NULL. True when a client still has the memory of the slots. That
 * memory then stays reserved: the handout and the ledger's line belong to the caller. */
bool stream_take_kept(struct stream *stream, struct handout *ret, int *ret_line);

/* Gives FREE slots to the next batches and submits their samples to fetch. Call after opening and
 * after every release. */
void stream_pump(struct stream *stream);

/* Starts no new batches from now on; the batches being filled will complete. */
void stream_drain(struct stream *stream);

/* Makes filled slots READY. */
void stream_collect(struct stream *stream);

const struct tally *stream_tally(const struct stream *stream);

/* As the tally's functions of the same names. Call stream_pump after all of them but stream_lease.
 */
void stream_join(struct stream *stream, struct tally_reader *reader, uint64_t serial, uint64_t end);
void stream_lease(struct stream *stream, struct tally_reader *reader, uint32_t slot);
void stream_release(struct stream *stream, struct tally_reader *reader, uint32_t slot);
void stream_leave(struct stream *stream, struct tally_reader *reader);

/* True when the stream cannot go on. The code is a negative errno; the sentence stays valid while
 * the stream lives. */
bool stream_failed(struct stream *stream, int *ret_code, const char **ret_text);

struct stream_batch { /* what a slot holds */
	uint64_t serial, epoch, batch;
	uint64_t position; /* of its first row, as trainers are told */
	uint64_t first; /* its first row in the sampler's sequence; the same without buckets */
	uint32_t count;
	bool last;
	bool padded; /* its only row is the epoch's last sample, which another rank delivers too */
};
const struct stream_batch *stream_batch(const struct stream *stream, uint32_t slot);

const struct stream_spec *stream_spec(const struct stream *stream);
/* The stream's datasets as one sequence of samples, which gives each sample its number. */
const struct concat *stream_samples_of(const struct stream *stream);
/* The first dataset; all of them have its classes. */
const struct dataset *stream_dataset(const struct stream *stream);
const struct extent *stream_extent(const struct stream *stream);
uint64_t stream_samples(const struct stream *stream); /* of an epoch */
uint64_t stream_batches(const struct stream *stream); /* of a full epoch */
/* How many samples a full epoch delivers to all ranks together. */
uint64_t stream_epoch_samples(const struct stream *stream);
uint64_t stream_order_hash(const struct stream *stream);
uint64_t stream_transform_hash(const struct stream *stream);
/* "" or what the operator should know. */
const char *stream_notice(const struct stream *stream);
/* The warnings about the stream's samples, which each of its trainers should be told: sentence
 * `number`, from 0; NULL after the last. */
const char *stream_warning(const struct stream *stream, uint32_t number);
/* True once for each sentence that is worth logging and came up after opening. */
bool stream_remark(struct stream *stream, char *ret_text, size_t room);

struct stream_stats {
	uint64_t batches, images; /* completed */
	uint64_t decode_ns, pixel_ns; /* CPU time of the workers */
	uint64_t stage_ns[DECODE_STAGES]; /* decode_ns by stage */
	uint64_t broken[STREAM_REASONS]; /* by reason: fetch outcomes, then decode outcomes */
	uint64_t fallbacks[STEPBACKS]; /* images left to libjpeg-turbo, by reason */
	/* Images that were entered at kept entry points; whose entry points were made; whose kept
	 * entry points did not fit them. */
	uint64_t entry_points_used, entry_points_made, entry_points_dropped;
	uint64_t field_bytes; /* delivered beside images */
	uint64_t reading, queued; /* tickets that are with fetch; with the workers */
	uint64_t parked; /* of those queued: that wait for an index that is made anew */
	uint64_t slots_free, slots_filling, slots_ready, slots_leased;
};
void stream_stats(struct stream *stream, struct stream_stats *ret);
const char *stream_reason_name(unsigned reason);

/* Images of a folder that were rewritten in place have other sizes than the index says. The samples
 * that meet them are parked; the event loop has a thread make the index anew; then the samples are
 * read with it, and no trainer notices. While a program is rewriting a folder, this happens again
 * after a pause (shelf_renew), for which samples wait, but at most 30 seconds. A sample for which
 * that would be longer is broken, and so is one that was parked three times because its file does
 * not stop changing; from then on that sample does not wait for a pause. */
struct stream_renewal {
	uint32_t part; /* which dataset */
	/* From shelf_renew; or -EBUSY: rows of the index before it are still being made. */
	int result;
	struct shelf_entry *fresh; /* NULL unless result is 0 */
	uint64_t after_ns, took_ns;
	bool made; /* by this stream, not by another one of the same dataset */
	struct fault fault;
};
/* Event loop: whether an index must be made anew; then *ret->part is set, and the caller runs
 * stream_renew on a thread and stream_renewed after it. One at a time. */
bool stream_wants_renewal(struct stream *stream, struct stream_renewal *ret);
/* A thread: blocks. Gives up soon after stream_cancel. */
void stream_renew(struct stream *stream, struct stream_renewal *renewal);
/* Event loop: takes the new index into use and goes on with what was parked; fails the stream if
 * its samples or labels are others. */
void stream_renewed(struct stream *stream, struct stream_renewal *renewal);

/* Takes the broken samples seen since the last call, at most `room`; returns how many. For the
 * quarantine file. */
struct stream_broken {
	uint64_t sample;
	char reason[160];
};
unsigned stream_broken_take(struct stream *stream, struct stream_broken *ret, unsigned room);

/* stream_impl: the struct stream, which stream.c and tickets.c share. No other file includes it. */
#pragma once

#include "dataset/sidecar.h"
#include "stream/stream.h"

#include <pthread.h>

enum { STREAM_BROKEN_KEPT = 64, STREAM_BROKEN_EPOCHS = EXTENT_SLOTS_MAX };

/* One sample in flight: its bytes, and a row for each of its views, one after the other. */
struct stream_ticket {
	struct fetch_item item;
	struct workers_job job;
	struct row_job row_job;
	struct stream *stream;
	struct stream_ticket *next_free;
	struct stream_ticket *next_view; /* the list of tickets whose next view a worker makes */
	uint32_t slot, row; /* row: which of the batch's samples */
	uint32_t attempt; /* 0, or which substitute for a broken sample this is */
	uint32_t view;
	uint64_t cost_ns; /* of the views made so far */
	uint64_t position, epoch;
	uint32_t part; /* the number of the sample's dataset in the stream */
	uint32_t padded; /* SLOTS_PADDED or 0 */
	struct sidecar_place place; /* of its entry points, once its bytes have been read */
	struct fault fault;
};

struct stream_slot {
	struct stream_batch batch;
	/* Under the lock. */
	uint32_t issued, left; /* samples given to tickets; samples not yet written */
	const struct pixel_recipe *recipe; /* of its epoch */
	bool taken; /* a trainer has it, or no trainer wants it any more */
};

struct stream {
	const struct stream_environment *environment;
	struct stream_spec spec;
	struct shelf_entry *shared[SAMPLER_PARTS]; /* datasets, shared with other streams */
	struct concat parts; /* the same datasets as one sequence of samples */
	struct sampling_lists lists;
	struct fetch_reader reader;
	struct workers_share share;
	struct sampler sampler;
	struct course course;
	struct pixel_recipe recipe[SHAPE_SIZES_MAX]; /* by shape_place of the epoch */
	struct postprocess postprocess;
	struct postprocessor **postprocessor; /* by the worker's number; NULL: images are rows */
	unsigned postprocessors;
	struct extent extent;
	int ledger_line;
	bool reserved_jobs;
	char notice[FAULT_TEXT];
	char unlabelled[FAULT_TEXT]; /* the warning that no sample has a label; "": they have */

	/* Event loop only. */
	struct tally tally;
	uint64_t assigned_ns[EXTENT_SLOTS_MAX]; /* when the slot got its batch */
	bool draining;

	/* Guards everything below. Held for a few instructions, never while calling out. */
	pthread_mutex_t lock;
	struct stream_slot slot[EXTENT_SLOTS_MAX];
	uint64_t issue_serial; /* the batch whose samples are being given to tickets */
	uint64_t filled; /* bit per slot whose last row is written */
	struct stream_ticket *ticket, *free;
	uint32_t tickets, tickets_free;
	bool cancelled;
	int failed; /* 0, or the negative errno for which the stream cannot go on */
	struct fault fault;
	uint64_t images, batches, pixel_ns, reading, queued;
	uint64_t stage_ns[DECODE_STAGES];
	uint64_t broken[STREAM_REASONS], fallbacks[STEPBACKS];
	uint64_t entry_points_used, entry_points_made, entry_points_dropped;
	struct {
		uint64_t epoch, count;
	} broken_in[STREAM_BROKEN_EPOCHS];
	struct stream_broken kept[STREAM_BROKEN_KEPT];
	unsigned kept_count;
};

/* The entry points kept for one of the datasets; NULL: none are kept. */
static inline struct sidecar *stream_sidecar(const struct stream *stream, uint32_t part)
{
	return stream->shared[part]->sidecar;
}

/* tickets.c */

/* What the tickets of a stream with `slots` slots take of the memory budget. */
uint64_t tickets_bytes(const struct stream_spec *spec, uint32_t slots);
int tickets_init(struct stream *stream, struct fault *fault);
void tickets_deinit(struct stream *stream);
/* Submits samples of assigned slots to fetch while tickets are free. */
void tickets_issue(struct stream *stream);

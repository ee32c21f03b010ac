/* stream_impl: what stream.c and fill.c share. Nobody else includes it. */
#pragma once

#include "dataset/sidecar.h"
#include "stream/stream.h"

#include <pthread.h>

enum { STREAM_BROKEN_KEPT = 64, STREAM_BROKEN_EPOCHS = EXTENT_SLOTS_MAX };

/* One sample on its way: its bytes, and a row of each of its views, one after the other. */
struct stream_ticket {
	struct fetch_item item;
	struct workers_job job;
	struct row_job row_job;
	struct stream *stream;
	struct stream_ticket *next_free;
	struct stream_ticket *next_view; /* of those whose next view the same worker makes */
	uint32_t slot, row, attempt; /* row: which of the batch's samples */
	uint32_t view;
	uint64_t cost_ns; /* of the views made */
	uint64_t position, epoch;
	uint32_t part; /* whose sample it is */
	uint32_t padded; /* SLOTS_PADDED or 0 */
	struct sidecar_place place; /* of its checkpoints, once its bytes are there */
	struct fault fault;
};

struct stream_slot {
	struct stream_batch batch;
	/* Under the lock. */
	uint32_t issued, left; /* samples given to tickets; samples not yet written */
	const struct pixel_recipe *recipe; /* of its epoch */
	bool taken; /* a consumer has it, or nobody wants it any more */
};

struct stream {
	const struct stream_environment *environment;
	struct stream_spec spec;
	struct shelf_entry *shared[SAMPLER_PARTS]; /* with other streams */
	struct concat parts; /* their datasets */
	struct sampling_lists lists;
	struct fetch_reader reader;
	struct workers_share share;
	struct sampler sampler;
	struct course course; /* its batches */
	struct pixel_recipe recipe[SHAPE_SIZES_MAX]; /* by shape_place of the epoch */
	struct postprocess finish;
	struct postprocessor **finisher; /* by the maker's number; NULL: images are rows */
	unsigned finishers;
	struct extent extent;
	int ledger_line;
	bool reserved_jobs;
	char notice[FAULT_TEXT];

	/* event loop only */
	struct tally tally;
	uint64_t assigned_ns[EXTENT_SLOTS_MAX]; /* when the slot got its batch */
	bool draining;

	pthread_mutex_t
		lock; /* everything below; held for a few instructions, never while calling out */
	struct stream_slot slot[EXTENT_SLOTS_MAX];
	uint64_t issue_serial; /* the batch whose rows are being issued */
	uint64_t filled; /* bit per slot whose last row is written */
	struct stream_ticket *ticket, *free;
	uint32_t tickets, tickets_free;
	bool cancelled;
	int failed; /* negative errno once */
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

/* Of a part; NULL: no checkpoints. */
static inline struct sidecar *stream_sidecar(const struct stream *stream, uint32_t part)
{
	return stream->shared[part]->sidecar;
}

/* fill.c */
/* Of the rows in flight of a stream with so many slots. */
uint64_t fill_bytes(const struct stream_spec *spec, uint32_t slots);
int fill_init(struct stream *stream, struct fault *fault);
void fill_deinit(struct stream *stream);
/* Submits rows of assigned slots while tickets are free. */
void fill_issue(struct stream *stream);

/* stream_impl: the struct stream, which stream.c and tickets.c share. No other file includes it. */
#pragma once

#include "dataset/sidecar.h"
#include "definition/buckets/divide.h"
#include "stream/ahead.h"
#include "stream/ahead_far.h"
#include "stream/stream.h"
#include "stream/unpacking.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STREAM_BROKEN_KEPT = 64, STREAM_BROKEN_EPOCHS = EXTENT_SLOTS_MAX, STREAM_RESTLESS = 64 };

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
	uint32_t view; /* the first one that is not made yet */
	uint32_t made; /* bit per view */
	bool apart; /* its views are decoded one by one: the memory to share was missing */
	uint64_t cost_ns; /* of the views made so far */
	uint64_t position, epoch;
	uint32_t part; /* the number of the sample's dataset in the stream */
	struct shelf_entry *entry; /* through which it is read */
	unsigned parked; /* how often, with its present sample */
	uint32_t padded; /* SLOTS_PADDED or 0 */
	bool mapped; /* the item's bytes come from large.h, not from fetch */
	struct unpacked unpacked; /* the same with its `data`: from unpacking.h */
	struct sidecar_place place; /* of its entry points, once its bytes have been read */
	struct ticket_field *field; /* those of the stream's definition, in its order */
	uint32_t arriving; /* the items that fetch has yet to deliver; under the lock */
	struct fault fault;
};

/* One field of a sample in flight. */
struct ticket_field {
	struct fetch_item item;
	struct stream_ticket *ticket;
};

struct stream_slot {
	struct stream_batch batch;
	/* Under the lock. */
	uint32_t issued, left; /* samples given to tickets; samples not yet written */
	uint32_t place; /* shape_place of its epoch, or its bucket */
	bool taken; /* a trainer has it, or no trainer wants it any more */
	uint64_t filled_ns; /* when its last row was written */
};

/* How the views of one group are made. The views of a stream without groups are one group. */
struct stream_group {
	uint32_t first, views; /* of the views of a sample */
	struct pixel_recipe *recipe; /* spec_places of them */
	struct postprocess postprocess;
	struct postprocessor **postprocessor; /* by the worker's number; NULL: images are rows */
	unsigned postprocessors;
};

struct stream {
	const struct stream_environment *environment;
	struct stream_spec spec;
	struct shelf_entry *shared[SAMPLER_PARTS]; /* datasets, shared with other streams */
	/* The same datasets as one sequence of samples, as they were opened: names, labels and
	 * fingerprint stay valid when images are rewritten. */
	struct concat parts;
	struct sampling_lists lists;
	struct fetch_reader reader;
	struct workers_share share;
	struct sampler sampler;
	struct course course;
	struct ahead ahead;
	struct ahead_far *ahead_far; /* NULL: nothing is fetched ahead */
	uint32_t groups;
	struct stream_group *group;
	uint8_t group_of[SLOTS_VIEWS_MAX]; /* the number of a view's group */
	/* For making several views from one decoding. All zero where a sample has one view, or
	 * where the budget has no room for it: then each view is decoded for itself. */
	struct stream_together {
		struct raster *raster; /* by the worker's number */
		unsigned rasters;
		struct row_view *more; /* of each ticket: views - 1 */
		int ledger_line; /* valid if there are rasters */
	} together;
	struct unpacking *unpacking; /* NULL: no dataset has packed samples */
	int unpacking_line; /* of the ledger; -1: the workers have no blocks */
	struct extent extent;
	int ledger_line;
	bool reserved_jobs;
	char notice[FAULT_TEXT];
	char unlabelled[FAULT_TEXT]; /* the warning that no sample has a label; "": they have */
	/* Warnings about buckets without batches, and about images without a size; or "". */
	char unbatched[FAULT_TEXT], unmeasured[FAULT_TEXT];

	/* Event loop only. */
	struct tally tally;
	uint64_t assigned_ns[EXTENT_SLOTS_MAX]; /* when the slot got its batch */
	bool draining;
	bool renewing; /* a thread is in stream_renew */

	/* Guards everything below. Held for a few instructions, never while calling out. */
	pthread_mutex_t lock;
	struct stream_slot slot[EXTENT_SLOTS_MAX];
	uint64_t issue_serial; /* the batch whose samples are being given to tickets */
	uint64_t filled; /* bit per slot whose last row is written */
	struct stream_ticket *ticket, *free;
	struct ticket_field *ticket_fields; /* of all tickets */
	uint32_t tickets, tickets_free;
	atomic_bool cancelled; /* also ends waits for a server (remote/interrupt.h) */
	int failed; /* 0, or the negative errno for which the stream cannot go on */
	struct fault fault;
	uint64_t images, batches, pixel_ns, reading, queued, field_bytes;
	uint64_t stage_ns[DECODE_STAGES];
	uint64_t broken[STREAM_REASONS], fallbacks[STEPBACKS];
	uint64_t entry_points_used, entry_points_made, entry_points_dropped;
	struct {
		uint64_t epoch, count;
	} broken_in[STREAM_BROKEN_EPOCHS];
	struct stream_broken kept[STREAM_BROKEN_KEPT];
	unsigned kept_count;
	/* Per dataset: the entry through which samples are read, which follows `shared` when the
	 * index is made anew; the entry before it, which tickets may still use; and the time before
	 * which no other is asked for. */
	struct shelf_entry *through[SAMPLER_PARTS], *retired[SAMPLER_PARTS];
	uint64_t renew_after_ns[SAMPLER_PARTS];
	struct stream_ticket *parked; /* their files have other sizes than the index says */
	/* Numbers of samples, plus one, whose files do not stop changing; by number. */
	uint64_t restless[STREAM_RESTLESS];
};

/* The entry points kept for one of the datasets; NULL: none are kept. Event loop. */
static inline struct sidecar *stream_sidecar(const struct stream *stream, uint32_t part)
{
	return stream->through[part]->sidecar;
}

/* tickets.c */

/* What the tickets of a stream with `slots` slots take of the memory budget. */
uint64_t tickets_bytes(const struct stream_spec *spec, uint32_t slots);
int tickets_init(struct stream *stream, struct fault *fault);
void tickets_deinit(struct stream *stream);
/* Submits samples of assigned slots to fetch while tickets are free. */
void tickets_issue(struct stream *stream);
/* A dataset whose parked tickets wait for another index that may be made now; -1: none. */
int tickets_parked(struct stream *stream);
/* Takes the parked tickets of a dataset (-1: of all) back: their samples are read again, or, if the
 * stream has stopped, the tickets are returned. Event loop. */
void tickets_unpark(struct stream *stream, int part);
/* Whether tickets still use an entry. */
bool tickets_use(struct stream *stream, const struct shelf_entry *entry);

/* stream_groups.c */

/* 0 or -ENOMEM. */
int stream_groups_init(struct stream *stream, struct fault *fault);
/* Makes the workers' scratch, which must have been reserved. Errors as postprocessor_new. */
int stream_groups_postprocess(struct stream *stream, struct fault *fault);
/* Takes the memory for making several views from one decoding, if the budget has room for it. After
 * tickets_init. */
void stream_groups_share(struct stream *stream);
void stream_groups_deinit(struct stream *stream);
/* Makes what packed samples need, with blocks as large as the budget allows. 0 or -ENOMEM. */
int stream_groups_unpack(struct stream *stream, struct fault *fault);

/* tickets_broken.c */

/* The sample's number among all that the stream reads, as records have it. */
uint64_t ticket_number(const struct stream_ticket *t);
/* Ends the stream, unless it has failed before. */
void tickets_fail(struct stream *stream, int code, const char *text);
/* Counts and notes a broken sample. False: the stream has failed. */
bool ticket_note_broken(struct stream_ticket *t, unsigned reason, const char *message);

/* tickets_fields.c */

/* What the fields of `tickets` tickets take of the memory budget. */
uint64_t tickets_fields_bytes(const struct stream_spec *spec, uint32_t tickets);
/* Gives each ticket the items of its fields; `done` is called for each of them. 0 or -ENOMEM. */
int tickets_fields_init(
	struct stream *stream, void (*done)(struct fetch_item *item), struct fault *fault);
void tickets_fields_deinit(struct stream *stream);
/* Looks at a few samples of each dataset. 0, or -EINVAL with a fault when none of them has a field
 * that all must have: then its name is wrong. Blocks. */
int stream_check_fields(const struct stream *stream, struct fault *fault);
/* Links the items of a ticket, the image's first, for fetch. Returns the place of what comes after
 * them. Under the lock. */
struct fetch_item **ticket_chain(struct stream_ticket *t);
/* Writes the ticket's fields into its slot and gives their buffers back. False: the sample is
 * broken or the stream fails: then the result of the ticket's item and its fault say why. Runs on
 * worker number `worker`. */
bool ticket_take_fields(struct stream_ticket *t, unsigned worker);
/* Whether fetch has read as many bytes as the packed item's index says; or FETCH_E_UNPACK with a
 * fault. A forged index may have two records that differ only in that. */
int ticket_check_stored(const struct fetch_item *item, struct fault *fault);
/* Gives the buffers of the fields back. */
void ticket_release_fields(struct stream_ticket *t);
/* The row has no fields. */
void ticket_blank_fields(struct stream_ticket *t);

/* stream_renew.c */

/* The path of one of the datasets, or of the part of it that the split names. 0, or a negative
 * errno with a fault. */
int stream_part_source(
	const struct stream *stream, uint32_t part, char path[SPEC_TEXT], struct fault *fault);
/* What the datasets are opened with. */
struct dataset_options stream_dataset_options(
	const struct stream *stream, progress_fn *progress, void *context);
/* Closes the entries that followed `shared`. */
void stream_renew_deinit(struct stream *stream);

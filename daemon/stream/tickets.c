/* tickets: the samples in flight.
 *
 * A ticket is one sample that is being read and decoded into a row for each of its views. The
 * number of tickets is fixed, so that a batch of any size takes bounded memory. They are reused in
 * groups: a worker that returns a ticket submits new samples only when a quarter of the tickets is
 * free, so that fetch is woken rarely and sees neighboring samples together.
 *
 * Threads: tickets_issue runs on the event loop and on workers, ticket_arrived on fetch's threads,
 * ticket_run on workers. A row belongs to its ticket from ticket_issue to ticket_return, so no
 * other thread writes it; the slot is FILLING all that time. */
#include "stream/stream_impl.h"

#include "base/clock.h"
#include "base/util.h"
#include "remote/interrupt.h"
#include "stream/large.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICKETS_AHEAD = 256, TICKETS_PARKED = 3 };
/* How long a sample waits until an index may be made anew. Well below the time after which a
 * trainer takes its stream for dead. */
#define TICKETS_PARKED_NS 30000000000ull

static void ticket_arrived(struct fetch_item *item);
static void ticket_field_arrived(struct fetch_item *item);
static void ticket_run(struct workers_job *job, struct row_maker *maker);

static uint32_t tickets_count(const struct stream_spec *spec, uint32_t slots)
{
	return (uint32_t)UTIL_MIN((uint64_t)slots * spec->batch_size, (uint64_t)STREAM_TICKETS);
}

uint64_t tickets_bytes(const struct stream_spec *spec, uint32_t slots)
{
	const uint32_t tickets = tickets_count(spec, slots);
	return tickets * sizeof(struct stream_ticket) + tickets_fields_bytes(spec, tickets);
}

int tickets_init(struct stream *stream, struct fault *fault)
{
	stream->tickets = stream->tickets_free = tickets_count(&stream->spec, stream->extent.slots);
	stream->ticket = calloc(stream->tickets, sizeof *stream->ticket);
	if (!stream->ticket || workers_reserve(stream->environment->workers, (int)stream->tickets))
		return fault_set(fault, -ENOMEM,
			"no memory for the %u rows in flight of this stream", stream->tickets);
	stream->reserved_jobs = true;
	for (uint32_t i = 0; i < stream->tickets; i++) {
		struct stream_ticket *t = &stream->ticket[i];
		t->stream = stream;
		t->item.done = ticket_arrived;
		t->item.reader = &stream->reader;
		t->item.fault = &t->fault;
		t->job.run = ticket_run;
		t->job.share = &stream->share;
		t->next_free = stream->free;
		stream->free = t;
	}
	return tickets_fields_init(stream, ticket_field_arrived, fault);
}

void tickets_deinit(struct stream *stream)
{
	if (stream->reserved_jobs)
		(void)workers_reserve(stream->environment->workers, -(int)stream->tickets);
	tickets_fields_deinit(stream);
	free(stream->ticket);
}

static struct stream_slot *tickets_slot(struct stream *stream, uint64_t serial)
{
	for (uint32_t i = 0; i < stream->extent.slots; i++)
		if (stream->slot[i].batch.serial == serial && stream->slot[i].left)
			return &stream->slot[i];
	return NULL;
}

/* How many rows the trainer still has ahead of this batch: the fewer, the more urgent. It counts
 * rows rather than batches, since a trainer uses up a batch of one row as fast as one is made. A
 * batch that the trainer has taken does not count, however long it keeps it; a huge one counts as
 * TICKETS_AHEAD rows. */
static uint64_t tickets_urgency(const struct stream *stream, uint64_t serial)
{
	uint64_t ahead = 0;
	for (uint32_t i = 0; i < stream->extent.slots; i++)
		if (!stream->slot[i].taken && stream->slot[i].batch.serial < serial)
			ahead += UTIL_MIN(stream->slot[i].batch.count, (uint32_t)TICKETS_AHEAD);
	return ahead;
}

/* Under the lock. */
static void ticket_pick(struct stream_ticket *t, struct sampler_pick pick)
{
	t->part = pick.part;
	t->entry = t->stream->through[pick.part];
	t->parked = 0;
	t->item.dataset = t->entry->dataset;
	t->item.number = pick.number;
}

static struct sidecar *ticket_sidecar(const struct stream_ticket *t)
{
	return t->entry->sidecar;
}

/* Where fetch writes labels of several values, when it reads the sample's record of the index. */
static void *ticket_values(const struct stream *stream, const struct stream_ticket *t)
{
	const struct slots_head *layout = &stream->extent.layout;
	const uint64_t first = (uint64_t)t->row * layout->label_width;
	if (dataset_label_type(stream->parts.dataset[0]) == LABEL_TYPE_CLASS)
		return NULL;
	if (layout->label_type == SLOTS_LABEL_I64)
		return extent_labels(&stream->extent, t->slot) + first;
	return extent_label_values(&stream->extent, t->slot) + first;
}

static struct stream_ticket *ticket_issue(
	struct stream *stream, struct stream_slot *slot, uint64_t urgency)
{
	struct stream_ticket *t = stream->free;
	stream->free = t->next_free;
	stream->tickets_free--;
	t->slot = (uint32_t)(slot - stream->slot);
	t->row = slot->issued++;
	t->attempt = t->view = 0;
	t->made = 0;
	t->apart = false;
	t->cost_ns = 0;
	t->epoch = slot->batch.epoch;
	t->padded = slot->batch.padded ? SLOTS_PADDED : 0;
	t->position = slot->batch.first + t->row;
	ticket_pick(t, sampler_pick(&stream->sampler, (uint32_t)t->epoch, t->position));
	t->item.urgency = t->job.urgency = urgency;
	t->item.values = ticket_values(stream, t);
	t->fault.text[0] = 0;
	return t;
}

/* Gives samples of assigned slots to the tickets that are free, and returns them as a chain for
 * fetch. Under the lock. */
static struct fetch_item *tickets_collect(struct stream *stream, uint32_t at_least)
{
	struct fetch_item *first = NULL, **last = &first;
	struct stream_slot *slot;
	if (stream->tickets_free < at_least || stream->cancelled || stream->failed)
		return NULL;
	while (stream->free && (slot = tickets_slot(stream, stream->issue_serial)) &&
		ahead_far_issue(stream->ahead_far, (uint32_t)slot->batch.epoch,
			slot->batch.first + slot->issued)) {
		uint64_t urgency = tickets_urgency(stream, slot->batch.serial);
		while (stream->free && slot->issued < slot->batch.count) {
			struct stream_ticket *t = ticket_issue(stream, slot, urgency);
			*last = &t->item;
			last = ticket_chain(t);
			stream->reading++;
			(void)ahead_far_issue(stream->ahead_far, (uint32_t)t->epoch, t->position);
		}
		if (slot->issued < slot->batch.count)
			break;
		stream->issue_serial++;
	}
	*last = NULL;
	return first;
}

void tickets_issue(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	struct fetch_item *chain = tickets_collect(stream, 1);
	pthread_mutex_unlock(&stream->lock);
	if (chain)
		fetch_submit(stream->environment->fetch, chain);
}

/* The last item of a ticket takes it to the workers. */
static void ticket_count_arrival(struct stream_ticket *t)
{
	struct stream *stream = t->stream;
	pthread_mutex_lock(&stream->lock);
	bool all = --t->arriving == 0;
	stream->reading -= all;
	stream->queued += all;
	pthread_mutex_unlock(&stream->lock);
	if (all)
		workers_push(stream->environment->workers, &t->job);
}

static void ticket_field_arrived(struct fetch_item *item)
{
	ticket_count_arrival(
		((struct ticket_field *)((char *)item - offsetof(struct ticket_field, item)))
			->ticket);
}

static void ticket_arrived(struct fetch_item *item)
{
	struct stream_ticket *t =
		(struct stream_ticket *)((char *)item - offsetof(struct stream_ticket, item));
	struct sidecar *sidecar = ticket_sidecar(t);
	if (sidecar && item->result == FETCH_OK) {
		sidecar_place(sidecar, item->number, item->shard, item->position, item->unpacked,
			&t->place);
		sidecar_ahead(sidecar, &t->place);
	}
	ticket_count_arrival(t);
}

/* Puts the ticket back, and wakes the event loop after the slot's last row. Once the lock is
 * dropped the event loop may free the stream, unless tickets are still out. So new samples are
 * taken under the same lock, and everything needed afterwards is copied first. */
static void ticket_return(struct stream_ticket *t)
{
	struct stream *stream = t->stream;
	const struct stream_environment *environment = stream->environment;
	ahead_step(&stream->ahead, (uint32_t)t->epoch, t->position);
	pthread_mutex_lock(&stream->lock);
	stream->queued--;
	bool full = --stream->slot[t->slot].left == 0;
	if (full) {
		stream->filled |= 1ull << t->slot;
		stream->slot[t->slot].filled_ns = clock_ns();
		stream->batches++;
	}
	t->entry = NULL;
	t->next_free = stream->free;
	stream->free = t;
	stream->tickets_free++;
	struct fetch_item *chain = tickets_collect(stream, UTIL_MAX(stream->tickets / 4, 1u));
	bool stopped = stream->cancelled || stream->failed;
	pthread_mutex_unlock(&stream->lock);
	if (chain)
		fetch_submit(environment->fetch, chain);
	if (full || stopped)
		environment->wake(environment->wake_context);
}

/* The number of a view's row in its slot. */
static uint32_t ticket_row(const struct stream_ticket *t, uint32_t view)
{
	return t->row * t->stream->spec.shape.views + view;
}

static void ticket_label(const struct stream_ticket *t, int64_t label)
{
	const struct extent *extent = &t->stream->extent;
	if (!t->item.values)
		extent_labels(extent, t->slot)[t->row] = label;
}

static void ticket_zero_rows(struct stream_ticket *t)
{
	struct stream *stream = t->stream;
	const struct extent *extent = &stream->extent;
	ticket_label(t, t->item.label);
	ticket_blank_fields(t);
	for (uint32_t view = 0; view < stream->spec.shape.views; view++) {
		uint32_t row = ticket_row(t, view);
		memset(extent_image(extent, t->slot, row), 0,
			extent_row_shape(extent, t->slot, row).row_bytes);
		extent_records(extent, t->slot)[row] =
			(struct slots_record){.index = ticket_number(t),
				.label = t->item.label,
				.flags = SLOTS_INVALID | t->padded,
				.view = view,
				.position = t->position};
	}
}

/* A ticket that a worker had goes back to fetch, with its sample or another one. Under the lock. */
static void ticket_again(struct stream_ticket *t)
{
	*ticket_chain(t) = NULL;
	t->view = 0;
	t->made = 0;
	t->apart = false;
	t->fault.text[0] = 0;
	t->stream->reading++;
	t->stream->queued--;
}

/* Deals with a broken sample: reads a substitute, marks the row, or fails the stream. */
static void ticket_broken(struct stream_ticket *t, unsigned reason, const char *message)
{
	struct stream *stream = t->stream;
	if (!ticket_note_broken(t, reason, message)) {
		ticket_return(t);
		return;
	}
	if (stream->spec.on_broken == SPEC_BROKEN_MARK) {
		ticket_zero_rows(t);
		ticket_return(t);
		return;
	}
	if (++t->attempt > STREAM_ATTEMPTS) {
		struct fault text;
		(void)fault_set(&text, -EIO,
			"sample at position %llu of epoch %llu and %d substitutes for it are all "
			"broken; run `penstock check` on %s",
			(unsigned long long)t->position, (unsigned long long)t->epoch,
			STREAM_ATTEMPTS, stream->spec.source);
		tickets_fail(stream, -EIO, text.text);
		ticket_return(t);
		return;
	}
	struct sampler_pick pick =
		sampler_substitute(&stream->sampler, (uint32_t)t->epoch, t->position, t->attempt);
	pthread_mutex_lock(&stream->lock);
	ticket_pick(t, pick);
	ticket_again(t);
	pthread_mutex_unlock(&stream->lock);
	fetch_submit(stream->environment->fetch, &t->item);
}

/* Whether the file has another size than the index says. Of a tar, that is a fault. */
static bool ticket_outdated(const struct stream_ticket *t)
{
	return t->item.resized && dataset_in_files(t->item.dataset) &&
	       (t->item.result == FETCH_E_CHANGED || t->item.result == FETCH_E_SHORT);
}

enum ticket_fate { TICKET_BROKEN, TICKET_PARKED, TICKET_AGAIN };

/* Where the sample is noted if its file does not stop changing. */
static uint64_t *ticket_restless(struct stream_ticket *t)
{
	uint64_t number = ticket_number(t) + 1;
	return &t->stream->restless[number % STREAM_RESTLESS];
}

/* Whether the ticket may wait for another index. A file that never stops changing holds its stream
 * up once: after that its sample does not wait for a pause to end. Under the lock. */
static bool ticket_may_park(struct stream_ticket *t)
{
	const struct stream *stream = t->stream;
	uint64_t now = clock_ns(), after = stream->renew_after_ns[t->part];
	uint64_t *restless = ticket_restless(t);
	bool noted = *restless == ticket_number(t) + 1;
	if (stream->cancelled)
		return false;
	if (t->parked < (noted ? 1 : TICKETS_PARKED))
		return now + (noted ? 0 : TICKETS_PARKED_NS) >= after;
	*restless = ticket_number(t) + 1;
	return false;
}

/* Parks a ticket until the index was made anew, or has it read again if it was meanwhile. */
static enum ticket_fate ticket_park(struct stream_ticket *t)
{
	struct stream *stream = t->stream;
	enum ticket_fate fate = TICKET_BROKEN;
	if (!ticket_outdated(t))
		return TICKET_BROKEN;
	pthread_mutex_lock(&stream->lock);
	if (t->entry != stream->through[t->part]) {
		t->entry = stream->through[t->part];
		t->item.dataset = t->entry->dataset;
		ticket_again(t);
		fate = TICKET_AGAIN;
	} else if (ticket_may_park(t)) {
		t->parked++;
		t->next_free = stream->parked;
		stream->parked = t;
		fate = TICKET_PARKED;
	}
	pthread_mutex_unlock(&stream->lock);
	return fate;
}

int tickets_parked(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	int part = -1;
	uint64_t now = clock_ns();
	for (const struct stream_ticket *t = stream->parked; t && part < 0; t = t->next_free)
		if (now >= stream->renew_after_ns[t->part])
			part = (int)t->part;
	pthread_mutex_unlock(&stream->lock);
	return part;
}

/* Takes the parked tickets of a dataset out of the list, linked by next_free. Under the lock. */
static struct stream_ticket *tickets_take_parked(struct stream *stream, int part)
{
	struct stream_ticket *taken = NULL, **at = &stream->parked;
	while (*at) {
		struct stream_ticket *t = *at;
		if (part >= 0 && t->part != (uint32_t)part) {
			at = &t->next_free;
			continue;
		}
		*at = t->next_free;
		t->next_free = taken;
		taken = t;
	}
	return taken;
}

void tickets_unpark(struct stream *stream, int part)
{
	struct fetch_item *chain = NULL;
	pthread_mutex_lock(&stream->lock);
	struct stream_ticket *taken = tickets_take_parked(stream, part);
	bool stopped = stream->cancelled || stream->failed;
	for (struct stream_ticket *t = taken; t && !stopped; t = t->next_free) {
		t->entry = stream->through[t->part];
		t->item.dataset = t->entry->dataset;
		ticket_again(t);
		*ticket_chain(t) = chain;
		chain = &t->item;
	}
	pthread_mutex_unlock(&stream->lock);
	for (struct stream_ticket *next; taken && stopped; taken = next) {
		next = taken->next_free;
		ticket_return(taken);
	}
	if (chain)
		fetch_submit(stream->environment->fetch, chain);
}

bool tickets_use(struct stream *stream, const struct shelf_entry *entry)
{
	bool used = false;
	pthread_mutex_lock(&stream->lock);
	for (uint32_t i = 0; i < stream->tickets; i++)
		used |= stream->ticket[i].entry == entry;
	pthread_mutex_unlock(&stream->lock);
	return used;
}

static bool tickets_stopped(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	bool stopped = stream->cancelled || stream->failed;
	pthread_mutex_unlock(&stream->lock);
	return stopped;
}

static void ticket_release(struct stream_ticket *t)
{
	ticket_release_fields(t);
	if (t->unpacked.data)
		unpacking_give_back(t->stream->unpacking, &t->unpacked);
	else if (t->mapped)
		large_free(t->item.data, t->item.size);
	else
		fetch_release(t->stream->environment->fetch, &t->item);
	t->mapped = false;
	t->item.data = NULL;
}

/* Whether max_file_bytes refuses a sample whose size is known. */
static bool ticket_is_too_large(const struct stream_ticket *t)
{
	return t->item.unpacked > t->stream->spec.max_file_bytes;
}

/* Reads the sample itself, if fetch had no memory for it and the definition does not refuse it.
 * Whatever the budget is, the sample becomes the same. */
static void ticket_read_large(struct stream_ticket *t)
{
	if (t->item.result != FETCH_E_TOO_LARGE || ticket_is_too_large(t))
		return;
	t->fault.text[0] = 0;
	int error, outcome = large_read(t->stream->environment->spill, t->item.dataset,
			   t->item.number, &t->item.data, &t->item.size, &error, &t->fault);
	t->item.result = large_like_fetch(t->item.dataset, outcome, error);
	t->mapped = t->item.result == FETCH_OK;
	t->item.packed = (struct packed){0};
	t->item.resized = large_resized(t->item.dataset, t->item.number, t->item.result);
}

/* Unpacks the sample, if that is how it is stored and the definition does not refuse it, and gives
 * the stored bytes back. */
static void ticket_unpack(struct stream_ticket *t, unsigned worker)
{
	const struct raster_beyond beyond = {
		.pool = t->stream->environment->large, .spill = t->stream->environment->spill};
	const struct packed packed = t->item.packed;
	const uint32_t size = t->item.unpacked;
	if (t->item.result != FETCH_OK || packed.method == PACKED_NONE || ticket_is_too_large(t))
		return;
	int result = ticket_check_stored(&t->item, &t->fault);
	if (result == FETCH_OK)
		result = unpacking_run(t->stream->unpacking, worker, &beyond, &packed, size,
			t->item.data, &t->unpacked, &t->fault);
	fetch_release(t->stream->environment->fetch, &t->item);
	t->item.packed = (struct packed){0};
	t->item.result = result;
	t->item.resized = false;
	if (result == FETCH_OK) {
		t->item.data = t->unpacked.data;
		t->item.size = size;
		return;
	}
	char path[4096];
	if (concat_path(&t->stream->parts, ticket_number(t), path, sizeof path, NULL) == 0)
		(void)fault_prefix(&t->fault, result, "%s", path);
}

/* Whether the ticket has its image, within the limits, and its fields, which are then in the
 * slot. */
static bool ticket_is_complete(struct stream_ticket *t, unsigned worker)
{
	if (t->item.result != FETCH_OK || ticket_is_too_large(t))
		return false;
	/* The fields are there from the sample's first job, which may have made no view (apart). */
	if (t->view || t->apart || ticket_take_fields(t, worker))
		return true;
	/* The image has the size that the index says. */
	const int result = t->item.result;
	ticket_release(t);
	t->item.result = result;
	t->item.resized = false;
	return false;
}

/* Deals with a ticket whose bytes were not read, or whose stream has stopped. */
static void ticket_unread(struct stream_ticket *t)
{
	struct stream *stream = t->stream;
	const struct stream_environment *wake = stream->environment;
	int result = t->item.result;
	bool read = result == FETCH_OK;
	if (read || result == FETCH_E_TOO_LARGE) {
		if (ticket_is_too_large(t)) {
			result = FETCH_E_TOO_LARGE;
			(void)fault_set(&t->fault, result,
				"the file has %u bytes; the limit max_file_bytes is %llu",
				t->item.unpacked, (unsigned long long)stream->spec.max_file_bytes);
		}
		if (read)
			ticket_release(t);
	}
	ticket_release_fields(t);
	if (result > 0 && !tickets_stopped(stream)) {
		enum ticket_fate fate = ticket_park(t);
		/* A ticket that was parked may have been returned by now, and its stream freed. */
		if (fate == TICKET_PARKED)
			wake->wake(wake->wake_context);
		else if (fate == TICKET_AGAIN)
			fetch_submit(wake->fetch, &t->item);
		else
			ticket_broken(t, (unsigned)result, t->fault.text);
		return;
	}
	if (result < 0 && result != -ECANCELED)
		tickets_fail(stream, result, t->fault.text);
	ticket_return(t);
}

/* The rows that one worker makes together. They may belong to several streams, and each stream may
 * be freed as soon as its last ticket was returned. */
struct ticket_rows {
	struct workers *workers;
	struct row_maker *maker;
	struct workers_job *first; /* NULL once it was handed over */
	struct stream_ticket *views; /* the tickets whose next view is to be made */
};

static struct stream_ticket *ticket_of_job(struct workers_job *job)
{
	return (struct stream_ticket *)((char *)job - offsetof(struct stream_ticket, job));
}

/* One view of the ticket's sample, as a worker makes it. */
static struct row_view ticket_view(const struct stream_ticket *t, uint32_t view, unsigned maker)
{
	const struct stream *stream = t->stream;
	const struct stream_group *group = &stream->group[stream->group_of[view]];
	return (struct row_view){
		.recipe = &group->recipe[stream->slot[t->slot].place],
		.view = view,
		.postprocessor = group->postprocessor ? group->postprocessor[maker] : NULL,
		.out = extent_image(&stream->extent, t->slot, ticket_row(t, view)),
		.record = {.index = ticket_number(t),
			.label = t->item.label,
			.flags = (t->attempt ? SLOTS_SUBSTITUTED : 0u) | t->padded,
			.view = view,
			.position = t->position},
	};
}

/* Where the other views of a ticket's decoding are described. */
static struct row_view *ticket_others(const struct stream_ticket *t)
{
	const struct stream *stream = t->stream;
	const size_t number = (size_t)(t - stream->ticket);
	return &stream->together.more[number * (stream->spec.shape.views - 1)];
}

/* Sets the row of the first view that is not made yet, and the others beside it. */
static void ticket_set_row(struct stream_ticket *t, unsigned maker)
{
	struct stream *stream = t->stream;
	const struct row_view first = ticket_view(t, t->view, maker);
	uint32_t more = 0;
	/* A list that works on the whole image is made by itself: it may need the same memory. */
	struct row_view *others = stream->together.more && first.recipe->kind != PIXEL_WHOLE
					  ? ticket_others(t)
					  : NULL;
	for (uint32_t view = t->view + 1; others && !t->apart && view < stream->spec.shape.views;
		view++) {
		const struct row_view other = ticket_view(t, view, maker);
		if (!(t->made >> view & 1) && other.recipe->kind != PIXEL_WHOLE)
			others[more++] = other;
	}
	t->row_job = (struct row_job){
		.data = t->item.data,
		.size = t->item.size,
		.recipe = first.recipe,
		.key = {.seed = spec_draw_seed(&stream->spec),
			.position = t->position,
			.epoch = (uint32_t)t->epoch,
			.view = t->view},
		.postprocessor = first.postprocessor,
		.out = first.out,
		.record = first.record,
		.entry_point_room = ticket_sidecar(t) && !t->mapped ? t->place.room : 0,
		.pixels = stream->spec.max_image_pixels,
		.mapped = t->mapped,
		.more = others,
		.more_count = more,
		.raster = more ? &stream->together.raster[maker] : NULL,
	};
}

/* What fetch left to the worker. Returns ticket_is_complete. A worker must not wait for a server
 * longer than the stream does. */
static bool ticket_read(struct stream_ticket *t, unsigned worker)
{
	const atomic_bool *before = interrupt_set(&t->stream->cancelled);
	ticket_read_large(t);
	ticket_unpack(t, worker);
	const bool complete = ticket_is_complete(t, worker);
	(void)interrupt_set(before);
	return complete;
}

static struct row_job *ticket_next(void *context)
{
	static const struct workers_job like = {.run = ticket_run};
	struct ticket_rows *rows = context;
	for (;;) {
		struct stream_ticket *t = rows->views;
		if (t) {
			rows->views = t->next_view;
		} else {
			struct workers_job *job =
				rows->first ? rows->first : workers_more(rows->workers, &like);
			rows->first = NULL;
			if (!job)
				return NULL;
			t = ticket_of_job(job);
		}
		if (!tickets_stopped(t->stream) && ticket_read(t, rows->maker->number)) {
			ticket_set_row(t, rows->maker->number);
			return &t->row_job;
		}
		ticket_unread(t);
	}
}

static struct stream_ticket *ticket_of_row(struct row_job *job)
{
	return (struct stream_ticket *)((char *)job - offsetof(struct stream_ticket, row_job));
}

static size_t ticket_recall(void *context, struct row_job *job, uint8_t *to, size_t room)
{
	(void)context;
	struct stream_ticket *t = ticket_of_row(job);
	return sidecar_read(ticket_sidecar(t), &t->place, to, room);
}

static bool ticket_keeps(void *context, struct row_job *job)
{
	(void)context;
	struct stream_ticket *t = ticket_of_row(job);
	return sidecar_keeps(ticket_sidecar(t), &t->place);
}

static bool ticket_keep(void *context, struct row_job *job, const uint8_t *pack, size_t size)
{
	(void)context;
	struct stream_ticket *t = ticket_of_row(job);
	/* stream_remark reports once that entry points cannot be written. */
	return sidecar_write(ticket_sidecar(t), &t->place, pack, size);
}

/* How many rows a job has made that is done, its own and others. */
static uint32_t ticket_rows_made(const struct row_job *job)
{
	uint32_t rows = !job->apart;
	for (uint32_t i = 0; i < job->more_count; i++)
		rows += job->more[i].made;
	return rows;
}

static void ticket_count_row(struct stream_ticket *t, const struct row_job *job)
{
	struct stream *stream = t->stream;
	t->cost_ns += job->pixel_ns;
	for (int i = 0; i < DECODE_STAGES; i++)
		t->cost_ns += job->stage_ns[i];
	pthread_mutex_lock(&stream->lock);
	stream->images += job->outcome == DECODE_OK ? ticket_rows_made(job) : 0;
	stream->fallbacks[job->stepback] += job->stepback != STEPBACK_NONE;
	stream->entry_points_used += (job->entry_points & DECODE_ENTRY_POINTS_USED) != 0;
	stream->entry_points_made += (job->entry_points & DECODE_ENTRY_POINTS_MADE) != 0;
	stream->entry_points_dropped += (job->entry_points & DECODE_ENTRY_POINTS_DROPPED) != 0;
	for (int i = 0; i < DECODE_STAGES; i++)
		stream->stage_ns[i] += job->stage_ns[i];
	stream->pixel_ns += job->pixel_ns;
	pthread_mutex_unlock(&stream->lock);
}

static void ticket_fail_decode(const struct stream_ticket *t, int result, const char *message)
{
	struct fault text;
	if (result == -ENOMEM)
		(void)fault_set(&text, result,
			"no memory left to decode an image; lower `threads` or raise the machine's "
			"memory");
	else
		(void)fault_set(&text, result, "sample %llu: %s",
			(unsigned long long)ticket_number(t), message);
	tickets_fail(t->stream, result, text.text);
}

/* Writes the records of the rows that a job has made, and finds the first view that is left. True:
 * none is. */
static bool ticket_note_made(struct stream_ticket *t, const struct row_job *job)
{
	const struct stream *stream = t->stream;
	struct slots_record *records = &extent_records(&stream->extent, t->slot)[ticket_row(t, 0)];
	t->apart |= job->apart;
	if (!job->apart) {
		records[t->view] = job->record;
		t->made |= 1u << t->view;
	}
	for (uint32_t i = 0; i < job->more_count; i++)
		if (job->more[i].made) {
			records[job->more[i].view] = job->more[i].record;
			t->made |= 1u << job->more[i].view;
		}
	while (t->made >> t->view & 1)
		t->view++;
	return t->view == stream->spec.shape.views;
}

static void ticket_done(void *context, struct row_job *job)
{
	struct ticket_rows *rows = context;
	struct stream_ticket *t = ticket_of_row(job);
	struct stream *stream = t->stream;
	int result = job->outcome;
	ticket_count_row(t, job);
	if (result == DECODE_OK) {
		ticket_label(t, job->record.label);
		if (!ticket_note_made(t, job)) {
			t->next_view = rows->views;
			rows->views = t;
			return;
		}
	}
	workers_share_cost(&stream->share, t->cost_ns);
	t->cost_ns = 0;
	ticket_release(t);
	if (result > 0) {
		ticket_broken(t, FETCH_OUTCOMES + (unsigned)result,
			decoder_message(rows->maker->decoder));
		return;
	}
	if (result < 0)
		ticket_fail_decode(t, result, decoder_message(rows->maker->decoder));
	ticket_return(t);
}

/* Takes further jobs as long as any are queued: the decoder is fastest with several images at a
 * time. */
static void ticket_run(struct workers_job *job, struct row_maker *maker)
{
	struct ticket_rows rows = {
		.workers = ticket_of_job(job)->stream->environment->workers,
		.maker = maker,
		.first = job,
	};
	struct row_source source = {
		.next = ticket_next,
		.done = ticket_done,
		.context = &rows,
		.recall = ticket_recall,
		.keeps = ticket_keeps,
		.keep = ticket_keep,
	};
	/* The last row done may leave further views to be made. */
	do
		row_make_many(maker, &source);
	while (rows.views);
}

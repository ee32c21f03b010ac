/* stream: see stream.h. */
#include "stream/stream_impl.h"

#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_SLOTS_MIN = 2, STREAM_CHANNELS = 3 };

const char *stream_reason_name(unsigned reason)
{
	return reason < FETCH_OUTCOMES
		       ? fetch_outcome_name((enum fetch_outcome)reason)
		       : decode_outcome_name((enum decode_outcome)(reason - FETCH_OUTCOMES));
}

static struct extent_geometry stream_geometry(const struct stream_spec *spec)
{
	return (struct extent_geometry){
		spec->batch_size, spec->image_size, spec->image_size, STREAM_CHANNELS};
}

/* The largest batch that two slots leave room for. */
static uint32_t stream_batch_that_fits(const struct stream_spec *spec, uint64_t room)
{
	uint32_t low = 0, high = spec->batch_size;
	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;
		struct extent_geometry g = stream_geometry(spec);
		g.batch_size = middle;
		if (extent_stride(&g) * STREAM_SLOTS_MIN <= room)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static int stream_refuse(
	const struct stream *stream, uint64_t stride, uint64_t room, struct fault *fault)
{
	const struct stream_spec *spec = &stream->spec;
	uint32_t fits = stream_batch_that_fits(spec, room);
	const struct stream_environment *environment = stream->environment;
	uint64_t need = stride * STREAM_SLOTS_MIN;
	uint64_t budget = environment->budget_for(environment->budget_context, need - room);
	char want[16], left[16], all[16], advice[64] = "";
	if (fits)
		(void)snprintf(advice, sizeof advice, "batch_size %u would fit; or ", fits);
	return fault_set(fault, -ENOMEM,
		"a stream of batch_size %u at %u x %u needs at least %s (%d slots), but %s of the "
		"memory budget of %s is free: %sstart penstockd with --memory %" PRIu64 "M or more",
		spec->batch_size, spec->image_size, spec->image_size,
		size_format(need, want, sizeof want), STREAM_SLOTS_MIN,
		size_format(room, left, sizeof left),
		size_format(environment->ledger->budget, all, sizeof all), advice,
		util_align(budget, 1 << 20) >> 20);
}

/* As many slots as wanted, fewer where the budget is short, never below two: one to read while the
 * other is filled. */
static int stream_reserve(struct stream *stream, uint32_t *ret_slots, struct fault *fault)
{
	struct ledger *ledger = stream->environment->ledger;
	struct extent_geometry geometry = stream_geometry(&stream->spec);
	uint64_t stride = extent_stride(&geometry), room;
	uint32_t slots;
	char name[LEDGER_NAME];
	int result;
	/* Another stream may take some of the room between the look and the grasp. */
	do {
		room = ledger_free(ledger);
		slots = (uint32_t)UTIL_MIN((uint64_t)stream->spec.prefetch, room / stride);
		if (slots < STREAM_SLOTS_MIN)
			return stream_refuse(stream, stride, room, fault);
		(void)snprintf(name, sizeof name, "stream %.40s (%u slots)",
			stream->spec.name[0] ? stream->spec.name : "of a client", slots);
		result = ledger_reserve(ledger, stride * slots, name, &stream->ledger_line, fault);
	} while (result && ledger_free(ledger) < stride * slots);
	if (slots < stream->spec.prefetch)
		(void)snprintf(stream->notice, sizeof stream->notice,
			"%u slots instead of %u: more do not fit the memory budget", slots,
			stream->spec.prefetch);
	*ret_slots = slots;
	return result;
}

uint64_t stream_order_hash(const struct stream *stream)
{
	return spec_order_hash(&stream->spec);
}

uint64_t stream_transform_hash(const struct stream *stream)
{
	return spec_transform_hash(&stream->spec);
}

static int stream_state_differs(
	const char *what, bool hex, uint64_t state, uint64_t here, struct fault *fault)
{
	char was[24], is[24];
	(void)snprintf(was, sizeof was, hex ? "%016" PRIx64 : "%" PRIu64, state);
	(void)snprintf(is, sizeof is, hex ? "%016" PRIx64 : "%" PRIu64, here);
	return fault_set(fault, -ESTALE,
		"the state was taken with another %s (%s, here %s): open the stream as it was, or "
		"begin without the state",
		what, was, is);
}

/* A state of another dataset, seed or order is refused, another transform is worth a word: its
 * pixels differ, its samples do not. */
static int stream_resume(struct stream *stream, struct fault *fault)
{
	const struct spec_state *state = &stream->spec.state;
	if (!state->given)
		return 0;
	uint64_t fingerprint = dataset_fingerprint(stream->dataset),
		 order = stream_order_hash(stream);
	if (state->fingerprint != fingerprint)
		return stream_state_differs(
			"dataset", true, state->fingerprint, fingerprint, fault);
	if (state->seed != stream->spec.seed)
		return stream_state_differs("seed", false, state->seed, stream->spec.seed, fault);
	if (state->order != order)
		return stream_state_differs(
			"order (shuffle or sampler)", true, state->order, order, fault);
	if (state->position > dataset_count(stream->dataset))
		return fault_set(fault, -ESTALE,
			"the state's position %llu lies behind the %llu samples of the dataset: it "
			"was not written by penstock",
			(unsigned long long)state->position,
			(unsigned long long)dataset_count(stream->dataset));
	if (state->transform != stream_transform_hash(stream))
		(void)snprintf(stream->notice, sizeof stream->notice,
			"the state was taken with another transform: same samples, other pixels");
	stream->next_epoch = state->epoch;
	stream->next_position = state->position;
	return 0;
}

/* Samples of the epoch from `position` on that still go into batches. */
static uint64_t stream_left(const struct stream *stream, uint64_t position)
{
	uint64_t n = dataset_count(stream->dataset), left = position < n ? n - position : 0;
	return stream->spec.drop_last ? left - left % stream->spec.batch_size : left;
}

static int stream_lay_out(struct stream *stream, struct fault *fault)
{
	const struct stream_spec *spec = &stream->spec;
	stream->order = (struct order){.samples = dataset_count(stream->dataset),
		.seed = spec->seed,
		.shuffle = spec->shuffle};
	stream->recipe = spec_pixels(spec);
	if (!stream_left(stream, 0))
		return fault_set(fault, -EINVAL,
			"%s has %llu samples, fewer than one batch of %u: lower batch_size, or set "
			"drop_last to false",
			spec->source, (unsigned long long)stream->order.samples, spec->batch_size);
	int result = stream_resume(stream, fault);
	if (result)
		return result;
	if (!stream_left(stream, stream->next_position)) {
		stream->next_epoch++;
		stream->next_position = 0;
	}
	stream->ended = spec->epochs && stream->next_epoch >= spec->epochs;
	stream->start_epoch = stream->next_epoch;
	stream->start_position = stream->next_position;
	return 0;
}

static int stream_open(
	struct stream *stream, const struct dataset_options *options, struct fault *fault)
{
	const struct stream_environment *environment = stream->environment;
	int result = shelf_open(environment->shelf, stream->spec.source, options,
		environment->checkpoints, &stream->shared, fault);
	if (!result) {
		stream->dataset = stream->shared->dataset;
		stream->sidecar = stream->shared->sidecar;
	}
	return result;
}

int stream_new(const struct stream_environment *environment, const struct stream_spec *spec,
	dataset_progress_fn *progress, void *progress_context, struct stream **ret,
	struct fault *fault)
{
	struct stream *stream = calloc(1, sizeof *stream);
	if (!stream)
		return fault_set(fault, -ENOMEM, "no memory for a stream");
	*stream = (struct stream){
		.environment = environment, .spec = *spec, .ledger_line = -1, .extent.fd = -1};
	pthread_mutex_init(&stream->lock, NULL);
	fetch_reader_init(&stream->reader);
	struct dataset_options options = {.cache_dir = environment->cache_dir,
		.labels = spec->labels,
		.progress = progress,
		.progress_context = progress_context};
	struct extent_geometry geometry = stream_geometry(spec);
	uint32_t slots = 0;
	int result = stream_open(stream, &options, fault);
	if (!result)
		result = stream_lay_out(stream, fault);
	if (!result)
		result = stream_reserve(stream, &slots, fault);
	if (!result)
		result = extent_init(&stream->extent, &geometry, slots, fault);
	if (!result)
		result = fill_init(stream, fault);
	if (result) {
		stream_free(stream);
		return result;
	}
	*ret = stream;
	return 0;
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	assert(stream->tickets_free == stream->tickets);
	fill_deinit(stream);
	extent_deinit(&stream->extent);
	if (stream->ledger_line >= 0)
		ledger_release(stream->environment->ledger, stream->ledger_line);
	fetch_reader_deinit(&stream->reader);
	shelf_close(stream->environment->shelf, stream->shared);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

void stream_cancel(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	bool first = !stream->cancelled;
	stream->cancelled = true;
	pthread_mutex_unlock(&stream->lock);
	stream->draining = true;
	if (first)
		fetch_cancel(stream->environment->fetch, &stream->reader);
}

bool stream_idle(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	bool idle = stream->tickets_free == stream->tickets;
	pthread_mutex_unlock(&stream->lock);
	return idle;
}

void stream_drain(struct stream *stream)
{
	stream->draining = true;
}

/* Rows that this batch does not have must not show what the slot held before. */
static void stream_blank(struct stream *stream, uint32_t slot, uint32_t from)
{
	uint32_t rows = stream->spec.batch_size - from;
	if (!rows)
		return;
	memset(extent_image(&stream->extent, slot, from), 0,
		stream->extent.layout.row_bytes * rows);
	for (uint32_t row = from; row < stream->spec.batch_size; row++) {
		extent_labels(&stream->extent, slot)[row] = -1;
		extent_records(&stream->extent, slot)[row] =
			(struct slots_record){.label = -1, .flags = SLOTS_INVALID};
	}
}

/* Names the next batch and gives it `slot`. */
static void stream_assign(struct stream *stream, uint32_t slot)
{
	uint32_t batch_size = stream->spec.batch_size;
	uint64_t left = stream_left(stream, stream->next_position);
	struct stream_batch batch = {
		.serial = stream->next_serial++,
		.epoch = stream->next_epoch,
		.batch = stream->next_position / batch_size,
		.position = stream->next_position,
		.count = (uint32_t)UTIL_MIN(left, (uint64_t)batch_size),
		.last = left <= batch_size,
	};
	stream->next_position += batch_size;
	if (batch.last) {
		stream->next_position = 0;
		stream->next_epoch++;
		stream->ended = stream->spec.epochs && stream->next_epoch >= stream->spec.epochs;
		stream->end_serial = stream->next_serial;
	}
	extent_move(&stream->extent, slot, SLOT_FREE, SLOT_FILLING);
	struct slots_head *head = extent_head(&stream->extent, slot);
	*head = stream->extent.layout;
	head->serial = batch.serial;
	head->epoch = batch.epoch;
	head->batch = batch.batch;
	head->position = batch.position;
	head->count = batch.count;
	stream_blank(stream, slot, batch.count);
	pthread_mutex_lock(&stream->lock);
	stream->slot[slot] = (struct stream_slot){.batch = batch, .left = batch.count};
	pthread_mutex_unlock(&stream->lock);
}

void stream_pump(struct stream *stream)
{
	for (uint32_t slot = 0; slot < stream->extent.slots; slot++)
		if (stream->extent.state[slot] == SLOT_FREE && !stream->draining && !stream->ended)
			stream_assign(stream, slot);
	fill_issue(stream);
}

unsigned stream_collect(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	uint64_t filled = stream->filled;
	stream->filled = 0;
	pthread_mutex_unlock(&stream->lock);
	unsigned n = 0;
	for (; filled; filled &= filled - 1, n++)
		extent_move(&stream->extent, (uint32_t)__builtin_ctzll(filled), SLOT_FILLING,
			SLOT_READY);
	return n;
}

int stream_slot_of(const struct stream *stream, uint64_t serial)
{
	for (uint32_t slot = 0; slot < stream->extent.slots; slot++)
		if (stream->extent.state[slot] >= SLOT_READY &&
			stream->slot[slot].batch.serial == serial)
			return (int)slot;
	return -1;
}

void stream_lease(struct stream *stream, uint32_t slot)
{
	extent_move(&stream->extent, slot, SLOT_READY, SLOT_LEASED);
	pthread_mutex_lock(&stream->lock);
	stream->slot[slot].taken = true;
	pthread_mutex_unlock(&stream->lock);
}

void stream_release(struct stream *stream, uint32_t slot)
{
	extent_move(&stream->extent, slot, stream->extent.state[slot], SLOT_FREE);
	pthread_mutex_lock(&stream->lock);
	stream->slot[slot].taken = true;
	pthread_mutex_unlock(&stream->lock);
}

bool stream_failed(struct stream *stream, int *ret_code, const char **ret_text)
{
	pthread_mutex_lock(&stream->lock);
	*ret_code = stream->failed;
	pthread_mutex_unlock(&stream->lock);
	*ret_text = stream->fault.text; /* written once, before `failed` */
	return *ret_code != 0;
}

bool stream_ended(const struct stream *stream, uint64_t *ret_end)
{
	*ret_end = stream->end_serial;
	return stream->ended;
}

const struct stream_batch *stream_batch(const struct stream *stream, uint32_t slot)
{
	return &stream->slot[slot].batch;
}

const struct stream_spec *stream_spec(const struct stream *stream)
{
	return &stream->spec;
}

const struct dataset *stream_dataset(const struct stream *stream)
{
	return stream->dataset;
}

const struct extent *stream_extent(const struct stream *stream)
{
	return &stream->extent;
}

uint64_t stream_batches(const struct stream *stream)
{
	return (stream_left(stream, 0) + stream->spec.batch_size - 1) / stream->spec.batch_size;
}

uint64_t stream_epoch_samples(const struct stream *stream)
{
	return stream_left(stream, 0);
}

void stream_start(const struct stream *stream, uint64_t *ret_epoch, uint64_t *ret_batch,
	uint64_t *ret_position)
{
	*ret_epoch = stream->start_epoch;
	*ret_batch = stream->start_position / stream->spec.batch_size;
	*ret_position = stream->start_position;
}

const char *stream_notice(const struct stream *stream)
{
	return stream->notice;
}

bool stream_remark(struct stream *stream, char *ret_text, size_t room)
{
	return stream->sidecar && sidecar_notice(stream->sidecar, ret_text, room);
}

void stream_stats(struct stream *stream, struct stream_stats *ret)
{
	pthread_mutex_lock(&stream->lock);
	*ret = (struct stream_stats){
		.batches = stream->batches,
		.images = stream->images,
		.pixel_ns = stream->pixel_ns,
		.checkpoints_used = stream->checkpoints_used,
		.checkpoints_made = stream->checkpoints_made,
		.checkpoints_dropped = stream->checkpoints_dropped,
		.reading = stream->reading,
		.queued = stream->queued,
	};
	for (int i = 0; i < DECODE_STAGES; i++)
		ret->decode_ns += ret->stage_ns[i] = stream->stage_ns[i];
	memcpy(ret->broken, stream->broken, sizeof ret->broken);
	memcpy(ret->fallbacks, stream->fallbacks, sizeof ret->fallbacks);
	pthread_mutex_unlock(&stream->lock);
	uint64_t *const count[] = {
		&ret->slots_free, &ret->slots_filling, &ret->slots_ready, &ret->slots_leased};
	for (uint32_t slot = 0; slot < stream->extent.slots; slot++)
		++*count[stream->extent.state[slot]];
}

unsigned stream_broken_take(struct stream *stream, struct stream_broken *ret, unsigned room)
{
	pthread_mutex_lock(&stream->lock);
	unsigned n = UTIL_MIN(room, stream->kept_count);
	memcpy(ret, stream->kept, n * sizeof *ret);
	memmove(stream->kept, stream->kept + n, (stream->kept_count - n) * sizeof *ret);
	stream->kept_count -= n;
	pthread_mutex_unlock(&stream->lock);
	return n;
}

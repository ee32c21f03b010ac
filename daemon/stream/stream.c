/* stream: see stream.h. Opening and freeing, in the threads that the callers have for it; the
 * cursor, in the event loop. */
#include "stream/stream_impl.h"

#include "base/clock.h"
#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_SLOTS_MIN = 2, STREAM_SLOTS_DEFAULT = 4 /* of the key prefetch */ };

struct extent_geometry stream_geometry(
	const struct stream_spec *spec, const struct dataset *dataset)
{
	struct extent_geometry geometry =
		shape_geometry(&spec->shape, spec->batch_size, spec_group_size(spec, 0));
	geometry.groups = spec->views.groups;
	for (uint32_t i = 0; i < geometry.groups; i++) {
		const struct pixel_size size = spec_group_size(spec, i);
		geometry.group[i] =
			(struct extent_group){spec_group_views(spec, i), size.height, size.width};
	}
	if (spec->buckets.count)
		geometry.row_pixels = bucket_keys_pixels(&spec->buckets);
	if (dataset && dataset_label_type(dataset) != LABEL_TYPE_CLASS) {
		const bool whole = dataset_label_type(dataset) == LABEL_TYPE_CLASSES;
		geometry.label_type = whole ? SLOTS_LABEL_I64 : SLOTS_LABEL_F32;
		geometry.label_width = dataset_label_width(dataset);
	}
	geometry.fields = spec->fields.count;
	for (uint32_t i = 0; i < spec->fields.count; i++)
		geometry.field_bytes[i] = spec->fields.at[i].max;
	return geometry;
}

uint64_t stream_bytes(const struct stream_spec *spec, const struct dataset *dataset,
	unsigned workers, uint32_t slots)
{
	struct extent_geometry geometry = stream_geometry(spec, dataset);
	return extent_stride(&geometry) * slots + tickets_bytes(spec, slots) +
	       postprocess_bytes(spec) * workers;
}

/* The same for a stream that is being opened, with `spec` in place of its definition. */
static uint64_t stream_needs(
	const struct stream *stream, const struct stream_spec *spec, uint32_t slots)
{
	return stream_bytes(spec, stream->parts.dataset[0],
		workers_threads(stream->environment->workers), slots);
}

/* The largest batch that two slots leave room for. */
static uint32_t stream_batch_that_fits(const struct stream *stream, uint64_t room)
{
	const struct stream_spec *spec = &stream->spec;
	uint32_t low = 0, high = spec->batch_size;
	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;
		struct stream_spec smaller = *spec;
		smaller.batch_size = middle;
		if (stream_needs(stream, &smaller, STREAM_SLOTS_MIN) <= room)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static int stream_refuse(const struct stream *stream, uint64_t room, struct fault *fault)
{
	const struct stream_spec *spec = &stream->spec;
	const struct stream_environment *environment = stream->environment;
	uint64_t need = stream_needs(stream, spec, STREAM_SLOTS_MIN),
		 limit = environment->stream_memory;
	bool limited = limit && need > limit;
	uint32_t fits = stream_batch_that_fits(stream, limited ? UTIL_MIN(room, limit) : room);
	char want[16], left[16], all[16], size[SPEC_TEXT], advice[64] = "";
	if (spec->views.groups)
		views_text(&spec->views, size, sizeof size);
	else
		(void)snprintf(size, sizeof size, "%" PRIu32 " x %" PRIu32, spec->image_size.height,
			spec->image_size.width);
	if (fits)
		(void)snprintf(advice, sizeof advice, "batch_size %u would fit; or ", fits);
	if (limited)
		return fault_set(fault, -ENOMEM,
			"a stream of batch_size %u at %s needs at least %s (%d slots), but "
			"stream_memory allows one stream %s: %sraise it in penstockd's "
			"configuration",
			spec->batch_size, size, size_format(need, want, sizeof want),
			STREAM_SLOTS_MIN, size_format(limit, left, sizeof left), advice);
	uint64_t budget = environment->budget_for(environment->budget_context, need - room);
	return fault_set(fault, -ENOMEM,
		"a stream of batch_size %u at %s needs at least %s (%d slots), but %s of the "
		"memory budget of %s is free: %sstart penstockd with --memory %" PRIu64 "M or more",
		spec->batch_size, size, size_format(need, want, sizeof want), STREAM_SLOTS_MIN,
		size_format(room, left, sizeof left),
		size_format(environment->ledger->budget, all, sizeof all), advice,
		util_align(budget, 1 << 20) >> 20);
}

/* How many of the slots that are wanted fit into `room` and into the configured limit. */
static uint32_t stream_slots_in(const struct stream *stream, uint64_t room)
{
	uint64_t limit = stream->environment->stream_memory;
	uint32_t slots = stream->spec.prefetch;
	if (limit)
		room = UTIL_MIN(room, limit);
	while (slots && stream_needs(stream, &stream->spec, slots) > room)
		slots--;
	return slots;
}

/* How many slots more than `slots`, the default, a stream from remote storage gets. A request that
 * fails or stalls takes several times as long as others, and the batch of its row waits for it:
 * further batches must be there to be filled meanwhile. With `shuffle: blocks`, ahead_far reads
 * ahead. They take at most a quarter of what is free. */
static uint32_t stream_far_slots(const struct stream *stream, uint32_t slots, uint64_t room)
{
	const struct stream_spec *spec = &stream->spec;
	const struct order *order = &stream->sampler.order[0];
	const uint64_t limit = stream->environment->stream_memory;
	const uint64_t now = stream_needs(stream, spec, slots);
	uint32_t wanted = (STREAM_FAR_ROWS + spec->batch_size - 1) / spec->batch_size;
	if (slots != STREAM_SLOTS_DEFAULT || spec->prefetch != STREAM_SLOTS_DEFAULT ||
		(order->shuffle && order->window) ||
		dataset_shard_path(stream->parts.dataset[0], 0)[0] == '/')
		return 0;
	wanted = UTIL_MIN(wanted, (uint32_t)EXTENT_SLOTS_MAX);
	room = now + (room - now) / 4;
	if (limit)
		room = UTIL_MIN(room, limit);
	while (wanted > slots && stream_needs(stream, spec, wanted) > room)
		wanted--;
	return wanted > slots ? wanted - slots : 0;
}

/* Reserves the slots that are wanted, or fewer where the budget is short, but never fewer than two:
 * one to be read while the other is filled. */
static int stream_reserve(struct stream *stream, uint32_t *ret_slots, struct fault *fault)
{
	struct ledger *ledger = stream->environment->ledger;
	uint64_t room;
	uint32_t slots;
	char name[LEDGER_NAME];
	int result;
	/* Another stream may reserve some of the room in between. */
	do {
		room = ledger_free(ledger);
		slots = stream_slots_in(stream, room);
		if (slots < STREAM_SLOTS_MIN)
			return stream_refuse(stream, room, fault);
		slots += stream_far_slots(stream, slots, room);
		(void)snprintf(name, sizeof name, "stream %.40s (%u slots)",
			stream->spec.name[0] ? stream->spec.name : "of a client", slots);
		result = ledger_reserve(ledger, stream_needs(stream, &stream->spec, slots), name,
			&stream->ledger_line, fault);
	} while (result && ledger_free(ledger) < stream_needs(stream, &stream->spec, slots));
	if (slots < stream->spec.prefetch)
		(void)snprintf(stream->notice, sizeof stream->notice,
			"%u slots instead of %u: more do not fit %s", slots, stream->spec.prefetch,
			stream_needs(stream, &stream->spec, slots + 1) > room ? "the memory budget"
									      : "stream_memory");
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

static int stream_dataset_differs(
	const struct stream *stream, uint64_t state, uint64_t here, struct fault *fault)
{
	/* Version 0.1 sorted the paths of a folder without their extensions. The releases up to it
	 * took only .jpg, .jpeg and .png for images. */
	const enum dataset_kind kind = dataset_kind(stream->parts.dataset[0]);
	if (kind > DATASET_TARS)
		return stream_state_differs("dataset", true, state, here, fault);
	return fault_set(fault, -ESTALE,
		"the state was taken with another dataset (%016" PRIx64 ", here %016" PRIx64
		"), or by a release that %sread only .jpg, .jpeg and .png: open the stream as it "
		"was, or begin without the state",
		state, here,
		kind == DATASET_FOLDER
			? "read this folder in another order than torchvision's ImageFolder or "
			: "");
}

/* Which part of the order differs. The state only has the order's hash, so this tries the likely
 * differences. */
static const char *stream_order_differs(const struct stream *stream, uint64_t order)
{
	struct stream_spec other = stream->spec;
	uint32_t window;
	if (spec_find_blocks(&other, order, &window))
		return other.shuffle != SHUFFLE_BLOCKS ? "order (shuffle)"
		       : window != other.window
			       ? "order (window)"
			       : "order (the size of blocks: images whose sizes have changed)";
	static const enum shuffle shuffles[] = {SHUFFLE_NONE, SHUFFLE_FULL};
	for (size_t i = 0; i < UTIL_COUNT(shuffles); i++) {
		other.shuffle = shuffles[i];
		if (spec_order_hash(&other) == order)
			return "order (shuffle)";
	}
	for (size_t i = 0; i < UTIL_COUNT(shuffles) && other.indices[0]; i++) {
		other.subset = (struct spec_subset){0};
		other.shuffle = shuffles[i];
		if (spec_order_hash(&other) == order)
			return "order (it had no subset: indices)";
	}
	other = stream->spec;
	other.sampling = (struct sampling){.repeats = 1};
	if (spec_order_hash(&other) == order)
		return "order (it had none of weights, epoch_length, repeats, split, sampling and "
		       "sources)";
	if (stream->spec.buckets.count)
		return "order (other buckets, another drop_last, images whose sizes have changed, "
		       "or another subset, split, repeats or shuffle)";
	return "order (another subset: indices; or shuffle, weights, epoch_length, repeats, split, "
	       "sampling, buckets or sources)";
}

static void stream_note_transform(
	const struct stream *stream, const struct spec_state *state, char *ret_note, size_t room)
{
	(void)snprintf(ret_note, room, "%s",
		state->transform == stream_transform_hash(stream)
			? ""
			: "the state was taken with another transform: same samples, other pixels");
}

/* The cuts of a state must be those of an epoch of this stream. */
static int stream_fits_cuts(const struct stream *stream, const struct spec_state *state,
	char *ret_note, size_t room, struct fault *fault)
{
	struct course course;
	bool full;
	stream_note_transform(stream, state, ret_note, room);
	if (course_resume(&stream->course.epoch, state->epoch, state->position, &state->cuts,
		    &course, &full))
		return 0;
	if (full)
		return fault_set(fault, -ESTALE,
			"epoch %llu was continued with another batch_size or world_size %d times "
			"already, and a state of a stream with buckets holds no more: go on with a "
			"global batch of %llu, or begin the next epoch",
			(unsigned long long)state->epoch, BUCKETS_CUTS - 1,
			(unsigned long long)state->cuts.at[BUCKETS_CUTS - 1].global);
	return fault_set(fault, -ESTALE,
		"no epoch of this stream has a batch at position %llu with the cuts of the state: "
		"penstock did not write this state",
		(unsigned long long)state->position);
}

int stream_fits(const struct stream *stream, const struct spec_state *state, char *ret_note,
	size_t room, struct fault *fault)
{
	uint64_t order = stream_order_hash(stream);
	if (!stream_was(stream, state->fingerprint))
		return stream_dataset_differs(
			stream, state->fingerprint, stream_fingerprint(stream), fault);
	if (state->seed != stream->spec.seed)
		return stream_state_differs("seed", false, state->seed, stream->spec.seed, fault);
	if (state->order != order)
		return stream_state_differs(stream_order_differs(stream, state->order), true,
			state->order, order, fault);
	if (stream->sampler.buckets.count)
		return stream_fits_cuts(stream, state, ret_note, room, fault);
	if (state->cuts.count)
		return fault_set(fault, -ESTALE,
			"the state has cuts, and this stream has no buckets: penstock did not "
			"write this state");
	if (state->position > stream->sampler.length)
		return fault_set(fault, -ESTALE,
			"the state's position %llu is past the %llu samples of an epoch: penstock "
			"did not write this state",
			(unsigned long long)state->position,
			(unsigned long long)stream->sampler.length);
	if (state->position % sampling_block(&stream->spec.sampling))
		return fault_set(fault, -ESTALE,
			"the state's position %llu is not a multiple of classes x per_class = "
			"%llu: penstock did not write this state",
			(unsigned long long)state->position,
			(unsigned long long)sampling_block(&stream->spec.sampling));
	stream_note_transform(stream, state, ret_note, room);
	return 0;
}

void stream_begin(struct stream *stream, const struct spec_state *state)
{
	const struct order_epoch epoch = stream->course.epoch;
	bool full;
	if (!state->given)
		stream->course = course_from(&epoch, 0, 0);
	else if (!course_resume(&epoch, state->epoch, state->position, &state->cuts,
			 &stream->course, &full))
		assert(!"stream_fits has taken the state");
}

const struct buckets *stream_buckets(const struct stream *stream)
{
	return &stream->sampler.buckets;
}

const struct course *stream_course(const struct stream *stream)
{
	return &stream->course;
}

/* What users should know about the buckets: those that no sample fits, and those of which drop_last
 * leaves nothing. */
static void stream_warn_buckets(struct stream *stream)
{
	const struct stream_spec *spec = &stream->spec;
	const struct buckets *buckets = &stream->sampler.buckets;
	const uint64_t global = (uint64_t)spec->batch_size * spec->world_size;
	char names[FAULT_TEXT / 2] = "", size[SHAPE_SIZE_TEXT];
	size_t at = 0;
	for (uint32_t i = 0; i < buckets->count && at < sizeof names; i++)
		if (!buckets->rows[i] || (spec->drop_last && buckets->rows[i] < global))
			at += (size_t)snprintf(names + at, sizeof names - at, "%s%s (%llu)",
				at ? ", " : "", shape_size_text(spec->buckets.size[i], size),
				(unsigned long long)buckets->rows[i]);
	if (at)
		(void)snprintf(stream->unbatched, sizeof stream->unbatched,
			"buckets without a batch, with the number of their samples: %s; %s", names,
			spec->drop_last
				? "drop_last leaves out what does not fill a global batch: choose "
				  "other buckets or a smaller batch_size, or set drop_last to false"
				: "no image has a ratio of width to height near theirs");
	if (divide_unreadable(stream->lists.buckets))
		(void)snprintf(stream->unmeasured, sizeof stream->unmeasured,
			"%llu of the dataset's images have no size that can be read, and count as "
			"squares in buckets: `penstock check` lists broken ones",
			(unsigned long long)divide_unreadable(stream->lists.buckets));
}

static int stream_divide(
	struct stream *stream, const struct dataset_options *options, struct fault *fault)
{
	char notice[DIVIDE_NOTICE];
	int result = divide_sampler(stream->environment->lists, stream->parts.dataset[0],
		&stream->spec.buckets, options->progress, options->progress_context,
		&stream->sampler, &stream->lists.buckets, notice, fault);
	if (result)
		return result;
	spec_note_lists(&stream->spec, &stream->lists);
	(void)snprintf(stream->notice, sizeof stream->notice, "%s", notice);
	stream_warn_buckets(stream);
	return 0;
}

static int stream_choose(
	struct stream *stream, const struct dataset_options *options, struct fault *fault)
{
	const struct stream_spec *spec = &stream->spec;
	const struct sampling_order order = {.seed = spec->seed,
		.shuffle = spec->shuffle,
		.window = spec->shuffle == SHUFFLE_BLOCKS ? spec->window : 0,
		.indices = spec->indices};
	int result = sampling_make(&spec->sampling, &order, &stream->parts,
		stream->environment->lists, &stream->lists, options->progress,
		options->progress_context, &stream->sampler, fault);
	if (!result)
		spec_note_sampler(&stream->spec, &stream->sampler);
	return !result && spec->buckets.count ? stream_divide(stream, options, fault) : result;
}

/* The first blocks were asked for. */
static void stream_goes_on(void *context)
{
	tickets_issue(context);
}

/* The samples of all ranks that may be in flight are those of `slots` batches. */
static void stream_look_ahead(struct stream *stream, uint32_t slots)
{
	char why[256];
	const struct dataset *dataset = stream->parts.dataset[0];
	const bool direct =
		stream->environment->fetch &&
		fetch_wants_direct(stream->environment->fetch, dataset, why, sizeof why);
	ahead_init(&stream->ahead, &stream->sampler, dataset, direct,
		slots * order_global(&stream->course.epoch));
	const struct ahead_far_options far = {
		.sampler = &stream->sampler,
		.dataset = dataset,
		.fetch = stream->environment->fetch,
		.ledger = stream->environment->ledger,
		.name = stream->spec.name[0] ? stream->spec.name : "a client",
		.rank = stream->spec.rank,
		.ranks = stream->spec.world_size,
		.epochs = stream->spec.epochs,
		.rows = (uint64_t)STREAM_TICKETS * stream->spec.world_size +
			order_global(&stream->course.epoch),
		.ready = stream_goes_on,
		.context = stream,
	};
	char notice[FAULT_TEXT] = "";
	ahead_far_init(&far, &stream->ahead_far, notice, sizeof notice);
	const size_t said = strlen(stream->notice);
	if (notice[0])
		(void)snprintf(stream->notice + said, sizeof stream->notice - said, "%s%s",
			said ? "; " : "", notice);
}

static int stream_lay_out(struct stream *stream, struct fault *fault)
{
	const struct stream_spec *spec = &stream->spec;
	stream->course.epoch = (struct order_epoch){.samples = stream->sampler.length,
		.batch_size = spec->batch_size,
		.world_size = spec->world_size,
		.drop_last = spec->drop_last,
		.buckets = spec->buckets.count ? &stream->sampler.buckets : NULL,
		.seed = spec->seed,
		.shuffle = spec->shuffle};
	if (order_batches(&stream->course.epoch, 0))
		return 0;
	char ranks[32] = "";
	if (spec->world_size > 1)
		(void)snprintf(ranks, sizeof ranks, " for each of %u ranks", spec->world_size);
	const struct sampling *sampling = &spec->sampling;
	return fault_set(fault, -EINVAL,
		"%s has %llu samples%s%s, %sfewer than one batch of %u%s: lower batch_size, or set "
		"drop_last to false",
		spec->indices[0]          ? spec->indices
		: sampling->sources.count ? "the mix of sources"
					  : spec->source,
		(unsigned long long)stream->sampler.length,
		sampling->epoch_length ? " an epoch, by epoch_length"
		: sampling->split[0]   ? " in split "
				       : "",
		sampling->epoch_length ? "" : sampling->split,
		spec->buckets.count ? "and each bucket has " : "", spec->batch_size, ranks);
}

/* Opens one dataset, or the part of it that the split names. */
static int stream_open_part(
	struct stream *stream, const struct dataset_options *options, struct fault *fault)
{
	const struct stream_environment *environment = stream->environment;
	const uint32_t part = stream->parts.count;
	char path[SPEC_TEXT];
	int result = stream_part_source(stream, part, path, fault);
	if (!result)
		result = shelf_open(environment->shelf, path, options, environment->entry_points,
			&stream->shared[part], fault);
	if (result)
		return result;
	stream->through[part] = stream->shared[part];
	concat_add(&stream->parts, stream->shared[part]->dataset);
	return 0;
}

static int stream_open(
	struct stream *stream, const struct dataset_options *options, struct fault *fault)
{
	const struct sampling_sources *sources = &stream->spec.sampling.sources;
	const char *name[SAMPLER_PARTS];
	int result = 0;
	if (!sources->count)
		return stream_open_part(stream, options, fault);
	for (uint32_t i = 0; !result && i < sources->count; i++) {
		name[i] = sampling_source(sources, i);
		result = stream_open_part(stream, options, fault);
	}
	return result ? result : concat_agree(&stream->parts, name, fault);
}

/* Training without labels is possible, but rarely meant. */
static void stream_warn_unlabelled(struct stream *stream)
{
	const struct stream_spec *spec = &stream->spec;
	if (!spec->train || spec->labels.from != DATASET_LABELS_AUTO ||
		dataset_labelled(stream->parts.dataset[0]))
		return;
	(void)snprintf(stream->unlabelled, sizeof stream->unlabelled,
		"the samples of %.400s have no labels, so every label of this training stream is "
		"-1: say with %s, or `labels: none` if none are meant",
		spec->source,
		dataset_has_columns(stream->parts.dataset[0])
			? "`label_column` which column holds them, or with `labels` which manifest"
			: "`labels` where they come from");
}

int stream_new(const struct stream_environment *environment, const struct stream_spec *spec,
	struct sampling_lists *lists, progress_fn *progress, void *progress_context,
	struct stream **ret, struct fault *fault)
{
	struct stream *stream = calloc(1, sizeof *stream);
	if (!stream) {
		sampling_lists_close(environment->lists, lists);
		return fault_set(fault, -ENOMEM, "no memory for a stream");
	}
	*stream = (struct stream){.environment = environment,
		.spec = *spec,
		.lists = *lists,
		.ledger_line = -1,
		.unpacking_line = -1,
		.extent.handout = HANDOUT_NONE};
	*lists = (struct sampling_lists){0};
	pthread_mutex_init(&stream->lock, NULL);
	fetch_reader_init(&stream->reader);
	workers_share_init(&stream->share);
	struct dataset_options options = stream_dataset_options(stream, progress, progress_context);
	struct extent_geometry geometry;
	uint32_t slots = 0;
	int result = stream_open(stream, &options, fault);
	if (!result)
		result = stream_check_fields(stream, fault);
	if (!result) {
		stream_warn_unlabelled(stream);
		result = stream_choose(stream, &options, fault);
	}
	if (!result)
		result = stream_lay_out(stream, fault);
	if (!result)
		result = stream_groups_init(stream, fault);
	if (!result)
		result = stream_reserve(stream, &slots, fault);
	if (!result)
		result = stream_groups_postprocess(stream, fault);
	if (!result) {
		tally_init(&stream->tally, slots);
		geometry = stream_geometry(spec, stream->parts.dataset[0]);
	}
	if (!result)
		result = extent_init(&stream->extent, &geometry, slots,
			spec->pin_memory && spec_is_alone(spec), fault);
	if (!result)
		stream_look_ahead(stream, slots);
	if (!result)
		result = tickets_init(stream, fault);
	if (!result)
		result = stream_groups_unpack(stream, fault);
	if (!result)
		stream_groups_share(stream);
	if (result) {
		stream_free(stream);
		return result;
	}
	*ret = stream;
	return 0;
}

bool stream_take_kept(struct stream *stream, struct handout *ret, int *ret_line)
{
	if (!stream || !extent_is_kept(&stream->extent, ret))
		return false;
	*ret_line = stream->ledger_line;
	stream->ledger_line = -1;
	return true;
}

void stream_free(struct stream *stream)
{
	if (!stream)
		return;
	pthread_mutex_lock(&stream->lock);
	stream->cancelled = true;
	pthread_mutex_unlock(&stream->lock);
	ahead_far_free(stream->ahead_far);
	assert(stream->tickets_free == stream->tickets);
	tickets_deinit(stream);
	stream_groups_deinit(stream);
	extent_deinit(&stream->extent);
	if (stream->ledger_line >= 0)
		ledger_release(stream->environment->ledger, stream->ledger_line);
	fetch_reader_deinit(&stream->reader);
	stream_renew_deinit(stream);
	for (uint32_t i = 0; i < stream->parts.count; i++)
		shelf_close(stream->environment->shelf, stream->shared[i]);
	sampling_lists_close(stream->environment->lists, &stream->lists);
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
	tickets_unpark(stream, -1);
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

static void stream_blank_labels(const struct extent *extent, uint32_t slot, uint32_t from)
{
	const struct slots_head *layout = &extent->layout;
	const size_t width = layout->label_width;
	if (layout->label_type == SLOTS_LABEL_F32) {
		memset(extent_label_values(extent, slot) + from * width, 0,
			(layout->batch_size - from) * width * sizeof(float));
		return;
	}
	for (size_t i = from * width; i < layout->batch_size * width; i++)
		extent_labels(extent, slot)[i] = -1;
}

/* Clears the rows that this batch does not have, so that they do not show what the slot held
 * before. */
static void stream_blank(struct stream *stream, uint32_t slot, uint32_t from)
{
	const struct extent *extent = &stream->extent;
	uint32_t views = extent->layout.views, rows = extent->layout.batch_size * views;
	if (from == extent->layout.batch_size)
		return;
	stream_blank_labels(extent, slot, from);
	for (uint32_t field = 0; field < extent->fields; field++)
		for (uint32_t i = from; i < extent->layout.batch_size; i++)
			extent_set_field(extent, slot, field, i, 0);
	for (uint32_t row = from * views; row < rows; row++) {
		memset(extent_image(extent, slot, row), 0,
			extent_row_shape(extent, slot, row).row_bytes);
		extent_records(extent, slot)[row] = (struct slots_record){
			.label = -1, .flags = SLOTS_INVALID, .view = row % views};
	}
}

/* Names the next batch and writes the head of its slot. The serial changes before anything else in
 * the slot, including the rows: a trainer that was detached while it read this slot learns it from
 * the serial (PROTOCOL.md, "The life of a lease"). */
static void stream_assign(struct stream *stream, uint32_t slot)
{
	struct course_batch next =
		course_batch(&stream->course, stream->tally.serial[slot], stream->spec.rank);
	struct stream_batch batch = {
		.serial = stream->tally.serial[slot],
		.epoch = next.epoch,
		.batch = next.batch,
		.position = next.position,
		.first = next.slice.position,
		.count = next.slice.count,
		.last = next.slice.last,
		.padded = next.slice.padded,
	};
	struct slots_head *head = extent_head(&stream->extent, slot);
	__atomic_store_n(&head->serial, batch.serial, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	uint32_t place = stream->spec.buckets.count
				 ? next.bucket
				 : shape_place(&stream->spec.shape.sizes, batch.epoch);
	const struct pixel_size size = stream->group[0].recipe[place].size;
	struct slots_head fresh = extent_reshape(&stream->extent, slot, size.height, size.width);
	fresh.serial = batch.serial;
	fresh.epoch = batch.epoch;
	fresh.batch = batch.batch;
	fresh.position = batch.position;
	fresh.count = batch.count;
	*head = fresh;
	stream->assigned_ns[slot] = clock_ns();
	stream_blank(stream, slot, batch.count);
	pthread_mutex_lock(&stream->lock);
	stream->slot[slot] =
		(struct stream_slot){.batch = batch, .left = batch.count, .place = place};
	pthread_mutex_unlock(&stream->lock);
}

/* The serial after the last batch that any reader wants. */
static uint64_t stream_wanted(const struct stream *stream)
{
	uint64_t end = 0;
	for (const struct tally_reader *r = stream->tally.readers; r; r = r->next_reader)
		end = UTIL_MAX(end, r->end);
	return end;
}

void stream_pump(struct stream *stream)
{
	uint64_t end = stream_wanted(stream);
	int slot;
	while (!stream->draining && stream->tally.next_serial < end &&
		(slot = tally_assign(&stream->tally)) >= 0)
		stream_assign(stream, (uint32_t)slot);
	tickets_issue(stream);
}

/* Notes that a trainer has these slots, or that no trainer wants them any more: they do not count
 * as ahead of others (tickets_urgency). */
static void stream_taken(struct stream *stream, uint64_t slots)
{
	pthread_mutex_lock(&stream->lock);
	for (; slots; slots &= slots - 1)
		stream->slot[__builtin_ctzll(slots)].taken = true;
	pthread_mutex_unlock(&stream->lock);
}

void stream_collect(struct stream *stream)
{
	pthread_mutex_lock(&stream->lock);
	uint64_t filled = stream->filled, freed = 0;
	stream->filled = 0;
	pthread_mutex_unlock(&stream->lock);
	for (; filled; filled &= filled - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(filled);
		uint64_t filled_ns = stream->slot[slot].filled_ns;
		extent_head(&stream->extent, slot)->ready_ns = filled_ns;
		if (stream->environment->fills)
			histogram_add(
				stream->environment->fills, filled_ns - stream->assigned_ns[slot]);
		if (!tally_filled(&stream->tally, slot))
			freed |= 1ull << slot;
	}
	stream_taken(stream, freed);
	if (freed)
		stream_pump(stream);
}

const struct tally *stream_tally(const struct stream *stream)
{
	return &stream->tally;
}

void stream_join(struct stream *stream, struct tally_reader *reader, uint64_t serial, uint64_t end)
{
	tally_join(&stream->tally, reader, serial, end);
}

void stream_lease(struct stream *stream, struct tally_reader *reader, uint32_t slot)
{
	tally_lease(&stream->tally, reader, slot);
	stream_taken(stream, 1ull << slot);
}

void stream_release(struct stream *stream, struct tally_reader *reader, uint32_t slot)
{
	if (tally_release(&stream->tally, reader, slot))
		stream_taken(stream, 1ull << slot);
}

void stream_leave(struct stream *stream, struct tally_reader *reader)
{
	stream_taken(stream, tally_leave(&stream->tally, reader));
}

bool stream_failed(struct stream *stream, int *ret_code, const char **ret_text)
{
	pthread_mutex_lock(&stream->lock);
	*ret_code = stream->failed;
	pthread_mutex_unlock(&stream->lock);
	*ret_text = stream->fault.text; /* written once, before `failed` */
	return *ret_code != 0;
}

const struct stream_batch *stream_batch(const struct stream *stream, uint32_t slot)
{
	return &stream->slot[slot].batch;
}

const struct stream_spec *stream_spec(const struct stream *stream)
{
	return &stream->spec;
}

const struct concat *stream_samples_of(const struct stream *stream)
{
	return &stream->parts;
}

const struct dataset *stream_dataset(const struct stream *stream)
{
	return stream->parts.dataset[0];
}

const struct extent *stream_extent(const struct stream *stream)
{
	return &stream->extent;
}

uint64_t stream_samples(const struct stream *stream)
{
	return stream->sampler.length;
}

uint64_t stream_batches(const struct stream *stream)
{
	return order_batches(&stream->course.epoch, 0);
}

uint64_t stream_epoch_samples(const struct stream *stream)
{
	return order_left(&stream->course.epoch, 0);
}

const char *stream_notice(const struct stream *stream)
{
	return stream->notice;
}

const char *stream_warning(const struct stream *stream, uint32_t number)
{
	for (uint32_t i = 0; i < stream->parts.count; i++) {
		uint32_t count = 0;
		for (const char *text; (text = dataset_warning(stream->parts.dataset[i], count));
			count++)
			if (count == number)
				return text;
		number -= count;
	}
	const char *const own[] = {stream->unlabelled, stream->unbatched, stream->unmeasured};
	for (size_t i = 0; i < UTIL_COUNT(own); i++)
		if (own[i][0] && number-- == 0)
			return own[i];
	return NULL;
}

bool stream_remark(struct stream *stream, char *ret_text, size_t room)
{
	for (uint32_t i = 0; i < stream->parts.count; i++) {
		struct sidecar *sidecar = stream_sidecar(stream, i);
		if (sidecar && sidecar_notice(sidecar, ret_text, room))
			return true;
	}
	return false;
}

void stream_stats(struct stream *stream, struct stream_stats *ret)
{
	pthread_mutex_lock(&stream->lock);
	*ret = (struct stream_stats){
		.batches = stream->batches,
		.images = stream->images,
		.pixel_ns = stream->pixel_ns,
		.entry_points_used = stream->entry_points_used,
		.entry_points_made = stream->entry_points_made,
		.entry_points_dropped = stream->entry_points_dropped,
		.field_bytes = stream->field_bytes,
		.reading = stream->reading,
		.queued = stream->queued,
	};
	for (const struct stream_ticket *t = stream->parked; t; t = t->next_free)
		ret->parked++;
	for (int i = 0; i < DECODE_STAGES; i++)
		ret->decode_ns += ret->stage_ns[i] = stream->stage_ns[i];
	memcpy(ret->broken, stream->broken, sizeof ret->broken);
	memcpy(ret->fallbacks, stream->fallbacks, sizeof ret->fallbacks);
	pthread_mutex_unlock(&stream->lock);
	ret->slots_free = tally_count(&stream->tally, SLOT_FREE);
	ret->slots_filling = tally_count(&stream->tally, SLOT_FILLING);
	ret->slots_ready = tally_count(&stream->tally, SLOT_READY);
	ret->slots_leased = tally_count(&stream->tally, SLOT_LEASED);
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

/* row: see row.h. Runs on a worker, or in the threads of the command. */
#include "stream/row.h"

#include "base/clock.h"
#include "base/util.h"
#include "stream/row_share.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int row_maker_init(struct row_maker *maker, const struct decode_limits *limits, uint32_t max_side,
	struct fault *fault)
{
	*maker = (struct row_maker){.beyond = {.pool = limits->large, .spill = limits->spill}};
	int result = decoder_new(limits, &maker->decoder, fault);
	if (!result)
		result = pixel_sink_new(max_side, &maker->sink, fault);
	maker->max_side = max_side;
	if (result)
		row_maker_deinit(maker);
	return result;
}

void row_maker_deinit(struct row_maker *maker)
{
	decoder_free(maker->decoder);
	pixel_sink_free(maker->sink);
	*maker = (struct row_maker){0};
}

uint64_t row_maker_bytes(uint32_t max_side, uint64_t scratch)
{
	return decoder_scratch_bytes(scratch) + pixel_sink_bytes(max_side);
}

/* Decoding drives the sink row by row, so a row's pixels are still in the cache when they are
 * resampled. The sink's time is measured with the vDSO's clock, since reading the thread's CPU
 * clock is a system call. Two readings take 50 ns, a tenth of a row's own time, so only one in
 * ROW_TIMED rows is timed. That number has no divisor in common with the rows of an MCU. */
enum { ROW_TIMED = 7 };

_Static_assert(
	(int)DECODE_ROW_SLACK >= (int)PIXEL_ROW_SLACK && (int)DECODE_PLANES == (int)PIXEL_PLANES,
	"decode hands over what pixel takes");

struct row_feed {
	struct pixel_sink *sink;
	struct sequence *sequence; /* takes the rows in place of the sink, or NULL */
	uint64_t ns;
	unsigned untimed; /* rows since the last one that was timed */
};

static void row_feed_one(const struct row_feed *feed, const uint8_t *const rgb[DECODE_PLANES])
{
	if (feed->sequence)
		sequence_row(feed->sequence, rgb);
	else
		pixel_sink_row(feed->sink, rgb);
}

static void row_feed_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct row_feed *feed = context;
	if (++feed->untimed < ROW_TIMED) {
		row_feed_one(feed, rgb);
		return;
	}
	uint64_t start = clock_ns();
	row_feed_one(feed, rgb);
	feed->ns += ROW_TIMED * (clock_ns() - start);
	feed->untimed = 0;
}

static void row_note_plan(
	struct slots_record *record, const struct pixel_plan *plan, const struct decode_info *info)
{
	record->crop_x = plan->crop_x;
	record->crop_y = plan->crop_y;
	record->crop_w = plan->crop_w;
	record->crop_h = plan->crop_h;
	record->src_w = info->width;
	record->src_h = info->height;
	record->flags = (record->flags & ~(uint32_t)(SLOTS_FLIPPED | SLOTS_FLIPPED_VERTICALLY)) |
			(plan->flip ? SLOTS_FLIPPED : 0) |
			(plan->flip_vertical ? SLOTS_FLIPPED_VERTICALLY : 0);
}

/* Fast mode applies to JPEGs only: it would save nothing in a PNG. */
static void row_shrink(
	const struct pixel_recipe *recipe, const struct decode_info *info, struct pixel_plan *plan)
{
	if (recipe->fast && info->format == DECODE_JPEG)
		pixel_plan_shrink(plan);
}

/* An outcome: the image is too small for RandomCrop, and the list does not say to pad it. */
static int row_judge(
	struct decoder *decoder, const struct pixel_recipe *recipe, uint32_t width, uint32_t height)
{
	if (pixel_recipe_fits(recipe, width, height))
		return DECODE_OK;
	return decoder_refuse(decoder, DECODE_E_SMALL,
		"the image has %u x %u pixels, too few even with padding for a RandomCrop of %u x "
		"%u: resize before it, or set pad_if_needed",
		width, height, recipe->size.width, recipe->size.height);
}

/* ---- lists of operations in any order ---- */

static void row_note_whole(struct slots_record *record, const struct decode_info *info)
{
	const struct pixel_plan whole = {.crop_w = info->width, .crop_h = info->height};
	row_note_plan(record, &whole, info);
}

static struct sequence_tools row_tools(const struct row_maker *maker)
{
	return (struct sequence_tools){.decoder = maker->decoder,
		.sink = maker->sink,
		.max_side = maker->max_side,
		.beyond = &maker->beyond};
}

/* Plans a sample for which the decoder is to be told a region. */
static struct decode_region row_plan_whole(const struct row_maker *maker, bool fast,
	const struct pixel_key *key, uint32_t width, uint32_t height, struct sequence *sequence,
	uint8_t *ret_shrink)
{
	const struct sequence_tools tools = row_tools(maker);
	const struct pixel_size size = {height, width};
	struct pixel_region region;
	sequence_plan(sequence, &tools, key, size, fast, &region, ret_shrink);
	return (struct decode_region){region.x0, region.y0, region.x1, region.y1};
}

static bool row_is_fast(const struct pixel_recipe *recipe, const struct decode_info *info)
{
	return recipe->fast && info->format == DECODE_JPEG;
}

/* Makes the row of the image that the sequence has got. */
static int row_end_whole(struct decoder *decoder, const struct pixel_recipe *recipe,
	const struct pixel_key *key, struct postprocessor *postprocessor, uint8_t *out)
{
	struct sequence *sequence = postprocessor_sequence(postprocessor);
	int result = sequence_end(sequence);
	if (result == DECODE_OK) {
		assert(pixel_size_equal(sequence_size(sequence), recipe->size));
		postprocessor_run(postprocessor, key, recipe->size, out);
	} else {
		(void)decoder_refuse(
			decoder, (enum decode_outcome)result, "%s", sequence_text(sequence));
	}
	return result;
}

/* Where the image is to be resampled to. */
static uint8_t *row_image(struct postprocessor *postprocessor, uint8_t *out)
{
	return postprocessor ? postprocessor_image(postprocessor, out) : out;
}

static struct pixel_sink *row_sink(
	struct pixel_sink *plain, const struct postprocessor *postprocessor)
{
	struct pixel_sink *larger = postprocessor ? postprocessor_sink(postprocessor) : NULL;
	return larger ? larger : plain;
}

static int row_run(struct row_maker *maker, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, const struct pixel_key *key,
	struct postprocessor *postprocessor, uint8_t *out)
{
	struct pixel_region region;
	struct pixel_sink *sink = row_sink(maker->sink, postprocessor);
	pixel_sink_begin(sink, recipe, plan, row_image(postprocessor, out), &region);
	struct decode_region wanted = {region.x0, region.y0, region.x1, region.y1};
	if (plan->shrink)
		decoder_shrink(maker->decoder, plan->shrink);
	int result = decoder_rows(maker->decoder, wanted, false, pixel_sink_row, sink);
	if (result != DECODE_OK)
		return result;
	pixel_sink_end(sink);
	if (postprocessor)
		postprocessor_run(postprocessor, key, recipe->size, out);
	return result;
}

/* After decoder_begin. */
static int row_run_whole(struct row_maker *maker, const struct pixel_recipe *recipe,
	const struct decode_info *info, const struct pixel_key *key,
	struct postprocessor *postprocessor, uint8_t *out)
{
	struct sequence *sequence = postprocessor_sequence(postprocessor);
	const struct sequence_tools tools = row_tools(maker);
	struct pixel_region region;
	uint8_t shrink;
	(void)row_plan_whole(maker, row_is_fast(recipe, info), key, info->width, info->height,
		sequence, &shrink);
	sequence_start(sequence, &tools, key, (struct pixel_size){info->height, info->width},
		row_is_fast(recipe, info), row_image(postprocessor, out), &region);
	if (shrink)
		decoder_shrink(maker->decoder, shrink);
	struct decode_region wanted = {region.x0, region.y0, region.x1, region.y1};
	int result = decoder_rows(maker->decoder, wanted, false, sequence_row, sequence);
	if (result == DECODE_OK)
		return row_end_whole(maker->decoder, recipe, key, postprocessor, out);
	sequence_abort(sequence);
	return result;
}

int row_make(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct pixel_key *key,
	struct postprocessor *postprocessor, uint8_t *out, struct slots_record *record)
{
	struct decode_info info;
	int result = decoder_begin(maker->decoder, data, size, &info);
	if (result != DECODE_OK)
		return result;
	if (recipe->kind == PIXEL_WHOLE) {
		row_note_whole(record, &info);
		return row_run_whole(maker, recipe, &info, key, postprocessor, out);
	}
	result = row_judge(maker->decoder, recipe, info.width, info.height);
	if (result != DECODE_OK) {
		decoder_abort(maker->decoder);
		return result;
	}
	struct pixel_plan plan;
	pixel_plan_make(recipe, key, info.width, info.height, &plan);
	row_shrink(recipe, &info, &plan);
	row_note_plan(record, &plan, &info);
	return row_run(maker, recipe, &plan, key, postprocessor, out);
}

/* A run of row_make_many. */
struct row_many {
	const struct row_source *source;
	struct pixel_sink *sink; /* the worker's own */
	struct row_feed feed;
	struct row_maker *maker;
	struct decoder *decoder;
	const struct raster_beyond *beyond;
	struct row_job *shared; /* whose rows arrive, if they are kept for several views */
	struct raster_rows rows; /* those of it that have arrived; memory NULL: none yet */
	bool failed; /* there was no memory for them */
	uint64_t since; /* CPU time when the job before was done */
	uint64_t ticks[DECODE_STAGES]; /* and the decoder's clock */
};

static struct row_job *row_job_of(struct decode_job *decode)
{
	return (struct row_job *)(void *)((char *)decode - offsetof(struct row_job, decode));
}

static struct decode_job *row_many_next(void *context)
{
	struct row_many *run = context;
	struct row_job *job = run->source->next(run->source->context);
	if (!job)
		return NULL;
	job->decode = (struct decode_job){.data = job->data,
		.size = job->size,
		.entry_point_room = job->entry_point_room,
		.pixels = job->pixels,
		.mapped = job->mapped};
	return &job->decode;
}

/* Chooses the other views that are made together with the job's own. */
static void row_many_choose(
	struct row_job *job, const struct decode_info *info, struct pixel_region *region)
{
	struct row_share share[ROW_VIEWS_MAX] = {{*region, job->plan.shrink}}, all;
	job->chosen = 0;
	if (!job->more_count)
		return;
	for (uint32_t i = 0; i < job->more_count; i++) {
		struct row_view *view = &job->more[i];
		struct pixel_key key = job->key;
		key.view = view->view;
		view->made = false;
		pixel_plan_make(view->recipe, &key, info->width, info->height, &view->plan);
		row_note_plan(&view->record, &view->plan, info);
		row_shrink(view->recipe, info, &view->plan);
		pixel_plan_region(&view->plan, &share[i + 1].region);
		share[i + 1].shrink = view->plan.shrink;
	}
	job->chosen = row_share_choose(share, 1 + job->more_count, info->width, &all);
	if (job->chosen == 1)
		job->chosen = 0;
	else
		*region = job->shared = all.region;
}

static void row_many_header(
	void *context, struct decode_job *decode, const struct decode_info *info)
{
	const struct row_many *run = context;
	struct row_job *job = row_job_of(decode);
	struct pixel_region region;
	job->chosen = 0;
	if (job->recipe->kind == PIXEL_WHOLE) {
		row_note_whole(&job->record, info);
		job->fast = row_is_fast(job->recipe, info);
		decode->region = row_plan_whole(run->maker, job->fast, &job->key, info->width,
			info->height, postprocessor_sequence(job->postprocessor), &decode->shrink);
		return;
	}
	pixel_plan_make(job->recipe, &job->key, info->width, info->height, &job->plan);
	row_note_plan(&job->record, &job->plan, info);
	row_shrink(job->recipe, info, &job->plan);
	decode->shrink = job->plan.shrink;
	pixel_plan_region(&job->plan, &region);
	row_many_choose(job, info, &region);
	decode->region = (struct decode_region){region.x0, region.y0, region.x1, region.y1};
}

static void row_many_start_whole(struct row_many *run, struct row_job *job)
{
	struct pixel_region region;
	const struct sequence_tools tools = row_tools(run->maker);
	const struct pixel_size size = {job->record.src_h, job->record.src_w};
	run->feed.sequence = postprocessor_sequence(job->postprocessor);
	sequence_start(run->feed.sequence, &tools, &job->key, size, job->fast,
		row_image(job->postprocessor, job->out), &region);
	job->decode.region = (struct decode_region){region.x0, region.y0, region.x1, region.y1};
}

/* Rows of an image that penstock's decoder stepped back from are dropped. */
static void row_many_drop(void *context)
{
	struct row_many *run = context;
	if (run->feed.sequence)
		sequence_abort(run->feed.sequence);
	run->feed.sequence = NULL;
	if (run->shared)
		raster_give_back(run->shared->raster);
	run->shared = NULL;
}

static void row_many_start(void *context, struct decode_job *decode)
{
	struct row_many *run = context;
	struct row_job *job = row_job_of(decode);
	struct pixel_region region;
	uint64_t start = clock_ns();
	row_many_drop(run);
	run->shared = job->chosen ? job : NULL;
	run->rows.memory = NULL;
	run->failed = false;
	if (run->shared)
		return;
	if (job->recipe->kind == PIXEL_WHOLE) {
		row_many_start_whole(run, job);
		run->feed.ns += clock_ns() - start;
		return;
	}
	run->feed.sink = row_sink(run->sink, job->postprocessor);
	pixel_sink_begin(run->feed.sink, job->recipe, &job->plan,
		row_image(job->postprocessor, job->out), &region);
	decode->region = (struct decode_region){region.x0, region.y0, region.x1, region.y1};
	run->feed.ns += clock_ns() - start;
}

/* Keeps a row of an image from which several views are made. The memory is taken when the first row
 * arrives: before, the decoder might wait for its own. */
static void row_many_keep_row(struct row_many *run, const uint8_t *const rgb[DECODE_PLANES])
{
	const struct pixel_region *region = &run->shared->shared;
	const uint32_t width = region->x1 - region->x0, height = region->y1 - region->y0;
	uint8_t *memory;
	if (!run->rows.memory && !run->failed) {
		run->failed = raster_take(run->shared->raster, run->beyond,
				      raster_rows_bytes(width, height),
				      !decoder_borrows(run->decoder), &memory) < 0;
		if (!run->failed)
			raster_rows_init(&run->rows, memory, width, height);
	}
	if (!run->failed)
		raster_rows_add(&run->rows, rgb);
}

static void row_many_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct row_many *run = context;
	if (run->shared)
		row_many_keep_row(run, rgb);
	else
		row_feed_row(&run->feed, rgb);
}

/* Distributes the CPU time since the job before over the stages, by their ticks. The sink's time is
 * part of the stages that call it, and is taken from them. It is wall time of short stretches, so
 * after a preemption it may exceed theirs; no result may become negative. */
static void row_many_time(struct row_many *run, struct row_job *job)
{
	uint64_t now = clock_thread_cpu_ns(), ticks[DECODE_STAGES], total = 0;
	double spent = (double)(now - run->since);
	decoder_stages(run->decoder, ticks);
	for (int i = 0; i < DECODE_STAGES; i++)
		total += ticks[i] - run->ticks[i];
	for (int i = 0; i < DECODE_STAGES; i++)
		job->stage_ns[i] = (uint64_t)(spent * (double)(ticks[i] - run->ticks[i]) /
					      (double)UTIL_MAX(total, (uint64_t)1));
	static const enum decode_stage calling[] = {DECODE_STAGE_CONVERT, DECODE_STAGE_LIBRARY};
	job->pixel_ns = 0;
	for (size_t i = 0; i < UTIL_COUNT(calling); i++) {
		uint64_t *stage = &job->stage_ns[calling[i]];
		uint64_t sink = UTIL_MIN(run->feed.ns - job->pixel_ns, *stage);
		*stage -= sink;
		job->pixel_ns += sink;
	}
	memcpy(run->ticks, ticks, sizeof(ticks));
	run->since = now;
	run->feed.ns = 0;
}

/* This time counts as pixel_ns. The decoder's clock goes on meanwhile, so its stages are read again
 * afterwards. */
static void row_many_postprocess(struct row_many *run, struct row_job *job)
{
	if (run->feed.sequence)
		job->outcome = row_end_whole(
			run->decoder, job->recipe, &job->key, job->postprocessor, job->out);
	else
		postprocessor_run(job->postprocessor, &job->key, job->recipe->size, job->out);
	uint64_t now = clock_thread_cpu_ns();
	job->pixel_ns += now - run->since;
	run->since = now;
	decoder_stages(run->decoder, run->ticks);
}

/* Makes one view of the rows that were kept. */
static int row_many_view(struct row_many *run, const struct row_job *job, struct row_view *view)
{
	struct pixel_sink *sink = row_sink(run->sink, view->postprocessor);
	const uint8_t *rgb[PIXEL_PLANES];
	struct pixel_region region;
	struct pixel_key key = job->key;
	key.view = view->view;
	pixel_sink_begin(sink, view->recipe, &view->plan, row_image(view->postprocessor, view->out),
		&region);
	for (uint32_t y = region.y0; y < region.y1; y++) {
		raster_rows_get(&run->rows, region.x0 - job->shared.x0, y - job->shared.y0, rgb);
		pixel_sink_row(sink, rgb);
	}
	pixel_sink_end(sink);
	if (view->postprocessor)
		postprocessor_run(view->postprocessor, &key, view->recipe->size, view->out);
	view->made = true;
	return row_judge(run->decoder, view->recipe, view->record.src_w, view->record.src_h);
}

/* The end of a decoding that was shared: makes its views, unless it failed. */
static void row_many_done_shared(struct row_many *run, struct row_job *job)
{
	struct row_view own = {.recipe = job->recipe,
		.view = job->key.view,
		.postprocessor = job->postprocessor,
		.out = job->out,
		.record = job->record,
		.plan = job->plan};
	row_many_time(run, job);
	job->apart = job->outcome == DECODE_OK && run->failed;
	if (job->outcome == DECODE_OK && !job->apart) {
		job->outcome = row_many_view(run, job, &own);
		for (uint32_t i = 0; job->outcome == DECODE_OK && i < job->more_count; i++)
			if (job->chosen >> (i + 1) & 1)
				job->outcome = row_many_view(run, job, &job->more[i]);
	}
	raster_give_back(job->raster);
	uint64_t now = clock_thread_cpu_ns();
	job->pixel_ns += now - run->since;
	run->since = now;
	decoder_stages(run->decoder, run->ticks);
	run->shared = NULL;
	run->source->done(run->source->context, job);
}

static void row_many_done(void *context, struct decode_job *decode)
{
	struct row_many *run = context;
	struct row_job *job = row_job_of(decode);
	job->outcome = decode->outcome;
	job->stepback = decode->stepback;
	job->entry_points = decode->entry_points;
	job->apart = false;
	if (run->shared == job) {
		row_many_done_shared(run, job);
		return;
	}
	if (decode->outcome == DECODE_OK && !run->feed.sequence) {
		pixel_sink_end(run->feed.sink);
		job->outcome =
			row_judge(run->decoder, job->recipe, job->record.src_w, job->record.src_h);
	}
	row_many_time(run, job);
	if (job->postprocessor && job->outcome == DECODE_OK)
		row_many_postprocess(run, job);
	if (run->feed.sequence)
		sequence_abort(run->feed.sequence);
	run->feed.sequence = NULL;
	run->source->done(run->source->context, job);
}

static size_t row_many_recall(void *context, struct decode_job *decode, uint8_t *to, size_t room)
{
	const struct row_source *source = ((struct row_many *)context)->source;
	return source->recall(source->context, row_job_of(decode), to, room);
}

static bool row_many_keeps(void *context, struct decode_job *decode)
{
	const struct row_source *source = ((struct row_many *)context)->source;
	return source->keeps(source->context, row_job_of(decode));
}

static bool row_many_keep(
	void *context, struct decode_job *decode, const uint8_t *pack, size_t size)
{
	const struct row_source *source = ((struct row_many *)context)->source;
	return source->keep(source->context, row_job_of(decode), pack, size);
}

void row_make_many(struct row_maker *maker, const struct row_source *source)
{
	struct row_many run = {.source = source,
		.sink = maker->sink,
		.maker = maker,
		.decoder = maker->decoder,
		.beyond = &maker->beyond,
		.since = clock_thread_cpu_ns()};
	decoder_stages(maker->decoder, run.ticks);
	struct decode_stream stream = {
		.next = row_many_next,
		.header = row_many_header,
		.start = row_many_start,
		.row = row_many_row,
		.done = row_many_done,
		.context = &run,
		.recall = row_many_recall,
		.keeps = row_many_keeps,
		.keep = row_many_keep,
		.drop = row_many_drop,
	};
	decoder_run(maker->decoder, &stream);
}

int row_make_again(struct row_maker *maker, const uint8_t *data, size_t size,
	const struct pixel_recipe *recipe, const struct slots_record *record,
	const struct pixel_key *key, struct postprocessor *postprocessor, uint8_t *out)
{
	struct decode_info info;
	int result = decoder_begin(maker->decoder, data, size, &info);
	if (result != DECODE_OK)
		return result;
	if (record->src_w != info.width || record->src_h != info.height ||
		!pixel_crop_fits(record->crop_x, record->crop_y, record->crop_w, record->crop_h,
			info.width, info.height)) {
		decoder_abort(maker->decoder);
		return -EINVAL;
	}
	if (recipe->kind == PIXEL_WHOLE && record->crop_w == info.width &&
		record->crop_h == info.height)
		return row_run_whole(maker, recipe, &info, key, postprocessor, out);
	if (recipe->kind == PIXEL_WHOLE) {
		decoder_abort(maker->decoder);
		return -EINVAL;
	}
	struct pixel_plan plan;
	pixel_plan_from_crop(recipe, record->crop_x, record->crop_y, record->crop_w, record->crop_h,
		record->flags & SLOTS_FLIPPED, info.width, info.height, &plan);
	plan.flip_vertical = record->flags & SLOTS_FLIPPED_VERTICALLY;
	pixel_plan_place(recipe, key, &plan);
	row_shrink(recipe, &info, &plan);
	return row_run(maker, recipe, &plan, key, postprocessor, out);
}

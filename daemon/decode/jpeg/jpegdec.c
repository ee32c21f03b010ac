/* own: see own.h. */
#include "decode/jpeg/jpegdec.h"

#include "base/util.h"
#include "decode/jpeg/entry_pack.h"
#include "decode/jpeg/feed.h"
#include "decode/jpeg/planes.h"
#include "decode/stages.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	JPEGDEC_IMAGES = 16, /* in flight, at most */
	JPEGDEC_USUAL = 4, /* in flight, as a rule */
	JPEGDEC_BAND_RUNS = 4096,
};

/* How an image is entered; decode_job's `entry`. */
enum jpegdec_entry {
	JPEGDEC_UNSEEN = 0, /* as will be seen from what is kept of it */
	JPEGDEC_KEPT, /* at the checkpoints that were kept; then _RECORD, or _PLAIN where no others
		   * would be kept */
	JPEGDEC_RECORD, /* at its start, through its end, to make checkpoints; then _PLAIN */
	JPEGDEC_PLAIN, /* at its start, or at its restart markers */
};

/* An image to be decoded: what a crop needs of it, and where it can be entered. */
struct jpegdec_task {
	struct decode_job *job;
	struct parse parse;
	struct blocks blocks;
	struct mcu_plan_request request;
	uint32_t points; /* checkpoints, kept or to be made */
	uint32_t entry0, entries; /* the entry points that the crop needs */
	uint64_t bytes; /* unstuffed, at most */
};

/* Where the parts of an image's piece lie. What all bands share comes first. */
struct jpegdec_layout {
	size_t tables, points, segments, bytes, runs, where, coefficients, end;
	size_t run_capacity;
	uint64_t block_capacity;
};

/* An image in flight. */
struct jpegdec_image {
	struct jpegdec_task task; /* job NULL: this place is free */
	size_t from, to; /* its piece of the memory */
	struct huffman huffman;
	struct feed_image feed;
};

struct jpegdec {
	const struct lanes *chosen;
	struct planes *planes;
	uint8_t *memory; /* lent for one jpegdec_run */
	size_t bytes;
	const struct jpegdec_source *source;
	const struct lanes *lanes; /* that all images in flight are decoded with */
	struct jpegdec_task waiting; /* asked for, and not begun, if it has a job */
	struct decode_job *again; /* to be tried in another way; by their links */
	struct decode_job *delivering; /* whose rows come */
	struct jpegdec_image image[JPEGDEC_IMAGES];
	struct entry_point points[ENTRY_PACK_POINTS]; /* of the one that waits */
	uint8_t pack[ENTRY_PACK_MOST + ENTRY_PACK_SLACK];
};

/* Goes on in another stage; returns the one before. */
static enum decode_stage jpegdec_enter(struct jpegdec *own, enum decode_stage stage)
{
	return stages_enter(own->source->stages, stage);
}

int jpegdec_new(struct jpegdec **ret, struct fault *fault)
{
	struct jpegdec *own = calloc(1, sizeof(*own));
	if (!own)
		return fault_set(fault, -ENOMEM, "decoder: no memory; use fewer threads");
	int result = lanes_choose(&own->chosen, fault);
	if (!result)
		result = planes_new(&own->planes, fault);
	if (result) {
		jpegdec_free(own);
		return result;
	}
	*ret = own;
	return 0;
}

void jpegdec_free(struct jpegdec *own)
{
	if (!own)
		return;
	planes_free(own->planes);
	free(own);
}

uint64_t jpegdec_bytes(void)
{
	return sizeof(struct jpegdec) + planes_bytes();
}

/* How the image that waits is entered, by what is kept of it. */
static enum jpegdec_entry jpegdec_recall(
	struct jpegdec *own, struct jpegdec_task *task, uint32_t *ret_interval)
{
	const struct decode_stream *rows = own->source->rows;
	struct decode_job *job = task->job;
	const struct parse *parse = &task->parse;
	if (!job->entry_point_room || parse->restart_mcus ||
		entry_point_count(parse, ENTRY_PACK_INTERVAL) == 1)
		return JPEGDEC_PLAIN;
	size_t room = UTIL_MIN(job->entry_point_room, (size_t)ENTRY_PACK_MOST);
	size_t bytes = rows->recall(rows->context, job, own->pack, room);
	switch (entry_pack_unpack(parse, job->data, job->size, own->pack, bytes, own->points,
		&task->points, ret_interval)) {
	case ENTRY_PACK_FOUND:
		return JPEGDEC_KEPT;
	case ENTRY_PACK_NONE:
		return JPEGDEC_PLAIN;
	case ENTRY_PACK_FOREIGN:
		job->entry_points |= DECODE_ENTRY_POINTS_DROPPED;
		break;
	case ENTRY_PACK_EMPTY:
		break;
	}
	return rows->keeps(rows->context, job) ? JPEGDEC_RECORD : JPEGDEC_PLAIN;
}

/* The entry points between the crop's first and last MCU, and the unstuffed bytes behind those that
 * its rows need. */
static void jpegdec_task_kept(struct jpegdec_task *task, const struct entry_point *points)
{
	const struct blocks *b = &task->blocks;
	uint32_t interval = task->request.interval, next = 0;
	assert(interval > 0);
	for (uint32_t row = 0; row < b->rows; row++) {
		uint32_t mcu = (b->mcu_y0 + row) * task->parse.mcus_across + b->mcu_x0;
		uint32_t from = UTIL_MAX(mcu / interval, next);
		uint32_t last = (mcu + b->columns - 1) / interval;
		if (!row)
			task->entry0 = from;
		if (from <= last)
			task->bytes +=
				entry_point_room(points, task->points, from, last, task->job->size);
		next = last + 1;
	}
	task->entries = next - task->entry0;
}

/* The pixels of the image itself that stand under the job's region, and around them what a shrunk
 * image may look at where it is upsampled and the image would not be (4:1:0). */
static struct decode_region jpegdec_region(const struct decode_job *job, const struct parse *parse)
{
	struct decode_region r = job->region;
	if (!job->shrink)
		return r;
	uint32_t around = parse->h_max > 2 || parse->v_max > 2 ? 2 : 0;
	r.x0 = (r.x0 - UTIL_MIN(r.x0, around)) << job->shrink;
	r.y0 = (r.y0 - UTIL_MIN(r.y0, around)) << job->shrink;
	r.x1 = UTIL_MIN((r.x1 + around) << job->shrink, parse->width);
	r.y1 = UTIL_MIN((r.y1 + around) << job->shrink, parse->height);
	return r;
}

/* What the crop needs of the image that waits, and where that can be entered. */
static void jpegdec_task_plan(struct jpegdec *own, struct jpegdec_task *task)
{
	struct decode_job *job = task->job;
	const struct parse *parse = &task->parse;
	uint32_t mcus = parse->mcus_across * parse->mcus_down, interval = 0;
	if (job->entry == JPEGDEC_UNSEEN) {
		enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_ENTRY_POINTS);
		job->entry = (uint8_t)jpegdec_recall(own, task, &interval);
		(void)jpegdec_enter(own, before);
	}
	mcu_plan_blocks(parse, jpegdec_region(job, parse), &task->blocks);
	task->request = (struct mcu_plan_request){.interval = parse->restart_mcus, .entries = 1};
	if (parse->restart_mcus)
		task->request.entries = (mcus - 1) / parse->restart_mcus + 1;
	if (job->entry == JPEGDEC_KEPT) {
		task->request.interval = interval;
		task->request.entries = task->points;
		jpegdec_task_kept(task, own->points);
		return;
	}
	task->bytes = job->size - parse->scan;
	task->entries = task->request.entries;
	if (job->entry == JPEGDEC_RECORD) {
		task->request.piece = entry_pack_interval(parse);
		task->request.whole = true;
		task->points = entry_point_count(parse, task->request.piece);
	}
}

/* The driver that suits an image which has so many others beside it. */
static const struct lanes *jpegdec_lanes(
	const struct jpegdec *own, const struct jpegdec_task *task, size_t images)
{
	size_t chains = 1;
	if (task->request.interval)
		chains += (size_t)task->blocks.rows * task->blocks.columns / task->request.interval;
	return lanes_for(own->chosen, chains * images);
}

static size_t jpegdec_carve(size_t *at, uint64_t bytes)
{
	size_t here = *at;
	*at += (size_t)util_align(bytes, BLOCKS_ALIGN);
	return here;
}

/* Lays out what all bands share. */
static struct jpegdec_layout jpegdec_layout_fixed(
	const struct jpegdec_task *task, const struct lanes *lanes)
{
	struct jpegdec_layout layout = {0};
	size_t at = 0;
	layout.tables = jpegdec_carve(&at, huffman_tables_bytes(&task->parse, lanes->kind));
	layout.points = jpegdec_carve(&at, (uint64_t)task->points * sizeof(struct entry_point));
	layout.segments =
		jpegdec_carve(&at, (uint64_t)task->entries * sizeof(struct unstuff_segment));
	layout.bytes = jpegdec_carve(&at, task->bytes + LANE_SLACK);
	layout.runs = at;
	return layout;
}

/* Adds what a band takes. */
static void jpegdec_layout_band(
	struct jpegdec_layout *layout, uint64_t mcus, size_t runs, uint64_t blocks)
{
	size_t at = layout->runs;
	layout->run_capacity = runs;
	layout->block_capacity = blocks;
	(void)jpegdec_carve(&at, runs * sizeof(struct mcu_plan_run));
	layout->where = jpegdec_carve(&at, mcus * sizeof(uint32_t));
	layout->coefficients =
		jpegdec_carve(&at, blocks * BLOCKS_SIZE * sizeof(*(struct blocks){0}.coefficients));
	layout->end = at;
}

static struct jpegdec_layout jpegdec_layout_whole(
	const struct jpegdec_task *task, const struct lanes *lanes)
{
	const struct blocks *blocks = &task->blocks;
	struct jpegdec_layout layout = jpegdec_layout_fixed(task, lanes);
	jpegdec_layout_band(&layout, (uint64_t)blocks->rows * blocks->columns,
		mcu_plan_runs_most(&task->parse, blocks, &task->request, blocks->rows),
		mcu_plan_blocks_most(&task->parse, blocks, &task->request, blocks->rows));
	return layout;
}

/* Unstuffs the scan from its start. 0 or an enum stepback. */
static int jpegdec_scan(struct jpegdec_image *image, const struct lanes *lanes, uint8_t *bytes)
{
	const struct decode_job *job = image->task.job;
	const uint8_t *scan = job->data + image->task.parse.scan;
	size_t size = job->size - image->task.parse.scan;
	struct unstuff_found found;
	int reason = unstuff_scan(lanes->unstuff, bytes, scan, size,
		(struct unstuff_segment *)image->feed.segments, image->task.entries, &found);
	if (reason)
		return reason;
	memset(bytes + found.bytes, 0, LANE_SLACK);
	image->feed.segment_count = found.segments;
	bool ends = job->entry == JPEGDEC_RECORD ? unstuff_is_end(scan, size, found.end)
						 : unstuff_is_marker(scan, size, found.end);
	return ends ? 0 : STEPBACK_END;
}

/* Tables, and what is known before anything is planned. 0 or an enum stepback. */
static int jpegdec_prepare(struct jpegdec *own, struct jpegdec_image *image,
	const struct lanes *lanes, const struct jpegdec_layout *layout)
{
	const struct jpegdec_task *task = &image->task;
	uint8_t *base = own->memory + image->from;
	struct entry_point *points = (void *)(base + layout->points);
	image->feed = (struct feed_image){
		.parse = &task->parse,
		.huffman = &image->huffman,
		.runs = (void *)(base + layout->runs),
		.interval = task->request.interval,
		.bytes = base + layout->bytes,
		.segments = (void *)(base + layout->segments),
		.segment_count = task->entries,
		.entry0 = task->entry0,
		.coefficients = (void *)(base + layout->coefficients),
	};
	int reason = huffman_build(&task->parse, lanes->kind,
		(uint32_t *)(void *)(base + layout->tables), &image->huffman);
	if (reason)
		return reason;
	if (task->job->entry == JPEGDEC_KEPT) {
		memcpy(points, own->points, task->points * sizeof(*points));
		image->feed.entry_points = points;
		image->feed.entry_point_count = task->points;
		return 0;
	}
	if (task->job->entry == JPEGDEC_RECORD) {
		image->feed.record = points;
		image->feed.record_interval = task->request.piece;
	}
	enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_UNSTUFF);
	reason = jpegdec_scan(image, lanes, base + layout->bytes);
	(void)jpegdec_enter(own, before);
	return reason;
}

/* Unstuffs what the planned runs need, where that is not all there already. 0 or an enum stepback.
 */
static int jpegdec_unstuff(struct jpegdec *own, struct jpegdec_image *image,
	const struct lanes *lanes, size_t bytes_at)
{
	const struct jpegdec_task *task = &image->task;
	uint8_t *bytes = own->memory + image->from + bytes_at;
	size_t written;
	if (task->job->entry != JPEGDEC_KEPT)
		return 0;
	enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_UNSTUFF);
	int reason = feed_unstuff(&image->feed, lanes->unstuff, task->job->data, task->job->size,
		bytes, (struct unstuff_segment *)image->feed.segments, task->entries, &written);
	if (!reason)
		memset(bytes + written, 0, LANE_SLACK);
	(void)jpegdec_enter(own, before);
	return reason;
}

/* Plans the rows that the task's blocks have, and unstuffs for them. 0 or an enum stepback. */
static int jpegdec_plan_band(struct jpegdec *own, struct jpegdec_image *image,
	const struct lanes *lanes, const struct jpegdec_layout *layout)
{
	struct jpegdec_task *task = &image->task;
	uint8_t *base = own->memory + image->from;
	uint32_t *where = (void *)(base + layout->where);
	size_t blocks;
	int reason = mcu_plan_runs(&task->parse, &task->blocks, &task->request,
		(void *)(base + layout->runs), layout->run_capacity, where, &image->feed.run_count,
		&blocks);
	if (!reason && blocks > layout->block_capacity)
		reason = STEPBACK_SIZE;
	task->blocks.where = where;
	task->blocks.coefficients = image->feed.coefficients;
	return reason ? reason : jpegdec_unstuff(own, image, lanes, layout->bytes);
}

static void jpegdec_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct jpegdec *own = context;
	own->delivering->delivered++;
	own->source->rows->row(own->source->rows->context, rgb);
}

/* Tells the receiver that rows come, and the planes what they come from. 0 or an enum stepback. */
static int jpegdec_rows_begin(
	struct jpegdec *own, struct jpegdec_image *image, struct planes_mcus *ret)
{
	static const enum planes_colour colours[] = {
		[PARSE_GRAY] = PLANES_GRAY, [PARSE_YCC] = PLANES_YCC, [PARSE_RGB] = PLANES_RGB};
	const struct parse *parse = &image->task.parse;
	struct planes_frame frame = {.width = parse->width,
		.height = parse->height,
		.colour = colours[parse->colour],
		.shrink = image->task.job->shrink};
	for (unsigned i = 0; i < parse->components; i++) {
		const struct parse_component *c = &parse->component[i];
		frame.component[i] = (struct planes_component){c->h, c->v, parse->quant[c->quant]};
	}
	own->delivering = image->task.job;
	enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_CONVERT);
	own->source->rows->start(own->source->rows->context, image->task.job);
	int reason = planes_begin(own->planes, &frame, image->task.job->region, ret);
	(void)jpegdec_enter(own, before);
	return reason;
}

/* The rows of the blocks that are there. 0 or STEPBACK_RANGE. */
static int jpegdec_rows(
	struct jpegdec *own, const struct blocks *blocks, const struct planes_mcus *mcus)
{
	uint32_t from = UTIL_MAX(blocks->mcu_y0, mcus->y0);
	uint32_t to = UTIL_MIN(blocks->mcu_y0 + blocks->rows, mcus->y1);
	int reason = 0;
	enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_TRANSFORM);
	for (uint32_t y = from; y < to && !reason; y++) {
		reason = planes_blocks(own->planes, y, blocks);
		if (reason)
			break;
		(void)jpegdec_enter(own, DECODE_STAGE_CONVERT);
		planes_rows(own->planes, jpegdec_row, own);
		(void)jpegdec_enter(own, DECODE_STAGE_TRANSFORM);
	}
	(void)jpegdec_enter(own, before);
	return reason;
}

/* Gives what was recorded to whoever keeps it; after a fault, that there can be none. */
static void jpegdec_keep(struct jpegdec *own, struct jpegdec_image *image, int reason)
{
	const struct decode_stream *rows = own->source->rows;
	const struct jpegdec_task *task = &image->task;
	struct decode_job *job = task->job;
	struct entry_point *points = image->feed.record;
	uint32_t count = task->points;
	if (reason || !entry_point_settle(&task->parse, job->data, job->size, points, count))
		count = 0;
	size_t bytes = entry_pack_pack(&task->parse, job->data, job->size, points, count, own->pack,
		job->entry_point_room);
	if (bytes && rows->keep(rows->context, job, own->pack, bytes) && count)
		job->entry_points |= DECODE_ENTRY_POINTS_MADE;
}

/* All blocks of an image are there, or `reason` says why not: what follows from that for its
 * checkpoints. */
static void jpegdec_entered(struct jpegdec *own, struct jpegdec_image *image, int reason)
{
	struct decode_job *job = image->task.job;
	if (job->entry == JPEGDEC_RECORD && reason != STEPBACK_SIZE) {
		enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_ENTRY_POINTS);
		jpegdec_keep(own, image, reason);
		(void)jpegdec_enter(own, before);
	}
	if (job->entry == JPEGDEC_KEPT && reason != STEPBACK_SIZE)
		job->entry_points |=
			reason ? DECODE_ENTRY_POINTS_DROPPED : DECODE_ENTRY_POINTS_USED;
}

static void jpegdec_finish(struct jpegdec *own, struct decode_job *job, int reason)
{
	job->stepback = (unsigned)reason;
	own->source->done(own->source->context, job);
}

/* An image's blocks cannot be had in this way: it is tried in the next one, or steps back. */
static void jpegdec_fail(struct jpegdec *own, struct decode_job *job, int reason)
{
	const struct decode_stream *rows = own->source->rows;
	bool kept = job->entry == JPEGDEC_KEPT && reason != STEPBACK_SIZE;
	if (kept || job->entry == JPEGDEC_RECORD) {
		job->entry =
			kept && rows->keeps(rows->context, job) ? JPEGDEC_RECORD : JPEGDEC_PLAIN;
		job->delivered = 0;
		job->link = own->again;
		own->again = job;
		return;
	}
	jpegdec_finish(own, job, reason);
}

static bool jpegdec_overlaps(const struct jpegdec *own, size_t from, size_t to)
{
	for (int i = 0; i < JPEGDEC_IMAGES; i++)
		if (own->image[i].task.job && from < own->image[i].to && own->image[i].from < to)
			return true;
	return false;
}

/* Finds a piece of the memory: at its start, or behind an image in flight. */
static bool jpegdec_piece(const struct jpegdec *own, size_t bytes, size_t *ret_from)
{
	for (int i = -1; i < JPEGDEC_IMAGES; i++) {
		if (i >= 0 && !own->image[i].task.job)
			continue;
		size_t from = i < 0 ? 0 : own->image[i].to;
		if (bytes <= own->bytes - from && !jpegdec_overlaps(own, from, from + bytes)) {
			*ret_from = from;
			return true;
		}
	}
	return false;
}

static struct jpegdec_image *jpegdec_place(struct jpegdec *own)
{
	for (int i = 0; i < JPEGDEC_IMAGES; i++)
		if (!own->image[i].task.job)
			return &own->image[i];
	return NULL;
}

/* Takes in the image that waits. False: it has to wait on, for memory or for another driver.
 * *ret_image: NULL if it cannot be entered in this way. */
static bool jpegdec_admit(struct jpegdec *own, struct jpegdec_image **ret_image)
{
	struct jpegdec_image *image = jpegdec_place(own);
	size_t from;
	if (!image || jpegdec_lanes(own, &own->waiting, JPEGDEC_USUAL) != own->lanes)
		return false;
	struct jpegdec_layout layout = jpegdec_layout_whole(&own->waiting, own->lanes);
	if (!jpegdec_piece(own, layout.end, &from))
		return false;
	*image =
		(struct jpegdec_image){.task = own->waiting, .from = from, .to = from + layout.end};
	image->task.request.last = true;
	own->waiting.job = NULL;
	enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_PARSE);
	int reason = jpegdec_prepare(own, image, own->lanes, &layout);
	if (!reason)
		reason = jpegdec_plan_band(own, image, own->lanes, &layout);
	if (reason) {
		struct decode_job *job = image->task.job;
		jpegdec_entered(own, image, reason);
		image->task.job = NULL;
		jpegdec_fail(own, job, reason);
	}
	(void)jpegdec_enter(own, before);
	*ret_image = reason ? NULL : image;
	return true;
}

/* The next image, one that is tried again before others. */
static bool jpegdec_wants(struct jpegdec *own)
{
	struct jpegdec_task *task = &own->waiting;
	if (task->job)
		return true;
	*task = (struct jpegdec_task){.job = own->again};
	if (task->job) {
		own->again = task->job->link;
		(void)parse_read(task->job->data, task->job->size, &task->parse);
	} else {
		task->job = own->source->next(own->source->context, &task->parse);
	}
	if (task->job) {
		enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_PARSE);
		jpegdec_task_plan(own, task);
		(void)jpegdec_enter(own, before);
	}
	return task->job;
}

static struct feed_image *jpegdec_next(struct jpegdec *own)
{
	while (jpegdec_wants(own)) {
		struct jpegdec_image *image;
		if (!jpegdec_admit(own, &image))
			return NULL;
		if (image)
			return &image->feed;
	}
	return NULL;
}

static struct feed_image *jpegdec_more(void *context)
{
	enum decode_stage before = jpegdec_enter(context, DECODE_STAGE_OTHER);
	struct feed_image *feed = jpegdec_next(context);
	(void)jpegdec_enter(context, before);
	return feed;
}

static void jpegdec_deliver(struct jpegdec *own, struct jpegdec_image *image)
{
	const struct feed_image *feed = &image->feed;
	struct decode_job *job = image->task.job;
	struct planes_mcus mcus;
	jpegdec_entered(own, image, feed->outcome);
	if (feed->outcome) {
		image->task.job = NULL;
		jpegdec_fail(own, job, feed->outcome);
		return;
	}
	int reason = jpegdec_rows_begin(own, image, &mcus);
	if (!reason)
		reason = jpegdec_rows(own, &image->task.blocks, &mcus);
	image->task.job = NULL;
	jpegdec_finish(own, job, reason);
}

static void jpegdec_done(void *context, struct feed_image *feed)
{
	enum decode_stage before = jpegdec_enter(context, DECODE_STAGE_OTHER);
	jpegdec_deliver(
		context, (struct jpegdec_image *)(void *)((char *)feed -
							  offsetof(struct jpegdec_image, feed)));
	(void)jpegdec_enter(context, before);
}

/* Rows of a band, and what it takes, when it may have all the memory; 0: not even one fits. */
static uint32_t jpegdec_band_rows(
	const struct jpegdec *own, const struct jpegdec_task *task, struct jpegdec_layout *layout)
{
	enum { BLOCK_BYTES = BLOCKS_SIZE * sizeof(int16_t) };
	/* Each MCU kept has a place of 4 bytes in `where`, and at least one block. */
	size_t taken =
		layout->runs + JPEGDEC_BAND_RUNS * sizeof(struct mcu_plan_run) + 2 * BLOCKS_ALIGN;
	if (own->bytes <= taken)
		return 0;
	uint64_t blocks = (own->bytes - taken) / (BLOCK_BYTES + sizeof(uint32_t));
	uint32_t rows = mcu_plan_rows(
		&task->parse, &task->blocks, &task->request, blocks, JPEGDEC_BAND_RUNS);
	jpegdec_layout_band(
		layout, (uint64_t)rows * task->blocks.columns, JPEGDEC_BAND_RUNS, blocks);
	return rows;
}

/* Where the next band begins to decode: with checkpoints at one of them, since the bytes behind the
 * last band's end are not there any more. */
static void jpegdec_band_next(struct jpegdec_image *image)
{
	const struct mcu_plan_run *last = &image->feed.runs[image->feed.run_count - 1];
	image->task.blocks.mcu_y0 += image->task.blocks.rows;
	if (image->task.job->entry != JPEGDEC_KEPT)
		image->task.request.resume = last->mcu + last->mcus;
}

/* Band after band, of so many rows. 0 or an enum stepback; *ret_entered: that of the blocks. */
static int jpegdec_bands(struct jpegdec *own, struct jpegdec_image *image,
	const struct lanes *lanes, const struct jpegdec_layout *layout, uint32_t rows,
	int *ret_entered)
{
	struct planes_mcus mcus;
	struct blocks *blocks = &image->task.blocks;
	uint32_t end = blocks->mcu_y0 + blocks->rows;
	int reason = jpegdec_rows_begin(own, image, &mcus);
	while (!reason && blocks->mcu_y0 < end) {
		blocks->rows = UTIL_MIN(rows, end - blocks->mcu_y0);
		image->task.request.last = blocks->mcu_y0 + blocks->rows == end;
		image->feed.cursor = 0;
		*ret_entered = jpegdec_plan_band(own, image, lanes, layout);
		if (!*ret_entered) {
			enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_ENTROPY);
			*ret_entered = feed_decode_one(&image->feed, lanes);
			(void)jpegdec_enter(own, before);
		}
		if (*ret_entered)
			return *ret_entered;
		reason = jpegdec_rows(own, blocks, &mcus);
		jpegdec_band_next(image);
	}
	return reason;
}

/* The image that waits, by itself; nothing is in flight. */
static void jpegdec_alone(struct jpegdec *own)
{
	struct jpegdec_image *image = &own->image[0];
	*image = (struct jpegdec_image){.task = own->waiting, .to = own->bytes};
	own->waiting.job = NULL;
	struct decode_job *job = image->task.job;
	const struct lanes *lanes = jpegdec_lanes(own, &image->task, 1);
	struct jpegdec_layout layout = jpegdec_layout_fixed(&image->task, lanes);
	uint32_t rows = jpegdec_band_rows(own, &image->task, &layout);
	int entered = rows ? jpegdec_prepare(own, image, lanes, &layout) : STEPBACK_SIZE,
	    reason = 0;
	if (!entered)
		reason = jpegdec_bands(own, image, lanes, &layout, rows, &entered);
	/* Where the pixels stepped back there may be more bands, which nobody has looked at. */
	if (entered || !reason)
		jpegdec_entered(own, image, entered);
	image->task.job = NULL;
	if (entered)
		jpegdec_fail(own, job, entered);
	else
		jpegdec_finish(own, job, reason);
}

/* Chooses the driver for the image that waits; false when it has to be decoded by itself. */
static bool jpegdec_fits(struct jpegdec *own)
{
	own->lanes = jpegdec_lanes(own, &own->waiting, JPEGDEC_USUAL);
	return jpegdec_layout_whole(&own->waiting, own->lanes).end <= own->bytes;
}

void jpegdec_run(
	struct jpegdec *own, uint8_t *memory, size_t bytes, const struct jpegdec_source *source)
{
	own->memory = memory;
	own->bytes = bytes;
	own->source = source;
	while (jpegdec_wants(own)) {
		if (jpegdec_fits(own)) {
			struct feed feed = {
				.more = jpegdec_more, .done = jpegdec_done, .context = own};
			enum decode_stage before = jpegdec_enter(own, DECODE_STAGE_ENTROPY);
			feed_decode(&feed, own->lanes);
			(void)jpegdec_enter(own, before);
		} else {
			jpegdec_alone(own);
		}
	}
}

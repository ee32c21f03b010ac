/* jpegdec: see jpegdec.h. */
#include "decode/jpeg/jpegdec.h"

#include "base/util.h"
#include "decode/jpeg/entry_pack.h"
#include "decode/jpeg/feed.h"
#include "decode/jpeg/planes.h"
#include "decode/jpeg/scans/scans.h"
#include "decode/stages.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	JPEGDEC_IMAGES = 16, /* in flight, at most */
	JPEGDEC_USUAL = 4, /* in flight, usually */
	JPEGDEC_BAND_RUNS = 4096,
	/* An image that does not fit is decoded in chunks only with so much memory for its blocks,
	 * and its chunks have about so many blocks: lanes would be idle otherwise. */
	JPEGDEC_PARTS_BYTES = 2 << 20,
	JPEGDEC_PARTS_BLOCKS = 512,
	JPEGDEC_PARTS_BITS = 8 << 10, /* of a chunk, at least */
	/* Images are no longer decoded in chunks while more than about one in JPEGDEC_ASTRAY goes
	 * astray; JPEGDEC_ASTRAY_MOST is how long that is remembered. */
	JPEGDEC_ASTRAY = 16,
	JPEGDEC_ASTRAY_LIMIT = 4 * JPEGDEC_ASTRAY,
	JPEGDEC_ASTRAY_MOST = 16 * JPEGDEC_ASTRAY,
};

/* How an image is entered; decode_job's `entry`. */
enum jpegdec_entry {
	JPEGDEC_UNSEEN = 0, /* not decided yet */
	/* At kept entry points. If that fails: _RECORD, or _PLAIN where new ones would not be kept.
	 */
	JPEGDEC_KEPT,
	JPEGDEC_RECORD, /* at its start, to make entry points. If that fails: _PLAIN. */
	JPEGDEC_PLAIN, /* at its start, or at its restart markers */
};

/* An image to be decoded: what a crop needs of it, and where decoding can enter. */
struct jpegdec_task {
	struct decode_job *job;
	struct parse parse;
	struct blocks blocks;
	struct mcu_plan_request request;
	uint32_t known, points; /* entry points that are kept; with those to be made */
	uint32_t entry0, entries; /* the entry points that the crop needs */
	uint64_t bytes; /* unstuffed, at most */
	uint32_t chunks; /* at most; 0: it is not decoded in chunks */
	uint32_t chunk_bits;
	uint32_t need; /* the MCUs from the first to the last that is needed */
};

/* Offsets of the parts of an image's piece of memory. The parts that all bands share come first. */
struct jpegdec_layout {
	size_t tables, points, segments, bytes, runs, where, coefficients, end;
	size_t chunks, marks, pages; /* instead of runs */
	size_t run_capacity;
	uint64_t block_capacity;
	uint32_t page_count;
};

/* An image in flight. */
struct jpegdec_image {
	struct jpegdec_task task; /* job NULL: this place is free */
	size_t from, to; /* its piece of the memory */
	struct huffman huffman;
	struct feed_image feed;
	struct chunk_plan chunks;
};

struct jpegdec {
	const struct lanes *chosen;
	const struct lanes *chunks; /* the driver for chunks, or NULL */
	const struct scans_kernels *scans;
	struct planes *planes;
	uint8_t *memory; /* during a jpegdec_run */
	size_t bytes;
	const struct jpegdec_source *source;
	const struct lanes *lanes; /* the driver of all images in flight */
	struct jpegdec_task waiting; /* the next image, not begun; job NULL: none */
	struct decode_job *again; /* to be tried in another way; a list by `link` */
	struct decode_job *delivering; /* the job whose rows are being delivered */
	struct feed *feed; /* of the images in flight */
	unsigned astray; /* how many images went astray of late, times JPEGDEC_ASTRAY */
	struct jpegdec_image image[JPEGDEC_IMAGES];
	struct entry_point points[ENTRY_PACK_POINTS]; /* of the waiting image */
	struct script script; /* of the waiting image, if it has several scans */
	struct scan_plan plan;
	uint8_t pack[ENTRY_PACK_MOST + ENTRY_PACK_SLACK];
};

/* Enters another stage; returns the one before. */
static enum decode_stage jpegdec_enter(struct jpegdec *dec, enum decode_stage stage)
{
	return stages_enter(dec->source->stages, stage);
}

int jpegdec_new(struct jpegdec **ret, struct fault *fault)
{
	struct jpegdec *dec = calloc(1, sizeof(*dec));
	if (!dec)
		return fault_set(fault, -ENOMEM, "decoder: no memory; use fewer threads");
	int result = lanes_choose(&dec->chosen, fault);
	if (!result)
		dec->chunks = lanes_choose_chunks(dec->chosen);
	if (!result)
		result = scans_choose(&dec->scans, fault);
	if (!result)
		result = planes_new(&dec->planes, fault);
	if (result) {
		jpegdec_free(dec);
		return result;
	}
	*ret = dec;
	return 0;
}

void jpegdec_free(struct jpegdec *dec)
{
	if (!dec)
		return;
	planes_free(dec->planes);
	free(dec);
}

uint64_t jpegdec_bytes(void)
{
	return sizeof(struct jpegdec) + planes_bytes();
}

/* How to enter at the start where no kept entry points serve. */
static enum jpegdec_entry jpegdec_anew(const struct jpegdec *dec, struct decode_job *job)
{
	const struct decode_stream *rows = dec->source->rows;
	return rows->keeps(rows->context, job) ? JPEGDEC_RECORD : JPEGDEC_PLAIN;
}

/* Decides how the waiting image is entered, by what is kept for it. What seems to be of another
 * file is read once more: it may just have been written. */
static enum jpegdec_entry jpegdec_recall(
	struct jpegdec *dec, struct jpegdec_task *task, uint32_t *ret_interval)
{
	const struct decode_stream *rows = dec->source->rows;
	struct decode_job *job = task->job;
	const struct parse *parse = &task->parse;
	if (!job->entry_point_room || parse->restart_mcus ||
		entry_point_count(parse, ENTRY_PACK_INTERVAL) == 1)
		return JPEGDEC_PLAIN;
	size_t room = UTIL_MIN(job->entry_point_room, (size_t)ENTRY_PACK_MOST);
	enum entry_pack_found found = ENTRY_PACK_FOREIGN;
	for (int i = 0; i < 2 && found == ENTRY_PACK_FOREIGN; i++) {
		size_t bytes = rows->recall(rows->context, job, dec->pack, room);
		found = entry_pack_unpack(parse, job->data, job->size, dec->chosen->checksum,
			dec->pack, bytes, dec->points, &task->known, ret_interval);
	}
	switch (found) {
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
	return jpegdec_anew(dec, job);
}

/* Finds the entry points between the crop's first and last MCU, and how many unstuffed bytes its
 * rows need after them. */
static void jpegdec_task_kept(struct jpegdec_task *task, const struct entry_point *points)
{
	const struct blocks *b = &task->blocks;
	uint32_t interval = task->request.interval, next = 0;
	assert(interval > 0);
	for (uint32_t row = 0; row < b->rows; row++) {
		uint32_t mcu = (b->mcu_y0 + row) * task->parse.mcus_across + b->mcu_x0;
		uint32_t from = UTIL_MAX(UTIL_MIN(mcu / interval, task->known - 1), next);
		uint32_t last = UTIL_MIN((mcu + b->columns - 1) / interval, task->known - 1);
		if (!row)
			task->entry0 = from;
		if (from <= last)
			task->bytes +=
				entry_point_room(points, task->known, from, last, task->job->size);
		next = last + 1;
	}
	task->entries = next - task->entry0;
}

/* The pixels of the full image under the job's region, and around them those that a shrunk image
 * may need where it is upsampled and the full image would not be (4:1:0). */
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

/* Whether the image can be decoded in chunks, and in how many. */
static void jpegdec_task_chunks(struct jpegdec *dec, struct jpegdec_task *task)
{
	const struct parse *parse = &task->parse;
	if (!dec->chunks || task->job->in_order || parse->restart_mcus ||
		task->job->entry == JPEGDEC_KEPT || task->bytes > CHUNK_PLAN_BYTES)
		return;
	if (dec->astray > JPEGDEC_ASTRAY_LIMIT) {
		dec->astray--;
		return;
	}
	task->chunk_bits = CHUNK_PLAN_BITS;
	task->chunks = chunk_plan_count(8 * task->bytes, task->chunk_bits);
}

/* Whether the crop needs MCUs after those to which the kept entry points lead. */
static bool jpegdec_task_is_beyond(const struct jpegdec_task *task)
{
	return task->need > task->known * task->request.interval;
}

/* The same of an image that enters at them. */
static bool jpegdec_task_goes_beyond(const struct jpegdec_task *task)
{
	return task->job->entry == JPEGDEC_KEPT && jpegdec_task_is_beyond(task);
}

/* Whether to enter at kept entry points. Where the crop needs MCUs after the last one, decoding
 * goes on there, and records those that follow if they can be kept. False: that would be most of
 * what the crop needs. */
static bool jpegdec_task_goes_on(struct jpegdec *dec, struct jpegdec_task *task, uint32_t interval)
{
	const struct decode_stream *rows = dec->source->rows;
	assert(interval > 0);
	task->request = (struct mcu_plan_request){.interval = interval, .entries = task->known};
	task->points = task->known;
	if (jpegdec_task_is_beyond(task) && rows->keeps(rows->context, task->job)) {
		task->request.piece = interval;
		task->points = (task->need - 1) / interval + 1;
	}
	return task->need <= 2 * task->known * interval;
}

/* Plans to enter at the file's start, or at its restart markers. */
static void jpegdec_task_start(struct jpegdec *dec, struct jpegdec_task *task)
{
	const struct parse *parse = &task->parse;
	uint32_t mcus = parse->mcus_across * parse->mcus_down;
	task->request = (struct mcu_plan_request){.interval = parse->restart_mcus, .entries = 1};
	if (parse->restart_mcus)
		task->request.entries = (mcus - 1) / parse->restart_mcus + 1;
	task->entry0 = task->known = task->points = 0;
	task->entries = task->request.entries;
	task->bytes = task->job->size - parse->scan;
	if (task->job->entry == JPEGDEC_RECORD) {
		task->request.piece = entry_pack_interval(parse);
		task->points = (task->need - 1) / task->request.piece + 1;
	}
	jpegdec_task_chunks(dec, task);
}

/* Plans what the crop needs of the waiting image, and where decoding can enter. */
static void jpegdec_task_plan(struct jpegdec *dec, struct jpegdec_task *task)
{
	struct decode_job *job = task->job;
	struct blocks *b = &task->blocks;
	uint32_t interval = 0;
	if (job->entry == JPEGDEC_UNSEEN) {
		enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_ENTRY_POINTS);
		job->entry = (uint8_t)jpegdec_recall(dec, task, &interval);
		(void)jpegdec_enter(dec, before);
	}
	mcu_plan_blocks(&task->parse, jpegdec_region(job, &task->parse), b);
	task->need = (b->mcu_y0 + b->rows - 1) * task->parse.mcus_across + b->mcu_x0 + b->columns;
	if (job->entry == JPEGDEC_KEPT && jpegdec_task_goes_on(dec, task, interval)) {
		jpegdec_task_kept(task, dec->points);
		return;
	}
	if (job->entry == JPEGDEC_KEPT)
		job->entry = (uint8_t)jpegdec_anew(dec, job);
	jpegdec_task_start(dec, task);
}

/* The driver that suits the image when `images` images in all are in flight. One that goes on after
 * its last entry point has one long chain. */
static const struct lanes *jpegdec_lanes(
	const struct jpegdec *dec, const struct jpegdec_task *task, size_t images)
{
	size_t chains = 1;
	if (task->chunks) {
		const struct parse *parse = &task->parse;
		chains = chunk_plan_share(
			task->chunks, task->need, parse->mcus_across * parse->mcus_down);
		if (lanes_for(dec->chosen, chains * images) == dec->chosen)
			return dec->chunks;
	} else if (task->request.interval && !jpegdec_task_goes_beyond(task)) {
		chains += (size_t)task->blocks.rows * task->blocks.columns / task->request.interval;
	}
	return lanes_for(dec->chosen, chains * images);
}

/* Whether the image can join those in flight. One with kept entry points always can: those that go
 * on after their last one and those that do not alternate, and waiting for the driver that suits
 * costs more than another driver. The driver for chunks takes all that it can: an image that has
 * too few chunks for it does not interrupt those that have enough. */
static bool jpegdec_joins(const struct jpegdec *dec, const struct jpegdec_task *task)
{
	if (task->job->entry == JPEGDEC_KEPT)
		return true;
	const struct lanes *suits = jpegdec_lanes(dec, task, JPEGDEC_USUAL);
	if (dec->lanes == dec->chunks && (task->chunks || suits == dec->chosen))
		return true;
	return suits == dec->lanes;
}

static size_t jpegdec_carve(size_t *at, uint64_t bytes)
{
	size_t here = *at;
	*at += (size_t)util_align(bytes, BLOCKS_ALIGN);
	return here;
}

/* Lays out the parts that all bands share. */
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

/* Adds the parts of a band. */
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

/* Adds the parts of an image that is decoded in chunks, with so many pages. */
static void jpegdec_layout_chunks(
	struct jpegdec_layout *layout, const struct jpegdec_task *task, uint64_t pages)
{
	const struct blocks *blocks = &task->blocks;
	size_t at = layout->runs;
	uint32_t page_mcus = chunk_plan_page_mcus(task->parse.in_mcu);
	uint64_t stride = chunk_blocks_stride(page_mcus, task->parse.in_mcu);
	layout->page_count = (uint32_t)pages;
	layout->chunks = jpegdec_carve(&at, task->chunks * sizeof(struct chunk));
	layout->marks = jpegdec_carve(&at, pages * page_mcus * sizeof(uint32_t));
	layout->pages = jpegdec_carve(&at, pages * sizeof(uint32_t));
	layout->where =
		jpegdec_carve(&at, (uint64_t)blocks->rows * blocks->columns * sizeof(uint32_t));
	layout->coefficients = jpegdec_carve(
		&at, pages * stride * BLOCKS_SIZE * sizeof(*(struct blocks){0}.coefficients));
	layout->end = at;
}

static struct jpegdec_layout jpegdec_layout_whole(
	const struct jpegdec_task *task, const struct lanes *lanes)
{
	const struct blocks *blocks = &task->blocks;
	struct jpegdec_layout layout = jpegdec_layout_fixed(task, lanes);
	if (task->chunks) {
		jpegdec_layout_chunks(&layout, task,
			chunk_plan_pages(task->chunks, task->need,
				chunk_plan_page_mcus(task->parse.in_mcu)));
		return layout;
	}
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

/* Builds the tables, and unstuffs what is known before any run is planned. 0 or an enum stepback.
 */
static int jpegdec_prepare(struct jpegdec *dec, struct jpegdec_image *image,
	const struct lanes *lanes, const struct jpegdec_layout *layout)
{
	const struct jpegdec_task *task = &image->task;
	uint8_t *base = dec->memory + image->from;
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
	if (task->points > task->known) {
		image->feed.record = points;
		image->feed.record_interval = task->request.piece;
		image->feed.record_from = task->known ? task->known - 1 : 0;
		image->feed.record_count = task->points;
	}
	int reason = huffman_build(&task->parse, lanes->kind,
		(uint32_t *)(void *)(base + layout->tables), &image->huffman);
	if (reason)
		return reason;
	if (task->job->entry == JPEGDEC_KEPT) {
		memcpy(points, dec->points, task->known * sizeof(*points));
		image->feed.entry_points = points;
		image->feed.entry_point_count = task->known;
		return 0;
	}
	if (task->points)
		points[0] = entry_point_first(&task->parse);
	enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_UNSTUFF);
	reason = jpegdec_scan(image, lanes, base + layout->bytes);
	(void)jpegdec_enter(dec, before);
	return reason;
}

/* Unstuffs what the planned runs need, unless jpegdec_prepare did. 0 or an enum stepback. */
static int jpegdec_unstuff(struct jpegdec *dec, struct jpegdec_image *image,
	const struct lanes *lanes, size_t bytes_at)
{
	const struct jpegdec_task *task = &image->task;
	uint8_t *bytes = dec->memory + image->from + bytes_at;
	size_t written;
	if (task->job->entry != JPEGDEC_KEPT)
		return 0;
	enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_UNSTUFF);
	int reason = feed_unstuff(&image->feed, lanes->unstuff, task->job->data, task->job->size,
		bytes, (struct unstuff_segment *)image->feed.segments, task->entries, &written);
	if (!reason)
		memset(bytes + written, 0, LANE_SLACK);
	(void)jpegdec_enter(dec, before);
	return reason;
}

/* Plans the runs for the rows of the task's blocks, and unstuffs for them. 0 or an enum stepback.
 */
static int jpegdec_plan_band(struct jpegdec *dec, struct jpegdec_image *image,
	const struct lanes *lanes, const struct jpegdec_layout *layout)
{
	struct jpegdec_task *task = &image->task;
	uint8_t *base = dec->memory + image->from;
	uint32_t *where = (void *)(base + layout->where);
	size_t blocks;
	int reason = mcu_plan_runs(&task->parse, &task->blocks, &task->request,
		(void *)(base + layout->runs), layout->run_capacity, where, &image->feed.run_count,
		&blocks);
	if (!reason && blocks > layout->block_capacity)
		reason = STEPBACK_SIZE;
	task->blocks.where = where;
	task->blocks.coefficients = image->feed.coefficients;
	return reason ? reason : jpegdec_unstuff(dec, image, lanes, layout->bytes);
}

/* Cuts the unstuffed scan into chunks, from the feed's chunk_place on. `row`: see chunk_plan.h. */
static void jpegdec_plan_chunks(struct jpegdec *dec, struct jpegdec_image *image,
	const struct jpegdec_layout *layout, uint32_t row)
{
	struct jpegdec_task *task = &image->task;
	uint8_t *base = dec->memory + image->from;
	const struct chunk_place *place = &image->feed.chunk_place;
	uint64_t bits = 8 * (uint64_t)image->feed.segments[0].bytes;
	image->chunks = (struct chunk_plan){
		.chunk = (void *)(base + layout->chunks),
		.marks = (void *)(base + layout->marks),
		.next_page = (void *)(base + layout->pages),
		.first = place->bit,
		.bits = (uint32_t)bits,
		.count = chunk_plan_count(bits - place->bit, task->chunk_bits),
		.pages = layout->page_count,
		.need = task->need - place->mcu,
		.mcus = task->parse.mcus_across * task->parse.mcus_down - place->mcu,
		.page_mcus = chunk_plan_page_mcus(task->parse.in_mcu),
		.row = row,
	};
	chunk_plan_begin(&image->chunks);
	image->feed.chunks = &image->chunks;
	image->feed.band = &task->blocks;
	image->feed.where = (void *)(base + layout->where);
	task->blocks.where = image->feed.where;
	task->blocks.coefficients = image->feed.coefficients;
}

static void jpegdec_row(void *context, const uint8_t *const rgb[DECODE_PLANES])
{
	struct jpegdec *dec = context;
	dec->delivering->delivered++;
	dec->source->rows->row(dec->source->rows->context, rgb);
}

/* Tells the stream that this image's rows come next, and sets up the planes. 0 or an enum stepback.
 */
static int jpegdec_rows_begin(
	struct jpegdec *dec, const struct jpegdec_task *task, struct planes_mcus *ret)
{
	static const enum planes_color colors[] = {
		[PARSE_GRAY] = PLANES_GRAY, [PARSE_YCC] = PLANES_YCC, [PARSE_RGB] = PLANES_RGB};
	const struct parse *parse = &task->parse;
	struct planes_frame frame = {.width = parse->width,
		.height = parse->height,
		.color = colors[parse->color],
		.shrink = task->job->shrink};
	for (unsigned i = 0; i < parse->components; i++) {
		const struct parse_component *c = &parse->component[i];
		frame.component[i] = (struct planes_component){c->h, c->v, parse->quant[c->quant]};
	}
	dec->delivering = task->job;
	enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_CONVERT);
	dec->source->rows->start(dec->source->rows->context, task->job);
	int reason = planes_begin(dec->planes, &frame, task->job->region, ret);
	(void)jpegdec_enter(dec, before);
	return reason;
}

/* Delivers the rows of the blocks that are complete. 0 or STEPBACK_RANGE. */
static int jpegdec_rows(
	struct jpegdec *dec, const struct blocks *blocks, const struct planes_mcus *mcus)
{
	uint32_t from = UTIL_MAX(blocks->mcu_y0, mcus->y0);
	uint32_t to = UTIL_MIN(blocks->mcu_y0 + blocks->rows, mcus->y1);
	int reason = 0;
	enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_TRANSFORM);
	for (uint32_t y = from; y < to && !reason; y++) {
		reason = planes_blocks(dec->planes, y, blocks);
		if (reason)
			break;
		(void)jpegdec_enter(dec, DECODE_STAGE_CONVERT);
		planes_rows(dec->planes, jpegdec_row, dec);
		(void)jpegdec_enter(dec, DECODE_STAGE_TRANSFORM);
	}
	(void)jpegdec_enter(dec, before);
	return reason;
}

/* Packs the entry points with those recorded and has the stream keep them; after a fault, a pack of
 * none. The first ones of a file may be too few for a pack. Then what is kept stays, or is cleared
 * if it did not fit the file. */
static void jpegdec_keep(struct jpegdec *dec, struct jpegdec_image *image, int reason)
{
	const struct decode_stream *rows = dec->source->rows;
	const struct jpegdec_task *task = &image->task;
	struct decode_job *job = task->job;
	struct entry_point *points = image->feed.record;
	uint32_t count = task->points;
	bool some = !reason && count < entry_point_count(&task->parse, task->request.piece);
	if (reason ||
		!entry_point_settle(job->data, job->size, points, image->feed.record_from, count))
		count = 0;
	size_t bytes = entry_pack_pack(job->data, job->size, dec->chosen->checksum, points, count,
		task->request.piece, dec->pack, job->entry_point_room);
	if (some && bytes == ENTRY_PACK_HEAD) {
		if (!(job->entry_points & DECODE_ENTRY_POINTS_DROPPED))
			return;
		memset(dec->pack, 0, bytes);
		count = 0;
	}
	if (bytes && rows->keep(rows->context, job, dec->pack, bytes) && count)
		job->entry_points |= DECODE_ENTRY_POINTS_MADE;
}

/* Notes what follows for the entry points of an image when all its blocks are complete, or when
 * they are not for `reason`. */
static void jpegdec_entered(struct jpegdec *dec, struct jpegdec_image *image, int reason)
{
	const struct jpegdec_task *task = &image->task;
	struct decode_job *job = task->job;
	if (reason == STEPBACK_SIZE)
		return;
	/* If the file's own data fails too, they may have been right up to there. */
	if (job->misled && !reason)
		job->entry_points |= DECODE_ENTRY_POINTS_DROPPED;
	if (job->entry == JPEGDEC_RECORD || (task->points > task->known && !reason)) {
		enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_ENTRY_POINTS);
		jpegdec_keep(dec, image, reason);
		(void)jpegdec_enter(dec, before);
	}
	if (job->entry == JPEGDEC_KEPT && !reason)
		job->entry_points |= DECODE_ENTRY_POINTS_USED;
}

static void jpegdec_finish(struct jpegdec *dec, struct decode_job *job, int reason)
{
	job->stepback = (unsigned)reason;
	dec->source->done(dec->source->context, job);
}

/* Decoding an image's blocks failed: tries it in the next way, or steps back. */
static void jpegdec_fail(struct jpegdec *dec, struct decode_job *job, int reason)
{
	bool kept = job->entry == JPEGDEC_KEPT && reason != STEPBACK_SIZE;
	if (kept || job->entry == JPEGDEC_RECORD) {
		job->entry = (uint8_t)(kept ? jpegdec_anew(dec, job) : JPEGDEC_PLAIN);
		job->misled |= kept;
		job->delivered = 0;
		job->link = dec->again;
		dec->again = job;
		return;
	}
	jpegdec_finish(dec, job, reason);
}

/* Decoding in chunks failed: decodes the image in order. */
static void jpegdec_astray(struct jpegdec *dec, struct decode_job *job)
{
	dec->astray = UTIL_MIN(dec->astray + JPEGDEC_ASTRAY, (unsigned)JPEGDEC_ASTRAY_MOST);
	job->in_order = true;
	job->delivered = 0;
	job->link = dec->again;
	dec->again = job;
}

static bool jpegdec_overlaps(const struct jpegdec *dec, size_t from, size_t to)
{
	for (int i = 0; i < JPEGDEC_IMAGES; i++)
		if (dec->image[i].task.job && from < dec->image[i].to && dec->image[i].from < to)
			return true;
	return false;
}

/* Finds a free piece of the memory: at its start, or after an image in flight. */
static bool jpegdec_piece(const struct jpegdec *dec, size_t bytes, size_t *ret_from)
{
	for (int i = -1; i < JPEGDEC_IMAGES; i++) {
		if (i >= 0 && !dec->image[i].task.job)
			continue;
		size_t from = i < 0 ? 0 : dec->image[i].to;
		if (bytes <= dec->bytes - from && !jpegdec_overlaps(dec, from, from + bytes)) {
			*ret_from = from;
			return true;
		}
	}
	return false;
}

static struct jpegdec_image *jpegdec_place(struct jpegdec *dec)
{
	for (int i = 0; i < JPEGDEC_IMAGES; i++)
		if (!dec->image[i].task.job)
			return &dec->image[i];
	return NULL;
}

/* Decodes and delivers the waiting image, which has several scans, in this piece of the memory. */
static void jpegdec_scans(struct jpegdec *dec, size_t from)
{
	struct jpegdec_task task = dec->waiting;
	struct planes_mcus mcus;
	dec->waiting.job = NULL;
	enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_ENTROPY);
	int reason = scans_decode(dec->scans, dec->chosen->unstuff, task.job->data, &task.parse,
		&dec->script, &dec->plan, dec->memory + from, &task.blocks);
	(void)jpegdec_enter(dec, before);
	if (!reason)
		reason = jpegdec_rows_begin(dec, &task, &mcus);
	if (!reason)
		reason = jpegdec_rows(dec, &task.blocks, &mcus);
	jpegdec_finish(dec, task.job, reason);
}

/* Takes in the waiting image. False: it has to wait longer, for memory or for another driver.
 * *ret_image: NULL if it cannot be entered in this way, or is done. */
static bool jpegdec_admit(struct jpegdec *dec, struct jpegdec_image **ret_image)
{
	struct jpegdec_image *image = jpegdec_place(dec);
	size_t from;
	*ret_image = NULL;
	if (dec->waiting.parse.several) {
		if (!jpegdec_piece(dec, dec->plan.end, &from))
			return false;
		jpegdec_scans(dec, from);
		return true;
	}
	if (!image || !jpegdec_joins(dec, &dec->waiting))
		return false;
	const uint32_t chunks = dec->waiting.chunks;
	if (dec->lanes != dec->chunks)
		dec->waiting.chunks = 0;
	struct jpegdec_layout layout = jpegdec_layout_whole(&dec->waiting, dec->lanes);
	if (!jpegdec_piece(dec, layout.end, &from)) {
		dec->waiting.chunks = chunks;
		return false;
	}
	*image =
		(struct jpegdec_image){.task = dec->waiting, .from = from, .to = from + layout.end};
	dec->waiting.job = NULL;
	enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_PARSE);
	int reason = jpegdec_prepare(dec, image, dec->lanes, &layout);
	if (!reason && image->task.chunks)
		jpegdec_plan_chunks(dec, image, &layout, 0);
	else if (!reason)
		reason = jpegdec_plan_band(dec, image, dec->lanes, &layout);
	if (reason) {
		struct decode_job *job = image->task.job;
		jpegdec_entered(dec, image, reason);
		image->task.job = NULL;
		jpegdec_fail(dec, job, reason);
	}
	(void)jpegdec_enter(dec, before);
	*ret_image = reason ? NULL : image;
	return true;
}

/* Gets the next image; those that are tried again come first. False: none. */
static bool jpegdec_get(struct jpegdec *dec, struct jpegdec_task *task)
{
	*task = (struct jpegdec_task){.job = dec->again};
	if (task->job) {
		dec->again = task->job->link;
		(void)parse_read(task->job->data, task->job->size, &task->parse);
	} else {
		task->job = dec->source->next(dec->source->context, &task->parse);
	}
	return task->job;
}

/* Reads the scans of the waiting image, and plans what the crop needs of them. 0 or an enum
 * stepback. */
static int jpegdec_scans_plan(struct jpegdec *dec, struct jpegdec_task *task)
{
	struct decode_job *job = task->job;
	int reason = script_read(job->data, job->size, &task->parse, &dec->script);
	if (reason)
		return reason;
	if (dec->script.count > job->scans_most ||
		dec->script.end - task->parse.scan > job->scans_bytes)
		return STEPBACK_SCAN;
	mcu_plan_blocks(&task->parse, jpegdec_region(job, &task->parse), &task->blocks);
	reason = scan_plan(&task->parse, &dec->script, &task->blocks, &dec->plan);
	job->memory = reason ? 0 : dec->plan.end;
	return reason;
}

/* Gets the next waiting image and plans it. False: none. */
static bool jpegdec_wants(struct jpegdec *dec)
{
	struct jpegdec_task *task = &dec->waiting;
	if (task->job)
		return true;
	while (jpegdec_get(dec, task)) {
		int reason = 0;
		enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_PARSE);
		if (task->parse.several)
			reason = jpegdec_scans_plan(dec, task);
		else
			jpegdec_task_plan(dec, task);
		(void)jpegdec_enter(dec, before);
		if (!reason)
			return true;
		struct decode_job *job = task->job;
		task->job = NULL;
		jpegdec_finish(dec, job, reason);
	}
	return false;
}

static struct feed_image *jpegdec_next(struct jpegdec *dec)
{
	while (jpegdec_wants(dec)) {
		struct jpegdec_image *image;
		if (!jpegdec_admit(dec, &image))
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

static void jpegdec_deliver(struct jpegdec *dec, struct jpegdec_image *image)
{
	const struct feed_image *feed = &image->feed;
	struct decode_job *job = image->task.job;
	struct planes_mcus mcus;
	if (feed->astray) {
		image->task.job = NULL;
		jpegdec_astray(dec, job);
		return;
	}
	dec->astray -= image->task.chunks && dec->astray;
	jpegdec_entered(dec, image, feed->outcome);
	if (feed->outcome) {
		image->task.job = NULL;
		jpegdec_fail(dec, job, feed->outcome);
		return;
	}
	int reason = jpegdec_rows_begin(dec, &image->task, &mcus);
	if (!reason)
		reason = jpegdec_rows(dec, &image->task.blocks, &mcus);
	image->task.job = NULL;
	jpegdec_finish(dec, job, reason);
}

static void jpegdec_done(void *context, struct feed_image *feed)
{
	struct jpegdec *dec = context;
	enum decode_stage before = jpegdec_enter(context, DECODE_STAGE_OTHER);
	jpegdec_deliver(
		context, (struct jpegdec_image *)(void *)((char *)feed -
							  offsetof(struct jpegdec_image, feed)));
	/* There may be memory now for the image that waits. */
	if (dec->waiting.job)
		dec->feed->dry = false;
	(void)jpegdec_enter(context, before);
}

/* How many rows a band may have when it has all the memory, and its layout; 0: not even one fits.
 */
static uint32_t jpegdec_band_rows(
	const struct jpegdec *dec, const struct jpegdec_task *task, struct jpegdec_layout *layout)
{
	enum { BLOCK_BYTES = BLOCKS_SIZE * sizeof(int16_t) };
	/* Each MCU kept has a place of 4 bytes in `where`, and at least one block. */
	size_t taken =
		layout->runs + JPEGDEC_BAND_RUNS * sizeof(struct mcu_plan_run) + 2 * BLOCKS_ALIGN;
	if (dec->bytes <= taken)
		return 0;
	uint64_t blocks = (dec->bytes - taken) / (BLOCK_BYTES + sizeof(uint32_t));
	uint32_t rows = mcu_plan_rows(
		&task->parse, &task->blocks, &task->request, blocks, JPEGDEC_BAND_RUNS);
	jpegdec_layout_band(
		layout, (uint64_t)rows * task->blocks.columns, JPEGDEC_BAND_RUNS, blocks);
	return rows;
}

/* Sets where the next band begins to decode. With kept entry points that is one of them, since the
 * bytes after the last band's end have not been unstuffed. */
static void jpegdec_band_next(struct jpegdec_image *image)
{
	const struct mcu_plan_run *last = &image->feed.runs[image->feed.run_count - 1];
	image->task.blocks.mcu_y0 += image->task.blocks.rows;
	if (image->task.job->entry != JPEGDEC_KEPT)
		image->task.request.resume = last->mcu + last->mcus;
}

/* Decodes band after band of `rows` rows. 0 or an enum stepback; *ret_entered: that of the blocks.
 */
static int jpegdec_bands(struct jpegdec *dec, struct jpegdec_image *image,
	const struct lanes *lanes, const struct jpegdec_layout *layout, uint32_t rows,
	int *ret_entered)
{
	struct planes_mcus mcus;
	struct blocks *blocks = &image->task.blocks;
	uint32_t end = blocks->mcu_y0 + blocks->rows;
	int reason = jpegdec_rows_begin(dec, &image->task, &mcus);
	while (!reason && blocks->mcu_y0 < end) {
		blocks->rows = UTIL_MIN(rows, end - blocks->mcu_y0);
		image->feed.cursor = 0;
		*ret_entered = jpegdec_plan_band(dec, image, lanes, layout);
		if (!*ret_entered) {
			enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_ENTROPY);
			*ret_entered = feed_decode_one(&image->feed, lanes);
			(void)jpegdec_enter(dec, before);
		}
		if (*ret_entered)
			return *ret_entered;
		reason = jpegdec_rows(dec, blocks, &mcus);
		jpegdec_band_next(image);
	}
	return reason;
}

/* How long the chunks of an image are that is decoded in parts. Those of a smooth image have more
 * blocks than others, and there would be few of them in a part. */
static uint32_t jpegdec_parts_bits(const struct jpegdec_task *task)
{
	const struct parse *parse = &task->parse;
	uint64_t blocks = (uint64_t)parse->mcus_across * parse->mcus_down * parse->in_mcu;
	uint64_t bits = JPEGDEC_PARTS_BLOCKS * 8 * task->bytes / blocks;
	bits = UTIL_MAX(bits, (uint64_t)JPEGDEC_PARTS_BITS);
	return (uint32_t)UTIL_MIN(bits, (uint64_t)CHUNK_PLAN_BITS);
}

/* Lays out an image that is decoded in chunks, part by part, in all the memory. False: that is too
 * little, or the image has to be decoded in order. */
static bool jpegdec_layout_parts(
	const struct jpegdec *dec, struct jpegdec_task *task, struct jpegdec_layout *layout)
{
	if (!task->chunks)
		return false;
	task->chunk_bits = jpegdec_parts_bits(task);
	task->chunks = chunk_plan_count(8 * task->bytes, task->chunk_bits);
	*layout = jpegdec_layout_fixed(task, dec->chunks);
	jpegdec_layout_chunks(layout, task, 0);
	uint32_t page_mcus = chunk_plan_page_mcus(task->parse.in_mcu);
	size_t page = chunk_blocks_stride(page_mcus, task->parse.in_mcu) * BLOCKS_SIZE *
			      sizeof(int16_t) +
		      (page_mcus + 1) * sizeof(uint32_t);
	size_t taken = layout->end + 2 * BLOCKS_ALIGN;
	if (dec->bytes < taken + JPEGDEC_PARTS_BYTES)
		return false;
	jpegdec_layout_chunks(layout, task, (dec->bytes - taken) / page);
	return true;
}

/* Decodes part after part in chunks. 0 or an enum stepback. */
static int jpegdec_parts(
	struct jpegdec *dec, struct jpegdec_image *image, const struct jpegdec_layout *layout)
{
	struct planes_mcus mcus;
	struct blocks *blocks = &image->task.blocks;
	const uint32_t across = image->task.parse.mcus_across, end = blocks->mcu_y0 + blocks->rows;
	int reason = jpegdec_rows_begin(dec, &image->task, &mcus);
	while (!reason && blocks->mcu_y0 < end) {
		blocks->rows = end - blocks->mcu_y0;
		jpegdec_plan_chunks(dec, image, layout, across);
		enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_ENTROPY);
		(void)feed_decode_one(&image->feed, dec->chunks);
		(void)jpegdec_enter(dec, before);
		if (image->feed.astray)
			return 0;
		uint32_t mcu = image->feed.chunk_place.mcu;
		uint32_t y = mcu == image->task.need ? end : mcu / across;
		if (y <= blocks->mcu_y0)
			continue;
		blocks->rows = y - blocks->mcu_y0;
		reason = jpegdec_rows(dec, blocks, &mcus);
		blocks->mcu_y0 = y;
	}
	return reason;
}

/* Decodes the waiting image by itself in chunks; no other image is in flight. False: it has to be
 * decoded in order. */
static bool jpegdec_alone_in_chunks(struct jpegdec *dec)
{
	struct jpegdec_image *image = &dec->image[0];
	struct jpegdec_layout layout;
	if (!jpegdec_layout_parts(dec, &dec->waiting, &layout))
		return false;
	*image = (struct jpegdec_image){.task = dec->waiting, .to = dec->bytes};
	dec->waiting.job = NULL;
	struct decode_job *job = image->task.job;
	int entered = jpegdec_prepare(dec, image, dec->chunks, &layout), reason = 0;
	if (!entered)
		reason = jpegdec_parts(dec, image, &layout);
	bool astray = !entered && image->feed.astray;
	dec->astray -= !astray && dec->astray;
	if (entered || (!reason && !astray))
		jpegdec_entered(dec, image, entered);
	image->task.job = NULL;
	if (astray)
		jpegdec_astray(dec, job);
	else if (entered)
		jpegdec_fail(dec, job, entered);
	else
		jpegdec_finish(dec, job, reason);
	return true;
}

/* The same in order, in bands. */
static void jpegdec_alone(struct jpegdec *dec)
{
	struct jpegdec_image *image = &dec->image[0];
	*image = (struct jpegdec_image){.task = dec->waiting, .to = dec->bytes};
	dec->waiting.job = NULL;
	struct decode_job *job = image->task.job;
	image->task.chunks = 0;
	const struct lanes *lanes = jpegdec_lanes(dec, &image->task, 1);
	struct jpegdec_layout layout = jpegdec_layout_fixed(&image->task, lanes);
	uint32_t rows = jpegdec_band_rows(dec, &image->task, &layout);
	int entered = rows ? jpegdec_prepare(dec, image, lanes, &layout) : STEPBACK_SIZE,
	    reason = 0;
	if (!entered)
		reason = jpegdec_bands(dec, image, lanes, &layout, rows, &entered);
	/* If the pixels stepped back, there may be more bands, which were not decoded. */
	if (entered || !reason)
		jpegdec_entered(dec, image, entered);
	image->task.job = NULL;
	if (entered)
		jpegdec_fail(dec, job, entered);
	else
		jpegdec_finish(dec, job, reason);
}

/* Chooses the driver for the waiting image; false when it has to be decoded by itself. */
static bool jpegdec_fits_as_planned(struct jpegdec *dec)
{
	struct jpegdec_task *task = &dec->waiting;
	const uint32_t chunks = task->chunks;
	dec->lanes = jpegdec_lanes(dec, task, JPEGDEC_USUAL);
	if (dec->lanes == dec->chunks && jpegdec_layout_whole(task, dec->lanes).end > dec->bytes)
		task->chunks = 0;
	if (!task->chunks)
		dec->lanes = jpegdec_lanes(dec, task, JPEGDEC_USUAL);
	else if (dec->lanes != dec->chunks)
		task->chunks = 0;
	if (jpegdec_layout_whole(task, dec->lanes).end <= dec->bytes)
		return true;
	task->chunks = chunks;
	return false;
}

/* The same; an image that does not fit and needs MCUs after its last kept entry point is decoded
 * from its start, since each of its bands would begin at that entry point again. */
static bool jpegdec_fits(struct jpegdec *dec)
{
	struct jpegdec_task *task = &dec->waiting;
	struct decode_job *job = task->job;
	if (jpegdec_fits_as_planned(dec))
		return true;
	if (!jpegdec_task_goes_beyond(task))
		return false;
	job->entry = (uint8_t)jpegdec_anew(dec, job);
	jpegdec_task_start(dec, task);
	return jpegdec_fits_as_planned(dec);
}

/* The same where no other image is in flight. */
static void jpegdec_scans_alone(struct jpegdec *dec)
{
	if (dec->plan.end <= dec->bytes) {
		jpegdec_scans(dec, 0);
		return;
	}
	struct decode_job *job = dec->waiting.job;
	dec->waiting.job = NULL;
	jpegdec_finish(dec, job, STEPBACK_SIZE);
}

void jpegdec_run(
	struct jpegdec *dec, uint8_t *memory, size_t bytes, const struct jpegdec_source *source)
{
	dec->memory = memory;
	dec->bytes = bytes;
	dec->source = source;
	while (jpegdec_wants(dec)) {
		if (dec->waiting.parse.several) {
			jpegdec_scans_alone(dec);
		} else if (jpegdec_fits(dec)) {
			struct feed feed = {
				.more = jpegdec_more, .done = jpegdec_done, .context = dec};
			enum decode_stage before = jpegdec_enter(dec, DECODE_STAGE_ENTROPY);
			dec->feed = &feed;
			feed_decode(&feed, dec->lanes);
			dec->feed = NULL;
			(void)jpegdec_enter(dec, before);
		} else if (!jpegdec_alone_in_chunks(dec)) {
			jpegdec_alone(dec);
		}
	}
}

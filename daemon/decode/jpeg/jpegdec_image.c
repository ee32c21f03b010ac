/* jpegdec_image: the steps of an image from its bytes to its rows, and what follows from their
 * outcome; see jpegdec_impl.h. */
#include "decode/jpeg/jpegdec_impl.h"

#include "base/util.h"

#include <string.h>

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

int jpegdec_prepare(struct jpegdec *dec, struct jpegdec_image *image, const struct lanes *lanes,
	const struct jpegdec_layout *layout)
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

int jpegdec_plan_band(struct jpegdec *dec, struct jpegdec_image *image, const struct lanes *lanes,
	const struct jpegdec_layout *layout)
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

void jpegdec_plan_chunks(struct jpegdec *dec, struct jpegdec_image *image,
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

int jpegdec_rows_begin(
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

int jpegdec_rows(struct jpegdec *dec, const struct blocks *blocks, const struct planes_mcus *mcus)
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

void jpegdec_entered(struct jpegdec *dec, struct jpegdec_image *image, int reason)
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

void jpegdec_finish(struct jpegdec *dec, struct decode_job *job, int reason)
{
	job->stepback = (unsigned)reason;
	dec->source->done(dec->source->context, job);
}

void jpegdec_fail(struct jpegdec *dec, struct decode_job *job, int reason)
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

void jpegdec_astray(struct jpegdec *dec, struct decode_job *job)
{
	dec->astray = UTIL_MIN(dec->astray + JPEGDEC_ASTRAY, (unsigned)JPEGDEC_ASTRAY_MOST);
	job->in_order = true;
	job->delivered = 0;
	job->link = dec->again;
	dec->again = job;
}

/* jpegdec_task: plans what a crop needs of an image, and where decoding can enter; see
 * jpegdec_impl.h. */
#include "decode/jpeg/jpegdec_impl.h"

#include "base/util.h"

#include <assert.h>

enum jpegdec_entry jpegdec_anew(const struct jpegdec *dec, struct decode_job *job)
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

bool jpegdec_task_goes_beyond(const struct jpegdec_task *task)
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

void jpegdec_task_start(struct jpegdec *dec, struct jpegdec_task *task)
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

void jpegdec_task_plan(struct jpegdec *dec, struct jpegdec_task *task)
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

const struct lanes *jpegdec_lanes(
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

int jpegdec_scans_plan(struct jpegdec *dec, struct jpegdec_task *task)
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

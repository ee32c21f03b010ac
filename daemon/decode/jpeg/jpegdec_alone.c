/* jpegdec_alone: decodes an image that does not fit next to others, or at all; see jpegdec_impl.h.
 */
#include "decode/jpeg/jpegdec_impl.h"

#include "base/util.h"

enum { JPEGDEC_DROPPED = 4 };

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

/* Whether to go on part by part. Where chunks do not get in step, a part decodes all of its pages
 * for a few rows. So there is a balance of MCUs: what is dropped may be JPEGDEC_DROPPED times what
 * is kept, and one part more. */
static bool jpegdec_parts_pay(const struct chunk_plan *plan, uint64_t *balance)
{
	const uint64_t decoded = (uint64_t)plan->used * plan->page_mcus;
	*balance += (uint64_t)JPEGDEC_DROPPED * plan->need;
	bool pays = *balance >= decoded;
	*balance -= pays ? decoded : 0;
	return pays;
}

/* Decodes part after part in chunks. 0 or an enum stepback. */
static int jpegdec_parts(
	struct jpegdec *dec, struct jpegdec_image *image, const struct jpegdec_layout *layout)
{
	struct planes_mcus mcus;
	struct blocks *blocks = &image->task.blocks;
	const uint32_t across = image->task.parse.mcus_across, end = blocks->mcu_y0 + blocks->rows;
	uint64_t balance =
		(uint64_t)layout->page_count * chunk_plan_page_mcus(image->task.parse.in_mcu);
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
		if (mcu < image->task.need && !jpegdec_parts_pay(&image->chunks, &balance)) {
			image->feed.astray = true;
			return 0;
		}
		uint32_t y = mcu == image->task.need ? end : mcu / across;
		if (y <= blocks->mcu_y0)
			continue;
		blocks->rows = y - blocks->mcu_y0;
		reason = jpegdec_rows(dec, blocks, &mcus);
		blocks->mcu_y0 = y;
	}
	return reason;
}

bool jpegdec_alone_in_chunks(struct jpegdec *dec)
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
	dec->astray -= !entered && !astray && dec->astray;
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

void jpegdec_alone(struct jpegdec *dec)
{
	struct jpegdec_image *image = &dec->image[0];
	*image = (struct jpegdec_image){.task = dec->waiting, .to = dec->bytes};
	dec->waiting.job = NULL;
	struct decode_job *job = image->task.job;
	image->task.chunks = 0;
	const struct lanes *lanes = jpegdec_lanes(dec, &image->task, 1);
	struct jpegdec_layout layout = jpegdec_layout_fixed(&image->task, lanes);
	uint32_t rows = jpegdec_layout_bands(dec, &image->task, &layout);
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

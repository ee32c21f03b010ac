/* jpegdec: see jpegdec.h. Here are the images in flight. */
#include "decode/jpeg/jpegdec.h"

#include "base/util.h"
#include "decode/jpeg/jpegdec_impl.h"

#include <errno.h>
#include <string.h>

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

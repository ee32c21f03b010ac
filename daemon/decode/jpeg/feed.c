/* feed: see feed.h. */
#include "decode/jpeg/feed.h"

#include <string.h>

static uint32_t image_mcus(const struct feed_image *image)
{
	return image->parse->mcus_across * image->parse->mcus_down;
}

/* The first run after the chain that begins at `run`. */
static size_t chain_end(const struct feed_image *image, size_t run)
{
	do
		run++;
	while (run < image->run_count && image->runs[run].entry == MCU_PLAN_ON);
	return run;
}

static enum lane_ends ends_how(const struct feed_image *image, const struct mcu_plan_run *run)
{
	uint32_t end = run->mcu + run->mcus;
	if (end == image_mcus(image))
		return LANE_ENDS;
	if (!image->interval || end % image->interval)
		return LANE_GOES_ON;
	if (!image->entry_points)
		return LANE_ENDS;
	return end / image->interval < image->entry_point_count ? LANE_ENDS_HERE : LANE_GOES_ON;
}

static void set_run(struct feed_image *image, struct lane *lane, size_t number)
{
	const struct mcu_plan_run *run = &image->runs[number];
	lane->run = number;
	lane->mcus = run->mcus;
	lane->blocks = run->block == MCU_PLAN_NOWHERE
			       ? NULL
			       : image->coefficients + (size_t)run->block * BLOCKS_SIZE;
	lane->ends = ends_how(image, run);
}

static void set_place(struct lane *lane, const struct feed_place *place)
{
	lane->bytes = place->bytes;
	lane->bits = place->bits;
	lane->bit = place->bit;
	memcpy(lane->dc, place->dc, sizeof(lane->dc));
}

/* Enters at an entry point. False: it is not in the file. */
static bool enter(const struct feed_image *image, struct lane *lane, uint32_t entry)
{
	if (entry == MCU_PLAN_RESUME) {
		set_place(lane, &image->place);
		return true;
	}
	if (entry < image->entry0 || entry - image->entry0 >= image->segment_count)
		return false;
	const struct unstuff_segment *segment = &image->segments[entry - image->entry0];
	struct feed_place place = {
		.bytes = image->bytes + segment->start,
		.bits = (uint64_t)segment->bytes * 8,
	};
	if (image->entry_points) {
		const struct entry_point *at = &image->entry_points[entry];
		place.bit = at->bit % 8;
		/* The stretch ends inside its last byte, at the next entry point. */
		if (entry + 1 < image->entry_point_count && at[1].bit % 8 && place.bits)
			place.bits -= 8 - at[1].bit % 8;
		for (unsigned i = 0; i < BLOCKS_COMPONENTS; i++)
			place.dc[i] = at->dc[i];
	}
	set_place(lane, &place);
	return true;
}

/* Whether a run that ended at an entry point has the predictions recorded there. */
static bool meets_entry_point(const struct feed_image *image, const struct lane *lane)
{
	const struct mcu_plan_run *run = &image->runs[lane->run];
	const struct entry_point *at =
		&image->entry_points[(run->mcu + run->mcus) / image->interval];
	for (unsigned i = 0; i < image->parse->components; i++)
		if (at->dc[i] != lane->dc[i])
			return false;
	return true;
}

static void note_entry_point(struct feed_image *image, const struct lane *lane)
{
	const struct mcu_plan_run *run = &image->runs[lane->run];
	uint32_t end = run->mcu + run->mcus, number = end / image->record_interval;
	if (end % image->record_interval || number <= image->record_from ||
		number >= image->record_count)
		return;
	struct entry_point *at = &image->record[number];
	at->bit = lane->bit;
	for (unsigned i = 0; i < BLOCKS_COMPONENTS; i++)
		at->dc[i] = (int16_t)lane->dc[i];
}

/* Takes in the outcome of a run. */
static void account(struct feed_image *image, const struct lane *lane)
{
	int outcome = lane->outcome;
	if (!outcome && lane->ends == LANE_ENDS_HERE && !meets_entry_point(image, lane))
		outcome = STEPBACK_ENTRY_POINT;
	if (outcome && !image->outcome)
		image->outcome = outcome;
	if (!outcome && image->record)
		note_entry_point(image, lane);
	if (lane->run + 1 == image->run_count) {
		image->place = (struct feed_place){lane->bytes, lane->bits, lane->bit, {0}};
		memcpy(image->place.dc, lane->dc, sizeof(lane->dc));
	}
}

static struct feed_image *chunks_with_work(const struct feed *feed)
{
	struct feed_image *image = feed->open;
	while (image && !chunk_plan_ready(image->chunks))
		image = image->link;
	return image;
}

static void open_chunks(struct feed *feed, struct feed_image *image)
{
	struct feed_image **last = &feed->open;
	while (*last)
		last = &(*last)->link;
	image->link = NULL;
	*last = image;
}

static void close_chunks(struct feed *feed, const struct feed_image *image)
{
	struct feed_image **link = &feed->open;
	while (*link != image)
		link = &(*link)->link;
	*link = image->link;
}

static struct feed_image *image_with_work(struct feed *feed)
{
	for (;;) {
		struct feed_image *chunks = chunks_with_work(feed);
		if (chunks)
			return chunks;
		struct feed_image *image = feed->current;
		if (image && image->cursor < image->run_count)
			return image;
		image = feed->dry ? NULL : feed->more(feed->context);
		if (!image) {
			feed->dry = true;
			return NULL;
		}
		if (image->chunks) {
			open_chunks(feed, image);
			continue;
		}
		feed->current = image;
	}
}

/* Makes the image's blocks out of a complete plan's pages. */
static void settle_chunks(struct feed_image *image)
{
	const struct chunk_blocks blocks = {
		.parse = image->parse,
		.plan = image->chunks,
		.band = image->band,
		.coefficients = image->coefficients,
		.where = image->where,
		.record = image->record,
		.record_interval = image->record_interval,
	};
	int outcome = image->chunks->state == CHUNK_PLAN_COMPLETE
			      ? chunk_blocks_settle(&blocks, &image->chunk_place)
			      : STEPBACK_CODE;
	image->outcome = outcome;
	image->astray = outcome != 0;
}

static void leave(struct feed *feed, struct feed_image *image)
{
	if (image->chunks) {
		if (--image->lanes || image->chunks->state == CHUNK_PLAN_OPEN)
			return;
		close_chunks(feed, image);
		settle_chunks(image);
		feed->done(feed->context, image);
		return;
	}
	if (image->outcome)
		image->cursor = image->run_count;
	if (--image->lanes == 0 && image->cursor == image->run_count) {
		if (feed->current == image)
			feed->current = NULL;
		feed->done(feed->context, image);
	}
}

/* Takes the next run of the image's chunks. False: it has none after all. */
static bool take_chunk(struct feed_image *image, struct lane *lane)
{
	struct chunk_plan *plan = image->chunks;
	struct chunk_plan_run run;
	if (!chunk_plan_next(plan, &run))
		return false;
	size_t block = run.page * chunk_blocks_stride(plan->page_mcus, image->parse->in_mcu) +
		       (size_t)run.at * image->parse->in_mcu;
	lane->huffman = image->huffman;
	lane->bytes = image->bytes + image->segments[0].start;
	lane->bits = plan->bits;
	lane->bit = run.bit;
	lane->stop = run.stop;
	lane->mcus = run.mcus;
	lane->marks = plan->marks + (size_t)run.page * plan->page_mcus + run.at;
	lane->blocks = image->coefficients + block * BLOCKS_SIZE;
	lane->run = run.chunk;
	return true;
}

static bool feed_next(void *context, struct lane *lane)
{
	struct feed *feed = context;
	struct feed_image *image = lane->owner;
	if (image && image->chunks) {
		chunk_plan_ended(image->chunks, (uint32_t)lane->run, lane->complete, lane->bit,
			lane->outcome != 0);
		if (chunk_plan_ready(image->chunks) && take_chunk(image, lane))
			return true;
		leave(feed, image);
	} else if (image) {
		account(image, lane);
		if (!image->outcome && lane->run + 1 < lane->run_end) {
			set_run(image, lane, lane->run + 1);
			return true;
		}
		leave(feed, image);
	}
	for (;;) {
		image = image_with_work(feed);
		lane->owner = image;
		if (!image)
			return false;
		image->lanes++;
		if (image->chunks) {
			if (take_chunk(image, lane))
				return true;
			leave(feed, image);
			continue;
		}
		lane->marks = NULL;
		size_t run = image->cursor;
		image->cursor = lane->run_end = chain_end(image, run);
		lane->huffman = image->huffman;
		if (enter(image, lane, image->runs[run].entry)) {
			set_run(image, lane, run);
			return true;
		}
		if (!image->outcome)
			image->outcome =
				image->entry_points ? STEPBACK_ENTRY_POINT : STEPBACK_RESTART;
		leave(feed, image);
	}
}

void feed_decode(struct feed *feed, const struct lanes *lanes)
{
	lanes->decode(feed_next, feed);
}

static struct feed_image *more_once(void *context)
{
	struct feed_image **image = context, *found = *image;
	*image = NULL;
	return found;
}

static void done_nothing(void *context, struct feed_image *image)
{
	(void)context, (void)image;
}

int feed_decode_one(struct feed_image *image, const struct lanes *lanes)
{
	struct feed_image *left = image;
	struct feed feed = {.more = more_once, .done = done_nothing, .context = &left};
	feed_decode(&feed, lanes);
	return image->outcome;
}

/* Finds the next adjacent entries from run *run on, and moves *run past them. False: none. */
static bool next_entries(
	const struct feed_image *image, size_t *run, uint32_t *ret_first, uint32_t *ret_last)
{
	bool found = false;
	for (; *run < image->run_count; ++*run) {
		uint32_t entry = image->runs[*run].entry;
		if (entry == MCU_PLAN_ON || entry == MCU_PLAN_RESUME)
			continue;
		if (found && entry != *ret_last + 1)
			break;
		if (!found)
			*ret_first = entry;
		*ret_last = entry;
		found = true;
	}
	return found;
}

int feed_unstuff(const struct feed_image *image, unstuff_fn *unstuff, const uint8_t *data,
	size_t size, uint8_t *out, struct unstuff_segment *segments, size_t capacity,
	size_t *ret_bytes)
{
	size_t written = 0, bytes, run = 0;
	uint32_t first = 0, last = 0;
	memset(segments, 0, capacity * sizeof(*segments));
	while (next_entries(image, &run, &first, &last)) {
		if (first < image->entry0 || last - image->entry0 >= capacity ||
			last >= image->entry_point_count)
			return STEPBACK_ENTRY_POINT;
		struct unstuff_segment *to = segments + (first - image->entry0);
		int reason =
			entry_point_unstuff(unstuff, image->parse, data, size, image->entry_points,
				image->entry_point_count, first, last, out + written, to, &bytes);
		if (reason)
			return reason;
		if (written + bytes > UINT32_MAX)
			return STEPBACK_SIZE;
		for (uint32_t entry = first; entry <= last; entry++)
			to[entry - first].start += (uint32_t)written;
		written += bytes;
	}
	*ret_bytes = written;
	return 0;
}

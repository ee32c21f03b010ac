/* own: see own.h. */
#include "decode/own.h"

#include "base/util.h"
#include "decode/feed.h"
#include "decode/planes.h"

#include <errno.h>
#include <string.h>

enum {
	OWN_IMAGES = 16, /* in flight, at most */
	OWN_USUAL = 4, /* in flight, as a rule */
	OWN_BAND_RUNS = 4096,
};

/* Where the parts of an image's piece lie. What all bands share comes first. */
struct own_layout {
	size_t tables, segments, bytes, runs, where, coefficients, end;
	size_t run_capacity;
	uint64_t block_capacity;
};

/* An image in flight. */
struct own_image {
	struct decode_job *job; /* NULL: this place is free */
	size_t from, to; /* its piece of the memory */
	struct parse parse;
	struct blocks blocks;
	struct plan_request request;
	struct huffman huffman;
	struct feed_image feed;
};

struct own {
	const struct lanes *chosen;
	struct planes *planes;
	uint8_t *memory; /* lent for one own_run */
	size_t bytes;
	const struct own_source *source;
	const struct lanes *lanes; /* that all images in flight are decoded with */
	struct decode_job *waiting; /* asked for, and not begun; its headers in `parse` */
	struct parse parse;
	struct decode_job *delivering; /* whose rows come */
	struct own_image image[OWN_IMAGES];
};

int own_new(struct own **ret, struct fault *fault)
{
	struct own *own = calloc(1, sizeof(*own));
	if (!own)
		return fault_set(fault, -ENOMEM, "decoder: no memory; use fewer threads");
	int result = lanes_choose(&own->chosen, fault);
	if (!result)
		result = planes_new(&own->planes, fault);
	if (result) {
		own_free(own);
		return result;
	}
	*ret = own;
	return 0;
}

void own_free(struct own *own)
{
	if (!own)
		return;
	planes_free(own->planes);
	free(own);
}

uint64_t own_bytes(void)
{
	return sizeof(struct own) + planes_bytes();
}

/* What a crop needs of the image and where it can be entered. */
static void own_plan(const struct parse *parse, struct decode_region region, struct blocks *blocks,
	struct plan_request *request)
{
	uint32_t mcus = parse->mcus_across * parse->mcus_down;
	plan_blocks(parse, region, blocks);
	*request = (struct plan_request){.interval = parse->restart_mcus, .entries = 1};
	if (parse->restart_mcus)
		request->entries = (mcus - 1) / parse->restart_mcus + 1;
}

/* The driver that suits an image which has so many others beside it. */
static const struct lanes *own_lanes(const struct own *own, const struct blocks *blocks,
	const struct plan_request *request, size_t images)
{
	size_t chains = 1;
	if (request->interval)
		chains += (size_t)blocks->rows * blocks->columns / request->interval;
	return lanes_for(own->chosen, chains * images);
}

static size_t own_carve(size_t *at, uint64_t bytes)
{
	size_t here = *at;
	*at += (size_t)util_align(bytes, BLOCKS_ALIGN);
	return here;
}

/* Lays out what all bands share. */
static struct own_layout own_layout_fixed(
	const struct parse *parse, size_t size, uint32_t entries, const struct lanes *lanes)
{
	struct own_layout layout = {0};
	size_t at = 0;
	layout.tables = own_carve(&at, huffman_tables_bytes(lanes->kind));
	layout.segments = own_carve(&at, (uint64_t)entries * sizeof(struct unstuff_segment));
	layout.bytes = own_carve(&at, size - parse->scan + LANE_SLACK);
	layout.runs = at;
	return layout;
}

/* Adds what a band takes. */
static void own_layout_band(struct own_layout *layout, uint64_t mcus, size_t runs, uint64_t blocks)
{
	size_t at = layout->runs;
	layout->run_capacity = runs;
	layout->block_capacity = blocks;
	(void)own_carve(&at, runs * sizeof(struct plan_run));
	layout->where = own_carve(&at, mcus * sizeof(uint32_t));
	layout->coefficients =
		own_carve(&at, blocks * BLOCKS_SIZE * sizeof(*(struct blocks){0}.coefficients));
	layout->end = at;
}

static struct own_layout own_layout_whole(const struct parse *parse, size_t size,
	const struct blocks *blocks, const struct plan_request *request, const struct lanes *lanes)
{
	struct own_layout layout = own_layout_fixed(parse, size, request->entries, lanes);
	own_layout_band(&layout, (uint64_t)blocks->rows * blocks->columns,
		plan_runs_most(parse, blocks, request, blocks->rows),
		plan_blocks_most(parse, blocks, request, blocks->rows));
	return layout;
}

/* Unstuffed bytes, segments and tables. 0 or an enum stepback. */
static int own_prepare(struct own *own, struct own_image *image, const struct lanes *lanes,
	const struct own_layout *layout)
{
	const struct decode_job *job = image->job;
	const struct parse *parse = &image->parse;
	uint8_t *base = own->memory + image->from, *bytes = base + layout->bytes;
	struct unstuff_segment *segments = (void *)(base + layout->segments);
	struct unstuff_found found;
	int reason = huffman_build(
		parse, lanes->kind, (uint32_t *)(void *)(base + layout->tables), &image->huffman);
	if (!reason)
		reason = unstuff_scan(lanes->unstuff, bytes, job->data + parse->scan,
			job->size - parse->scan, segments, image->request.entries, &found);
	if (!reason &&
		!unstuff_is_marker(job->data + parse->scan, job->size - parse->scan, found.end))
		reason = STEPBACK_END;
	if (reason)
		return reason;
	memset(bytes + found.bytes, 0, LANE_SLACK);
	image->feed = (struct feed_image){
		.parse = parse,
		.huffman = &image->huffman,
		.runs = (void *)(base + layout->runs),
		.interval = image->request.interval,
		.bytes = bytes,
		.segments = segments,
		.segment_count = found.segments,
		.coefficients = (void *)(base + layout->coefficients),
	};
	return 0;
}

/* Plans the rows that image->blocks has. 0 or STEPBACK_SIZE. */
static int own_plan_band(struct own *own, struct own_image *image, const struct own_layout *layout)
{
	uint8_t *base = own->memory + image->from;
	uint32_t *where = (void *)(base + layout->where);
	size_t blocks;
	int reason = plan_runs(&image->parse, &image->blocks, &image->request,
		(void *)(base + layout->runs), layout->run_capacity, where, &image->feed.run_count,
		&blocks);
	if (!reason && blocks > layout->block_capacity)
		reason = STEPBACK_SIZE;
	image->blocks.where = where;
	image->blocks.coefficients = image->feed.coefficients;
	return reason;
}

static void own_row(void *context, uint8_t *rgb)
{
	struct own *own = context;
	own->delivering->delivered++;
	own->source->rows->row(own->source->rows->context, rgb);
}

/* Tells the receiver that rows come, and the planes what they come from. 0 or an enum stepback. */
static int own_rows_begin(struct own *own, struct own_image *image, struct planes_mcus *ret)
{
	static const enum planes_colour colours[] = {
		[PARSE_GRAY] = PLANES_GRAY, [PARSE_YCC] = PLANES_YCC, [PARSE_RGB] = PLANES_RGB};
	const struct parse *parse = &image->parse;
	struct planes_frame frame = {
		.width = parse->width, .height = parse->height, .colour = colours[parse->colour]};
	for (unsigned i = 0; i < parse->components; i++) {
		const struct parse_component *c = &parse->component[i];
		frame.component[i] = (struct planes_component){c->h, c->v, parse->quant[c->quant]};
	}
	own->delivering = image->job;
	own->source->rows->start(own->source->rows->context, image->job);
	return planes_begin(own->planes, &frame, image->job->region, ret);
}

/* The rows of the blocks that are there. 0 or STEPBACK_RANGE. */
static int own_rows(struct own *own, const struct blocks *blocks, const struct planes_mcus *mcus)
{
	uint32_t from = UTIL_MAX(blocks->mcu_y0, mcus->y0);
	uint32_t to = UTIL_MIN(blocks->mcu_y0 + blocks->rows, mcus->y1);
	for (uint32_t y = from; y < to; y++) {
		int reason = planes_blocks(own->planes, y, blocks);
		if (reason)
			return reason;
		planes_rows(own->planes, own_row, own);
	}
	return 0;
}

static void own_finish(struct own *own, struct decode_job *job, int reason)
{
	job->stepback = (unsigned)reason;
	own->source->done(own->source->context, job);
}

static bool own_overlaps(const struct own *own, size_t from, size_t to)
{
	for (int i = 0; i < OWN_IMAGES; i++)
		if (own->image[i].job && from < own->image[i].to && own->image[i].from < to)
			return true;
	return false;
}

/* Finds a piece of the memory: at its start, or behind an image in flight. */
static bool own_piece(const struct own *own, size_t bytes, size_t *ret_from)
{
	for (int i = -1; i < OWN_IMAGES; i++) {
		if (i >= 0 && !own->image[i].job)
			continue;
		size_t from = i < 0 ? 0 : own->image[i].to;
		if (bytes <= own->bytes - from && !own_overlaps(own, from, from + bytes)) {
			*ret_from = from;
			return true;
		}
	}
	return false;
}

static struct own_image *own_place(struct own *own)
{
	for (int i = 0; i < OWN_IMAGES; i++)
		if (!own->image[i].job)
			return &own->image[i];
	return NULL;
}

/* Takes in the image that waits. False: it has to wait on, for memory or for another driver.
 * *ret_image: NULL if it stepped back at once. */
static bool own_admit(struct own *own, struct own_image **ret_image)
{
	struct own_image *image = own_place(own);
	struct decode_job *job = own->waiting;
	struct blocks blocks;
	struct plan_request request;
	size_t from;
	if (!image)
		return false;
	own_plan(&own->parse, job->region, &blocks, &request);
	if (own_lanes(own, &blocks, &request, OWN_USUAL) != own->lanes)
		return false;
	struct own_layout layout =
		own_layout_whole(&own->parse, job->size, &blocks, &request, own->lanes);
	if (!own_piece(own, layout.end, &from))
		return false;
	*image = (struct own_image){.job = job,
		.from = from,
		.to = from + layout.end,
		.parse = own->parse,
		.blocks = blocks,
		.request = request};
	own->waiting = NULL;
	int reason = own_prepare(own, image, own->lanes, &layout);
	if (!reason)
		reason = own_plan_band(own, image, &layout);
	if (reason) {
		image->job = NULL;
		own_finish(own, job, reason);
	}
	*ret_image = reason ? NULL : image;
	return true;
}

static bool own_wants(struct own *own)
{
	if (!own->waiting)
		own->waiting = own->source->next(own->source->context, &own->parse);
	return own->waiting;
}

static struct feed_image *own_more(void *context)
{
	struct own *own = context;
	while (own_wants(own)) {
		struct own_image *image;
		if (!own_admit(own, &image))
			return NULL;
		if (image)
			return &image->feed;
	}
	return NULL;
}

static void own_done(void *context, struct feed_image *feed)
{
	struct own *own = context;
	struct own_image *image =
		(struct own_image *)(void *)((char *)feed - offsetof(struct own_image, feed));
	struct decode_job *job = image->job;
	struct planes_mcus mcus;
	int reason = feed->outcome;
	if (!reason)
		reason = own_rows_begin(own, image, &mcus);
	if (!reason)
		reason = own_rows(own, &image->blocks, &mcus);
	image->job = NULL;
	own_finish(own, job, reason);
}

/* Rows of a band, and what it takes, when it may have all the memory; 0: not even one fits. */
static uint32_t own_band_rows(
	const struct own *own, const struct own_image *image, struct own_layout *layout)
{
	enum { BLOCK_BYTES = BLOCKS_SIZE * sizeof(int16_t) };
	/* Each MCU kept has a place of 4 bytes in `where`, and at least one block. */
	size_t taken = layout->runs + OWN_BAND_RUNS * sizeof(struct plan_run) + 2 * BLOCKS_ALIGN;
	if (own->bytes <= taken)
		return 0;
	uint64_t blocks = (own->bytes - taken) / (BLOCK_BYTES + sizeof(uint32_t));
	uint32_t rows =
		plan_rows(&image->parse, &image->blocks, &image->request, blocks, OWN_BAND_RUNS);
	own_layout_band(layout, (uint64_t)rows * image->blocks.columns, OWN_BAND_RUNS, blocks);
	return rows;
}

/* Band after band, of so many rows. 0 or an enum stepback. */
static int own_bands(struct own *own, struct own_image *image, const struct lanes *lanes,
	const struct own_layout *layout, uint32_t rows)
{
	struct planes_mcus mcus;
	uint32_t end = image->blocks.mcu_y0 + image->blocks.rows;
	int reason = own_rows_begin(own, image, &mcus);
	while (!reason && image->blocks.mcu_y0 < end) {
		image->blocks.rows = UTIL_MIN(rows, end - image->blocks.mcu_y0);
		image->feed.cursor = 0;
		reason = own_plan_band(own, image, layout);
		if (!reason)
			reason = feed_decode_one(&image->feed, lanes);
		if (!reason)
			reason = own_rows(own, &image->blocks, &mcus);
		if (reason)
			break;
		const struct plan_run *last = &image->feed.runs[image->feed.run_count - 1];
		image->request.resume = last->mcu + last->mcus;
		image->blocks.mcu_y0 += image->blocks.rows;
	}
	return reason;
}

/* The image that waits, by itself; nothing is in flight. */
static void own_alone(struct own *own)
{
	struct own_image *image = &own->image[0];
	*image = (struct own_image){.job = own->waiting, .to = own->bytes, .parse = own->parse};
	own->waiting = NULL;
	own_plan(&image->parse, image->job->region, &image->blocks, &image->request);
	const struct lanes *lanes = own_lanes(own, &image->blocks, &image->request, 1);
	struct own_layout layout =
		own_layout_fixed(&image->parse, image->job->size, image->request.entries, lanes);
	uint32_t rows = own_band_rows(own, image, &layout);
	int reason = rows ? own_prepare(own, image, lanes, &layout) : STEPBACK_SIZE;
	if (!reason)
		reason = own_bands(own, image, lanes, &layout, rows);
	struct decode_job *job = image->job;
	image->job = NULL;
	own_finish(own, job, reason);
}

/* Chooses the driver for the image that waits; false when it has to be decoded by itself. */
static bool own_fits(struct own *own)
{
	struct blocks blocks;
	struct plan_request request;
	own_plan(&own->parse, own->waiting->region, &blocks, &request);
	own->lanes = own_lanes(own, &blocks, &request, OWN_USUAL);
	return own_layout_whole(&own->parse, own->waiting->size, &blocks, &request, own->lanes)
		       .end <= own->bytes;
}

void own_run(struct own *own, uint8_t *memory, size_t bytes, const struct own_source *source)
{
	own->memory = memory;
	own->bytes = bytes;
	own->source = source;
	while (own_wants(own)) {
		if (own_fits(own)) {
			struct feed feed = {.more = own_more, .done = own_done, .context = own};
			feed_decode(&feed, own->lanes);
		} else {
			own_alone(own);
		}
	}
}

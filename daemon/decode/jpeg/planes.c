/* planes: see planes.h. The decoder's thread.
 *
 * Between planes_begin and the last row: MCU rows [mcus.y0, closed) are transformed, and rows
 * [region.y0, row) have been taken. The place of a sample row in the ring is its number modulo the
 * rows of two MCU rows; its column 0 is the first sample of MCU column mcus.x0. */
#include "decode/jpeg/planes.h"

#include "base/util.h"
#include "decode/jpeg/kernels/planes_kernels.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	LOG_BLOCK = 3, /* of a block's side */
	LINE_PIXELS = 65536 + 2 * PLANES_GRAIN, /* the widest row, with room for whole grains */
	LINE_PAD = PLANES_GRAIN, /* before and after each row of samples */
	BATCH = 32, /* blocks for one call of a kernel */
};

/* How a component's samples become pixels. */
enum planes_way {
	WAY_SAME, /* one sample per pixel */
	WAY_WIDER, /* triangle filter across: h2v1 */
	WAY_BETWEEN, /* down: h1v2 */
	WAY_BOTH, /* both: h2v2 */
	WAY_REPEAT, /* replication by any factors */
};

/* Where a component's samples come from; pure geometry. */
struct planes_axis {
	uint32_t factor; /* sampling factor */
	uint32_t mcu; /* samples of an MCU */
	uint32_t expand; /* pixels per sample */
	uint32_t samples; /* of the whole image */
	uint32_t begin, end; /* samples that the region's pixels depend on */
};

struct planes_layer {
	struct planes_axis x, y;
	enum planes_way way;
	uint8_t *ring; /* sample row 0, column 0 */
	uint32_t pitch, rows;
	unsigned log_side; /* of a block's side */
	struct planes_quant quant;
};

struct planes {
	void *memory; /* the allocation, which includes this struct */
	const struct planes_kernels *kernels;
	struct planes_frame frame;
	struct decode_region region;
	struct planes_mcus mcus;
	uint32_t mcu_rows; /* rows of pixels of an MCU row */
	uint32_t closed, row;
	struct planes_layer layer[PLANES_COMPONENTS];
	uint8_t *ring;
	uint8_t *line[PLANES_COMPONENTS]; /* an upsampled row of each component */
	uint8_t *rgb[PLANES_COMPONENTS]; /* a converted row */
	int16_t (*sorted)[64];
};

static void *planes_carve(uint8_t *base, uint64_t *at, uint64_t bytes)
{
	uint8_t *p = base ? base + *at : NULL;
	*at += util_align(bytes, PLANES_GRAIN);
	return p;
}

/* Lays out all memory from `base` on; returns its size. */
static uint64_t planes_layout(struct planes *p, uint8_t *base)
{
	uint64_t at = 0;
	(void)planes_carve(base, &at, sizeof(*p));
	p->ring = planes_carve(base, &at, PLANES_RING_BYTES);
	for (int c = 0; c < PLANES_COMPONENTS; c++)
		p->line[c] = planes_carve(base, &at, LINE_PIXELS);
	for (int c = 0; c < PLANES_COMPONENTS; c++)
		p->rgb[c] = planes_carve(base, &at, LINE_PIXELS);
	/* The code that takes a row may read past its end. */
	_Static_assert(
		sizeof(int16_t[BATCH][64]) >= DECODE_ROW_SLACK, "the last part is the slack");
	p->sorted = planes_carve(base, &at, sizeof(int16_t[BATCH][64]));
	return at;
}

uint64_t planes_bytes(void)
{
	struct planes p;
	return planes_layout(&p, NULL) + PLANES_GRAIN;
}

int planes_new(struct planes **ret, struct fault *fault)
{
	const struct planes_kernels *kernels;
	int rc = planes_kernels_choose(&kernels, fault);
	if (rc < 0)
		return rc;
	/* calloc, so that pages which no image needs are never touched; and because kernels read
	 * whole grains, in which some samples were never written. */
	uint8_t *memory = calloc(1, planes_bytes());
	if (!memory)
		return fault_set(fault, -ENOMEM,
			"decoder: %llu bytes of memory were refused; free memory or lower "
			"--threads",
			(unsigned long long)planes_bytes());
	uint8_t *base = memory + (-(uintptr_t)memory & (PLANES_GRAIN - 1));
	struct planes *p = (struct planes *)(void *)base;
	(void)planes_layout(p, base);
	p->memory = memory;
	p->kernels = kernels;
	*ret = p;
	return 0;
}

void planes_free(struct planes *p)
{
	if (p)
		free(p->memory);
}

/* jdsample.c, jinit_upsampler: the filter of a component. The horizontal filters need three
 * samples, h1v2 does not. Where a block is a single pixel no filter is used (do_fancy). */
static enum planes_way planes_way(
	const struct planes_axis *x, const struct planes_axis *y, uint8_t shrink)
{
	if (x->expand == 1 && y->expand == 1)
		return WAY_SAME;
	if (shrink == DECODE_SHRINK_MAX)
		return WAY_REPEAT;
	if (x->expand == 1 && y->expand == 2)
		return WAY_BETWEEN;
	if (x->expand == 2 && y->expand <= 2 && x->samples > 2)
		return y->expand == 1 ? WAY_WIDER : WAY_BOTH;
	return WAY_REPEAT;
}

/* Sets the samples under pixels [from, to). The triangle filter also reads the sample before for an
 * even pixel, and the sample after for an odd one. */
static void planes_axis_range(struct planes_axis *axis, uint32_t from, uint32_t to, bool filtered)
{
	axis->begin = from / axis->expand;
	axis->end = (to - 1) / axis->expand + 1;
	if (filtered && from % 2 == 0 && axis->begin > 0)
		axis->begin--;
	if (filtered && to % 2 == 0 && axis->end < axis->samples)
		axis->end++;
}

static unsigned planes_components(const struct planes_frame *frame)
{
	return frame->color == PLANES_GRAY ? 1 : PLANES_COMPONENTS;
}

/* Sets one component along one axis, which has `pixels` in the shrunk image; false where its factor
 * does not divide the largest. */
static bool planes_axis_set(
	struct planes_axis *axis, uint32_t factor, uint32_t largest, uint32_t side, uint32_t pixels)
{
	if (factor < 1 || factor > PLANES_FACTOR || largest % (factor * side) != 0)
		return false;
	axis->factor = factor;
	axis->mcu = factor * side;
	axis->expand = largest / axis->mcu;
	axis->samples = (pixels + axis->expand - 1) / axis->expand;
	return true;
}

/* jdmaster.c, jpeg_calc_output_dimensions: the side of a component's blocks is doubled as long as
 * the largest factor, in pixels, stays an even multiple of the component's in both directions.
 * Returns the number of doublings. */
static unsigned planes_doublings(
	uint32_t largest_x, uint32_t largest_y, uint32_t x, uint32_t y, uint8_t shrink)
{
	unsigned doublings = 0;
	while (doublings < shrink && x && y && largest_x % (x << (doublings + 1)) == 0 &&
		largest_y % (y << (doublings + 1)) == 0)
		doublings++;
	return doublings;
}

static void planes_factors(const struct planes_frame *frame, uint32_t *ret_x, uint32_t *ret_y)
{
	*ret_x = *ret_y = 1;
	for (unsigned c = 0; frame->color != PLANES_GRAY && c < PLANES_COMPONENTS; c++) {
		*ret_x = UTIL_MAX(*ret_x, frame->component[c].h);
		*ret_y = UTIL_MAX(*ret_y, frame->component[c].v);
	}
}

/* Sets the axes and ways of all components. */
static int planes_set_layers(struct planes_layer *layers, const struct planes_frame *frame,
	const struct decode_region *region)
{
	uint32_t largest_x, largest_y, least = LOG_BLOCK - frame->shrink;
	uint32_t width = decode_shrunk(frame->width, frame->shrink);
	uint32_t height = decode_shrunk(frame->height, frame->shrink);
	planes_factors(frame, &largest_x, &largest_y);
	for (unsigned c = 0; c < planes_components(frame); c++) {
		struct planes_layer *layer = &layers[c];
		bool gray = frame->color == PLANES_GRAY;
		uint32_t h = gray ? 1 : frame->component[c].h, v = gray ? 1 : frame->component[c].v;
		layer->log_side = LOG_BLOCK - frame->shrink +
				  planes_doublings(largest_x, largest_y, h, v, frame->shrink);
		uint32_t side = 1u << layer->log_side;
		if (!planes_axis_set(&layer->x, h, largest_x << least, side, width) ||
			!planes_axis_set(&layer->y, v, largest_y << least, side, height))
			return STEPBACK_COMPONENTS;
		layer->way = planes_way(&layer->x, &layer->y, frame->shrink);
		planes_axis_range(&layer->x, region->x0, region->x1,
			layer->way == WAY_WIDER || layer->way == WAY_BOTH);
		planes_axis_range(&layer->y, region->y0, region->y1,
			layer->way == WAY_BETWEEN || layer->way == WAY_BOTH);
	}
	return 0;
}

static void planes_axis_cover(const struct planes_axis *axis, uint32_t *from, uint32_t *to)
{
	*from = UTIL_MIN(*from, axis->begin / axis->mcu);
	*to = UTIL_MAX(*to, (axis->end - 1) / axis->mcu + 1);
}

static void planes_set_mcus(
	struct planes_mcus *mcus, const struct planes_layer *layers, unsigned components)
{
	*mcus = (struct planes_mcus){.x0 = UINT32_MAX, .y0 = UINT32_MAX};
	for (unsigned c = 0; c < components; c++) {
		planes_axis_cover(&layers[c].x, &mcus->x0, &mcus->x1);
		planes_axis_cover(&layers[c].y, &mcus->y0, &mcus->y1);
	}
}

static void planes_set_quant(struct planes_quant *quant, const uint8_t *zigzag)
{
	quant->fits = true;
	for (int k = 0; k < 64; k++) {
		int place = planes_ready_order[k];
		uint16_t limit = (uint16_t)(zigzag[k] ? INT16_MAX / zigzag[k] : UINT16_MAX);
		quant->step[place] = zigzag[k];
		quant->limit[place] = limit;
		quant->fits &= limit >= (k ? BLOCKS_AC : BLOCKS_DC);
	}
}

/* Divides the ring among the components. */
static int planes_set_ring(struct planes *p, unsigned components)
{
	uint64_t at = 0;
	for (unsigned c = 0; c < components; c++) {
		struct planes_layer *layer = &p->layer[c];
		uint64_t width = (uint64_t)(p->mcus.x1 - p->mcus.x0) * layer->x.mcu;
		layer->pitch = (uint32_t)util_align(width, PLANES_GRAIN) + 2 * LINE_PAD;
		layer->rows = 2 * layer->y.mcu;
		layer->ring = p->ring + at + LINE_PAD;
		at += (uint64_t)layer->pitch * layer->rows;
		if (at > PLANES_RING_BYTES)
			return STEPBACK_SIZE;
	}
	return 0;
}

int planes_begin(struct planes *p, const struct planes_frame *frame, struct decode_region region,
	struct planes_mcus *ret_mcus)
{
	assert(frame->shrink <= DECODE_SHRINK_MAX);
	assert(region.x0 < region.x1);
	assert(region.x1 <= decode_shrunk(frame->width, frame->shrink));
	assert(region.y0 < region.y1);
	assert(region.y1 <= decode_shrunk(frame->height, frame->shrink));
	p->frame = *frame;
	p->region = region;
	unsigned components = planes_components(frame);
	int rc = planes_set_layers(p->layer, frame, &region);
	if (rc != 0)
		return rc;
	for (unsigned c = 0; c < components; c++)
		planes_set_quant(&p->layer[c].quant, frame->component[c].quant);
	planes_set_mcus(&p->mcus, p->layer, components);
	rc = planes_set_ring(p, components);
	if (rc != 0)
		return rc;
	uint32_t factor_x, factor_y;
	planes_factors(frame, &factor_x, &factor_y);
	p->mcu_rows = factor_y << (LOG_BLOCK - frame->shrink);
	p->closed = p->mcus.y0;
	p->row = region.y0;
	*ret_mcus = p->mcus;
	return 0;
}

static uint8_t *planes_at(const struct planes_layer *layer, uint32_t row)
{
	return layer->ring + (size_t)(row % layer->rows) * layer->pitch;
}

/* Finds the blocks of a row of one component, one after the other: blocks_at without divisions. */
struct planes_walk {
	const int16_t *row; /* the row's first block in the MCU whose first block is number 0 */
	const uint32_t *where; /* of the present MCU */
	uint32_t inner, h; /* block within it; blocks across */
};

static struct planes_walk planes_walk_from(
	const struct blocks *blocks, unsigned component, uint32_t column, uint32_t row)
{
	const struct blocks_component *c = &blocks->component[component];
	size_t mcu = (size_t)(row / c->v - blocks->mcu_y0) * blocks->columns + column / c->h -
		     blocks->mcu_x0;
	return (struct planes_walk){
		.row = blocks->coefficients +
		       (c->first + (size_t)(row % c->v) * c->h) * BLOCKS_SIZE,
		.where = blocks->where + mcu,
		.inner = column % c->h,
		.h = c->h,
	};
}

static const int16_t *planes_walk_next(struct planes_walk *walk)
{
	const int16_t *block = walk->row + ((size_t)*walk->where + walk->inner) * BLOCKS_SIZE;
	if (++walk->inner == walk->h) {
		walk->inner = 0;
		walk->where++;
	}
	return block;
}

/* Sorts blocks into the ready order, in `sorted`. */
static void planes_prepare(struct planes *p, uint8_t *kinds, const int16_t **blocks, uint32_t count)
{
	p->kernels->sort(p->sorted, kinds, blocks, count);
	for (uint32_t i = 0; i < count; i++)
		blocks[i] = p->sorted[i];
}

/* Transforms one row of blocks of one component, but only those that the region needs. */
static bool planes_block_row(
	struct planes *p, unsigned c, uint32_t block_row, const struct blocks *blocks)
{
	const struct planes_layer *layer = &p->layer[c];
	unsigned log_side = layer->log_side;
	uint32_t column = layer->x.begin >> log_side;
	uint32_t end = ((layer->x.end - 1) >> log_side) + 1;
	uint8_t *to = planes_at(layer, block_row << log_side) +
		      ((size_t)(column - p->mcus.x0 * layer->x.factor) << log_side);
	struct planes_walk walk = planes_walk_from(blocks, c, column, block_row);
	bool odd = false;
	for (uint32_t left = end - column, count; left > 0; left -= count) {
		const int16_t *from[BATCH];
		uint8_t kinds[BATCH];
		count = UTIL_MIN((uint32_t)BATCH, left);
		for (uint32_t i = 0; i < count; i++)
			from[i] = planes_walk_next(&walk);
		planes_prepare(p, kinds, from, count);
		odd |= log_side == LOG_BLOCK ? p->kernels->transform(to, layer->pitch, from, kinds,
						       count, &layer->quant)
					     : p->kernels->smaller[log_side](to, layer->pitch, from,
						       count, &layer->quant);
		to += (size_t)count << log_side;
	}
	return odd;
}

/* Sets the neighbors outside the image's edge, which the horizontal filters read, to the edge. */
static void planes_edges(struct planes *p, const struct planes_layer *layer)
{
	uint32_t origin = p->mcus.x0 * layer->x.mcu;
	bool left = layer->x.begin == 0, right = layer->x.end == layer->x.samples;
	uint32_t rows = layer->y.mcu;
	for (uint32_t y = 0; y < rows; y++) {
		uint8_t *row = planes_at(layer, p->closed * rows + y);
		if (left)
			row[-1] = row[0];
		if (right)
			row[layer->x.samples - origin] = row[layer->x.samples - origin - 1];
	}
}

int planes_blocks(struct planes *p, uint32_t mcu_y, const struct blocks *blocks)
{
	assert(mcu_y == p->closed && mcu_y < p->mcus.y1);
	/* The rows of the MCU row before the last one must have been taken: their place is reused.
	 */
	assert(planes_ready(p) == 0);
	bool odd = false;
	for (unsigned c = 0; c < planes_components(&p->frame); c++) {
		const struct planes_layer *layer = &p->layer[c];
		uint32_t v = layer->y.factor;
		uint32_t from = UTIL_MAX(mcu_y * v, layer->y.begin >> layer->log_side);
		uint32_t last = (layer->y.end - 1) >> layer->log_side;
		uint32_t to = UTIL_MIN((mcu_y + 1) * v, last + 1);
		for (uint32_t row = from; row < to; row++)
			odd |= planes_block_row(p, c, row, blocks);
		if (layer->way == WAY_WIDER || layer->way == WAY_BOTH)
			planes_edges(p, layer);
	}
	p->closed++;
	return odd ? STEPBACK_RANGE : 0;
}

uint32_t planes_ready(const struct planes *p)
{
	if (p->closed == p->mcus.y0)
		return 0;
	uint32_t end = p->region.y1;
	if (p->closed < p->mcus.y1) {
		end = p->closed * p->mcu_rows;
		/* The last row needs a sample of the next MCU row. */
		for (unsigned c = 0; c < planes_components(&p->frame); c++)
			if (p->layer[c].way == WAY_BETWEEN || p->layer[c].way == WAY_BOTH) {
				end--;
				break;
			}
		end = UTIL_MIN(end, p->region.y1);
	}
	return end > p->row ? end - p->row : 0;
}

/* The row of samples with weight 1/4: above an even pixel row, below an odd one. */
static const uint8_t *planes_far(const struct planes_layer *layer, uint32_t y)
{
	uint32_t row = y / 2;
	if (y % 2 == 0)
		return planes_at(layer, row > 0 ? row - 1 : 0);
	return planes_at(layer, UTIL_MIN(row + 1, layer->y.samples - 1));
}

static void planes_repeat(uint8_t *to, const uint8_t *from, uint32_t times, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, to += times)
		memset(to, from[i], times);
}

/* Component c of pixel row y, one sample per pixel, at the region's first column. */
static const uint8_t *planes_sample_row(const struct planes *p, unsigned c, uint32_t y)
{
	const struct planes_layer *layer = &p->layer[c];
	uint32_t expand = layer->x.expand, origin = p->mcus.x0 * layer->x.mcu;
	uint32_t first = p->region.x0 / expand, count = (p->region.x1 - 1) / expand + 1 - first;
	size_t at = first - origin;
	uint8_t *line = p->line[c];
	const uint8_t *from = planes_at(layer, y / layer->y.expand) + at;
	switch (layer->way) {
	case WAY_SAME:
		return from;
	case WAY_WIDER:
		p->kernels->wider(line, from, count);
		break;
	case WAY_BETWEEN:
		p->kernels->between(line, from, planes_far(layer, y) + at, 1 + y % 2, count);
		break;
	case WAY_BOTH:
		p->kernels->both(line, from, planes_far(layer, y) + at, count);
		break;
	case WAY_REPEAT:
		planes_repeat(line, from, expand, count);
		break;
	}
	return line + p->region.x0 % expand;
}

void planes_row(struct planes *p, const uint8_t *ret[PLANES_COMPONENTS])
{
	assert(planes_ready(p) > 0);
	const uint8_t *from[PLANES_COMPONENTS] = {NULL};
	for (unsigned c = 0; c < PLANES_COMPONENTS; c++)
		from[c] = c < planes_components(&p->frame) ? planes_sample_row(p, c, p->row)
							   : from[0];
	p->row++;
	bool convert = p->frame.color == PLANES_YCC;
	if (convert)
		p->kernels->planar(p->rgb, from, p->region.x1 - p->region.x0);
	for (int c = 0; c < PLANES_COMPONENTS; c++)
		ret[c] = convert ? p->rgb[c] : from[c];
}

void planes_rows(struct planes *p, decode_row_fn *row, void *context)
{
	for (uint32_t left = planes_ready(p); left > 0; left--) {
		const uint8_t *rgb[PLANES_COMPONENTS];
		planes_row(p, rgb);
		row(context, rgb);
	}
}

/* mcu_plan: see mcu_plan.h. Pure; any thread. */
#include "decode/jpeg/mcu_plan.h"

#include "base/util.h"

#include <assert.h>

/* Converts pixels [from, to) of the image to samples [lo, hi] of a component, and these to blocks
 * [*ret0, *ret1). Triangle ("fancy") upsampling by two reads one neighbor on either side, clamped
 * at the image's edge. Replication reads none. */
static void mcu_plan_axis(uint32_t from, uint32_t to, uint32_t ratio, bool neighbors,
	uint32_t samples, uint32_t *ret0, uint32_t *ret1)
{
	uint32_t low = from / ratio, high = (to - 1) / ratio;
	if (neighbors) {
		low -= low > 0;
		high += high + 1 < samples;
	}
	*ret0 = low / 8;
	*ret1 = high / 8 + 1;
}

static void mcu_plan_component(const struct parse *parse, unsigned i, struct decode_region crop,
	struct blocks_component *c)
{
	uint32_t across = parse->h_max / parse->component[i].h;
	uint32_t down = parse->v_max / parse->component[i].v;
	c->h = parse->component[i].h;
	c->v = parse->component[i].v;
	c->width = (parse->width + across - 1) / across;
	c->height = (parse->height + down - 1) / down;
	bool fancy = across <= 2; /* jdsample.c: 4:1:1 and 4:1:0 are replicated */
	mcu_plan_axis(crop.x0, crop.x1, across, fancy && across == 2, c->width, &c->x0, &c->x1);
	mcu_plan_axis(crop.y0, crop.y1, down, fancy && down == 2, c->height, &c->y0, &c->y1);
}

void mcu_plan_blocks(const struct parse *parse, struct decode_region crop, struct blocks *ret)
{
	*ret = (struct blocks){
		.components = parse->components,
		.in_mcu = parse->in_mcu,
		.mcu_x0 = UINT32_MAX,
		.mcu_y0 = UINT32_MAX,
	};
	uint32_t x1 = 0, y1 = 0;
	uint8_t first = 0;
	for (unsigned i = 0; i < parse->components; i++) {
		struct blocks_component *c = &ret->component[i];
		mcu_plan_component(parse, i, crop, c);
		c->first = first;
		first = (uint8_t)(first + c->h * c->v);
		ret->mcu_x0 = UTIL_MIN(ret->mcu_x0, c->x0 / c->h);
		ret->mcu_y0 = UTIL_MIN(ret->mcu_y0, c->y0 / c->v);
		x1 = UTIL_MAX(x1, (c->x1 - 1) / c->h + 1);
		y1 = UTIL_MAX(y1, (c->y1 - 1) / c->v + 1);
	}
	ret->columns = x1 - ret->mcu_x0;
	ret->rows = y1 - ret->mcu_y0;
}

/* A run ends at an entry point, at a multiple of `piece`, or where keeping begins or ends. */
size_t mcu_plan_runs_most(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint32_t rows)
{
	assert(rows <= crop->rows);
	uint64_t last = (uint64_t)(crop->mcu_y0 + crop->rows - 1) * parse->mcus_across +
			crop->mcu_x0 + crop->columns;
	bool throughout = (uint64_t)request->interval * request->entries >= last;
	uint64_t mcus =
		(uint64_t)rows * parse->mcus_across + (throughout ? request->interval : last);
	uint64_t runs = 2 * (uint64_t)rows + 4;
	runs += request->interval ? mcus / request->interval : 0;
	runs += request->piece ? mcus / request->piece : 0;
	return (size_t)runs;
}

uint64_t mcu_plan_blocks_most(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint32_t rows)
{
	return (uint64_t)rows * (crop->columns + MCU_PLAN_KEEP) * parse->in_mcu +
	       mcu_plan_runs_most(parse, crop, request, rows);
}

uint32_t mcu_plan_rows(const struct parse *parse, const struct blocks *crop,
	const struct mcu_plan_request *request, uint64_t blocks, size_t runs)
{
	uint32_t fits = 0, fails = crop->rows + 1;
	while (fails - fits > 1) {
		uint32_t rows = fits + (fails - fits) / 2;
		if (mcu_plan_runs_most(parse, crop, request, rows) <= runs &&
			mcu_plan_blocks_most(parse, crop, request, rows) <= blocks)
			fits = rows;
		else
			fails = rows;
	}
	return fits;
}

struct planner {
	const struct parse *parse;
	const struct mcu_plan_request *request;
	struct mcu_plan_run *runs;
	size_t capacity, count;
	uint64_t blocks; /* assigned so far */
	bool full;
};

static uint32_t entry_before(const struct mcu_plan_request *r, uint32_t mcu)
{
	return r->interval ? UTIL_MIN(mcu / r->interval, r->entries - 1) * r->interval : 0;
}

/* The next place after `mcu` where a run has to end. */
static uint64_t break_behind(const struct mcu_plan_request *r, uint32_t mcu)
{
	uint64_t at = UINT64_MAX;
	if (r->interval && mcu / r->interval + 1 < r->entries)
		at = ((uint64_t)mcu / r->interval + 1) * r->interval;
	if (r->piece)
		at = UTIL_MIN(at, ((uint64_t)mcu / r->piece + 1) * r->piece);
	return at;
}

static bool breaks_at(const struct mcu_plan_request *r, uint32_t mcu)
{
	return mcu == 0 || break_behind(r, mcu - 1) == mcu;
}

static uint32_t entry_at(const struct planner *planner, uint32_t mcu)
{
	const struct mcu_plan_request *r = planner->request;
	if (entry_before(r, mcu) == mcu)
		return r->interval ? mcu / r->interval : 0;
	return planner->count ? MCU_PLAN_ON : MCU_PLAN_RESUME;
}

/* The run that ends at `mcu` and may grow, or NULL. */
static struct mcu_plan_run *growing(struct planner *planner, uint32_t mcu, bool keep)
{
	if (planner->count == 0 || breaks_at(planner->request, mcu))
		return NULL;
	struct mcu_plan_run *last = &planner->runs[planner->count - 1];
	return last->mcu + last->mcus == mcu && (last->block != MCU_PLAN_NOWHERE) == keep ? last
											  : NULL;
}

static void mcu_plan_piece(struct planner *planner, uint32_t from, uint32_t to, bool keep)
{
	uint64_t blocks = (uint64_t)(to - from) * planner->parse->in_mcu;
	struct mcu_plan_run *run = growing(planner, from, keep);
	if (run) {
		run->mcus += to - from;
		planner->blocks += keep ? blocks : 0;
		return;
	}
	if (planner->count == planner->capacity || planner->blocks + blocks >= MCU_PLAN_NOWHERE) {
		planner->full = true;
		return;
	}
	planner->runs[planner->count] = (struct mcu_plan_run){
		.mcu = from,
		.mcus = to - from,
		.entry = entry_at(planner, from),
		.block = keep ? (uint32_t)planner->blocks : MCU_PLAN_NOWHERE,
	};
	planner->count++;
	planner->blocks += keep ? blocks + 1 : 0;
}

static void mcu_plan_range(struct planner *planner, uint32_t from, uint32_t to, bool keep)
{
	while (from < to && !planner->full) {
		uint32_t until = (uint32_t)UTIL_MIN(break_behind(planner->request, from), to);
		mcu_plan_piece(planner, from, until, keep);
		from = until;
	}
}

/* Sets `where` of the MCUs from .. to, which are in the last runs made. */
static void mcu_plan_where(
	const struct planner *planner, uint32_t from, uint32_t to, uint32_t *where)
{
	size_t i = planner->count;
	while (i && planner->runs[i - 1].mcu > from)
		i--;
	const struct mcu_plan_run *run = &planner->runs[i ? i - 1 : 0];
	for (uint32_t mcu = from; mcu < to; mcu++) {
		while (mcu - run->mcu >= run->mcus)
			run++;
		*where++ = run->block + (mcu - run->mcu) * planner->parse->in_mcu;
	}
}

int mcu_plan_runs(const struct parse *parse, const struct blocks *band,
	const struct mcu_plan_request *request, struct mcu_plan_run *runs, size_t capacity,
	uint32_t *where, size_t *ret_runs, size_t *ret_blocks)
{
	struct planner planner = {
		.parse = parse, .request = request, .runs = runs, .capacity = capacity};
	uint32_t at = request->resume;
	for (uint32_t row = 0; row < band->rows && !planner.full; row++) {
		uint32_t from = (band->mcu_y0 + row) * parse->mcus_across + band->mcu_x0;
		uint32_t to = from + band->columns;
		at = UTIL_MAX(at, entry_before(request, from));
		if (from - at > MCU_PLAN_KEEP) {
			mcu_plan_range(&planner, at, from, false);
			at = from;
		}
		mcu_plan_range(&planner, at, to, true);
		at = to;
		if (!planner.full)
			mcu_plan_where(&planner, from, to, where + (size_t)row * band->columns);
	}
	if (planner.full)
		return STEPBACK_SIZE;
	*ret_runs = planner.count;
	*ret_blocks = planner.blocks;
	return 0;
}

/* scan_plan: see scan_plan.h. */
#include "decode/jpeg/scans/scan_plan.h"

#include "base/util.h"
#include "decode/jpeg/lane.h"

static void scan_plan_component(const struct parse *parse, const struct script *script,
	const struct blocks *blocks, unsigned i, struct scan_plan_component *ret)
{
	const struct blocks_component *c = &blocks->component[i];
	ret->across = (c->width + 7) / 8;
	ret->down = (c->height + 7) / 8;
	ret->rows = UTIL_MIN(c->y1, ret->down);
	ret->x0 = blocks->mcu_x0 * parse->component[i].h;
	ret->y0 = blocks->mcu_y0 * parse->component[i].v;
	ret->x1 = UTIL_MIN(ret->x0 + blocks->columns * parse->component[i].h, ret->across);
	ret->y1 = ret->rows;
	ret->refined = false;
	for (unsigned s = 0; s < script->count; s++)
		ret->refined |= script->scan[s].first > 0 && script->scan[s].high > 0 &&
				script->scan[s].component[0] == i;
}

uint64_t scan_plan_mcus(
	const struct parse *parse, const struct scan_plan *plan, const struct script_scan *scan)
{
	const struct scan_plan_component *c = &plan->component[scan->component[0]];
	return scan->components == 1 ? (uint64_t)c->across * c->down
				     : (uint64_t)parse->mcus_across * parse->mcus_down;
}

size_t scan_plan_row(const struct parse *parse, const struct blocks *blocks, unsigned c, uint32_t y)
{
	const struct blocks_component *component = &blocks->component[c];
	size_t mcu = (size_t)(y / component->v - blocks->mcu_y0) * blocks->columns;
	return (mcu * parse->in_mcu + component->first +
		       (size_t)(y % component->v) * component->h) *
	       BLOCKS_SIZE;
}

static uint64_t carve(uint64_t *at, uint64_t bytes)
{
	uint64_t here = *at;
	*at += util_align(bytes, BLOCKS_ALIGN);
	return here;
}

/* Lays out the memory. What is small and used by every scan comes first. */
static void scan_plan_layout(const struct parse *parse, const struct script *script,
	const struct blocks *blocks, struct scan_plan *plan)
{
	enum { TABLE_BYTES = sizeof(uint32_t) << HUFFMAN_VALUE_BITS };
	enum { BLOCK_BYTES = BLOCKS_SIZE * sizeof(int16_t) };
	uint64_t at = 0, most = 0, mcus = (uint64_t)blocks->rows * blocks->columns;
	for (unsigned s = 0; s < script->count; s++)
		most = UTIL_MAX(most, script->scan[s].end - script->scan[s].begin);
	plan->tables = carve(&at, (uint64_t)2 * parse->components * TABLE_BYTES);
	plan->segments = carve(&at, plan->segments_most * sizeof(struct unstuff_segment));
	plan->nowhere = carve(&at, BLOCK_BYTES);
	for (unsigned i = 0; i < parse->components; i++)
		plan->column[i] = carve(
			&at, (uint64_t)blocks->columns * parse->component[i].h * sizeof(uint32_t));
	plan->where = carve(&at, mcus * sizeof(uint32_t));
	plan->bytes = carve(&at, most + UTIL_MAX((int)LANE_SLACK, (int)UNSTUFF_SLACK));
	plan->clear = at;
	for (unsigned i = 0; i < parse->components; i++) {
		const struct scan_plan_component *c = &plan->component[i];
		plan->history[i] = carve(
			&at, c->refined ? (uint64_t)c->rows * c->across * sizeof(uint64_t) : 0);
	}
	plan->coefficients = carve(&at, mcus * parse->in_mcu * BLOCK_BYTES);
	plan->end = at;
}

int scan_plan(const struct parse *parse, const struct script *script, const struct blocks *blocks,
	struct scan_plan *ret)
{
	struct scan_plan plan = {.mcu_rows = blocks->mcu_y0 + blocks->rows, .segments_most = 1};
	uint64_t mcus = (uint64_t)blocks->rows * blocks->columns;
	if (mcus * parse->in_mcu > UINT32_MAX / BLOCKS_SIZE)
		return STEPBACK_SIZE;
	for (unsigned i = 0; i < parse->components; i++)
		scan_plan_component(parse, script, blocks, i, &plan.component[i]);
	for (unsigned s = 0; s < script->count; s++) {
		const struct script_scan *scan = &script->scan[s];
		uint64_t all = scan_plan_mcus(parse, &plan, scan);
		if (scan->restart_mcus)
			plan.segments_most = UTIL_MAX(
				plan.segments_most, (size_t)((all - 1) / scan->restart_mcus + 1));
	}
	scan_plan_layout(parse, script, blocks, &plan);
	*ret = plan;
	return 0;
}

/* scan_plan: for every geometry each wanted block is decoded and has a place of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "decode/jpeg/mcu_plan.h"
#include "decode/jpeg/scans/scan_plan.h"

#include <stdlib.h>
#include <string.h>

static uint32_t seed = 7;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static struct parse make_parse(void)
{
	static const uint8_t samplings[][2] = {
		{0, 0}, {1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};
	const uint8_t *s = samplings[random_below(UTIL_COUNT(samplings))];
	struct parse p = {.width = 1 + random_below(300),
		.height = 1 + random_below(300),
		.components = s[0] ? 3 : 1,
		.progressive = true,
		.several = true};
	p.h_max = s[0] ? s[0] : 1;
	p.v_max = s[1] ? s[1] : 1;
	p.component[0] = (struct parse_component){.h = (uint8_t)p.h_max, .v = (uint8_t)p.v_max};
	p.component[1] = p.component[2] = (struct parse_component){.h = 1, .v = 1};
	p.in_mcu = p.h_max * p.v_max + p.components - 1;
	p.mcus_across = (p.width + 8 * p.h_max - 1) / (8 * p.h_max);
	p.mcus_down = (p.height + 8 * p.v_max - 1) / (8 * p.v_max);
	return p;
}

/* Two scans of luma, the second one of which may refine it; one of everything. */
static void make_script(const struct parse *parse, struct script *script)
{
	script->count = 3;
	script->scan[0] = (struct script_scan){.components = (uint8_t)parse->components,
		.component = {0, 1, 2},
		.restart_mcus = random_below(3),
		.begin = 100,
		.end = 200};
	script->scan[1] = (struct script_scan){
		.components = 1, .first = 1, .last = 63, .low = 1, .begin = 300, .end = 1300};
	script->scan[2] = script->scan[1];
	script->scan[2].high = (uint8_t)random_below(2);
	script->scan[2].restart_mcus = random_below(5);
}

static void check_component(const struct parse *p, const struct blocks *b,
	const struct scan_plan *plan, unsigned i, uint8_t *taken)
{
	const struct scan_plan_component *c = &plan->component[i];
	const struct blocks_component *wanted = &b->component[i];
	assert_true(c->x0 <= wanted->x0 && c->x1 >= wanted->x1);
	assert_true(c->y0 <= wanted->y0 && c->y1 >= wanted->y1 && c->rows >= c->y1);
	assert_true(c->x1 <= c->across && c->rows <= c->down);
	assert_true(c->across * p->h_max >= (p->width + 7) / 8 * p->component[i].h);
	for (uint32_t y = c->y0; y < c->y1; y++)
		for (uint32_t x = c->x0; x < c->x1; x++) {
			uint32_t h = p->component[i].h;
			size_t at = scan_plan_row(p, b, i, y) +
				    (size_t)((x / h - b->mcu_x0) * p->in_mcu + x % h) * BLOCKS_SIZE;
			assert_ptr_equal(b->coefficients + at, blocks_at(b, i, x, y));
			assert_int_equal(taken[at / BLOCKS_SIZE]++, 0);
		}
}

static void check_layout(const struct parse *p, const struct blocks *b, const struct script *script,
	const struct scan_plan *plan)
{
	const uint64_t places[] = {plan->tables, plan->segments, plan->nowhere, plan->column[0],
		plan->where, plan->bytes, plan->clear, plan->history[0], plan->coefficients,
		plan->end};
	for (size_t i = 0; i < UTIL_COUNT(places); i++) {
		assert_int_equal(places[i] % BLOCKS_ALIGN, 0);
		assert_true(!i || places[i] >= places[i - 1]);
	}
	uint64_t history = (uint64_t)plan->component[0].rows * plan->component[0].across * 8;
	assert_int_equal(plan->component[0].refined, script->scan[2].high);
	assert_true(
		!plan->component[0].refined || plan->coefficients - plan->history[0] >= history);
	assert_true(plan->clear - plan->bytes >= 1000);
	assert_true(plan->end - plan->coefficients >=
		    (uint64_t)b->rows * b->columns * p->in_mcu * BLOCKS_SIZE * 2);
	for (unsigned s = 0; s < script->count; s++) {
		uint32_t restart = script->scan[s].restart_mcus;
		uint64_t mcus = scan_plan_mcus(p, plan, &script->scan[s]);
		assert_true(!restart || plan->segments_most * restart >= mcus);
	}
}

static void test_geometries(void **state)
{
	(void)state;
	static struct script script;
	for (int round = 0; round < 3000; round++) {
		struct parse p = make_parse();
		struct decode_region r = {random_below(p.width), random_below(p.height), 0, 0};
		struct blocks blocks;
		struct scan_plan plan;
		r.x1 = r.x0 + 1 + random_below(p.width - r.x0);
		r.y1 = r.y0 + 1 + random_below(p.height - r.y0);
		make_script(&p, &script);
		mcu_plan_blocks(&p, r, &blocks);
		assert_int_equal(scan_plan(&p, &script, &blocks, &plan), 0);
		check_layout(&p, &blocks, &script, &plan);
		size_t mcus = (size_t)blocks.rows * blocks.columns;
		uint32_t *where = malloc(mcus * sizeof(*where));
		uint8_t *taken = calloc(mcus, p.in_mcu);
		assert_true(where && taken);
		for (size_t i = 0; i < mcus; i++)
			where[i] = (uint32_t)i * p.in_mcu;
		blocks.where = where;
		blocks.coefficients = (int16_t *)(void *)&script; /* only its address counts */
		for (unsigned i = 0; i < p.components; i++)
			check_component(&p, &blocks, &plan, i, taken);
		free(where);
		free(taken);
	}
}

/* Memory grows with the crop, not with the image, but for 8 bytes a block. */
static void test_memory(void **state)
{
	(void)state;
	static struct script script;
	struct parse p = {.width = 60000,
		.height = 60000,
		.components = 1,
		.h_max = 1,
		.v_max = 1,
		.in_mcu = 1,
		.component = {{.h = 1, .v = 1}},
		.mcus_across = 7500,
		.mcus_down = 7500};
	struct blocks blocks;
	struct scan_plan plan;
	make_script(&p, &script);
	script.scan[2].high = 2;
	for (unsigned i = 0; i < script.count; i++)
		script.scan[i].restart_mcus = 0;
	mcu_plan_blocks(&p, (struct decode_region){59000, 59000, 60000, 60000}, &blocks);
	assert_int_equal(scan_plan(&p, &script, &blocks, &plan), 0);
	assert_true(plan.end < 7500 * 7500 * 8 + (8 << 20));
	mcu_plan_blocks(&p, (struct decode_region){0, 0, 1000, 60000}, &blocks);
	assert_int_equal(scan_plan(&p, &script, &blocks, &plan), 0);
	/* Places are numbers of 32 bits. */
	p.in_mcu = 3;
	p.width = p.height = 65500;
	p.mcus_across = p.mcus_down = 8188;
	mcu_plan_blocks(&p, (struct decode_region){0, 0, 65500, 65500}, &blocks);
	assert_int_equal(scan_plan(&p, &script, &blocks, &plan), STEPBACK_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_geometries),
		cmocka_unit_test(test_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

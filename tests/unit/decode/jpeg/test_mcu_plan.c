/* mcu_plan, exhaustively over small geometries: the blocks that a crop needs, against the
 * upsampling rule pixel by pixel; runs, against a simulation that can only enter at entry points;
 * bands, against the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/jpeg/mcu_plan.h"

#include "base/util.h"

#include <string.h>

enum { RUNS_MOST = 4096, MCUS_MOST = 4096 };

static const uint8_t samplings[][2] = {{0, 0}, {1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}};

static uint32_t seed = 3;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static struct parse make_parse(uint32_t width, uint32_t height, const uint8_t sampling[2])
{
	struct parse p = {.width = width, .height = height, .components = sampling[0] ? 3 : 1};
	p.h_max = sampling[0] ? sampling[0] : 1;
	p.v_max = sampling[1] ? sampling[1] : 1;
	p.component[0] = (struct parse_component){.h = (uint8_t)p.h_max, .v = (uint8_t)p.v_max};
	p.component[1] = p.component[2] = (struct parse_component){.h = 1, .v = 1};
	p.in_mcu = p.h_max * p.v_max + p.components - 1;
	p.mcus_across = (width + 8 * p.h_max - 1) / (8 * p.h_max);
	p.mcus_down = (height + 8 * p.v_max - 1) / (8 * p.v_max);
	return p;
}

static struct decode_region random_crop(const struct parse *p)
{
	struct decode_region r = {.x0 = random_below(p->width), .y0 = random_below(p->height)};
	r.x1 = r.x0 + 1 + random_below(p->width - r.x0);
	r.y1 = r.y0 + 1 + random_below(p->height - r.y0);
	return r;
}

/* The neighbor of the nearest sample that a triangle filter by two reads. */
static uint32_t neighbor(uint32_t at, uint32_t samples)
{
	uint32_t near = at / 2;
	if (at & 1)
		return near + 1 < samples ? near + 1 : near;
	return near ? near - 1 : 0;
}

static void check_axis(uint32_t from, uint32_t to, uint32_t ratio, bool fancy, uint32_t samples,
	uint32_t block0, uint32_t block1)
{
	uint32_t least = UINT32_MAX, most = 0;
	for (uint32_t i = from; i < to; i++) {
		uint32_t a = i / ratio, b = fancy && ratio == 2 ? neighbor(i, samples) : a;
		least = UTIL_MIN(least, UTIL_MIN(a, b) / 8);
		most = UTIL_MAX(most, UTIL_MAX(a, b) / 8);
	}
	assert_true(block0 <= least && block1 > most);
	/* At most the neighbor that the parity of the edge leaves out is too much. */
	assert_true(least - block0 <= 1 && block1 - 1 - most <= 1);
	assert_true(block1 <= (samples + 7) / 8);
}

static void check_blocks(const struct parse *p, struct decode_region crop, const struct blocks *b)
{
	for (unsigned i = 0; i < p->components; i++) {
		const struct blocks_component *c = &b->component[i];
		uint32_t across = p->h_max / c->h, down = p->v_max / c->v;
		assert_int_equal(c->width, (p->width * c->h + p->h_max - 1) / p->h_max);
		assert_int_equal(c->height, (p->height * c->v + p->v_max - 1) / p->v_max);
		check_axis(crop.x0, crop.x1, across, across <= 2, c->width, c->x0, c->x1);
		check_axis(crop.y0, crop.y1, down, across <= 2, c->height, c->y0, c->y1);
		assert_true(c->x0 / c->h >= b->mcu_x0 && c->y0 / c->v >= b->mcu_y0);
		assert_true((c->x1 - 1) / c->h < b->mcu_x0 + b->columns);
		assert_true((c->y1 - 1) / c->v < b->mcu_y0 + b->rows);
	}
	assert_true(b->mcu_x0 + b->columns <= p->mcus_across);
	assert_true(b->mcu_y0 + b->rows <= p->mcus_down);
}

struct simulation {
	uint32_t where[MCUS_MOST]; /* of each MCU of the image; MCU_PLAN_NOWHERE: not kept */
	bool decoded[MCUS_MOST];
	uint32_t at; /* where the last run ended */
};

static bool is_entry(const struct mcu_plan_request *r, uint32_t mcu)
{
	return mcu == 0 ||
	       (r->interval && mcu % r->interval == 0 && mcu / r->interval < r->entries);
}

static void simulate(const struct parse *p, const struct mcu_plan_request *r,
	const struct mcu_plan_run *runs, size_t count, size_t blocks, struct simulation *s)
{
	uint64_t next_block = 0;
	for (size_t i = 0; i < count; i++) {
		const struct mcu_plan_run *run = &runs[i];
		assert_true(run->mcus >= 1);
		assert_true(run->mcu + run->mcus <= p->mcus_across * p->mcus_down);
		if (run->entry == MCU_PLAN_RESUME)
			assert_true(i == 0 && run->mcu == r->resume && r->resume);
		else if (run->entry == MCU_PLAN_ON)
			assert_true(i && run->mcu == s->at && !is_entry(r, run->mcu));
		else
			assert_true(is_entry(r, run->mcu) && run->entry * r->interval == run->mcu);
		for (uint32_t m = 0; m < run->mcus; m++) {
			uint32_t mcu = run->mcu + m;
			assert_true(m == 0 || !is_entry(r, mcu));
			assert_true(m == 0 || !r->piece || mcu % r->piece);
			assert_false(s->decoded[mcu]);
			s->decoded[mcu] = true;
			s->where[mcu] = run->block == MCU_PLAN_NOWHERE ? MCU_PLAN_NOWHERE
								       : run->block + m * p->in_mcu;
		}
		if (run->block != MCU_PLAN_NOWHERE) {
			assert_int_equal(run->block, next_block);
			next_block += (uint64_t)run->mcus * p->in_mcu + 1;
		}
		s->at = run->mcu + run->mcus;
	}
	assert_int_equal(next_block, blocks);
}

static void check_where(
	const struct parse *p, const struct blocks *b, const uint32_t *where, struct simulation *s)
{
	for (uint32_t y = 0; y < b->rows; y++)
		for (uint32_t x = 0; x < b->columns; x++) {
			uint32_t mcu = (b->mcu_y0 + y) * p->mcus_across + b->mcu_x0 + x;
			assert_int_not_equal(s->where[mcu], MCU_PLAN_NOWHERE);
			assert_int_equal(where[y * b->columns + x], s->where[mcu]);
		}
}

/* Plans a crop in bands of `rows` MCU rows. */
static void check_runs(const struct parse *p, const struct blocks *crop,
	struct mcu_plan_request request, uint32_t rows, bool resume)
{
	static struct mcu_plan_run runs[RUNS_MOST];
	static uint32_t where[MCUS_MOST];
	static struct simulation s;
	memset(&s, 0, sizeof(s));
	for (uint32_t y = 0; y < crop->rows; y += rows) {
		struct blocks band = *crop;
		size_t count, blocks;
		band.mcu_y0 += y;
		band.rows = UTIL_MIN(rows, crop->rows - y);
		size_t most = mcu_plan_runs_most(p, crop, &request, band.rows);
		assert_true(most <= RUNS_MOST);
		if (!resume)
			memset(&s, 0, sizeof(s)); /* enters again, and may decode some MCUs twice */
		assert_int_equal(
			mcu_plan_runs(p, &band, &request, runs, most, where, &count, &blocks), 0);
		assert_true(blocks <= mcu_plan_blocks_most(p, crop, &request, band.rows));
		simulate(p, &request, runs, count, blocks, &s);
		check_where(p, &band, where, &s);
		size_t ignored;
		assert_int_equal(mcu_plan_runs(p, &band, &request, runs, count - 1, where, &ignored,
					 &ignored),
			STEPBACK_SIZE);
		if (resume)
			request.resume = s.at;
	}
}

static void check_geometry(const struct parse *p)
{
	static const uint32_t intervals[] = {0, 1, 2, 3, 8, 1000};
	static const uint32_t pieces[] = {0, 1, 3, 8};
	for (unsigned i = 0; i < UTIL_COUNT(intervals) * UTIL_COUNT(pieces); i++) {
		struct decode_region crop =
			i % 5 ? random_crop(p) : (struct decode_region){0, 0, p->width, p->height};
		struct blocks blocks;
		mcu_plan_blocks(p, crop, &blocks);
		check_blocks(p, crop, &blocks);
		uint32_t interval = intervals[i % UTIL_COUNT(intervals)];
		uint32_t mcus = p->mcus_across * p->mcus_down;
		struct mcu_plan_request request = {
			.interval = interval,
			.entries = interval ? (mcus - 1) / interval + 1 : 1,
			.piece = pieces[i / UTIL_COUNT(intervals)],
		};
		check_runs(p, &blocks, request, blocks.rows, false);
		check_runs(p, &blocks, request, 1 + random_below(blocks.rows), true);
		check_runs(p, &blocks, request, 1 + random_below(blocks.rows), false);
		/* Entry points are known only up to some place. */
		request.entries = 1 + random_below(request.entries);
		check_runs(p, &blocks, request, 1 + random_below(blocks.rows), true);
	}
}

static void test_geometries(void **state)
{
	(void)state;
	static const uint32_t sides[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40, 63, 65, 100, 200};
	for (unsigned s = 0; s < UTIL_COUNT(samplings); s++)
		for (unsigned w = 0; w < UTIL_COUNT(sides); w++)
			for (unsigned h = 0; h < UTIL_COUNT(sides); h++) {
				struct parse p = make_parse(sides[w], sides[h], samplings[s]);
				check_geometry(&p);
			}
}

/* Every crop of a small image. */
static void test_crops(void **state)
{
	(void)state;
	for (unsigned s = 0; s < UTIL_COUNT(samplings); s++) {
		struct parse p = make_parse(37, 21, samplings[s]);
		struct decode_region r;
		for (r.x0 = 0; r.x0 < p.width; r.x0++)
			for (r.x1 = r.x0 + 1; r.x1 <= p.width; r.x1++) {
				r.y0 = random_below(p.height);
				r.y1 = r.y0 + 1 + random_below(p.height - r.y0);
				struct blocks blocks;
				mcu_plan_blocks(&p, r, &blocks);
				check_blocks(&p, r, &blocks);
			}
		r.x0 = 0, r.x1 = 1;
		for (r.y0 = 0; r.y0 < p.height; r.y0++)
			for (r.y1 = r.y0 + 1; r.y1 <= p.height; r.y1++) {
				struct blocks blocks;
				mcu_plan_blocks(&p, r, &blocks);
				check_blocks(&p, r, &blocks);
			}
	}
}

/* Without entry points all runs are one chain; distant MCUs are not kept. */
static void test_far(void **state)
{
	(void)state;
	struct parse p = make_parse(800, 400, samplings[1]);
	struct decode_region crop = {400, 200, 480, 240};
	struct blocks blocks;
	mcu_plan_blocks(&p, crop, &blocks);
	struct mcu_plan_request request = {.entries = 1};
	struct mcu_plan_run runs[64];
	uint32_t where[64];
	size_t count, needed;
	assert_int_equal(mcu_plan_runs(&p, &blocks, &request, runs, 64, where, &count, &needed), 0);
	assert_int_equal(count, 2 * blocks.rows);
	assert_int_equal(runs[0].block, MCU_PLAN_NOWHERE);
	assert_int_equal(runs[0].mcus, 25 * 100 + 50);
	assert_int_equal(runs[1].mcus, 10);
	assert_int_equal(needed, 5 * (10 * 3 + 1));
	/* With dense entry points, all MCUs that are decoded are kept. */
	request = (struct mcu_plan_request){.interval = 8, .entries = 625};
	assert_int_equal(mcu_plan_runs(&p, &blocks, &request, runs, 64, where, &count, &needed), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_not_equal(runs[i].block, MCU_PLAN_NOWHERE);
	assert_int_equal(mcu_plan_rows(&p, &blocks, &request, 0, 0), 0);
	assert_int_equal(mcu_plan_rows(&p, &blocks, &request, 1 << 20, 1 << 20), blocks.rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_geometries),
		cmocka_unit_test(test_crops),
		cmocka_unit_test(test_far),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

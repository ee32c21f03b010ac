/* chunk_plan by itself, without a bitstream: a simulated scan whose MCUs end at known bits, and
 * simulated lanes that are out of step for a while, for ever, or fail, and take the runs in any
 * order. A complete plan has every MCU once, in order, ended at its own bit; and sound scans that
 * get in step are completed. So are those decoded in parts, each by a plan with few pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decode/jpeg/chunk_plan.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

enum { MCUS_MOST = 3000, LANES = 32 };

static uint32_t seed = 5;

static uint32_t random_below(uint32_t below)
{
	seed = seed * 1664525 + 1013904223;
	return (uint32_t)((uint64_t)(seed >> 8) * below >> 24);
}

/* The truth, and how far lanes are from it. */
struct scan {
	uint32_t mcus, bits;
	uint32_t end[MCUS_MOST + 1]; /* end[i]: where MCU i begins */
	unsigned in_step; /* one in so many false MCUs ends where a true one does; 0: none */
	unsigned fails; /* one in so many false MCUs fails; 0: none */
	uint32_t broken; /* the MCU that fails; mcus: none */
};

static void scan_draw(struct scan *s, uint32_t mcus, uint32_t mean)
{
	*s = (struct scan){.mcus = mcus, .broken = mcus};
	for (uint32_t i = 0; i < mcus; i++)
		s->end[i + 1] = s->end[i] + 1 + random_below(2 * mean);
	s->bits = s->end[mcus] + random_below(8);
}

/* The first MCU that begins at this bit or after it. */
static uint32_t scan_mcu(const struct scan *s, uint64_t bit)
{
	uint32_t low = 0, high = s->mcus;
	while (low < high) {
		uint32_t middle = (low + high) / 2;
		if (s->end[middle] < bit)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Decodes an MCU at a bit: sets where it ends. False: it fails there. */
static bool scan_step(const struct scan *s, uint32_t bit, uint32_t *ret)
{
	uint32_t mcu = scan_mcu(s, bit);
	bool right = s->end[mcu] == bit;
	if (right) {
		*ret = bit + 1;
		if (mcu == s->mcus || mcu == s->broken)
			return false;
		*ret = s->end[mcu + 1];
		return true;
	}
	/* The same from the same place, as in a file. */
	uint32_t chance = (bit * 2654435761u) >> 7;
	*ret = bit + 1 + chance % 97;
	if (s->fails && chance % s->fails == 0)
		return false;
	if (s->in_step && chance / 1024 % s->in_step == 0)
		*ret = s->end[mcu];
	return *ret <= s->bits;
}

struct world {
	struct scan scan;
	struct chunk_plan plan;
	struct chunk_plan_run run[LANES];
	bool busy[LANES];
	uint32_t start; /* the plan's first MCU */
	uint64_t decoded; /* MCUs in all */
};

static void world_new(struct world *w, uint32_t chunks, uint32_t page_mcus, uint32_t need)
{
	chunks = UTIL_MIN(chunks, w->scan.bits);
	w->plan = (struct chunk_plan){
		.bits = w->scan.bits,
		.count = chunks,
		.pages = chunk_plan_pages(chunks, need, page_mcus),
		.need = need,
		.mcus = w->scan.mcus,
		.page_mcus = page_mcus,
	};
	w->plan.chunk = calloc(chunks, sizeof(*w->plan.chunk));
	w->plan.marks = calloc((size_t)w->plan.pages * page_mcus, sizeof(uint32_t));
	w->plan.next_page = calloc(w->plan.pages, sizeof(uint32_t));
	assert_true(w->plan.chunk && w->plan.marks && w->plan.next_page);
	memset(w->busy, 0, sizeof(w->busy));
	w->start = 0;
	w->decoded = 0;
	chunk_plan_begin(&w->plan);
}

static void world_free(const struct world *w)
{
	free(w->plan.chunk);
	free(w->plan.marks);
	free(w->plan.next_page);
}

static void run_one(struct world *w, const struct chunk_plan_run *run)
{
	uint32_t *mark = w->plan.marks + (size_t)run->page * w->plan.page_mcus + run->at;
	uint32_t bit = run->bit, complete = 0, end = bit;
	bool failed = false;
	assert_true(run->page < w->plan.pages && run->mcus > 0);
	assert_true(run->at + run->mcus <= w->plan.page_mcus);
	while (complete < run->mcus && !failed && (complete == 0 || bit <= run->stop)) {
		failed = !scan_step(&w->scan, bit, &end);
		if (!failed)
			mark[complete++] = bit = end;
	}
	w->decoded += complete;
	chunk_plan_ended(&w->plan, run->chunk, complete, end, failed);
}

/* Has lanes take and end runs in any order. */
static void world_run(struct world *w)
{
	unsigned busy = 0, lanes = 1 + random_below(LANES);
	for (;;) {
		unsigned lane = random_below(lanes);
		if (w->busy[lane]) {
			w->busy[lane] = false;
			busy--;
			run_one(w, &w->run[lane]);
		} else if (chunk_plan_next(&w->plan, &w->run[lane])) {
			w->busy[lane] = true;
			busy++;
		} else if (!busy) {
			break;
		}
	}
	assert_true(w->plan.state != CHUNK_PLAN_OPEN);
}

/* A scan of any length that may be out of step, fail or be broken. */
static void scan_draw_any(struct scan *scan, int round)
{
	scan_draw(scan, 1 + random_below(round % 10 ? 200 : MCUS_MOST), 1 + random_below(400));
	scan->in_step = random_below(3) ? 1 + random_below(20) : 0;
	scan->fails = random_below(2) ? 1 + random_below(50) : 0;
	if (random_below(3) == 0)
		scan->broken = random_below(scan->mcus);
}

/* Every MCU that is needed once, in order, in a place of its own. */
static void check_walk(const struct world *w)
{
	const struct chunk_plan *plan = &w->plan;
	struct chunk_plan_walk walk = {0};
	struct chunk_plan_piece piece;
	uint32_t number = 0;
	uint8_t *taken = calloc((size_t)plan->pages * plan->page_mcus, 1);
	assert_non_null(taken);
	while (chunk_plan_walk(plan, &walk, &piece)) {
		assert_int_equal(piece.number, number);
		assert_true(piece.mcus > 0 && piece.at + piece.mcus <= plan->page_mcus);
		for (uint32_t i = 0; i < piece.mcus; i++, number++) {
			size_t at = (size_t)piece.page * plan->page_mcus + piece.at + i;
			assert_int_equal(plan->marks[at], w->scan.end[w->start + number + 1]);
			assert_int_equal(taken[at]++, 0);
		}
	}
	assert_int_equal(number, plan->need);
	free(taken);
}

static void test_any(void **state)
{
	(void)state;
	static struct world w;
	unsigned complete = 0, failed = 0;
	for (int round = 0; round < 3000; round++) {
		scan_draw_any(&w.scan, round);
		uint32_t need = random_below(2) ? w.scan.mcus : 1 + random_below(w.scan.mcus);
		world_new(&w, 1 + random_below(round % 3 ? 30 : 2 * w.scan.mcus),
			1 + random_below(20), need);
		world_run(&w);
		if (w.plan.state == CHUNK_PLAN_COMPLETE) {
			assert_true(w.scan.broken >= need);
			check_walk(&w);
		}
		complete += w.plan.state == CHUNK_PLAN_COMPLETE;
		failed += w.plan.state == CHUNK_PLAN_FAILED;
		world_free(&w);
	}
	assert_true(complete > 1500 && failed > 300);
}

/* Goes on with the next part, after a complete plan, in so many chunks (0: as the decoder does). */
static void world_go_on(struct world *w, uint32_t chunks, uint32_t need)
{
	struct chunk_plan *plan = &w->plan;
	uint32_t bits;
	w->start += plan->need;
	plan->first = w->scan.end[w->start];
	bits = w->scan.bits - plan->first;
	chunks = chunks ? UTIL_MIN(chunks, bits) : chunk_plan_count(bits, CHUNK_PLAN_BITS);
	plan->count = UTIL_MAX(UTIL_MIN(chunks, plan->count), 1u);
	plan->need = need - w->start;
	plan->mcus = w->scan.mcus - w->start;
	chunk_plan_begin(plan);
}

/* In parts: every part has whole rows, unless it has the last MCU that is needed. */
static void test_parts(void **state)
{
	(void)state;
	static struct world w;
	unsigned parts = 0, whole = 0, failed = 0;
	for (int round = 0; round < 3000; round++) {
		scan_draw_any(&w.scan, round);
		uint32_t need = random_below(2) ? w.scan.mcus : 1 + random_below(w.scan.mcus);
		uint32_t row = 1 + random_below(20), pages = 1 + random_below(60);
		world_new(&w, 1 + random_below(round % 3 ? 30 : 2 * w.scan.mcus),
			1 + random_below(20), need);
		w.plan.row = row;
		w.plan.pages = UTIL_MIN(w.plan.pages, pages);
		for (;;) {
			world_run(&w);
			if (w.plan.state != CHUNK_PLAN_COMPLETE)
				break;
			assert_true(w.scan.broken >= w.start + w.plan.need);
			check_walk(&w);
			parts++;
			if (w.start + w.plan.need == need)
				break;
			assert_int_equal(w.plan.need % row, 0);
			world_go_on(&w, 1 + random_below(60), need);
		}
		whole += w.plan.state == CHUNK_PLAN_COMPLETE;
		failed += w.plan.state == CHUNK_PLAN_FAILED;
		world_free(&w);
	}
	assert_true(whole > 1000 && failed > 300 && parts > 4 * whole);
}

/* A photograph in parts of an eighth: nothing fails, and little is decoded twice or for nothing. */
static void test_usual_parts(void **state)
{
	(void)state;
	static struct world w;
	uint64_t decoded = 0, needed = 0;
	for (int round = 0; round < 100; round++) {
		unsigned parts = 1;
		scan_draw(&w.scan, MCUS_MOST, 1200);
		w.scan.in_step = 2;
		world_new(&w, chunk_plan_count(w.scan.bits, CHUNK_PLAN_BITS), 8, w.scan.mcus);
		w.plan.row = 100;
		w.plan.pages /= 8;
		for (;; parts++) {
			world_run(&w);
			assert_int_equal(w.plan.state, CHUNK_PLAN_COMPLETE);
			check_walk(&w);
			if (w.start + w.plan.need == w.scan.mcus)
				break;
			world_go_on(&w, 0, w.scan.mcus);
		}
		assert_in_range(parts, 6, 20);
		decoded += w.decoded;
		needed += w.scan.mcus;
		world_free(&w);
	}
	assert_true(decoded * 100 < needed * 135);
}

/* A scan as of a photograph: completed, with little decoded twice or for nothing. */
static void test_usual(void **state)
{
	(void)state;
	static struct world w;
	uint64_t decoded = 0, needed = 0;
	for (int round = 0; round < 200; round++) {
		scan_draw(&w.scan, MCUS_MOST, 300);
		w.scan.in_step = 2;
		world_new(&w, chunk_plan_count(w.scan.bits, CHUNK_PLAN_BITS),
			chunk_plan_page_mcus(6), w.scan.mcus);
		assert_in_range(w.plan.count, 20, 40);
		world_run(&w);
		assert_int_equal(w.plan.state, CHUNK_PLAN_COMPLETE);
		check_walk(&w);
		decoded += w.decoded;
		needed += w.scan.mcus;
		world_free(&w);
	}
	assert_true(decoded * 100 < needed * 110);
}

/* Below the crop's last MCU little is decoded, and above it everything. */
static void test_crop(void **state)
{
	(void)state;
	static struct world w;
	for (uint32_t need = 1; need <= MCUS_MOST; need += 100) {
		scan_draw(&w.scan, MCUS_MOST, 300);
		w.scan.in_step = 2;
		world_new(&w, chunk_plan_count(w.scan.bits, CHUNK_PLAN_BITS),
			chunk_plan_page_mcus(3), need);
		world_run(&w);
		assert_int_equal(w.plan.state, CHUNK_PLAN_COMPLETE);
		check_walk(&w);
		assert_true(w.decoded < need + MCUS_MOST / 5);
		world_free(&w);
	}
}

/* Nobody ever gets in step: a plan that cannot be completed ends soon. */
static void test_never(void **state)
{
	(void)state;
	static struct world w;
	scan_draw(&w.scan, MCUS_MOST, 300);
	world_new(&w, chunk_plan_count(w.scan.bits, CHUNK_PLAN_BITS), 8, w.scan.mcus);
	world_run(&w);
	assert_int_equal(w.plan.state, CHUNK_PLAN_FAILED);
	world_free(&w);
}

static void test_sizes(void **state)
{
	(void)state;
	assert_int_equal(chunk_plan_count(0, CHUNK_PLAN_BITS), 1);
	assert_int_equal(chunk_plan_count(CHUNK_PLAN_BITS, CHUNK_PLAN_BITS), 1);
	assert_int_equal(chunk_plan_count(10 * CHUNK_PLAN_BITS, CHUNK_PLAN_BITS), 10);
	assert_int_equal(chunk_plan_count(8 * (uint64_t)CHUNK_PLAN_BYTES, CHUNK_PLAN_BITS),
		CHUNK_PLAN_CHUNKS);
	assert_int_equal(chunk_plan_page_mcus(1), CHUNK_PLAN_PAGE_BLOCKS);
	assert_int_equal(chunk_plan_page_mcus(10), CHUNK_PLAN_PAGE_BLOCKS / 10);
	assert_int_equal(chunk_plan_share(32, 100, 100), 32);
	assert_int_equal(chunk_plan_share(32, 1, 100), 1);
	assert_int_equal(chunk_plan_share(32, 50, 100), 17);
	assert_int_equal(chunk_plan_share(1, 99, 100), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_usual_parts),
		cmocka_unit_test(test_crop),
		cmocka_unit_test(test_never),
		cmocka_unit_test(test_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* choose: a race has the right winner and runs once, its laps in turn, and PENSTOCK_KERNELS
 * overrides it. */
#include "base/choose.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NEVER (1u << 31)

/* How long each lap of a table takes; the first lap does not count. */
struct runner {
	uint64_t laps[3];
	bool competes;
};

struct course {
	unsigned lap;
	char used;
};

static struct runner runner[3];
static unsigned held; /* laps of all races so far */
static const void *order[64]; /* whose laps they were */

static bool prepare(void *course, const void *table)
{
	struct course *c = course;
	c->lap = 0;
	return ((const struct runner *)table)->competes;
}

static uint64_t lap(void *course, const void *table)
{
	struct course *c = course;
	order[held++ % 64] = table;
	c->used = 1;
	return ((const struct runner *)table)->laps[c->lap++];
}

static const struct dispatch known = {{
	[DISPATCH_C] = {&runner[0], 0},
	[DISPATCH_AVX2] = {&runner[1], 0},
	[DISPATCH_AVX512] = {&runner[2], 0},
	[DISPATCH_VNNI] = {&held, NEVER},
}};

static struct choose_race race_new(void)
{
	return (struct choose_race){.known = &known,
		.course_bytes = sizeof(struct course),
		.course_align = 64,
		.margin = CHOOSE_MARGIN,
		.laps = 3,
		.prepare = prepare,
		.lap = lap,
		CHOOSE_RACE_START};
}

static int force(const char *name, const void **ret)
{
	struct choose_race race = race_new();
	struct fault fault = {0};
	assert_int_equal(setenv("PENSTOCK_KERNELS", name, 1), 0);
	int result = choose_fastest(&race, ret, &fault);
	const void *widest = NULL;
	assert_int_equal(choose_widest(&known, &widest, NULL), result);
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	if (result)
		assert_non_null(strstr(fault.text, name));
	else
		assert_ptr_equal(widest, *ret);
	return result;
}

static void test_race(void **state)
{
	(void)state;
	static const struct runner runners[3] = {
		{{1, 500, 400}, true}, {{900, 300, 700}, true}, {{100, 340, 330}, true}};
	struct choose_race race = race_new();
	const void *winner = NULL;
	memcpy(runner, runners, sizeof runner);
	held = 0;
	assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
	assert_ptr_equal(winner, &runner[1]);
	assert_int_equal(held, 9);
	for (unsigned i = 0; i < held; i++)
		assert_ptr_equal(order[i], &runner[i % 3]);
	runner[0].laps[1] = 1;
	assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
	assert_ptr_equal(winner, &runner[1]);
	assert_int_equal(held, 9);
	/* A table that does not compete runs no lap. */
	race = race_new();
	runner[0].competes = false;
	assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
	assert_ptr_equal(winner, &runner[1]);
	assert_int_equal(held, 15);
}

/* Times of the fastest laps, and who wins. */
static void test_close_times(void **state)
{
	(void)state;
	static const struct {
		uint64_t best[3];
		unsigned winner;
	} races[] = {
		{{1600, 1600, 1600}, 2},
		{{1501, 1500, 1600}, 2}, /* a sixteenth is not enough */
		{{1499, 1600, 1600}, 0},
		{{1600, 1499, 1600}, 1},
		{{1450, 1499, 1600}, 1}, /* not clearly faster than the one that is */
		{{1499, 1501, 1600}, 1}, /* the widest of those that are not clearly slower */
		{{1400, 1499, 1600}, 0},
		{{1499, 1700, 1600}, 0},
		{{100, 200, 300}, 0},
		{{300, 200, 100}, 2},
	};
	for (size_t i = 0; i < sizeof races / sizeof *races; i++) {
		struct choose_race race = race_new();
		const void *winner = NULL;
		for (int t = 0; t < 3; t++)
			runner[t] = (struct runner){{1, 2000, races[i].best[t]}, true};
		held = 0;
		assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
		assert_ptr_equal(winner, &runner[races[i].winner]);
	}
}

static void test_no_margin(void **state)
{
	(void)state;
	struct choose_race race = race_new();
	const void *winner = NULL;
	race.margin = 0;
	for (int t = 0; t < 3; t++)
		runner[t] = (struct runner){{1, 2000, (uint64_t[]){1600, 1599, 1600}[t]}, true};
	held = 0;
	assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
	assert_ptr_equal(winner, &runner[1]);
}

static void test_none_competes(void **state)
{
	(void)state;
	struct choose_race race = race_new();
	const void *winner = NULL;
	memset(runner, 0, sizeof runner);
	assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
	assert_ptr_equal(winner, &runner[0]);
}

static void test_no_memory(void **state)
{
	(void)state;
	struct choose_race race = race_new();
	const void *winner = NULL;
	race.course_bytes = (size_t)1 << 62;
	assert_int_equal(choose_fastest(&race, &winner, NULL), 0);
	assert_ptr_equal(winner, &runner[0]);
}

static void test_forced(void **state)
{
	(void)state;
	const void *table = NULL;
	held = 0;
	assert_int_equal(force("c", &table), 0);
	assert_ptr_equal(table, &runner[0]);
	assert_int_equal(force("avx512", &table), 0);
	assert_ptr_equal(table, &runner[2]);
	assert_int_equal(force("avx512-vnni", &table), -ENOTSUP);
	assert_int_equal(force("mmx", &table), -EINVAL);
	assert_ptr_equal(table, &runner[2]);
	assert_int_equal(held, 0);
	assert_int_equal(choose_widest(&known, &table, NULL), 0);
	assert_ptr_equal(table, &runner[2]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_close_times),
		cmocka_unit_test(test_no_margin),
		cmocka_unit_test(test_none_competes),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_forced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* plan: the parts add up to the budget, and a budget that is too small is refused with a number
 * that works. */
#include "serve/budget.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static const struct budget_worker worker = {
	.fixed = 3 * MIB, .scratch_least = 4 * MIB, .scratch_most = 8 * MIB};

static void parts_add_up_for_every_budget(void **state)
{
	(void)state;
	struct budget plan;
	unsigned made = 0;
	for (uint64_t budget = MIB; budget < (uint64_t)64 << 30; budget += budget / 7 + 1)
		for (unsigned threads = 1; threads <= 256; threads *= 2) {
			if (budget_make(budget, threads, &worker, &plan, NULL))
				continue;
			made++;
			assert_int_equal(plan.process + plan.scratch + plan.index + plan.arena +
						 plan.large_reads + plan.large_images +
						 plan.streams,
				budget);
			assert_int_equal(
				plan.scratch, threads * (worker.fixed + plan.worker_scratch));
			assert_true(plan.worker_scratch >= worker.scratch_least &&
				    plan.worker_scratch <= worker.scratch_most);
			assert_true(plan.arena >= 4 * MIB && plan.large_images >= 4 * MIB &&
				    plan.large_reads >= 2 * MIB && plan.streams >= 4 * MIB);
		}
	assert_true(made > 100);
}

static void refusal_names_a_budget_that_works(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads <= 64; threads *= 4) {
		struct budget plan;
		struct fault fault;
		assert_int_equal(budget_make(2 * MIB, threads, &worker, &plan, &fault), -ENOMEM);
		const char *at = strstr(fault.text, "at least ");
		assert_non_null(at);
		uint64_t least = strtoull(at + strlen("at least "), NULL, 10) * MIB;
		assert_int_equal(budget_make(least, threads, &worker, &plan, &fault), 0);
	}
}

static void the_budget_for_a_need_is_the_least_one(void **state)
{
	(void)state;
	for (uint64_t need = MIB; need < 100000 * MIB; need = need * 3 + 12345)
		for (unsigned threads = 1; threads <= 64; threads *= 4) {
			struct budget plan = {0};
			uint64_t budget = budget_for(need, threads, &worker);
			assert_int_equal(budget_make(budget, threads, &worker, &plan, NULL), 0);
			assert_true(plan.streams >= need);
			assert_true(budget_make(budget - MIB, threads, &worker, &plan, NULL) ||
				    plan.streams < need);
		}
}

static void the_budget_for_parts_has_each_of_them(void **state)
{
	static const struct budget wanted[] = {
		{.streams = 300 * MIB, .arena = 20 * MIB},
		{.large_images = 500 * MIB},
		{.large_reads = 300 * MIB, .streams = MIB},
		{.arena = 32 * MIB, .large_images = 5 * MIB},
		{.arena = 0},
	};
	static const struct budget beyond[] = {
		{.arena = 33 * MIB}, {.large_images = 1000 * MIB}, {.large_reads = 400 * MIB}};
	(void)state;
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		struct budget plan = {0}, less = {0};
		uint64_t budget = budget_for_parts(&wanted[i], 4, &worker);
		assert_int_equal(budget_make(budget, 4, &worker, &plan, NULL), 0);
		assert_true(plan.streams >= wanted[i].streams && plan.arena >= wanted[i].arena &&
			    plan.large_reads >= wanted[i].large_reads &&
			    plan.large_images >= wanted[i].large_images);
		assert_true(budget_make(budget - MIB, 4, &worker, &less, NULL) ||
			    less.streams < wanted[i].streams || less.arena < wanted[i].arena ||
			    less.large_reads < wanted[i].large_reads ||
			    less.large_images < wanted[i].large_images);
	}
	/* The parts have a maximum size. */
	for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
		assert_int_equal(budget_for_parts(&beyond[i], 4, &worker), 0);
}

static void the_default_starts_a_daemon(void **state)
{
	(void)state;
	const struct budget_worker needs = budget_worker_needs();
	struct budget plan;
	/* penstock.yaml(5) names the least one. */
	assert_int_equal(budget_auto(0, &needs), 35 * MIB);
	assert_int_equal(budget_auto(100 * MIB, &needs), 35 * MIB);
	assert_int_equal(budget_make(35 * MIB, 1, &needs, &plan, NULL), 0);
	assert_int_equal(budget_auto(400 * MIB, &needs), 100 * MIB);
	assert_int_equal(budget_auto((uint64_t)64 << 30, &needs), 4096 * MIB);
	assert_in_range(budget_default(), 35 * MIB, 4096 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_add_up_for_every_budget),
		cmocka_unit_test(refusal_names_a_budget_that_works),
		cmocka_unit_test(the_budget_for_a_need_is_the_least_one),
		cmocka_unit_test(the_budget_for_parts_has_each_of_them),
		cmocka_unit_test(the_default_starts_a_daemon),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

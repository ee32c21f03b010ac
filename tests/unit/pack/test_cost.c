/* cost: which samples are tried: all different, spread over what is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "client/cli/pack/cost.h"

static void a_few_of_many(void **state)
{
	static const struct {
		uint64_t first, count;
		unsigned threads;
		uint64_t tries;
	} cases[] = {
		{0, 0, 4, 0},
		{5, 5, 4, 0},
		{9, 5, 4, 0},
		{0, 1, 4, 1},
		{0, 3, 4, 3},
		{0, 15, 2, 2},
		{0, 1000, 2, 50},
		{900, 1000, 2, 5},
		{0, 1281167, 64, 64058},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_true(cost_tries(cases[i].first, cases[i].count, cases[i].threads) ==
			    cases[i].tries);
}

static void spread_without_repetition(void **state)
{
	static const uint64_t ends[][2] = {{0, 1}, {0, 7}, {3, 10}, {0, 1000}, {999, 1000},
		{1, UINT64_C(100000000)}, {UINT32_MAX, UINT64_C(5) * UINT32_MAX}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(ends); i++) {
		uint64_t first = ends[i][0], count = ends[i][1];
		for (uint64_t tries = 1; tries <= UTIL_MIN(count - first, (uint64_t)1000);
			tries++) {
			uint64_t before = cost_sample(first, count, tries, 0), middle = 0;
			assert_true(before >= first);
			for (uint64_t n = 1; n < tries; n++) {
				uint64_t number = cost_sample(first, count, tries, n);
				assert_true(number > before);
				before = number;
				middle += number >= first + (count - first) / 2;
			}
			assert_true(before < count);
			/* Half of them are in the second half. */
			assert_in_range(2 * middle + 2, tries > 1 ? tries - 1 : 0, tries + 3);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_of_many),
		cmocka_unit_test(spread_without_repetition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

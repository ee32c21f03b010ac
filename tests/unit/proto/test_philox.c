/* philox: the known answers of Random123 1.14 (tests/kat_vectors, "philox4x32 10"), and the
 * promises about draws. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "proto/philox.h"

static void matches_the_known_answers(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], expected[4];
	} cases[] = {
		{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff},
			{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0},
			{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct philox r = philox_4x32(cases[i].counter, cases[i].key);
		assert_memory_equal(r.word, cases[i].expected, sizeof r.word);
	}
}

/* The place of each part of the key in the counter is part of the promise "same seed, same
 * bytes" across releases. */
static void lays_out_the_counter_for_ever(void **state)
{
	struct philox r = philox_draw(0x1234deadbeef, 9, 0x100000005, PHILOX_RESIZED_CROP, 2);
	const uint32_t expected[4] = {0x0da33833, 0xd3839418, 0x0655ad17, 0x7083435a};
	(void)state;
	assert_memory_equal(r.word, expected, sizeof expected);
}

/* A salt of 0 leaves the seed as it is, so that streams without a salt keep their bytes. */
static void salts_a_seed(void **state)
{
	const uint64_t seed = 0x1234deadbeef;
	struct philox r = philox_draw(seed, 7, 0, PHILOX_SALT, 0);
	(void)state;
	assert_int_equal(philox_salted(seed, 0), seed);
	assert_int_equal(philox_salted(seed, 7), (uint64_t)r.word[1] << 32 | r.word[0]);
	assert_int_not_equal(philox_salted(seed, 7), philox_salted(seed, 8));
	assert_int_not_equal(philox_salted(seed, 7), philox_salted(seed + 1, 7));
}

static void differs_in_every_part_of_the_name(void **state)
{
	const uint64_t last = ((uint64_t)1 << 48) - 1;
	const struct philox draws[] = {
		philox_draw(1, 1, 1, PHILOX_SUBSTITUTE, 1),
		philox_draw(2, 1, 1, PHILOX_SUBSTITUTE, 1),
		philox_draw(1 + ((uint64_t)1 << 32), 1, 1, PHILOX_SUBSTITUTE, 1),
		philox_draw(1, 2, 1, PHILOX_SUBSTITUTE, 1),
		philox_draw(1, 1, 2, PHILOX_SUBSTITUTE, 1),
		philox_draw(1, 1, last, PHILOX_SUBSTITUTE, 1),
		philox_draw(1, 1, last, PHILOX_SUBSTITUTE, 65535),
		philox_draw(1, 1, 1, PHILOX_HORIZONTAL_FLIP, 1),
		philox_draw(1, 1, 1, PHILOX_SUBSTITUTE, 2),
		philox_draw(1, 1, 1, PHILOX_SUBSTITUTE, 65535),
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(draws); i++)
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(draws[i].word, draws[j].word, sizeof draws[i].word);
}

static void units_are_below_one(void **state)
{
	(void)state;
	assert_true(philox_unit(0, 0) == 0);
	assert_true(philox_unit(0x80000000, 0) == 0.5);
	assert_true(philox_unit(0xffffffff, 0xffffffff) < 1);
	assert_true(philox_unit(0xffffffff, 0xffffffff) == 1 - 0x1p-53);
}

static void bounds_are_kept_and_filled_evenly(void **state)
{
	unsigned count[7] = {0};
	(void)state;
	assert_int_equal(philox_below(0xffffffff, 0xffffffff, 1), 0);
	assert_int_equal(philox_below(0xffffffff, 0xffffffff, UINT64_MAX), UINT64_MAX - 1);
	assert_int_equal(philox_below(0, 0, 10), 0);
	for (uint64_t i = 0; i < 70000; i++) {
		struct philox r = philox_draw(3, 0, i, PHILOX_SUBSTITUTE, 0);
		count[philox_below(r.word[0], r.word[1], 7)]++;
	}
	for (size_t i = 0; i < UTIL_COUNT(count); i++)
		assert_in_range(count[i], 9600, 10400); /* 4.3 standard deviations */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches_the_known_answers),
		cmocka_unit_test(lays_out_the_counter_for_ever),
		cmocka_unit_test(salts_a_seed),
		cmocka_unit_test(differs_in_every_part_of_the_name),
		cmocka_unit_test(units_are_below_one),
		cmocka_unit_test(bounds_are_kept_and_filled_evenly),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

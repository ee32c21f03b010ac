/* sampler: which sample is at which position, for each way to choose samples. */
#include "order/sampler.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct order shuffled(uint64_t samples, uint64_t seed)
{
	return (struct order){.samples = samples, .seed = seed, .shuffle = true};
}

/* For a sampler with one part. */
static uint64_t at(const struct sampler *sampler, uint32_t epoch, uint64_t position)
{
	struct sampler_pick pick = sampler_pick(sampler, epoch, position);
	assert_int_equal(pick.part, 0);
	return pick.number;
}

static void test_plain_is_the_order(void **state)
{
	(void)state;
	for (int shuffle = 0; shuffle < 2; shuffle++) {
		struct order order = shuffled(101, 5);
		order.shuffle = shuffle;
		struct sampler sampler = sampler_plain(&order);
		assert_int_equal(sampler.length, 101);
		for (uint32_t e = 0; e < 5; e++)
			for (uint64_t p = 0; p < 101; p++) {
				assert_int_equal(at(&sampler, e, p), order_sample(&order, e, p));
				assert_int_equal(sampler_substitute(&sampler, e, p, 2).number,
					order_substitute(&order, e, p, 2));
			}
	}
}

/* epoch_length: the sequence of all epochs is the sequence of all permutations. */
static void test_endless_goes_on(void **state)
{
	(void)state;
	static const uint64_t lengths[] = {1, 7, 10, 13, 30, 95};
	for (size_t i = 0; i < UTIL_COUNT(lengths); i++) {
		struct order order = shuffled(10, 3);
		struct sampler sampler = sampler_plain(&order);
		sampler.endless = true;
		sampler.length = lengths[i];
		uint64_t ordinal = 0;
		for (uint32_t e = 0; e < 20; e++)
			for (uint64_t p = 0; p < lengths[i]; p++, ordinal++)
				assert_int_equal(at(&sampler, e, p),
					order_sample(
						&order, (uint32_t)(ordinal / 10), ordinal % 10));
	}
}

static void test_endless_far_away(void **state)
{
	(void)state;
	struct order order = shuffled(3, 3);
	struct sampler sampler = sampler_plain(&order);
	sampler.endless = true;
	sampler.length = SAMPLER_LENGTH_MAX;
	for (uint64_t p = 0; p < 100; p++)
		assert_true(at(&sampler, UINT32_MAX, SAMPLER_LENGTH_MAX - 1 - p) < 3);
}

static void test_repeats(void **state)
{
	(void)state;
	for (uint32_t repeats = 1; repeats <= SAMPLER_REPEATS; repeats++)
		for (int endless = 0; endless < 2; endless++) {
			struct order order = shuffled(50, 9);
			struct sampler sampler = sampler_plain(&order);
			sampler.repeats = repeats;
			sampler.endless = endless;
			uint64_t each = (50 + repeats - 1) / repeats;
			for (uint32_t e = 0; e < 4; e++)
				for (uint64_t p = 0; p < 50; p++) {
					uint64_t item = p / repeats, all = e * each + item;
					uint64_t want =
						endless ? order_sample(&order, (uint32_t)(all / 50),
								  all % 50)
							: order_sample(&order, e, item);
					assert_int_equal(at(&sampler, e, p), want);
					/* A broken sample has the same substitute in all its
					 * places. */
					assert_int_equal(
						sampler_substitute(&sampler, e, p, 1).number,
						sampler_substitute(&sampler, e, p - p % repeats, 1)
							.number);
				}
		}
}

/* Splits of one dataset */

static struct order split(uint64_t all, uint64_t from, uint64_t to, bool shuffle)
{
	return (struct order){.samples = to - from,
		.seed = 4,
		.shuffle = shuffle,
		.subset = {.of = all, .from = from}};
}

static void test_splits_are_disjoint_and_complete(void **state)
{
	(void)state;
	enum { ALL = 1000 };
	for (int shuffle = 0; shuffle < 2; shuffle++) {
		unsigned times[ALL] = {0};
		static const uint64_t cut[] = {0, 100, 101, 900, ALL};
		for (size_t i = 0; i + 1 < UTIL_COUNT(cut); i++) {
			struct order order = split(ALL, cut[i], cut[i + 1], shuffle);
			struct sampler sampler = sampler_plain(&order);
			for (uint64_t p = 0; p < order.samples; p++)
				times[at(&sampler, 2, p)]++;
		}
		for (int i = 0; i < ALL; i++)
			assert_int_equal(times[i], 1);
	}
}

/* The dataset has ten classes, one after the other. Its first tenth has samples of each class,
 * with counts that a biased permutation would not give by chance. */
static void test_splits_are_mixed(void **state)
{
	(void)state;
	enum { ALL = 100000, CLASSES = 10 };
	static const double chi_999 = 27.88; /* 9 degrees of freedom, 0.001 */
	struct order order = split(ALL, 0, ALL / 10, false);
	double count[CLASSES] = {0}, chi = 0;
	for (uint64_t p = 0; p < order.samples; p++)
		count[order_sample(&order, 0, p) / (ALL / CLASSES)]++;
	for (int i = 0; i < CLASSES; i++) {
		double want = ALL / 10.0 / CLASSES;
		chi += (count[i] - want) * (count[i] - want) / want;
	}
	assert_true(chi < chi_999);
}

/* Fixed across releases: the training part must stay the training part. */
static void test_splits_stay_as_they_are(void **state)
{
	(void)state;
	static const uint64_t first[] = {13746, 1543, 22625, 35167, 4461, 40085};
	struct order order = split(50000, 0, 45000, false);
	for (uint64_t p = 0; p < UTIL_COUNT(first); p++)
		assert_int_equal(order_sample(&order, 0, p), first[p]);
	struct order other = order;
	other.seed = 77;
	for (uint64_t p = 0; p < 100; p++)
		assert_int_equal(order_sample(&order, 0, p), order_sample(&other, 0, p));
}

/* Weights */

static void test_weighted(void **state)
{
	(void)state;
	enum { SAMPLES = 8, LENGTH = 500 };
	static const double weight[SAMPLES] = {1, 1, 2, 4, 8, 0, 16, 32};
	static const uint32_t list[SAMPLES] = {10, 11, 12, 13, 14, 15, 16, 17};
	static const double chi_999 = 22.46; /* 6 degrees of freedom, 0.001 */
	alias_cell cell[SAMPLES];
	for (int i = 0; i < SAMPLES; i++)
		cell[i] = alias_weight(weight[i]);
	assert_true(alias_make(cell, SAMPLES, NULL, NULL));
	struct order order = shuffled(SAMPLES, 21);
	order.subset.narrow = list;
	struct sampler sampler = sampler_plain(&order);
	sampler.weights = cell;
	sampler.length = LENGTH;
	double count[SAMPLES] = {0}, instead[SAMPLES] = {0}, chi = 0, chi_instead = 0;
	for (uint32_t e = 0; e < 200; e++)
		for (uint64_t p = 0; p < LENGTH; p++) {
			count[at(&sampler, e, p) - 10]++;
			instead[sampler_substitute(&sampler, e, p, 1).number - 10]++;
		}
	for (int i = 0; i < SAMPLES; i++) {
		double want = weight[i] / 64 * 200 * LENGTH;
		if (want > 0) {
			chi += (count[i] - want) * (count[i] - want) / want;
			chi_instead += (instead[i] - want) * (instead[i] - want) / want;
		} else {
			assert_true(count[i] + instead[i] < 1);
		}
	}
	assert_true(chi < chi_999);
	assert_true(chi_instead < chi_999);
	/* Draws of different epochs and seeds are independent. */
	unsigned same = 0, same_seed = 0;
	struct sampler other = sampler;
	other.order[0].seed++;
	for (uint64_t p = 0; p < LENGTH; p++) {
		same += at(&sampler, 0, p) == at(&sampler, 1, p);
		same_seed += at(&sampler, 0, p) == at(&other, 0, p);
	}
	/* 0.3345 by chance: 5 standard deviations. */
	assert_in_range(same, 167 - 53, 167 + 53);
	assert_in_range(same_seed, 167 - 53, 167 + 53);
}

/* Parts */

static struct sampler mixed(const uint64_t *samples, const double *weight, uint32_t parts)
{
	struct sampler sampler = {.repeats = 1, .endless = true, .parts = parts};
	uint32_t none;
	assert_true(sampler_quotas(weight, parts, sampler.quota, &none));
	for (uint32_t i = 0; i < parts; i++) {
		sampler.order[i] = shuffled(samples[i], 6);
		sampler.order[i].part = i;
		sampler.length += samples[i];
	}
	return sampler;
}

/* The place of `ordinal`, where epochs of any length follow each other. */
static struct sampler_pick nth(const struct sampler *sampler, uint64_t ordinal)
{
	return sampler_pick(
		sampler, (uint32_t)(ordinal / sampler->length), ordinal % sampler->length);
}

static void test_quotas_are_exact(void **state)
{
	(void)state;
	static const uint64_t samples[] = {700, 40, 3333};
	static const double weight[] = {0.5, 0.25, 0.25};
	struct sampler sampler = mixed(samples, weight, 3);
	for (uint64_t block = 0; block < 60; block++) {
		unsigned count[3] = {0};
		for (uint64_t i = 0; i < SAMPLER_BLOCK; i++)
			count[nth(&sampler, block * SAMPLER_BLOCK + i).part]++;
		assert_int_equal(count[0], 500);
		assert_int_equal(count[1], 250);
		assert_int_equal(count[2], 250);
	}
}

/* For every epoch length, each part's samples come without replacement, pass by pass. */
static void test_parts_are_without_replacement(void **state)
{
	(void)state;
	static const uint64_t samples[] = {700, 40, 1};
	static const double weight[] = {3, 2, 1};
	static const uint64_t lengths[] = {741, 10, 1000, 1013};
	for (size_t l = 0; l < UTIL_COUNT(lengths); l++) {
		struct sampler sampler = mixed(samples, weight, 3);
		static uint64_t seen[3][700], all[3];
		memset(seen, 0, sizeof seen);
		memset(all, 0, sizeof all);
		sampler.length = lengths[l];
		/* At the end of a block, no part has begun a pass in two places. */
		for (uint64_t block = 0; block < 20; block++) {
			for (uint64_t i = 0; i < SAMPLER_BLOCK; i++) {
				struct sampler_pick pick = nth(&sampler, block * SAMPLER_BLOCK + i);
				assert_true(pick.number < samples[pick.part]);
				seen[pick.part][pick.number]++;
				all[pick.part]++;
			}
			for (uint32_t part = 0; part < 3; part++) {
				uint64_t passes = all[part] / samples[part], once = 0;
				for (uint64_t i = 0; i < samples[part]; i++) {
					assert_in_range(seen[part][i], passes, passes + 1);
					once += seen[part][i] == passes + 1;
				}
				assert_int_equal(once, all[part] % samples[part]);
			}
		}
	}
}

static void test_parts_differ(void **state)
{
	(void)state;
	static const uint64_t samples[] = {1000, 1000};
	static const double weight[] = {1, 1};
	struct sampler sampler = mixed(samples, weight, 2);
	unsigned same = 0, first = 0, runs = 0;
	uint64_t number[2][1000];
	unsigned n[2] = {0};
	for (uint64_t i = 0; i < 2000; i++) {
		struct sampler_pick pick = nth(&sampler, i);
		number[pick.part][n[pick.part]++] = pick.number;
		first += i < SAMPLER_BLOCK / 2 && pick.part == 0;
		runs += i && nth(&sampler, i - 1).part == pick.part;
		struct sampler_pick instead = sampler_substitute(
			&sampler, (uint32_t)(i / sampler.length), i % sampler.length, 1);
		assert_int_equal(instead.part, pick.part);
	}
	for (int i = 0; i < 1000; i++)
		same += number[0][i] == number[1][i];
	/* Each part has its own shuffle (1 common place is expected), and the parts are mixed
	 * well: 250 of the first 500, 1000 of 1999 neighbors. */
	assert_true(same < 8);
	assert_in_range(first, 200, 300);
	assert_in_range(runs, 900, 1100);
}

static void test_quotas_are_rounded(void **state)
{
	(void)state;
	uint32_t quota[SAMPLER_PARTS], none;
	assert_true(sampler_quotas((double[]){1, 1, 1}, 3, quota, &none));
	assert_int_equal(quota[0], 334);
	assert_int_equal(quota[1], 333);
	assert_int_equal(quota[2], 333);
	assert_true(sampler_quotas((double[]){0.7, 0.2, 0.1}, 3, quota, &none));
	assert_int_equal(quota[0], 700);
	assert_int_equal(quota[1], 200);
	assert_int_equal(quota[2], 100);
	assert_true(sampler_quotas((double[]){1e308, 1e308}, 2, quota, &none));
	assert_int_equal(quota[0], 500);
	assert_false(sampler_quotas((double[]){1, 0.0001, 1}, 3, quota, &none));
	assert_int_equal(none, 1);
	assert_false(sampler_quotas((double[]){1e-300, 1}, 2, quota, &none));
	assert_int_equal(none, 0);
	double equal[SAMPLER_PARTS];
	for (int i = 0; i < SAMPLER_PARTS; i++)
		equal[i] = 0.3;
	assert_true(sampler_quotas(equal, SAMPLER_PARTS, quota, &none));
	for (int i = 0; i < SAMPLER_PARTS; i++)
		assert_int_equal(quota[i], 62 + (i < 8));
}

/* Fixed across releases, and the same as in tests/e2e/order_model.py: a state from one release
 * continues with the next. */
static void test_orders_stay_as_they_are(void **state)
{
	(void)state;
	static const double weight[] = {1, 2, 3, 4, 0, 10, 20, 0.5, 9.5, 50};
	static const uint64_t drawn[] = {9, 9, 3, 9, 6, 5, 6, 6, 9, 9};
	static const uint64_t samples[] = {700, 40, 3333};
	static const struct sampler_pick picked[] = {
		{2, 3210}, {0, 459}, {1, 37}, {0, 267}, {2, 2337}, {1, 2}, {0, 172}, {1, 9}};
	alias_cell cell[UTIL_COUNT(weight)];
	for (size_t i = 0; i < UTIL_COUNT(weight); i++)
		cell[i] = alias_weight(weight[i]);
	assert_true(alias_make(cell, UTIL_COUNT(weight), NULL, NULL));
	struct order order = shuffled(UTIL_COUNT(weight), 7);
	struct sampler weighted = sampler_plain(&order);
	weighted.weights = cell;
	for (size_t i = 0; i < UTIL_COUNT(drawn); i++)
		assert_int_equal(at(&weighted, 3, i), drawn[i]);
	struct sampler mix = mixed(samples, (double[]){0.5, 0.25, 0.25}, 3);
	for (size_t i = 0; i < UTIL_COUNT(picked); i++) {
		struct sampler_pick pick = sampler_pick(&mix, 2, i);
		assert_int_equal(pick.part, picked[i].part);
		assert_int_equal(pick.number, picked[i].number);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_is_the_order),
		cmocka_unit_test(test_endless_goes_on),
		cmocka_unit_test(test_endless_far_away),
		cmocka_unit_test(test_repeats),
		cmocka_unit_test(test_splits_are_disjoint_and_complete),
		cmocka_unit_test(test_splits_are_mixed),
		cmocka_unit_test(test_splits_stay_as_they_are),
		cmocka_unit_test(test_weighted),
		cmocka_unit_test(test_quotas_are_exact),
		cmocka_unit_test(test_parts_are_without_replacement),
		cmocka_unit_test(test_parts_differ),
		cmocka_unit_test(test_quotas_are_rounded),
		cmocka_unit_test(test_orders_stay_as_they_are),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* blocks: a bijection for every number of samples, size of a block and window, its inverse, what a
 * window has open, and values that must never change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "order/blocks.h"
#include "order/order.h"

#include <string.h>

enum { SAMPLES_MOST = 1 << 20 };

static uint8_t seen[SAMPLES_MOST];
static uint32_t slot_of[SAMPLES_MOST];

/* Every sample once, the inverse, and in each period only blocks that are open. */
static void check_epoch(const struct blocks *blocks, const struct blocks_key *key, uint64_t step)
{
	const uint64_t periods = blocks_periods(blocks), open = blocks_open(blocks);
	uint64_t position = 0;
	memset(seen, 0, blocks->samples);
	for (uint64_t at = 0; at < blocks_count(blocks); at++) {
		slot_of[blocks_at(blocks, key, at)] = (uint32_t)at;
		assert_int_equal(blocks_slot_of(blocks, key, blocks_at(blocks, key, at)), at);
	}
	for (uint64_t period = 0; period < periods; period++) {
		assert_int_equal(blocks_begin(blocks, key, period), position);
		for (; position < blocks_begin(blocks, key, period + 1); position++) {
			const uint64_t sample = blocks_sample(blocks, key, position);
			assert_true(sample < blocks->samples);
			assert_int_equal(seen[sample]++, 0);
			const uint64_t slot = slot_of[sample / blocks->block];
			const uint64_t age = (period + periods - slot) % periods;
			assert_true(periods == 1 || age < open);
			if (position % step)
				continue;
			assert_int_equal(blocks_position(blocks, key, sample), position);
			assert_int_equal(blocks_period_of(blocks, key, position), period);
		}
	}
	assert_int_equal(position, blocks->samples);
}

static void permutes_every_small_size(void **state)
{
	static const uint32_t windows[] = {1, 2, 3, 5, 16, UINT32_MAX};
	static const uint64_t sizes[] = {1, 2, 3, 7, 16, 100};
	(void)state;
	for (uint64_t n = 1; n < 60; n++)
		for (size_t w = 0; w < UTIL_COUNT(windows); w++)
			for (size_t b = 0; b < UTIL_COUNT(sizes); b++) {
				const struct blocks blocks = {n, sizes[b], windows[w]};
				const struct blocks_key key = {n * 77, (uint32_t)(n % 5), w & 1};
				check_epoch(&blocks, &key, 1);
			}
}

static void permutes_a_million(void **state)
{
	const struct blocks blocks = {1000003, 128, 16};
	const struct blocks_key key = {0xfedcba9876543210u, 3, 0};
	(void)state;
	assert_int_equal(blocks_count(&blocks), 7813);
	assert_int_equal(blocks_periods(&blocks), 7813);
	assert_int_equal(blocks_open(&blocks), 16);
	check_epoch(&blocks, &key, 101);
}

/* Without a table, in sizes that no machine could list. */
static void inverts_large_sizes(void **state)
{
	static const struct blocks large[] = {{1000000000, 128, 16},
		{((uint64_t)1 << 40) + 1, 1, 1},
		{((uint64_t)1 << 48) - 5, (uint64_t)1 << 20, 65536},
		{(uint64_t)1 << 48, 3, UINT32_MAX},
		{((uint64_t)1 << 62) - 1, ((uint64_t)1 << 61) + 1, 1}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(large); i++)
		for (uint64_t k = 0; k < 300; k++) {
			const uint64_t n = large[i].samples;
			const struct blocks_key key = {k, (uint32_t)(k * 2654435761u), (uint32_t)k};
			const uint64_t position = k < 5    ? k
						  : k < 10 ? n - 1 - (k - 5)
							   : k * 0x9e3779b97f4a7c15u % n;
			const uint64_t sample = blocks_sample(&large[i], &key, position);
			assert_true(sample < n);
			assert_int_equal(blocks_position(&large[i], &key, sample), position);
		}
}

/* The blocks that follow each other, and the samples of a period, change with each of seed, epoch
 * and part. */
static void differs_by_key(void **state)
{
	const struct blocks blocks = {4096, 16, 4};
	const struct blocks_key keys[] = {{1, 0, 0}, {2, 0, 0}, {1, 1, 0}, {1, 0, 1}};
	(void)state;
	for (size_t i = 1; i < UTIL_COUNT(keys); i++) {
		uint64_t slots = 0, samples = 0;
		for (uint64_t at = 0; at < 256; at++)
			slots += blocks_at(&blocks, &keys[0], at) ==
				 blocks_at(&blocks, &keys[i], at);
		for (uint64_t at = 0; at < 4096; at++)
			samples += blocks_sample(&blocks, &keys[0], at) ==
				   blocks_sample(&blocks, &keys[i], at);
		/* One is expected of each. */
		assert_true(slots < 8 && samples < 8);
	}
}

/* As many pairs of neighbors stay neighbors as by chance: with a window of 8 blocks of 64,
 * both are in one period of 64 samples in one case of 8. */
static void mixes_neighbors(void **state)
{
	const struct blocks blocks = {1 << 16, 64, 8};
	const struct blocks_key key = {5, 0, 0};
	uint64_t kept = 0;
	(void)state;
	for (uint64_t at = 1; at < blocks.samples; at++) {
		const uint64_t a = blocks_sample(&blocks, &key, at - 1);
		const uint64_t b = blocks_sample(&blocks, &key, at);
		kept += a + 1 == b || b + 1 == a;
	}
	/* 2 x 65,536 / 512 = 256 expected, with a deviation of 16. */
	assert_in_range(kept, 256 - 80, 256 + 80);
}

/* One window over everything is a full shuffle: every place gets every sample equally often. */
static void one_window_is_full(void **state)
{
	enum { N = 12, EPOCHS = 9000 };
	static uint32_t hits[N][N];
	const struct blocks blocks = {N, 5, 3};
	(void)state;
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		const struct blocks_key key = {9, epoch, 0};
		for (uint64_t at = 0; at < N; at++)
			hits[at][blocks_sample(&blocks, &key, at)]++;
	}
	double chi = 0;
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) {
			const double off = hits[i][k] - EPOCHS / (double)N;
			chi += off * off * N / EPOCHS;
		}
	/* 121 degrees of freedom: mean 121, deviation 15.6. */
	assert_true(chi > 60 && chi < 200);
}

static void sizes_of_blocks(void **state)
{
	static const struct {
		uint64_t samples, bytes, size;
	} cases[] = {
		{1281167, 140000000000, 128}, /* ImageNet: 14 MB */
		{50000, 50000 * 2200, 4096},
		{1000, 1000 * ((uint64_t)16 << 20), 1}, /* a sample is a block */
		{1000, 1000 * ((uint64_t)1 << 30), 1},
		{1000, 1000 * ((uint64_t)8 << 20), 2},
		{1000, 1000 * ((uint64_t)8 << 20) + 1, 1},
		{5, 5, 8},
		{1, 1, 1},
		{7, 0, 8}, /* all of it */
		{UINT64_MAX / 2, UINT64_MAX, (uint64_t)1 << 22},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		assert_int_equal(blocks_size(cases[i].samples, cases[i].bytes), cases[i].size);
}

/* The order that states of users refer to. */
static void values_never_change(void **state)
{
	static const uint64_t expected[] = {636, 174, 344, 676, 446, 549, 200, 693, 430, 397, 372};
	const struct order order = {
		.samples = 1000, .seed = 7, .shuffle = true, .window = 4, .block = 16};
	(void)state;
	for (uint64_t at = 0; at < UTIL_COUNT(expected); at++)
		assert_int_equal(order_sample(&order, 2, at * 99), expected[at]);
}

static void an_order_takes_blocks(void **state)
{
	static const uint32_t subset[] = {2, 3, 5, 8, 13, 21, 34, 55};
	struct order order = {
		.samples = 8, .seed = 7, .shuffle = true, .subset = {.narrow = subset}};
	struct order other = order;
	(void)state;
	const uint64_t full = order_hash(&order);
	other.block = 2;
	assert_int_equal(order_hash(&other), full);
	other.window = 2;
	assert_int_not_equal(order_hash(&other), full);
	order = other;
	order.window = 3;
	assert_int_not_equal(order_hash(&other), order_hash(&order));
	for (uint64_t at = 0; at < 8; at++) {
		const uint64_t sample = order_sample(&other, 4, at);
		uint64_t place = 0;
		while (subset[place] != sample)
			place++;
		assert_int_equal(order_position(&other, 4, place), at);
	}
	/* Without shuffle, a window says nothing. */
	other.shuffle = false;
	assert_int_equal(order_sample(&other, 4, 3), 8);
	order.shuffle = false;
	assert_int_equal(order_hash(&other), order_hash(&order));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permutes_every_small_size),
		cmocka_unit_test(permutes_a_million),
		cmocka_unit_test(inverts_large_sizes),
		cmocka_unit_test(differs_by_key),
		cmocka_unit_test(mixes_neighbors),
		cmocka_unit_test(one_window_is_full),
		cmocka_unit_test(sizes_of_blocks),
		cmocka_unit_test(values_never_change),
		cmocka_unit_test(an_order_takes_blocks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

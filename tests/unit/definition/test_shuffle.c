/* shuffle: the keys `shuffle` and `window`: read, refused, printed, told apart; their hashes in
 * states, which must never change; and the places of a subset, sorted. */
#include "spec_wants.h"

#include "base/util.h"
#include "definition/shuffle/places.h"
#include "definition/spec_differ.h"
#include "definition/subset.h"

#include <stdio.h>
#include <stdlib.h>

static void reads_the_keys(void **state)
{
	static const struct {
		const char *text;
		enum shuffle shuffle;
		uint32_t window;
	} cases[] = {
		{"source: x", SHUFFLE_FULL, 16},
		{"{source: x, train: no}", SHUFFLE_NONE, 16},
		{"{source: x, shuffle: full, train: no}", SHUFFLE_FULL, 16},
		{"{source: x, shuffle: On}", SHUFFLE_FULL, 16},
		{"{source: x, shuffle: off}", SHUFFLE_NONE, 16},
		{"{source: x, shuffle: blocks}", SHUFFLE_BLOCKS, 16},
		{"{source: x, train: no, shuffle: blocks, window: 65536}", SHUFFLE_BLOCKS, 65536},
		{"{source: x, window: 1, shuffle: blocks, repeats: 2}", SHUFFLE_BLOCKS, 1},
		{"{sources: [{source: a}, {source: b}], shuffle: blocks}", SHUFFLE_BLOCKS, 16},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct stream_spec spec = must_parse(cases[i].text);
		assert_int_equal(spec.shuffle, cases[i].shuffle);
		assert_int_equal(spec.window, cases[i].window);
	}
}

static void refuses_in_place(void **state)
{
	(void)state;
	must_refuse("{source: x, shuffle: some}",
		"open request:1:22: shuffle: expected true, false, full (the same as true) or "
		"blocks, got \"some\"");
	must_refuse("{source: x, shuffle: [blocks]}",
		"open request:1:22: shuffle: expected true, false, full (the same as true) or "
		"blocks, got a list or a mapping");
	must_refuse("{source: x, shuffle: 2}",
		"open request:1:22: shuffle: expected true, false, full (the same as true) or "
		"blocks, got \"2\"");
	must_refuse("{source: x, shuffle: }",
		"open request:1:22: shuffle: expected true, false, full (the same as true) or "
		"blocks, got \"\"");
	must_refuse("{source: x, window: 4}",
		"open request:1:13: window needs shuffle: blocks: it is the number of blocks that "
		"such a shuffle has open");
	must_refuse("{source: x, shuffle: true, window: 4}",
		"open request:1:28: window needs shuffle: blocks: it is the number of blocks that "
		"such a shuffle has open");
	must_refuse("{source: x, shuffle: blocks, window: 0}",
		"open request:1:38: window: expected a whole number from 1 to 65536, got \"0\"");
	must_refuse("{source: x, shuffle: blocks, window: 65537}",
		"open request:1:38: window: expected a whole number from 1 to 65536, got "
		"\"65537\"");
	must_refuse("{source: x, shuffle: blocks, window: 16 MiB}",
		"open request:1:38: window: expected a whole number from 1 to 65536, got \"16 "
		"MiB\"");
	must_refuse("{source: x, shuffle: blocks, weights: balanced}",
		"open request:1:22: shuffle: expected true, or nothing, beside weights: samples "
		"that are drawn by weights come from anywhere, not from a window of blocks");
	must_refuse("{source: x, shuffle: blocks, sampling: {classes: 16, per_class: 4}}",
		"open request:1:22: shuffle: expected true, or nothing, beside sampling: the "
		"classes of a batch come from anywhere, not from a window of blocks");
	must_refuse("{source: x, shuffle: blocks, buckets: [[8, 12], [12, 8]]}",
		"open request:1:22: shuffle: expected true, or nothing, beside buckets: the "
		"samples of a bucket come from anywhere, not from a window of blocks");
	must_refuse("{stream: x, window: 4}",
		"open request:1:13: window cannot be written beside stream: the configuration "
		"defines \"x\"; beside it only these keys are allowed: epochs, group, share, rank, "
		"world_size, wait_for, laggard, laggard_timeout_s, state, pin_memory and "
		"reconnect");
}

/* What is printed can be read back, and a definition without blocks is printed as before. */
static void prints_the_keys(void **state)
{
	static const struct {
		const char *text, *shuffle;
		bool window;
	} cases[] = {
		{"source: x", "\"shuffle\":true", false},
		{"{source: x, shuffle: false}", "\"shuffle\":false", false},
		{"{source: x, shuffle: blocks}", "\"shuffle\":\"blocks\",\"window\":16", true},
		{"{source: x, shuffle: blocks, window: 3}", "\"shuffle\":\"blocks\",\"window\":3",
			true},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct stream_spec spec = must_parse(cases[i].text);
		char *text = spec_json(&spec);
		assert_non_null(text);
		assert_non_null(strstr(text, cases[i].shuffle));
		assert_int_equal(strstr(text, "window") != NULL, cases[i].window);
		const struct stream_spec again = must_parse(text);
		assert_int_equal(again.shuffle, spec.shuffle);
		assert_int_equal(again.window, spec.window);
		free(text);
	}
}

static void tells_streams_apart(void **state)
{
	const struct stream_spec full = must_parse("source: x"),
				 also = must_parse("{source: x, shuffle: full}"),
				 two = must_parse("{source: x, shuffle: blocks, window: 2}"),
				 three = must_parse("{source: x, shuffle: blocks, window: 3}"),
				 twin = must_parse("{source: x, shuffle: blocks, window: 2}");
	const char *what = NULL;
	char text[SHUFFLE_TEXT];
	(void)state;
	assert_true(spec_same(&full, &also, &what) && spec_same(&two, &twin, &what));
	assert_false(spec_same(&full, &two, &what));
	assert_string_equal(what, "shuffle");
	assert_false(spec_same(&two, &three, &what));
	assert_string_equal(what, "window");
	assert_string_equal(shuffle_text(SHUFFLE_NONE, 1, text, sizeof text), "in order");
	assert_string_equal(shuffle_text(SHUFFLE_FULL, 1, text, sizeof text), "shuffled");
	assert_string_equal(shuffle_text(SHUFFLE_BLOCKS, 1, text, sizeof text),
		"shuffled in a window of 1 block");
	assert_string_equal(shuffle_text(SHUFFLE_BLOCKS, UINT32_MAX, text, sizeof text),
		"shuffled in a window of 4294967295 blocks");
}

static struct sampler sampler_of(uint32_t parts, uint64_t first, uint64_t second)
{
	struct sampler sampler = {.parts = parts};
	sampler.order[0] = (struct order){.shuffle = true, .window = 4, .block = first};
	sampler.order[1] = (struct order){.shuffle = true, .window = 4, .block = second};
	return sampler;
}

/* What states hold must not change from release to release. */
static void hashes_of_states(void **state)
{
	struct stream_spec full = must_parse("{source: x, seed: 7}"), blocks = full, other;
	const struct sampler one = sampler_of(1, 128, 0), mix = sampler_of(2, 128, 64);
	uint32_t window = 0;
	(void)state;
	const uint64_t before = spec_order_hash(&full);
	assert_int_equal(before, 0x7420abb00c7230fa);
	assert_int_equal(shuffle_blocks_hash(&one), shuffle_power_hash(7));
	assert_int_not_equal(shuffle_blocks_hash(&mix), shuffle_blocks_hash(&one));
	/* A window or blocks of a full shuffle say nothing. */
	spec_note_sampler(&full, &one);
	full.window = 4;
	assert_int_equal(spec_order_hash(&full), before);
	blocks.shuffle = SHUFFLE_BLOCKS;
	blocks.window = 4;
	spec_note_sampler(&blocks, &one);
	const uint64_t hash = spec_order_hash(&blocks);
	assert_int_equal(hash, 0xb45f06426ab15c32);
	other = blocks;
	spec_note_sampler(&other, &mix);
	assert_int_not_equal(spec_order_hash(&other), hash);
	/* Found out again: by a definition that knows neither the window nor the blocks. */
	other = must_parse("{source: y, seed: 7}");
	assert_true(spec_find_blocks(&other, hash, &window));
	assert_int_equal(window, 4);
	assert_false(spec_find_blocks(&other, hash + 1, &window));
	assert_false(spec_find_blocks(&other, before, &window));
	other.seed = 8;
	assert_false(spec_find_blocks(&other, hash, &window));
	/* A window of its own, however large, is tried too. */
	other = blocks;
	other.window = 5000;
	assert_true(spec_find_blocks(&other, spec_order_hash(&other), &window));
	assert_int_equal(window, 5000);
	/* Streams that are not shuffled by blocks note nothing. */
	const struct order plain = {.samples = 5, .shuffle = true, .block = 8};
	const struct sampler none = sampler_plain(&plain);
	assert_int_equal(shuffle_blocks_hash(&none), 0);
}

/* ---- places ---- */

static void check_places(struct list_shelf *shelf, const struct order *order, bool sorted)
{
	struct list *list = NULL, *again = NULL;
	struct fault fault = {{0}};
	assert_int_equal(places_open(shelf, order, 77, &list, &fault), 0);
	assert_int_equal(list == NULL, sorted);
	if (sorted)
		return;
	struct order places = *order;
	places.subset = subset_numbers(list);
	assert_int_equal(list->count, order->samples);
	uint64_t sum = 0, expected = 0;
	for (uint64_t at = 0; at < order->samples; at++) {
		assert_true(!at || order_pick(&places, at - 1) <= order_pick(&places, at));
		sum += order_pick(&places, at) * order_pick(&places, at);
		expected += order_pick(order, at) * order_pick(order, at);
	}
	assert_int_equal(sum, expected);
	/* Streams of the same subset share it. */
	assert_int_equal(places_open(shelf, order, 77, &again, &fault), 0);
	assert_ptr_equal(again, list);
	list_close(shelf, again);
	list_close(shelf, list);
}

static void sorts_subsets(void **state)
{
	static uint32_t narrow[1000];
	static uint64_t wide[1000];
	struct list_shelf shelf;
	struct order order = {.samples = 1000};
	(void)state;
	list_shelf_init(&shelf, NULL, NULL, NULL);
	for (uint32_t i = 0; i < UTIL_COUNT(narrow); i++) {
		narrow[i] = (uint32_t)(999 - i) % 640; /* some several times */
		wide[i] = ((uint64_t)narrow[i] << 33) + i;
	}
	for (uint64_t count = 1; count <= 1000; count += count < 20 ? 1 : 70) {
		order = (struct order){.samples = count, .subset = {.narrow = narrow}};
		check_places(&shelf, &order, count == 1);
		order.subset = (struct order_subset){.wide = wide};
		check_places(&shelf, &order, count == 1);
	}
	order = (struct order){.samples = 900, .subset = {.of = 1000, .from = 50}};
	check_places(&shelf, &order, false);
	order = (struct order){.samples = 300, .subset = {.of = (uint64_t)1 << 33, .from = 9}};
	check_places(&shelf, &order, false);
	order = (struct order){.samples = 300};
	check_places(&shelf, &order, true);
	list_shelf_deinit(&shelf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_keys),
		cmocka_unit_test(refuses_in_place),
		cmocka_unit_test(prints_the_keys),
		cmocka_unit_test(tells_streams_apart),
		cmocka_unit_test(hashes_of_states),
		cmocka_unit_test(sorts_subsets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

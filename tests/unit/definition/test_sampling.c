/* sampling: the keys of which samples there are: read, printed, told apart, and what they come to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "definition/spec.h"
#include "definition/weigh.h"
#include "order/alias.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct stream_spec *must_parse(const char *text)
{
	struct stream_spec *spec = malloc(sizeof *spec);
	struct fault fault = {{0}};
	assert_non_null(spec);
	if (spec_parse(text, strlen(text), "t", spec, &fault) < 0)
		fail_msg("%s: %s", text, fault.text);
	return spec;
}

static void must_refuse(const char *text, const char *sentence)
{
	static struct stream_spec spec;
	struct fault fault = {{0}};
	assert_int_equal(spec_parse(text, strlen(text), "t", &spec, &fault), -EINVAL);
	if (!strstr(fault.text, sentence))
		fail_msg("%s: expected \"%s\" in \"%s\"", text, sentence, fault.text);
}

#define SOURCES "sources: [{source: /a, weight: 3}, {source: /b}]"

#define PK "sampling: {classes: 16, per_class: 4}"

static const char mix[] = "{" SOURCES "}";
static const char pk[] = "{source: x, " PK "}";

#define FOUR "{source: /a}, {source: /b}, {source: /c}, {source: /d}, "
#define SEVENTEEN FOUR FOUR FOUR FOUR "{source: /e}"

static void reads_the_keys(void **state)
{
	(void)state;
	struct stream_spec *spec =
		must_parse("{source: x, weights: balanced, epoch_length: 281474976710656, repeats: "
			   "16, split: 'train[:90%]', train: false}");
	assert_string_equal(spec->sampling.weights, "balanced");
	assert_int_equal(spec->sampling.epoch_length, (uint64_t)1 << 48);
	assert_int_equal(spec->sampling.repeats, 16);
	assert_string_equal(spec->sampling.split, "train[:90%]");
	assert_true(spec->shuffle); /* what is drawn is shuffled, also in evaluation */
	free(spec);
	spec = must_parse("{" SOURCES ", train: false}");
	assert_int_equal(spec->sampling.sources.count, 2);
	assert_string_equal(sampling_source(&spec->sampling.sources, 0), "/a");
	assert_string_equal(sampling_source(&spec->sampling.sources, 1), "/b");
	assert_int_equal(spec->sampling.sources.quota[0], 750);
	assert_string_equal(spec->source, "/a (75 %), /b (25 %)");
	assert_true(spec->shuffle);
	free(spec);
	spec = must_parse("{source: x, batch_size: 128, train: false, " PK "}");
	assert_int_equal(spec->sampling.per_class.classes, 16);
	assert_int_equal(spec->sampling.per_class.each, 4);
	assert_true(spec->shuffle && spec->drop_last);
	free(spec);
	spec = must_parse("source: x");
	assert_int_equal(spec->sampling.repeats, 1);
	assert_int_equal(spec->sampling.epoch_length, 0);
	free(spec);
}

static void refuses_in_place(void **state)
{
	(void)state;
	must_refuse("{source: x, repeats: 17}", "t:1:22: repeats: expected");
	must_refuse("{source: x, epoch_length: 0}", "t:1:27: epoch_length: expected");
	must_refuse("{source: x, split: 'a/b'}", "t:1:20: split: at character 2");
	must_refuse("{source: x, split: '[:9%]', indices: /i}",
		"t:1:13: split cannot be written beside indices");
	must_refuse("{source: x, " SOURCES "}", "t:1:13: sources cannot be written beside source");
	must_refuse("{" SOURCES ", weights: balanced}", "sources have weights of their own");
	must_refuse("{" SOURCES ", indices: /i}", "beside indices");
	must_refuse("{" SOURCES ", shuffle: false}", "shuffle: expected true, or nothing");
	must_refuse("{source: x, weights: [1, 2]}",
		"t:1:22: weights: expected balanced, or the path of a .npy file with a number for "
		"each sample");
	must_refuse("{source: x, weights: {a: 1}}", "weights of whole datasets belong to sources");
	must_refuse("{source: x, weights: ''}", "t:1:22: weights: expected a text of 1 to");
	must_refuse("{source: x, weights: /w, shuffle: off}", "t:1:35: shuffle: expected true");
	must_refuse("{source: x, repeats: 2, train: false}", "t:1:22: repeats: expected 1");
	must_refuse(
		"sources: [{source: a}]", "expected 2 to 16 of them, got 1: write it as source");
	must_refuse("sources: [" SEVENTEEN "]", "t:1:10: sources: expected 2 to 16 of them, got "
						"17: tars that weigh alike are one of "
						"them, as a glob or a brace range");
	must_refuse("sources: []", "t:1:10: sources: expected 2 to 16 of them, got 0");
	must_refuse("sources: [{source: a, weight: 1}, {source: b, weight: 5000}]",
		"t:1:11: sources: weight 1 is so small");
	must_refuse("{source: x, sampling: 16}", "sampling: expected a mapping with both keys");
	must_refuse("{source: x, sampling: {classes: 16}}",
		"t:1:23: sampling: per_class is missing: expected both keys, such as {classes: 16, "
		"per_class: 4}");
	must_refuse("{source: x, sampling: {classes: 0, per_class: 4}}", "classes: expected");
	must_refuse("{source: x, sampling: {classes: 65537, per_class: 4}}", "1 to 65536");
	must_refuse("{source: x, sampling: {classes: 8, per_class: 8, x: 1}}", "x");
	must_refuse("{source: x, sampling: {classes: 16, per_class: 5}}",
		"sampling: expected a batch_size that is a multiple of classes x per_class = 16 x "
		"5 = 80, got 64");
	must_refuse("{source: x, batch_size: 32, " PK "}", "= 16 x 4 = 64, got 32");
	must_refuse("{source: x, " PK ", weights: balanced}", "sampling cannot be written beside");
	must_refuse("{" SOURCES ", " PK "}", "sampling cannot be written beside sources");
	must_refuse("{source: x, " PK ", repeats: 2}", "sampling cannot be written beside repeats");
	must_refuse("{source: x, " PK ", shuffle: false}",
		"shuffle: expected true, or nothing: sampling draws the classes of a batch");
	must_refuse("{source: x, " PK ", drop_last: false}", "drop_last: expected true");
	must_refuse("{source: x, " PK ", epoch_length: 100}",
		"epoch_length: expected a multiple of classes x per_class = 64");
	must_refuse(
		"stream: x\nweights: balanced", "t:2:1: weights cannot be written beside stream");
}

/* Whatever was read can be printed and read again. */
static void prints_what_it_reads(void **state)
{
	static const char *const texts[] = {
		"{source: x, weights: /w.npy, epoch_length: 77, repeats: 3}",
		"{source: x, weights: balanced, indices: /i.npy}",
		"{source: x, split: 'train[10%:-5]', epoch_length: 5}",
		"{" SOURCES ", split: '[:50%]', repeats: 2}",
		"{source: x, split: '[:50%]', epoch_length: 640, " PK "}",
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		struct stream_spec *spec = must_parse(texts[i]);
		cleanup(free_ptr) char *json = spec_json(spec);
		struct stream_spec *again = must_parse(json);
		cleanup(free_ptr) char *twice = spec_json(again);
		const char *what = "";
		assert_string_equal(json, twice);
		if (!spec_same(spec, again, &what))
			fail_msg("%s: another %s", texts[i], what);
		assert_int_equal(spec_order_hash(spec), spec_order_hash(again));
		free(spec);
		free(again);
	}
}

static void tells_orders_apart(void **state)
{
	static const char *const texts[] = {
		"{source: x}",
		"{source: x, weights: balanced}",
		"{source: x, weights: /w}",
		"{source: x, epoch_length: 60}",
		"{source: x, epoch_length: 61}",
		"{source: x, repeats: 2}",
		"{source: x, repeats: 3}",
		pk,
		"{source: x, sampling: {classes: 4, per_class: 16}}",
		"{source: x, split: '[:9]'}",
		"{source: x, split: '[:9%]'}",
		"{source: x, split: '[9:]'}",
		mix,
		"{sources: [{source: /a}, {source: /b}]}",
	};
	uint64_t hash[UTIL_COUNT(texts)];
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		struct stream_spec *spec = must_parse(texts[i]);
		hash[i] = spec_order_hash(spec);
		free(spec);
		for (size_t j = 0; j < i; j++)
			assert_true(hash[i] != hash[j]);
	}
	/* As it was before there were any of these keys. */
	struct order plain = {.samples = 1, .shuffle = true};
	assert_int_equal(hash[0], order_hash(&plain));
	/* Names and ways to write the same are no other order. */
	struct stream_spec *spec = must_parse("{source: x, split: 'train[0:9]', repeats: 1}");
	assert_int_equal(spec_order_hash(spec), hash[9]);
	free(spec);
	spec = must_parse("{source: x, split: 'train[:100%]'}");
	assert_int_equal(spec_order_hash(spec), hash[0]);
	free(spec);
}

static void groups_agree_on_content(void **state)
{
	(void)state;
	struct stream_spec *a = must_parse("{source: x, weights: /a.npy}"),
			   *b = must_parse("{source: x, weights: /b.npy}"),
			   *balanced = must_parse("{source: x, weights: balanced}"),
			   *plain = must_parse("{source: x, shuffle: true}");
	const char *what = "";
	struct list list = {.count = 3, .hash = 7};
	assert_true(spec_has_lists(a));
	assert_false(spec_has_lists(balanced));
	spec_note_lists(a, &(struct sampling_lists){.weights = &list});
	spec_note_lists(b, &(struct sampling_lists){.weights = &list});
	assert_true(spec_same(a, b, &what));
	assert_int_equal(spec_order_hash(a), spec_order_hash(b));
	list.hash++;
	spec_note_lists(b, &(struct sampling_lists){.weights = &list});
	assert_false(spec_same(a, b, &what));
	assert_string_equal(what, "weights");
	assert_false(spec_same(a, balanced, &what));
	assert_false(spec_same(plain, balanced, &what));
	assert_string_equal(what, "weights");
	free(a);
	free(b);
	free(balanced);
	free(plain);
}

/* Weights from files: what test_subset does for indices is the same code; this is what is not. */

#define BUDGET ((uint64_t)1 << 20)

static uint64_t budget_for(void *context, uint64_t bytes_more)
{
	(void)context;
	return BUDGET + bytes_more;
}

static void write_weights(const char *path, const double *values, uint64_t count)
{
	char dict[128];
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	int text = snprintf(dict, sizeof dict,
		"{'descr': '<f8', 'fortran_order': False, 'shape': (%llu,), }\n",
		(unsigned long long)count);
	const uint8_t head[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)text, 0};
	assert_int_equal(fwrite(head, sizeof head, 1, file), 1);
	assert_int_equal(fwrite(dict, (size_t)text, 1, file), 1);
	assert_int_equal(fwrite(values, sizeof *values, count, file), count);
	assert_int_equal(fclose(file), 0);
}

static void tables_of_files(void **state)
{
	static double values[200000];
	char path[] = "/tmp/penstock-unit-XXXXXX";
	struct ledger ledger;
	struct list_shelf shelf;
	struct list *one = NULL, *two = NULL, *three = NULL;
	struct fault fault = {{0}};
	atomic_bool cancel = true;
	(void)state;
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	(void)close(fd);
	ledger_init(&ledger, BUDGET);
	list_shelf_init(&shelf, &ledger, budget_for, NULL);
	for (size_t i = 0; i < UTIL_COUNT(values); i++)
		values[i] = (double)(i % 10);
	write_weights(path, values, 50000);
	assert_int_equal(weigh_open(&shelf, path, NULL, &one, &fault), 0);
	assert_int_equal(BUDGET - ledger_free(&ledger), 8 * 50000);
	/* 0 and -0 are the same weight. */
	values[0] = values[10] = -0.0;
	write_weights(path, values, 50000);
	assert_int_equal(weigh_open(&shelf, path, NULL, &two, &fault), 0);
	assert_ptr_equal(one, two);
	values[0] = 1;
	write_weights(path, values, 50000);
	assert_int_equal(weigh_open(&shelf, path, NULL, &three, &fault), 0);
	assert_true(three != one && three->hash != one->hash);
	uint32_t words[4] = {0, 0, UINT32_MAX, 0};
	for (uint32_t i = 0; i < 1000; i++) {
		words[0] = i * 4294967;
		assert_true(values[alias_draw(weigh_table(three), 50000, words)] > 0);
	}
	assert_int_equal(weigh_fits(one, path, 50000, &fault), 0);
	assert_int_equal(weigh_fits(one, path, 49999, &fault), -EINVAL);
	write_weights(path, values, 40000);
	assert_int_equal(weigh_open(&shelf, path, &cancel, &two, &fault), -ECANCELED);
	write_weights(path, values, UTIL_COUNT(values));
	assert_int_equal(weigh_open(&shelf, path, NULL, &two, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "its 200000 weights need 1.5 MiB (8 bytes each)"));
	list_close(&shelf, one);
	list_close(&shelf, one);
	list_close(&shelf, three);
	assert_int_equal(weigh_open(&shelf, "ballanced", NULL, &one, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "weights: ballanced: "));
	assert_non_null(strstr(fault.text, "; did you mean balanced?"));
	assert_int_equal(weigh_open(&shelf, "/data/balancd", NULL, &one, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "; did you mean balanced?"));
	assert_int_equal(weigh_open(&shelf, "weights.npy", NULL, &one, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "; the only word that is not a path is balanced"));
	assert_int_equal(ledger_free(&ledger), BUDGET);
	list_shelf_deinit(&shelf);
	ledger_deinit(&ledger);
	(void)unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_keys),
		cmocka_unit_test(refuses_in_place),
		cmocka_unit_test(prints_what_it_reads),
		cmocka_unit_test(tells_orders_apart),
		cmocka_unit_test(groups_agree_on_content),
		cmocka_unit_test(tables_of_files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

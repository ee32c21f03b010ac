/* shape: the keys image_size, views, dtype, layout, mean and std, alone and beside a list; what
 * states know of them; the room that they take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "spec_wants.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST(op) "{source: x, image_size: {0: 128, 16: 192}, transforms: [" op "]}"

static void sizes_follow_the_epoch(void **state)
{
	static const char *const texts[] = {
		"{source: x, image_size: {16: 192, 0: 128, 18: 160}}",
		"{\"source\": \"x\", \"image_size\": {\"0\": 128, \"16\": 192, \"18\": 160}}",
		"{source: x, image_size: {0: 128, 3: 128, 16: 192, 18: 160, 19: 160}}",
		"{source: x, image_size: {0: 128, 16: 192, 18: 160}, transforms: "
		"[RandomResizedCrop: {size: 192}, RandomHorizontalFlip]}",
		"{source: x, train: false, image_size: {0: 128, 16: 192, 18: 160}}",
		"{source: x, image_size: {0: 128, 16: 192, 18: 160}, transforms: [Resize: {size: "
		"[192, 192]}]}",
	};
	static const struct {
		uint64_t epoch;
		uint32_t side;
	} wanted[] = {{0, 128}, {15, 128}, {16, 192}, {17, 192}, {18, 160}, {UINT32_MAX, 160}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		const struct stream_spec spec = must_parse(texts[i]);
		assert_true(pixel_size_equal(spec.image_size, pixel_square(192)));
		assert_true(pixel_size_equal(spec_pixels(&spec, 0).size, pixel_square(192)));
		assert_int_equal(spec.shape.sizes.count, 3);
		for (size_t k = 0; k < UTIL_COUNT(wanted); k++) {
			const struct pixel_recipe at = spec_pixels_at(&spec, 0, wanted[k].epoch);
			assert_true(pixel_size_equal(at.size, pixel_square(wanted[k].side)));
			if (at.kind == PIXEL_RESIZE)
				assert_int_equal(at.resize.height,
					at.both ? wanted[k].side : wanted[k].side * 256 / 224);
		}
	}
}

/* A size of equal sides is that number: to groups, to states, in print. */
static void a_square_is_one_number(void **state)
{
	const struct stream_spec plain = must_parse("{source: x, image_size: 176}"),
				 pair = must_parse("{source: x, image_size: [176, 176]}");
	const char *what = NULL;
	(void)state;
	assert_true(spec_same(&plain, &pair, &what));
	assert_int_equal(spec_transform_hash(&plain), spec_transform_hash(&pair));
	cleanup(free_ptr) char *one = spec_json(&plain), *other = spec_json(&pair);
	assert_string_equal(one, other);
}

/* The rows of a rectangle: both sides are resized for evaluation, and a list may make them. */
static void rectangles_are_height_and_width(void **state)
{
	static const char *const texts[] = {
		"{source: x, image_size: [256, 128]}",
		"{source: x, image_size: [256, 128], train: false}",
		"{source: x, transforms: [RandomResizedCrop: {size: [256, 128]}]}",
		("{source: x, transforms: [Resize: {size: [292, 146]}, CenterCrop: {size: [256, "
		 "128]}]}"),
		"{source: x, transforms: [RandomCrop: {size: [256, 128], pad_if_needed: true}]}",
		"{source: x, image_size: {0: [192, 96], 5: [256, 128]}}",
	};
	const struct pixel_size wanted = {.height = 256, .width = 128};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		const struct stream_spec spec = must_parse(texts[i]);
		const struct pixel_recipe recipe = spec_pixels_at(&spec, 0, 9);
		assert_true(pixel_size_equal(spec.image_size, wanted));
		assert_true(pixel_size_equal(recipe.size, wanted));
		if (recipe.kind == PIXEL_RESIZE) {
			assert_true(recipe.both);
			assert_int_equal(recipe.resize.height, 292);
			assert_int_equal(recipe.resize.width, 146);
		}
		cleanup(free_ptr) char *json = spec_json(&spec);
		const struct stream_spec again = must_parse(json);
		assert_int_equal(spec_transform_hash(&again), spec_transform_hash(&spec));
	}
}

/* A mapping of one size is that size: to groups, to states, in print. */
static void one_size_is_no_mapping(void **state)
{
	const struct stream_spec plain = must_parse("{source: x, image_size: 176}"),
				 mapped = must_parse(
					 "{source: x, image_size: {0: 176, 7: 176, 90: 176}}");
	const char *what = NULL;
	(void)state;
	assert_true(spec_same(&plain, &mapped, &what));
	assert_int_equal(spec_transform_hash(&plain), spec_transform_hash(&mapped));
	cleanup(free_ptr) char *one = spec_json(&plain), *other = spec_json(&mapped);
	assert_string_equal(one, other);
}

static void every_key_tells_streams_apart(void **state)
{
	static const struct {
		const char *text, *differs;
	} cases[] = {
		{"{source: x, image_size: {0: 128, 16: 224}}", "image_size"},
		{"{source: x, views: 2}", "views"},
		{"{source: x, dtype: float32}", "dtype"},
		{"{source: x, dtype: float16}", "dtype"},
		{"{source: x, dtype: bfloat16}", "dtype"},
		{"{source: x, layout: NCHW}", "layout"},
		{"{source: x, dtype: float32, mean: [0, 0, 0]}", "dtype"},
		{"{source: x, dtype: float32, std: [1, 1, 1]}", "dtype"},
		{"{source: x, image_size: {0: 128, 17: 224}}", "image_size"},
		{"{source: x, image_size: {0: 160, 16: 224}}", "image_size"},
		{"{source: x, image_size: [224, 112]}", "image_size"},
		{"{source: x, image_size: [112, 224]}", "image_size"},
		{"{source: x, image_size: {0: [160, 80], 16: 224}}", "image_size"},
		{"{source: x, image_size: {0: [80, 160], 16: 224}}", "image_size"},
	};
	uint64_t seen[UTIL_COUNT(cases) + 1];
	const struct stream_spec plain = must_parse("source: x");
	(void)state;
	seen[UTIL_COUNT(cases)] = spec_transform_hash(&plain);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct stream_spec spec = must_parse(cases[i].text);
		const char *what = NULL;
		assert_false(spec_same(&plain, &spec, &what));
		assert_string_equal(what, cases[i].differs);
		seen[i] = spec_transform_hash(&spec);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
		assert_int_not_equal(seen[i], seen[UTIL_COUNT(cases)]);
		assert_int_equal(spec_order_hash(&spec), spec_order_hash(&plain));

		cleanup(free_ptr) char *json = spec_json(&spec);
		const struct stream_spec again = must_parse(json);
		assert_true(spec_same(&spec, &again, &what));
		assert_int_equal(spec_transform_hash(&again), seen[i]);
	}
	const char *what = NULL;
	const struct stream_spec near = must_parse("{source: x, dtype: float32}"),
				 same = must_parse(
					 "{source: x, dtype: float32, mean: [0.485, 0.456, "
					 "0.406000001], std: [0.229, 0.224, 0.225]}"),
				 far = must_parse(
					 "{source: x, dtype: float32, std: [0.229, 0.224, 0.226]}");
	assert_true(spec_same(&near, &same, &what));
	assert_int_equal(spec_transform_hash(&near), spec_transform_hash(&same));
	assert_false(spec_same(&near, &far, &what));
	assert_string_equal(what, "std");
}

/* A schedule may have an entry for each epoch: neighbors with one size are one entry. */
static void equal_neighbors_are_one(void **state)
{
	static const struct {
		uint32_t entries, equal; /* neighbors with one size */
		uint32_t sizes; /* 0: refused */
	} cases[] = {{90, 30, 3}, {16, 1, 16}, {17, 1, 17}, {33, 2, 17}, {1024, 64, 16},
		{1024, 1, 1024}, {1025, 1025, 0}, {1025, 1, 0}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char *text = NULL;
		size_t size = 0;
		FILE *out = open_memstream(&text, &size);
		assert_non_null(out);
		(void)fputs("{source: x, image_size: {", out);
		for (uint32_t epoch = 0; epoch < cases[i].entries; epoch++)
			(void)fprintf(out, "%s%" PRIu32 ": %" PRIu32, epoch ? ", " : "", epoch,
				96 + 8 * (epoch / cases[i].equal % 2) + epoch / cases[i].equal);
		(void)fputs("}}", out);
		assert_int_equal(fclose(out), 0);
		struct stream_spec spec = {.batch_size = 4711};
		struct fault fault = {""};
		int result = spec_parse(text, strlen(text), "open request", &spec, &fault);
		assert_int_equal(result, cases[i].sizes ? 0 : -EINVAL);
		if (cases[i].sizes)
			assert_int_equal(spec.shape.sizes.count, cases[i].sizes);
		else
			assert_non_null(
				strstr(fault.text, "image_size: expected at most 1024 epochs"));
		free(text);
	}
}

static void batches_have_room_for_the_largest(void **state)
{
	const struct stream_spec spec =
		must_parse("{source: x, batch_size: 6, image_size: {0: 96, 2: 160, 9: 128}, views: "
			   "3, dtype: bfloat16, layout: NCHW}");
	const struct extent_geometry g =
		shape_geometry(&spec.shape, spec.batch_size, spec.image_size);
	(void)state;
	assert_int_equal(g.batch_size, 6);
	assert_int_equal(g.height, 160);
	assert_int_equal(g.width, 160);
	assert_int_equal(g.channels, 3);
	assert_int_equal(g.views, 3);
	assert_int_equal(g.pixel_type, SLOTS_BF16);
	assert_int_equal(g.pixel_layout, SLOTS_NCHW);
	assert_int_equal(g.label_type, SLOTS_LABEL_I64);
	assert_int_equal(g.label_width, 1);
}

static void refuses_in_sentences(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"{source: x, image_size: {}}", "open request:1:25: image_size: expected the size "
						"that epoch 0 has"},
		{"{source: x, image_size: {1: 128}}",
			"1:25: image_size: expected the size that epoch 0 has among them, as in "
			"{0: 128, 16: 192}"},
		{"{source: x, image_size: {0: 128, 4: 0}}",
			"1:37: image_size: size of an epoch: expected a whole number from 1 to "
			"4096"},
		{"{source: x, image_size: {0: 128, 4: 4097}}", "1:37: image_size"},
		{"{source: x, image_size: {0: 128, -1: 160}}",
			"1:34: image_size: epoch: expected a whole number from 0 to 4294967295"},
		{"{source: x, image_size: {0: 128, 4294967296: 160}}", "1:34: image_size: epoch"},
		{"{source: x, image_size: {0: 128, ten: 160}}", "1:34: image_size: epoch"},
		{"{source: x, image_size: {0: 128, [1]: 160}}", "1:34: image_size: epoch"},
		{"{source: x, image_size: {0: 128, 1: [160, 0]}}",
			"1:43: image_size: size of an epoch: expected a whole number from 1"},
		{"{source: x, image_size: {0: 128, 1: [160, 1, 2]}}",
			"1:37: image_size: size of an epoch: expected a whole number from 1 to "
			"4096, or a list of two, [height, width]; got a list of 3"},
		{"{source: x, image_size: {0: 128, 16: 192, 16: 160}}",
			"open request:1:43: image_size: epoch 16 is written twice; expected"},
		{"{source: x, image_size: [128]}",
			"1:25: image_size: expected a whole number from 1 to 4096, or a list of "
			"two, [height, width]; got a list of 1"},
		{"{source: x, image_size: [128, 4097]}",
			"1:31: image_size: expected a whole number from 1 to 4096"},
		{"{source: x, image_size: [256, 128], transforms: [RandomResizedCrop: {size: [128, "
		 "256]}]}",
			"1:25: image_size: expected 128 x 256, the size that transforms makes, or "
			"nothing; got 256 x 128"},
		{"{source: x, views: 0}", "1:20: views: expected a whole number from 1 to 16"},
		{"{source: x, views: 17}", "1:20: views: expected a whole number from 1 to 16"},
		{"{source: x, dtype: float64}", "1:20: dtype: expected"},
		{"{source: x, layout: nchw}", "1:21: layout: expected"},
		{"{source: x, mean: [0, 0, 0]}",
			"1:13: mean needs dtype: float32, float16 or bfloat16"},
		{"{source: x, std: [1, 1, 1], dtype: uint8}", "1:13: std needs dtype"},
		{"{source: x, dtype: float32, mean: 0.5}",
			"1:35: mean: expected a list of three numbers from -1000 to 1000"},
		{"{source: x, dtype: float32, mean: [0.5, 0.5]}", "1:35: mean: expected a list"},
		{"{source: x, dtype: float32, mean: [123.675, 116.28, 103.53]}",
			"1:35: mean: expected means of pixels from 0 to 1, got 123.675; divide "
			"mean and std by 255"},
		{"{source: x, dtype: float32, std: [1, 0, 1]}", "1:38: std: expected"},
		{"{source: x, dtype: float32, std: [1, .nan, 1]}", "1:38: std: expected"},
		{LIST("RandomResizedCrop: {size: 224}"),
			"1:25: image_size: expected 224, the size that transforms makes, as the "
			"largest of all epochs, or nothing; got 192"},
		{LIST("Resize: {size: 224}, CenterCrop: {size: 192}"),
			"1:25: image_size: the sizes of epochs can replace the size of "
			"RandomResizedCrop or of Resize: {size: [H, W]}, but not of a crop"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct stream_spec spec = {.batch_size = 4711};
		struct fault fault = {""};
		if (spec_parse(cases[i].text, strlen(cases[i].text), "open request", &spec,
			    &fault) != -EINVAL ||
			!strstr(fault.text, cases[i].sentence))
			fail_msg("%s: \"%s\", wanted \"%s\"", cases[i].text, fault.text,
				cases[i].sentence);
		assert_int_equal(spec.batch_size, 4711);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_follow_the_epoch),
		cmocka_unit_test(equal_neighbors_are_one),
		cmocka_unit_test(a_square_is_one_number),
		cmocka_unit_test(rectangles_are_height_and_width),
		cmocka_unit_test(one_size_is_no_mapping),
		cmocka_unit_test(every_key_tells_streams_apart),
		cmocka_unit_test(batches_have_room_for_the_largest),
		cmocka_unit_test(refuses_in_sentences),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

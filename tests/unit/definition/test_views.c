/* views: the key `views` as a number and as groups: what groups take from the stream, what is
 * refused and where, how lists are packed, and the hashes by which states know the pixels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "definition/spec_differ.h"
#include "spec_wants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GLOBAL \
	"[RandomResizedCrop: {size: 48, scale: [0.4, 1], interpolation: bicubic}, ColorJitter]"
#define LOCAL                                                                                    \
	"[RandomResizedCrop: {size: [24, 32], scale: [0.05, 0.4]}, RandomSolarize: {threshold: " \
	"128}]"
#define TWO                                                      \
	"{source: x, views: [{name: global, transforms: " GLOBAL \
	", count: 2}, {name: local, transforms: " LOCAL ", count: 8}]}"

static void groups_have_sizes_and_lists(void **state)
{
	static struct transforms list, same;
	const struct stream_spec spec = must_parse(TWO);
	(void)state;
	assert_int_equal(spec_groups(&spec), 2);
	assert_int_equal(spec.views.count, 10);
	assert_int_equal(spec.shape.views, 10);
	assert_int_equal(spec_group_views(&spec, 0), 2);
	assert_int_equal(spec_group_views(&spec, 1), 8);
	assert_string_equal(spec_group_name(&spec, 1), "local");
	assert_true(pixel_size_equal(spec_group_size(&spec, 0), pixel_square(48)));
	assert_true(pixel_size_equal(spec_group_size(&spec, 1), (struct pixel_size){24, 32}));
	assert_true(pixel_size_equal(spec.image_size, pixel_square(48)));
	assert_int_equal(spec_pixels(&spec, 0).filter, WEIGHTS_BICUBIC);
	assert_int_equal(spec_pixels(&spec, 1).filter, WEIGHTS_BILINEAR);
	struct fault fault;
	assert_int_equal(transforms_parse(LOCAL, strlen(LOCAL), "list", &same, &fault), 0);
	views_transforms(&spec.views, &spec.views.group[1], &list);
	assert_int_equal(list.count, same.count);
	assert_int_equal(transforms_hash(1, &list), transforms_hash(1, &same));
	assert_ptr_equal(spec_group_list(&spec, 1, &list), &list);
}

/* Printed and read again, a definition is the same, with all that groups took from the stream. */
static void printed_groups_read_back(void **state)
{
	static const char *const texts[] = {
		TWO,
		("{source: x, transforms: " LOCAL ", views: [{count: 3}, {transforms: " GLOBAL
		 "}]}"),
		("{source: x, image_size: [40, 20], interpolation: box, views: [{count: 3}, "
		 "{image_size: 16, interpolation: lanczos}]}"),
		"{source: x, train: false, views: [{}]}",
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		const char *what = NULL;
		const struct stream_spec spec = must_parse(texts[i]);
		cleanup(free_ptr) char *json = spec_json(&spec);
		assert_non_null(json);
		assert_null(strstr(json, "\"image_size\":[48"));
		const struct stream_spec again = must_parse(json);
		cleanup(free_ptr) char *twice = spec_json(&again);
		assert_string_equal(json, twice);
		assert_true(spec_same(&spec, &again, &what));
		assert_int_equal(spec_transform_hash(&spec), spec_transform_hash(&again));
	}
}

static uint64_t hash_of(const char *text)
{
	const struct stream_spec spec = must_parse(text);
	return spec_transform_hash(&spec);
}

static void one_group_is_the_number(void **state)
{
	static const struct {
		const char *group, *plain;
	} same[] = {
		{"{source: x, views: [{count: 3}]}", "{source: x, views: 3}"},
		{"{source: x, views: [{}]}", "{source: x}"},
		{"{source: x, views: [{image_size: 96, name: a}]}", "{source: x, image_size: 96}"},
		{"{source: x, views: [{transforms: " LOCAL ", count: 2}]}",
			"{source: x, transforms: " LOCAL ", views: 2}"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(same); i++)
		assert_int_equal(hash_of(same[i].group), hash_of(same[i].plain));
}

static void every_difference_is_another_hash(void **state)
{
	static const char *const texts[] = {
		"{source: x, views: 3}",
		"{source: x, views: [{count: 2}, {count: 1}]}",
		"{source: x, views: [{count: 1}, {count: 2}]}",
		"{source: x, views: [{count: 2}, {image_size: 96}]}",
		"{source: x, views: [{count: 2}, {image_size: [96, 48]}]}",
		"{source: x, views: [{count: 2}, {interpolation: box}]}",
		"{source: x, views: [{count: 2}, {transforms: " LOCAL "}]}",
		"{source: x, views: [{count: 2}, {transforms: " GLOBAL "}]}",
		"{source: x, views: [{transforms: " LOCAL "}, {count: 2}]}",
		"{source: x, views: [{count: 1}, {count: 1}, {count: 1}]}",
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++)
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(hash_of(texts[i]), hash_of(texts[k]));
	/* A name says nothing about pixels, but trainers of a group must agree on it. */
	const char *what = NULL;
	const struct stream_spec a = must_parse("{source: x, views: [{name: a}]}"),
				 b = must_parse("{source: x, views: [{name: b}]}");
	assert_int_equal(spec_transform_hash(&a), spec_transform_hash(&b));
	assert_false(spec_same(&a, &b, &what));
	assert_string_equal(what, "views");
}

static void people_are_told_the_groups(void **state)
{
	char text[512];
	const struct stream_spec two = must_parse(TWO), plain = must_parse("{source: x}"),
				 three = must_parse("{source: x, views: 3}");
	(void)state;
	views_text(&two.views, text, sizeof text);
	assert_string_equal(text, "global 2 x 48 px + local 8 x 24 x 32 px");
	views_text(&two.views, text, 9);
	assert_string_equal(text, "global 2");
	assert_non_null(strstr(spec_differ_text(&two, spec_differ(&two, &plain), text, sizeof text),
		"views global 2 x 48 px + local 8 x 24 x 32 px"));
	assert_non_null(
		strstr(spec_differ_text(&three, spec_differ(&three, &plain), text, sizeof text),
			"views 3"));
}

/* e2e.view_groups tries all others; here: where the refusal points, and what stays as it was. */
static void refusals_point_at_the_key(void **state)
{
	static const struct {
		const char *text, *wanted;
	} refused[] = {
		{"{source: x, views: [{count: 2}, {count: 17}]}",
			"1:41: views[1]: count: expected a whole number from 1 to 16"},
		{"{source: x,\n views: [{count: 9},\n  {count: 8}]}",
			"3:3: views[1]: expected at most 16 views"},
		{"{source: x, views: [{name: a}, {name: a}]}",
			"1:39: views[1] (a): two groups have"},
		{"{source: x, views: [{transforms: " LOCAL ", image_size: 8}]}",
			"views[0]: image_size: expected 24 x 32"},
		{"{source: x, image_size: 8, views: [{image_size: 8}]}",
			"1:13: image_size has no effect beside views"},
		{"{source: x, transforms: " LOCAL ", views: [{image_size: 8}]}",
			"views[0] has the image_size 8"},
		{"{source: x, views: [{transforms: [Nothing]}]}", "Nothing"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(refused); i++) {
		struct stream_spec spec;
		struct fault fault = {{0}};
		assert_int_equal(
			spec_parse(refused[i].text, strlen(refused[i].text), "text", &spec, &fault),
			-EINVAL);
		if (!strstr(fault.text, refused[i].wanted))
			fail_msg("%s: %s", refused[i].text, fault.text);
	}
}

/* Settling again, as a command does with what it was told, changes nothing. */
static void settling_twice_is_settling_once(void **state)
{
	struct stream_spec spec = must_parse("{source: x, transforms: " LOCAL
					     ", views: [{count: 3}, {transforms: " GLOBAL "}]}");
	const uint64_t hash = spec_transform_hash(&spec);
	const uint32_t used = spec.views.used;
	struct views_defaults defaults = {.size = pixel_square(8)};
	char wrong[256];
	(void)state;
	assert_int_equal(views_settle(&spec.views, &defaults, wrong, sizeof wrong), 0);
	assert_int_equal(spec.views.used, used);
	assert_int_equal(spec_transform_hash(&spec), hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(groups_have_sizes_and_lists),
		cmocka_unit_test(printed_groups_read_back),
		cmocka_unit_test(one_group_is_the_number),
		cmocka_unit_test(every_difference_is_another_hash),
		cmocka_unit_test(people_are_told_the_groups),
		cmocka_unit_test(refusals_point_at_the_key),
		cmocka_unit_test(settling_twice_is_settling_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

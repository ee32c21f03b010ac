/* bucket_keys: the key `buckets` read, written and compared; the nearest ratio, exactly; and the
 * recipe of each bucket. */
#include "spec_wants.h"

#include "definition/buckets/bucket_keys.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SOURCE "{source: /a, buckets: "

static void reads_and_writes(void **state)
{
	(void)state;
	struct stream_spec spec = must_parse(SOURCE "[[256, 192], 224, [192, 256]]}"), again;
	char text[200];
	assert_int_equal(spec.buckets.count, 3);
	assert_true(pixel_size_equal(spec.buckets.size[0], (struct pixel_size){256, 192}));
	assert_true(pixel_size_equal(spec.buckets.size[1], pixel_square(224)));
	assert_true(pixel_size_equal(spec.image_size, (struct pixel_size){256, 256}));
	assert_int_equal(bucket_keys_pixels(&spec.buckets), 224 * 224);
	bucket_keys_text(&spec.buckets, text, sizeof text);
	assert_string_equal(text, "256 x 192, 224 and 192 x 256");
	bucket_keys_text(&spec.buckets, text, 12);
	assert_string_equal(text, "256 x 192, ");
	char *json = spec_json(&spec);
	assert_non_null(strstr(json, "\"buckets\":[[256,192],[224,224],[192,256]]"));
	assert_null(strstr(json, "image_size"));
	again = must_parse(json);
	const char *what;
	assert_true(spec_same(&spec, &again, &what));
	assert_int_equal(spec_order_hash(&spec), spec_order_hash(&again));
	assert_int_equal(spec_transform_hash(&spec), spec_transform_hash(&again));
	free(json);
	again = must_parse(SOURCE "[[256, 192], 224]}");
	assert_false(spec_same(&spec, &again, &what));
	assert_string_equal(what, "buckets");
	again = must_parse(SOURCE "[[256, 192], 224, [192, 256]], drop_last: false}");
	assert_int_not_equal(spec_order_hash(&spec), spec_order_hash(&again));
	struct stream_spec divided = spec;
	divided.divided = (struct sampling_content){1, 2};
	assert_int_not_equal(spec_order_hash(&spec), spec_order_hash(&divided));
	assert_int_equal(must_parse(SOURCE "[[1, 2]]}").buckets.count, 1);
}

static void each_bucket_has_its_recipe(void **state)
{
	(void)state;
	struct stream_spec spec = must_parse(SOURCE "[[64, 32], [32, 64]]}");
	assert_int_equal(spec_places(&spec), 2);
	struct pixel_recipe recipe = spec_pixels_place(&spec, 0, 1);
	assert_int_equal(recipe.kind, PIXEL_RESIZED_CROP);
	assert_true(pixel_size_equal(recipe.size, (struct pixel_size){32, 64}));
	spec = must_parse(SOURCE "[[64, 32], [32, 64]], transforms: [Resize: {size: [9, 9]}, "
				 "RandomHorizontalFlip]}");
	recipe = spec_pixels_in(&spec, 0, 0);
	assert_int_equal(recipe.kind, PIXEL_RESIZE);
	assert_true(pixel_size_equal(recipe.resize, (struct pixel_size){64, 32}));
	assert_true(pixel_size_equal(recipe.size, recipe.resize));
	spec = must_parse(SOURCE "[[64, 32], [32, 64]], transforms: [RandomResizedCrop: {size: 9, "
				 "scale: [0.5, 1]}]}");
	recipe = spec_pixels_in(&spec, 0, 1);
	assert_true(pixel_size_equal(recipe.size, (struct pixel_size){32, 64}));
	assert_true(recipe.scale[0] == 0.5);
}

/* Against logarithms where these are far enough apart, and by whole numbers at the limits. */
static void finds_the_nearest(void **state)
{
	(void)state;
	const struct bucket_keys buckets = must_parse(
		SOURCE "[[224, 224], [256, 192], [192, 256], [64, 2048], [2048, 1], [333, 334]]}")
						   .buckets;
	for (uint32_t i = 1; i < 40000; i++) {
		uint32_t w = 1 + i * 7919 % 4001, h = 1 + i * 104729 % 3989;
		uint32_t nearest = bucket_keys_nearest(&buckets, w, h);
		for (uint32_t b = 0; b < buckets.count; b++) {
			double ratio = log((double)w / h),
			       here = fabs(ratio - log((double)buckets.size[b].width /
							   buckets.size[b].height)),
			       best = fabs(ratio - log((double)buckets.size[nearest].width /
							   buckets.size[nearest].height));
			assert_true(best < here + 1e-9);
		}
	}
	const struct bucket_keys halves = must_parse(SOURCE "[[2, 1], [1, 2], [1, 1]]}").buckets;
	/* Equally near: the first of them. */
	assert_int_equal(bucket_keys_nearest(&halves, 1, 1), 2);
	const struct bucket_keys apart = must_parse(SOURCE "[[2, 1], [1, 2]]}").buckets;
	assert_int_equal(bucket_keys_nearest(&apart, 1, 1), 0);
	assert_int_equal(bucket_keys_nearest(&apart, 0, 0), 0);
	assert_int_equal(bucket_keys_nearest(&apart, UINT32_MAX, UINT32_MAX - 1), 1);
	assert_int_equal(bucket_keys_nearest(&apart, UINT32_MAX - 1, UINT32_MAX), 0);
	assert_int_equal(bucket_keys_nearest(&apart, UINT32_MAX, 1), 1);
	/* sqrt(2) is between 1 and 2: of its neighbors one is nearer to each. */
	const struct bucket_keys two = must_parse(SOURCE "[[100, 100], [100, 200]]}").buckets;
	assert_int_equal(bucket_keys_nearest(&two, 1414213562, 1000000000), 0);
	assert_int_equal(bucket_keys_nearest(&two, 1414213563, 1000000000), 1);
}

static void refuses_in_sentences(void **state)
{
	(void)state;
	char many[2000] = SOURCE "[";
	for (int i = 0; i < 65; i++)
		(void)snprintf(many + strlen(many), 30, "[100, %d], ", 101 + i);
	(void)strcat(many, "]}");
	must_refuse(
		many, "open request:1:23: buckets: expected 1 to 64 sizes [height, width], got 65");
	static const struct {
		const char *text, *sentence;
	} wrong[] = {
		{SOURCE "[]}", "open request:1:23: buckets: expected 1 to 64 sizes [height, "
			       "width], got 0"},
		{SOURCE "224}", "open request:1:23: buckets: expected a list of sizes [height, "
				"width], as in "
				"[[256, 192], [224, 224], [192, 256]]"},
		{SOURCE "[[64, 48], [32, 24]]}",
			"open request:1:34: buckets: 32 x 24 has the ratio of width to height that "
			"64 x 48 "
			"has, so which of them a sample belongs to is open: leave one of them out"},
		{SOURCE "[[64, 48]], image_size: 3}", "open request:1:14: buckets cannot be "
						      "written beside image_size: the buckets say "
						      "the sizes; leave one of them out"},
		{SOURCE "[[64, 48]], views: [{count: 1}, {count: 2}]}",
			"open request:1:14: buckets cannot be written beside groups of views, "
			"which have "
			"sizes of their own: leave one of them out"},
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		must_refuse(wrong[i].text, wrong[i].sentence);
}

static void states_have_cuts(void **state)
{
	(void)state;
#define STATE                                                                                 \
	"{\"version\":1,\"fingerprint\":\"00c0ffee00c0ffee\",\"order\":\"0000000000000001\"," \
	"\"transform\":\"0000000000000002\",\"seed\":0,\"epoch\":3,\"position\":8"
	struct spec_state read;
	struct fault fault;
	const char good[] = STATE ",\"cuts\":[[0,4],[4,2]]}", plain[] = STATE "}";
	assert_int_equal(spec_state_parse(good, strlen(good), "the state", &read, &fault), 0);
	assert_int_equal(read.cuts.count, 2);
	assert_int_equal(read.cuts.at[1].position, 4);
	assert_int_equal(read.cuts.at[1].global, 2);
	assert_int_equal(spec_state_parse(plain, strlen(plain), "the state", &read, &fault), 0);
	assert_int_equal(read.cuts.count, 0);
	static const char *const bad[] = {STATE ",\"cuts\":[]}", STATE ",\"cuts\":[[0,0]]}",
		STATE ",\"cuts\":[[0,4,5]]}", STATE ",\"cuts\":[0,4]}", STATE ",\"cuts\":{}}",
		STATE ",\"cuts\":[[-1,4]]}", STATE ",\"cuts\":[[0,4294967297]]}",
		STATE ",\"cuts\":[[0,1],[1,1],[2,1],[3,1],[4,1],[5,1],[6,1],[7,1],[8,1]]}"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(
			spec_state_parse(bad[i], strlen(bad[i]), "the state", &read, &fault),
			-EINVAL);
		assert_non_null(strstr(fault.text, "cuts"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_and_writes),
		cmocka_unit_test(each_bucket_has_its_recipe),
		cmocka_unit_test(finds_the_nearest),
		cmocka_unit_test(refuses_in_sentences),
		cmocka_unit_test(states_have_cuts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

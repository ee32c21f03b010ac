/* Plans and the sink: torchvision's sizes and Python's rounding, refusals, replay, a sink that
 * is used repeatedly, regions that omit unneeded pixels. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/pixel.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_eval_plan(void **state)
{
	/* Computed by hand from torchvision's formulas, including Python's round() to even. */
	static const struct {
		uint32_t size, w, h, resize_w, resize_h, x, y;
	} cases[] = {
		{224, 500, 375, 341, 256, 58, 16}, /* 58.5 -> 58 */
		{224, 375, 500, 256, 341, 16, 58},
		{224, 256, 256, 256, 256, 16, 16},
		{224, 100, 100, 256, 256, 16, 16},
		{224, 640, 427, 383, 256, 80, 16}, /* 79.5 -> 80 */
		{1, 1, 1, 1, 1, 0, 0},
		{3, 7, 5, 4, 3, 0, 0}, /* 0.5 -> 0 */
		{3, 10, 5, 6, 3, 2, 0}, /* 1.5 -> 2 */
		{2048, 65535, 1, 153351900, 2340, 76674926, 146},
		{4096, 65535, 1, 306769335, 4681, 153382620, 292},
	};
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(cases); i++) {
		struct pixel_recipe recipe = pixel_recipe_eval(pixel_square(cases[i].size));
		struct pixel_key key = {0};
		struct pixel_plan plan;
		pixel_plan_make(&recipe, &key, cases[i].w, cases[i].h, &plan);
		assert_int_equal(plan.crop_x, 0);
		assert_int_equal(plan.crop_y, 0);
		assert_int_equal(plan.crop_w, cases[i].w);
		assert_int_equal(plan.crop_h, cases[i].h);
		assert_int_equal(plan.resize_w, cases[i].resize_w);
		assert_int_equal(plan.resize_h, cases[i].resize_h);
		assert_int_equal(plan.window_x, cases[i].x);
		assert_int_equal(plan.window_y, cases[i].y);
		assert_false(plan.flip);
	}
}

static void test_plan_from_crop(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < 500; p++) {
		struct pixel_recipe recipe = p % 3 ? pixel_recipe_train(pixel_square(1 + p % 300))
						   : pixel_recipe_eval(pixel_square(1 + p % 300));
		struct pixel_key key = {.seed = 5, .position = p};
		uint32_t w = 1 + p * 7 % 640, h = 1 + p * 13 % 480;
		struct pixel_plan made, again;
		memset(&made, 0, sizeof(made));
		memset(&again, 0, sizeof(again));
		pixel_plan_make(&recipe, &key, w, h, &made);
		pixel_plan_from_crop(&recipe, made.crop_x, made.crop_y, made.crop_w, made.crop_h,
			made.flip, w, h, &again);
		assert_int_equal(made.resize_w, again.resize_w);
		assert_int_equal(made.resize_h, again.resize_h);
		assert_int_equal(made.window_x, again.window_x);
		assert_int_equal(made.window_y, again.window_y);
		assert_int_equal(made.flip, again.flip);
	}
}

/* "random": one of two filters for each key, which replay draws again. */
static void test_random_filter(void **state)
{
	uint32_t bicubic = 0;
	(void)state;
	for (uint32_t p = 0; p < 4000; p++) {
		struct pixel_recipe recipe = pixel_recipe_train(pixel_square(8));
		struct pixel_key key = {.seed = 5, .position = p};
		struct pixel_plan made, again;
		recipe.filter = WEIGHTS_RANDOM;
		pixel_plan_make(&recipe, &key, 40, 30, &made);
		pixel_plan_from_crop(&recipe, made.crop_x, made.crop_y, made.crop_w, made.crop_h,
			made.flip, 40, 30, &again);
		pixel_plan_place(&recipe, &key, &again);
		assert_int_equal(made.filter, again.filter);
		assert_true(made.filter == WEIGHTS_BILINEAR || made.filter == WEIGHTS_BICUBIC);
		bicubic += made.filter == WEIGHTS_BICUBIC;
		recipe.filter = WEIGHTS_LANCZOS;
		pixel_plan_make(&recipe, &key, 40, 30, &again);
		assert_int_equal(again.filter, WEIGHTS_LANCZOS);
	}
	assert_in_range(bicubic, 2000 - 130, 2000 + 130);
}

static void test_crop_fits(void **state)
{
	(void)state;
	assert_true(pixel_crop_fits(0, 0, 1, 1, 1, 1));
	assert_true(pixel_crop_fits(10, 20, 90, 80, 100, 100));
	assert_true(pixel_crop_fits(0, 0, 65535, 65535, 65535, 65535));
	assert_false(pixel_crop_fits(0, 0, 0, 1, 1, 1));
	assert_false(pixel_crop_fits(0, 0, 1, 0, 1, 1));
	assert_false(pixel_crop_fits(10, 0, 91, 1, 100, 100));
	assert_false(pixel_crop_fits(0, 21, 1, 80, 100, 100));
	assert_false(pixel_crop_fits(UINT32_MAX, 0, 2, 1, 100, 100));
	assert_false(pixel_crop_fits(0, UINT32_MAX, 1, UINT32_MAX, 100, 100));
	assert_false(pixel_crop_fits(0, 0, 1, 1, 65536, 1));
}

static void test_sink_refusals(void **state)
{
	struct fault fault = {""};
	struct pixel_sink *sink = NULL;
	(void)state;
	assert_int_equal(pixel_sink_new(0, &sink, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "expected 1 to 4096"));
	assert_int_equal(pixel_sink_new(4097, &sink, &fault), -EINVAL);
	assert_int_equal(pixel_sink_new(UINT32_MAX, &sink, &fault), -EINVAL);
	assert_int_equal(setenv("PENSTOCK_KERNELS", "fast", 1), 0);
	assert_int_equal(pixel_sink_new(224, &sink, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "PENSTOCK_KERNELS=fast"));
	assert_int_equal(unsetenv("PENSTOCK_KERNELS"), 0);
	assert_null(sink);
	pixel_sink_free(NULL);
}

static void test_sink_bytes(void **state)
{
	(void)state;
	assert_in_range(pixel_sink_bytes(224), 2u << 20, 4u << 20);
	assert_in_range(pixel_sink_bytes(4096), pixel_sink_bytes(224), 8u << 20);
}

/* A source whose pixels are a function of their place, so that no image is held in memory. */
static void row_make(uint8_t *const row[PIXEL_PLANES], uint32_t x0, uint32_t x1, uint32_t y)
{
	for (uint32_t x = x0; x < x1; x++)
		for (uint32_t c = 0; c < 3; c++)
			row[c][x - x0] = (uint8_t)(hash_mix((uint64_t)x << 32 | y << 2 | c) >> 13);
}

static void sink_run(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out)
{
	struct pixel_region region;
	pixel_sink_begin(sink, recipe, plan, out, &region);
	assert_true(region.x0 >= plan->crop_x && region.x1 <= plan->crop_x + plan->crop_w);
	assert_true(region.y0 >= plan->crop_y && region.y1 <= plan->crop_y + plan->crop_h);
	assert_true(region.x0 < region.x1 && region.y0 < region.y1);
	struct pixel_region reach;
	pixel_plan_region(plan, &reach);
	assert_in_range(region.x0, reach.x0, reach.x0 + 2);
	assert_in_range(region.y0, reach.y0, reach.y0 + 2);
	assert_in_range(reach.x1, region.x1, region.x1 + 2);
	assert_in_range(reach.y1, region.y1, region.y1 + 2);
	size_t width = region.x1 - region.x0;
	uint8_t *row[PIXEL_PLANES];
	for (int c = 0; c < PIXEL_PLANES; c++) {
		row[c] = malloc(width + PIXEL_ROW_SLACK);
		assert_non_null(row[c]);
	}
	for (uint32_t y = region.y0; y < region.y1; y++) {
		row_make(row, region.x0, region.x1, y);
		pixel_sink_row(sink, (const uint8_t *const *)row);
	}
	for (int c = 0; c < PIXEL_PLANES; c++)
		free(row[c]);
	pixel_sink_end(sink);
}

static struct pixel_sink *sink_new(uint32_t size)
{
	struct fault fault = {""};
	struct pixel_sink *sink = NULL;
	assert_int_equal(pixel_sink_new(size, &sink, &fault), 0);
	return sink;
}

/* Upside down: the lines in the opposite order, with either pass first, from the ring of rows or
 * from sums. */
static void test_flip_vertical(void **state)
{
	enum { SIZE = 33 };
	struct pixel_recipe recipe = pixel_recipe_train(pixel_square(SIZE));
	uint8_t straight[SIZE * SIZE * 3], flipped[SIZE * SIZE * 3];
	struct pixel_sink *sink = sink_new(64);
	(void)state;
	for (uint32_t h = 1; h < 2000; h += 111) {
		struct pixel_plan plan;
		pixel_plan_from_crop(&recipe, 3, 5, 41, h, h & 2, 100, 3000, &plan);
		sink_run(sink, &recipe, &plan, straight);
		plan.flip_vertical = true;
		sink_run(sink, &recipe, &plan, flipped);
		for (size_t y = 0; y < SIZE; y++)
			assert_memory_equal(flipped + (SIZE - 1 - y) * SIZE * 3,
				straight + y * SIZE * 3, SIZE * 3);
	}
	pixel_sink_free(sink);
}

/* Resize of both sides, larger than the center crop and not; and of a shorter side other than
 * evaluation's. */
static void test_plan_resize(void **state)
{
	struct pixel_recipe recipe = pixel_recipe_eval(pixel_square(224));
	struct pixel_key key = {0};
	struct pixel_plan plan;
	(void)state;
	recipe.resize = pixel_square(232);
	pixel_plan_make(&recipe, &key, 500, 375, &plan);
	assert_int_equal(plan.resize_w, 309);
	assert_int_equal(plan.resize_h, 232);
	assert_int_equal(plan.window_x, 42); /* 42.5 */
	assert_int_equal(plan.window_y, 4);
	recipe.both = true;
	pixel_plan_make(&recipe, &key, 500, 375, &plan);
	assert_int_equal(plan.resize_w, 232);
	assert_int_equal(plan.resize_h, 232);
	assert_int_equal(plan.window_x, 4);
	assert_int_equal(plan.window_y, 4);
	recipe.resize = pixel_square(224);
	recipe.flip = recipe.flip_vertical = 1;
	pixel_plan_make(&recipe, &key, 3, 65535, &plan);
	assert_int_equal(plan.resize_w, 224);
	assert_int_equal(plan.resize_h, 224);
	assert_int_equal(plan.window_x, 0);
	assert_int_equal(plan.window_y, 0);
	assert_true(plan.flip);
	assert_true(plan.flip_vertical);
	assert_int_equal(plan.crop_h, 65535);
}

/* The flipped row of the batch is the row, mirrored. */
static void test_flip(void **state)
{
	enum { SIZE = 33 };
	struct pixel_recipe recipe = pixel_recipe_train(pixel_square(SIZE));
	uint8_t straight[SIZE * SIZE * 3], flipped[SIZE * SIZE * 3];
	struct pixel_sink *sink = sink_new(64);
	(void)state;
	for (uint32_t h = 1; h < 200; h += 13) {
		struct pixel_plan plan;
		pixel_plan_from_crop(&recipe, 3, 5, 41, h, false, 100, 300, &plan);
		sink_run(sink, &recipe, &plan, straight);
		plan.flip = true;
		sink_run(sink, &recipe, &plan, flipped);
		for (size_t y = 0; y < SIZE; y++)
			for (size_t x = 0; x < SIZE; x++)
				assert_memory_equal(straight + 3 * (y * SIZE + x),
					flipped + 3 * (y * SIZE + SIZE - 1 - x), 3);
	}
	pixel_sink_free(sink);
}

/* Equal sizes are a copy. */
static void test_identity(void **state)
{
	enum { SIZE = 50 };
	struct pixel_recipe recipe = pixel_recipe_train(pixel_square(SIZE));
	struct pixel_plan plan;
	uint8_t out[SIZE * SIZE * 3], row[PIXEL_PLANES][SIZE];
	struct pixel_sink *sink = sink_new(SIZE);
	(void)state;
	pixel_plan_from_crop(&recipe, 7, 9, SIZE, SIZE, false, 60, 70, &plan);
	sink_run(sink, &recipe, &plan, out);
	for (uint32_t y = 0; y < SIZE; y++) {
		row_make((uint8_t *const[]){row[0], row[1], row[2]}, 7, 7 + SIZE, 9 + y);
		for (size_t i = 0; i < sizeof(row); i++)
			assert_int_equal(out[(size_t)y * sizeof(row) + i], row[i % 3][i / 3]);
	}
	pixel_sink_free(sink);
}

/* The center crop of a wide image needs neither its left nor its right end. */
static void test_eval_region(void **state)
{
	struct pixel_recipe recipe = pixel_recipe_eval(pixel_square(224));
	struct pixel_key key = {0};
	struct pixel_plan plan;
	struct pixel_region region;
	struct pixel_sink *sink = sink_new(224);
	cleanup(free_ptr) uint8_t *out = malloc(224 * 224 * 3);
	(void)state;
	pixel_plan_make(&recipe, &key, 2560, 256, &plan);
	pixel_sink_begin(sink, &recipe, &plan, out, &region);
	assert_int_equal(region.x0, 1168);
	assert_int_equal(region.x1, 1168 + 224);
	assert_int_equal(region.y0, 16);
	assert_int_equal(region.y1, 16 + 224);
	/* Begun but never fed, as when the decoder fails: the next plan starts fresh. */
	pixel_plan_make(&recipe, &key, 300, 400, &plan);
	sink_run(sink, &recipe, &plan, out);
	pixel_sink_free(sink);
}

/* An extreme enlargement: the center of an image of 65,535 x 1 pixels, enlarged 2,340 times.
 */
static void test_eval_extreme(void **state)
{
	struct pixel_recipe recipe = pixel_recipe_eval(pixel_square(4096));
	struct pixel_key key = {0};
	struct pixel_plan plan;
	struct pixel_sink *sink = sink_new(4096);
	cleanup(free_ptr) uint8_t *out = malloc(3 * (size_t)4096 * 4096);
	(void)state;
	assert_non_null(out);
	pixel_plan_make(&recipe, &key, 65535, 1, &plan);
	sink_run(sink, &recipe, &plan, out);
	for (size_t y = 1; y < 4096; y++)
		assert_memory_equal(out, out + y * 4096 * 3, (size_t)4096 * 3);
	pixel_sink_free(sink);
}

/* The largest resize of each kind, whose center is the largest window; and the smallest. */
static void test_resize_extreme(void **state)
{
	static const uint32_t sources[][2] = {
		{65535, 1}, {1, 65535}, {65535, 7}, {7, 65535}, {1, 1}};
	static const uint32_t sizes[][2] = {
		{PIXEL_RESIZE_MAX, 4096}, {PIXEL_RESIZE_MAX, 1}, {1, 1}};
	struct pixel_key key = {0};
	struct pixel_sink *sink = sink_new(4096);
	cleanup(free_ptr) uint8_t *out = malloc((size_t)4096 * 4096 * 3);
	(void)state;
	assert_non_null(out);
	for (unsigned i = 0; i < 2 * UTIL_COUNT(sources) * UTIL_COUNT(sizes); i++) {
		const uint32_t *source = sources[i / 2 % UTIL_COUNT(sources)];
		const uint32_t *size = sizes[i / 2 / UTIL_COUNT(sources)];
		struct pixel_recipe recipe = pixel_recipe_eval(pixel_square(size[1]));
		struct pixel_plan plan;
		recipe.resize = pixel_square(size[0]);
		recipe.both = i & 1;
		recipe.filter = i & 2 ? WEIGHTS_LANCZOS : WEIGHTS_BICUBIC;
		pixel_plan_make(&recipe, &key, source[0], source[1], &plan);
		assert_int_equal(UTIL_MIN(plan.resize_w, plan.resize_h), size[0]);
		assert_true(plan.window_x + size[1] <= plan.resize_w);
		assert_true(plan.window_y + size[1] <= plan.resize_h);
		sink_run(sink, &recipe, &plan, out);
	}
	pixel_sink_free(sink);
}

static void test_golden(void **state)
{
	enum { SIZE = 96 };
	uint8_t out[SIZE * SIZE * 3];
	uint64_t hash = HASH_SEED;
	struct pixel_sink *sink = sink_new(SIZE);
	(void)state;
	for (uint32_t p = 0; p < 40; p++) {
		struct pixel_recipe recipe = p % 4 ? pixel_recipe_train(pixel_square(SIZE - p % 5))
						   : pixel_recipe_eval(pixel_square(SIZE - p % 5));
		struct pixel_key key = {.seed = 1, .position = p};
		struct pixel_plan plan;
		pixel_plan_make(&recipe, &key, 60 + p * 9, 400 - p * 7, &plan);
		sink_run(sink, &recipe, &plan, out);
		hash = hash_bytes(hash, out, 3 * (size_t)recipe.size.height * recipe.size.height);
	}
	if (hash_mix(hash) != 0xdf33acc5b75ede51)
		fail_msg("golden hash: 0x%016llx", (unsigned long long)hash_mix(hash));
	pixel_sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eval_plan),
		cmocka_unit_test(test_plan_from_crop),
		cmocka_unit_test(test_random_filter),
		cmocka_unit_test(test_crop_fits),
		cmocka_unit_test(test_sink_refusals),
		cmocka_unit_test(test_sink_bytes),
		cmocka_unit_test(test_flip),
		cmocka_unit_test(test_flip_vertical),
		cmocka_unit_test(test_plan_resize),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_eval_region),
		cmocka_unit_test(test_eval_extreme),
		cmocka_unit_test(test_resize_extreme),
		cmocka_unit_test(test_golden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

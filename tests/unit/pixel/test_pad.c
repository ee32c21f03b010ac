/* Windows beyond the image: each axis against a simple walker, RandomCrop and CenterCrop against
 * fully padded images, the draw's distribution, replay. */
#include "base/hash.h"
#include "base/util.h"
#include "pixel/draw.h"
#include "pixel/pad.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { LINE_MAX = 4096, FILL = -1 };

/* --- the reference: a line of pixel numbers that grows at both ends --- */

struct line {
	int32_t pixel[LINE_MAX];
	uint32_t count;
};

/* The pixel that a mode puts `steps` pixels beyond an end, as the distance from that end inward. */
static int32_t twin_beyond(enum pixel_padding_mode mode, uint32_t steps, uint32_t count)
{
	int32_t at = 0, way = 1;
	if (mode == PIXEL_PAD_CONSTANT)
		return FILL;
	if (mode == PIXEL_PAD_EDGE || count == 1)
		return 0;
	/* The walker starts on the end pixel; a reflection does not repeat the pixel where it
	 * turns. */
	for (uint32_t i = mode == PIXEL_PAD_REFLECT ? 0 : 1; i < steps; i++) {
		int32_t next = at + way;
		if (next < 0 || next >= (int32_t)count) {
			way = -way;
			next = mode == PIXEL_PAD_REFLECT ? at + way : at;
		}
		at = next;
	}
	return at;
}

static void line_pad(
	struct line *line, enum pixel_padding_mode mode, uint32_t before, uint32_t after)
{
	static struct line old;
	old = *line;
	assert_true(old.count + before + after <= LINE_MAX);
	line->count = old.count + before + after;
	for (uint32_t i = 0; i < line->count; i++) {
		int32_t at;
		if (i < before)
			at = twin_beyond(mode, before - i, old.count);
		else if (i < before + old.count)
			at = (int32_t)(i - before);
		else
			at = twin_beyond(mode, i - before - old.count + 1, old.count);
		if (i >= before + old.count && at != FILL)
			at = (int32_t)old.count - 1 - at;
		line->pixel[i] = at == FILL ? FILL : old.pixel[at];
	}
}

static struct line *line_make(const struct pad_axis *axis)
{
	static struct line line;
	line.count = axis->side;
	for (uint32_t i = 0; i < axis->side; i++)
		line.pixel[i] = (int32_t)i;
	line_pad(&line, axis->mode, axis->before, axis->after);
	line_pad(&line, axis->mode, axis->more, axis->more);
	return &line;
}

static void check_run(const struct pad_axis *axis)
{
	struct pad_run run = pad_run(axis);
	bool any = false;
	assert_true(run.count >= 1 && run.at + run.count <= axis->window);
	assert_true(run.low + run.count <= axis->side);
	for (uint32_t i = 0; i < axis->window; i++) {
		int32_t source = pad_source(axis, i);
		any |= source >= 0;
		if (source >= 0)
			assert_in_range(source, run.low, run.low + run.count - 1);
	}
	assert_int_equal(run.none, !any);
	for (uint32_t i = 0; any && i < run.count; i++)
		assert_int_equal(pad_source(axis, run.at + i),
			run.low + (run.falling ? run.count - 1 - i : i));
}

static void check_axis(struct pad_axis axis)
{
	const struct line *line = line_make(&axis);
	assert_int_equal(pad_side(&axis), line->count);
	for (uint32_t i = 0; i < axis.window; i++)
		assert_int_equal(pad_source(&axis, i), line->pixel[axis.place + i]);
	check_run(&axis);
	axis.mirrored = true;
	for (uint32_t i = 0; i < axis.window; i++)
		assert_int_equal(
			pad_source(&axis, axis.window - 1 - i), line->pixel[axis.place + i]);
	check_run(&axis);
}

static void test_axis(void **state)
{
	static const uint32_t sides[] = {1, 2, 3, 5, 32}, pads[] = {0, 1, 4, 17, 70};
	(void)state;
	for (uint32_t i = 0; i < 4 * UTIL_COUNT(sides) * UTIL_COUNT(pads) * UTIL_COUNT(pads); i++) {
		struct pad_axis axis = {.mode = (enum pixel_padding_mode)(i % 4),
			.side = sides[i / 4 % UTIL_COUNT(sides)],
			.before = pads[i / 4 / UTIL_COUNT(sides) % UTIL_COUNT(pads)],
			.after = pads[i / 4 / UTIL_COUNT(sides) / UTIL_COUNT(pads)]};
		for (axis.more = 0; axis.more < 40; axis.more += 13) {
			axis.window = UTIL_MIN(pad_side(&axis), 32u);
			for (axis.place = 0; axis.place + axis.window <= pad_side(&axis);
				axis.place += 1 + axis.place / 8)
				check_axis(axis);
		}
	}
}

/* --- the sink --- */

/* A source whose pixels are a function of their place. */
static uint8_t source_byte(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint8_t)(hash_mix((uint64_t)x << 32 | y << 2 | c) >> 13);
}

static void sink_run(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out)
{
	struct pixel_region region, reach;
	pixel_plan_region(plan, &reach);
	pixel_sink_begin(sink, recipe, plan, out, &region);
	assert_true(region.x0 >= reach.x0 && region.x1 <= reach.x1);
	assert_true(region.y0 >= reach.y0 && region.y1 <= reach.y1);
	assert_true(region.x0 < region.x1 && region.y0 < region.y1);
	size_t width = region.x1 - region.x0;
	uint8_t *row[PIXEL_PLANES];
	for (int c = 0; c < PIXEL_PLANES; c++)
		assert_non_null(row[c] = malloc(width + PIXEL_ROW_SLACK));
	for (uint32_t y = region.y0; y < region.y1; y++) {
		for (uint32_t x = 0; x < width; x++)
			for (uint32_t c = 0; c < PIXEL_PLANES; c++)
				row[c][x] = source_byte(region.x0 + x, y, c);
		pixel_sink_row(sink, (const uint8_t *const *)row);
	}
	for (int c = 0; c < PIXEL_PLANES; c++)
		free(row[c]);
	pixel_sink_end(sink);
}

static uint32_t flipped(bool flip, uint32_t i, uint32_t size)
{
	return flip ? size - 1 - i : i;
}

/* The expected row: the source, padded along both axes and cut at the plan's place. */
static void check_row(const struct pixel_recipe *recipe, const struct pixel_plan *plan,
	const struct line *across, const struct line *down, const uint8_t *out)
{
	uint32_t size = recipe->size.height;
	for (uint32_t y = 0; y < size; y++)
		for (uint32_t x = 0; x < size; x++) {
			int32_t from_x =
				across->pixel[plan->place_x + flipped(plan->flip, x, size)];
			int32_t from_y =
				down->pixel[plan->place_y + flipped(plan->flip_vertical, y, size)];
			const uint8_t *pixel = out + 3 * ((size_t)y * size + x);
			for (uint32_t c = 0; c < PIXEL_PLANES; c++)
				assert_int_equal(pixel[c], from_x < 0 || from_y < 0
								   ? recipe->padding.fill[c]
								   : source_byte((uint32_t)from_x,
									     (uint32_t)from_y, c));
		}
}

static uint32_t missing(uint32_t side, uint32_t size)
{
	return side < size ? size - side : 0;
}

static void check_random(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_key *key, const uint32_t source[2])
{
	static uint8_t out[64 * 64 * 3 + 64];
	static struct line across, down;
	const struct pixel_padding *pad = &recipe->padding;
	struct pad_axis x = {
		.mode = pad->mode, .side = source[0], .before = pad->left, .after = pad->right};
	struct pad_axis y = {
		.mode = pad->mode, .side = source[1], .before = pad->top, .after = pad->bottom};
	x.more = missing(pad_side(&x), recipe->size.height);
	y.more = missing(pad_side(&y), recipe->size.height);
	across = *line_make(&x);
	down = *line_make(&y);
	struct pixel_plan plan;
	pixel_plan_make(recipe, key, source[0], source[1], &plan);
	size_t bytes = 3 * (size_t)recipe->size.height * recipe->size.height;
	memset(out, 0xa5, sizeof(out));
	sink_run(sink, recipe, &plan, out);
	check_row(recipe, &plan, &across, &down, out);
	for (size_t i = bytes; i < bytes + 64; i++)
		assert_int_equal(out[i], 0xa5);
}

static struct pixel_sink *sink_new(uint32_t size)
{
	struct fault fault = {""};
	struct pixel_sink *sink = NULL;
	assert_int_equal(pixel_sink_new(size, &sink, &fault), 0);
	return sink;
}

static void test_random_crop(void **state)
{
	static const uint32_t sources[][2] = {
		{32, 32}, {1, 1}, {1, 40}, {40, 1}, {2, 3}, {31, 33}, {500, 375}, {33, 32}};
	static const struct pixel_padding paddings[] = {
		{.left = 4, .top = 4, .right = 4, .bottom = 4, .fill = {1, 128, 255}},
		{.if_needed = true, .fill = {7, 7, 7}},
		{.left = 70, .right = 3, .bottom = 90, .if_needed = true},
	};
	struct pixel_sink *sink = sink_new(64);
	(void)state;
	for (uint32_t i = 0; i < 4000; i++) {
		struct pixel_recipe recipe = {.kind = PIXEL_CROP,
			.size = pixel_square(1 + i % 64),
			.random_window = true,
			.flip = 0.5,
			.flip_vertical = 0.5,
			.padding = paddings[i % UTIL_COUNT(paddings)]};
		struct pixel_key key = {.seed = 3, .position = i};
		recipe.padding.mode = (enum pixel_padding_mode)(i / 5 % 4);
		recipe.padding.if_needed = true;
		check_random(sink, &recipe, &key, sources[i % UTIL_COUNT(sources)]);
	}
	pixel_sink_free(sink);
}

/* The crop of every CIFAR recipe. */
static void test_cifar(void **state)
{
	const struct pixel_recipe recipe = {.kind = PIXEL_CROP,
		.size = pixel_square(32),
		.random_window = true,
		.padding = {.left = 4, .top = 4, .right = 4, .bottom = 4}};
	static const uint32_t source[2] = {32, 32};
	struct pixel_sink *sink = sink_new(32);
	uint32_t counts[2][9] = {{0}};
	(void)state;
	enum { DRAWS = 9000 };
	for (uint32_t p = 0; p < DRAWS; p++) {
		struct pixel_key key = {.seed = 11, .epoch = 2, .position = p};
		struct pixel_plan plan;
		pixel_plan_make(&recipe, &key, 32, 32, &plan);
		counts[0][plan.place_x]++;
		counts[1][plan.place_y]++;
		/* torchvision's randint, row first, from Philox's words. */
		struct philox r = philox_draw(11, 2, p, PHILOX_RANDOM_CROP, 0);
		assert_int_equal(plan.place_y, (uint64_t)r.word[0] * 9 >> 32);
		assert_int_equal(plan.place_x, (uint64_t)r.word[2] * 9 >> 32);
		assert_int_equal(plan.padded, plan.place_x != 4 || plan.place_y != 4);
		if (p < 300)
			check_random(sink, &recipe, &key, source);
	}
	for (unsigned axis = 0; axis < 2; axis++) {
		double sum = 0;
		for (unsigned i = 0; i < 9; i++)
			sum += (counts[axis][i] - DRAWS / 9.0) * (counts[axis][i] - DRAWS / 9.0) /
			       (DRAWS / 9.0);
		assert_true(sum < 32); /* chi-square, 8 degrees: above once in 10,000 */
	}
	pixel_sink_free(sink);
}

/* torchvision puts half of the missing pixels in front, and cuts excess pixels around the
 * center. */
static void test_center_crop(void **state)
{
	static const struct {
		uint32_t size, w, h, before_x, before_y, place_x, place_y;
	} cases[] = {
		{32, 32, 32, 0, 0, 0, 0},
		{32, 31, 35, 0, 0, 0, 2}, /* 0.5 -> 0 before, 1.5 -> 2 */
		{32, 29, 1, 1, 15, 0, 0},
		{5, 2, 100, 1, 0, 0, 48}, /* 47.5 -> 48 */
		{40, 1, 1, 19, 19, 0, 0},
	};
	static uint8_t out[40 * 40 * 3];
	static struct line across, down;
	struct pixel_sink *sink = sink_new(64);
	(void)state;
	for (unsigned i = 0; i < UTIL_COUNT(cases); i++) {
		uint32_t size = cases[i].size, w = cases[i].w, h = cases[i].h;
		struct pixel_recipe recipe = {
			.kind = PIXEL_CROP, .size = pixel_square(size), .flip = i & 1};
		struct pixel_key key = {0};
		struct pixel_plan plan;
		pixel_plan_make(&recipe, &key, w, h, &plan);
		assert_int_equal(plan.place_x, cases[i].place_x);
		assert_int_equal(plan.place_y, cases[i].place_y);
		struct pad_axis x = {.side = w, .before = cases[i].before_x};
		struct pad_axis y = {.side = h, .before = cases[i].before_y};
		x.after = missing(w + x.before, size);
		y.after = missing(h + y.before, size);
		across = *line_make(&x);
		down = *line_make(&y);
		sink_run(sink, &recipe, &plan, out);
		check_row(&recipe, &plan, &across, &down, out);
	}
	pixel_sink_free(sink);
}

static void test_fits(void **state)
{
	struct pixel_recipe recipe = {
		.kind = PIXEL_CROP, .size = pixel_square(32), .random_window = true};
	(void)state;
	assert_true(pixel_recipe_fits(&recipe, 32, 32));
	assert_false(pixel_recipe_fits(&recipe, 31, 32));
	assert_false(pixel_recipe_fits(&recipe, 32, 31));
	recipe.padding.left = 1;
	assert_true(pixel_recipe_fits(&recipe, 31, 32));
	recipe.padding.if_needed = true;
	assert_true(pixel_recipe_fits(&recipe, 1, 1));
	recipe = (struct pixel_recipe){.kind = PIXEL_CROP, .size = pixel_square(32)};
	assert_true(pixel_recipe_fits(&recipe, 1, 1)); /* CenterCrop pads */
	recipe = pixel_recipe_train(pixel_square(224));
	assert_true(pixel_recipe_fits(&recipe, 1, 1));
	recipe = (struct pixel_recipe){.kind = PIXEL_RESIZE,
		.size = pixel_square(32),
		.resize = pixel_square(31),
		.random_window = true};
	assert_false(pixel_recipe_fits(&recipe, 500, 375));
	recipe.resize = pixel_square(32);
	assert_true(pixel_recipe_fits(&recipe, 500, 375));
}

/* Crop, flips and the key reproduce the plan. */
static void test_replay(void **state)
{
	(void)state;
	for (uint32_t p = 0; p < 400; p++) {
		struct pixel_recipe recipe = {.kind = p & 1 ? PIXEL_CROP : PIXEL_RESIZE,
			.size = pixel_square(24),
			.resize = pixel_square(40),
			.random_window = true,
			.flip = 0.5,
			.padding = {.left = 3, .bottom = 9, .mode = PIXEL_PAD_SYMMETRIC}};
		struct pixel_key key = {.seed = 8, .epoch = 1, .position = p, .view = p % 3};
		uint32_t w = 24 + p % 50, h = 24 + p % 31;
		struct pixel_plan made, again;
		pixel_plan_make(&recipe, &key, w, h, &made);
		assert_true(made.crop_w == w && made.crop_h == h && !made.crop_x && !made.crop_y);
		pixel_plan_from_crop(&recipe, made.crop_x, made.crop_y, made.crop_w, made.crop_h,
			made.flip, w, h, &again);
		pixel_plan_place(&recipe, &key, &again);
		assert_int_equal(made.place_x, again.place_x);
		assert_int_equal(made.place_y, again.place_y);
		assert_int_equal(made.window_x, again.window_x);
		assert_int_equal(made.window_y, again.window_y);
		assert_int_equal(made.window_w, again.window_w);
		assert_int_equal(made.window_h, again.window_h);
		assert_int_equal(made.padded, again.padded);
		assert_int_equal(made.flip, again.flip);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_axis),
		cmocka_unit_test(test_random_crop),
		cmocka_unit_test(test_cifar),
		cmocka_unit_test(test_center_crop),
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_replay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

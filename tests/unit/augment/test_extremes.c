/* Steps with extreme parameters, on images of every shape: each set of kernels makes the same
 * row, and no earlier content of the scratch memory shows in it. */
#include "augment/augment.h"
#include "base/hash.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "augment/kernels/kernels.h"

enum { SIDE = 70, BYTES = 3 * SIDE * SIDE, RECIPES = 600 };

static uint64_t drawn;

static uint32_t draw_below(uint32_t count)
{
	return (uint32_t)(hash_mix(++drawn) % count);
}

/* One of the two ends, or a value between them. */
static double draw_within(double least, double most)
{
	uint32_t where = draw_below(4);
	if (where < 2)
		return where ? most : least;
	return least + (most - least) * draw_below(1 << 20) / (1 << 20);
}

static void draw_range(double ret[2], double least, double most)
{
	double a = draw_within(least, most), b = draw_within(least, most);
	ret[0] = a < b ? a : b;
	ret[1] = a < b ? b : a;
}

static struct step draw_step(uint32_t side)
{
	static const enum weights_filter filters[] = {
		WEIGHTS_NEAREST, WEIGHTS_BILINEAR, WEIGHTS_BICUBIC};
	struct step step = {
		.kind = (enum step_kind)(
			STEP_SIZINGS + draw_below(STEP_RANDOM_ERASING - STEP_SIZINGS)),
		.p = 1,
		.kernel_size = {2 * draw_below(UTIL_MIN(side, 128u)) + 1,
			2 * draw_below(UTIL_MIN(side, 128u)) + 1},
		.threshold = draw_within(0, 256),
		.bits = draw_below(9),
		.sharpness_factor = draw_within(0, 1000),
		.translate = {draw_within(0, 1), draw_within(0, 1)},
		.center = {draw_within(-65536, 65536), draw_within(-65536, 65536)},
		.has_center = draw_below(3) == 0,
		.distortion_scale = draw_within(0, 1),
		.num_ops = 1 + draw_below(4),
		.num_magnitude_bins = 2 + draw_below(40),
		.policy = (enum step_policy)draw_below(3),
		.severity = 1 + draw_below(10),
		.mixture_width = 1 + draw_below(4),
		.chain_depth = draw_below(2) ? -1 : 1 + (int32_t)draw_below(4),
		.alpha = draw_within(0.01, 100),
		.all_ops = draw_below(2),
		.interpolation = filters[draw_below(3)],
		.fill = {draw_below(256), draw_below(256), draw_below(256)},
	};
	step.magnitude = draw_below(step.num_magnitude_bins);
	draw_range(step.brightness, 0, 1000);
	draw_range(step.contrast, 0, 1000);
	draw_range(step.saturation, 0, 1000);
	draw_range(step.hue, -0.5, 0.5);
	draw_range(step.sigma, 0x1p-1074, draw_below(2) ? 100 : 1e-4);
	draw_range(step.degrees, -3600, 3600);
	draw_range(step.scale, 0.001, draw_below(2) ? 1000 : 2);
	draw_range(step.shear, -89, 89);
	draw_range(step.shear + 2, -89, 89);
	return step;
}

static void image_fill(uint8_t *image, size_t bytes, uint64_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		image[i] = (uint8_t)hash_mix(seed + i);
}

/* First fills all of the augmenter's memory for an image with `old`. */
static void run(const struct step_recipe *recipe, const struct step_plan *plan, uint32_t side,
	uint32_t width, uint32_t height, uint8_t old, uint8_t *out)
{
	struct augmenter *augmenter;
	struct fault fault;
	int rc = augmenter_new(recipe, side, &augmenter, &fault);
	if (rc < 0)
		fail_msg("%s", fault.text);
	uint8_t *image = augmenter_image(augmenter);
	memset(image, old, augmenter_bytes(recipe, side) - (size_t)(image - (uint8_t *)augmenter));
	image_fill(image, (size_t)3 * width * height, 7);
	augmenter_run(augmenter, plan, width, height, out);
	augmenter_free(augmenter);
}

static void draw_recipe(uint32_t side, struct step_recipe *ret)
{
	*ret = (struct step_recipe){.count = 1 + draw_below(3)};
	for (uint32_t i = 0; i < ret->count; i++) {
		ret->step[i] = draw_step(side);
		ret->step[i].same = i;
	}
}

static void fail_with(const struct step_plan *plan, const char *kernels)
{
	char text[128];
	for (uint32_t i = 0; i < plan->count; i++) {
		op_text(&plan->op[i], text, sizeof text);
		print_message("%s\n", text);
	}
	fail_msg("%s gives another result for these", kernels);
}

/* Every set of kernels that this processor has, on scratch with other contents. */
static void check(const struct step_recipe *recipe, const struct step_plan *plan, uint32_t width,
	uint32_t height)
{
	static const char *const kernels[] = {"c", "avx2", "avx512", "avx512-vnni", "neon"};
	static uint8_t law[BYTES], out[BYTES];
	uint32_t side = UTIL_MAX(width, height);
	for (size_t i = 0; i < UTIL_COUNT(kernels); i++) {
		const struct augment_kernels *chosen;
		struct fault fault;
		(void)setenv("PENSTOCK_KERNELS", kernels[i], 1);
		if (augment_kernels_choose(&chosen, &fault) < 0)
			continue;
		if (i == 0)
			run(recipe, plan, side, width, height, 0, law);
		run(recipe, plan, side, width, height, UINT8_MAX, out);
		if (memcmp(law, out, (size_t)3 * width * height) != 0)
			fail_with(plan, kernels[i]);
	}
	(void)unsetenv("PENSTOCK_KERNELS");
}

static void test_all(void **state)
{
	(void)state;
	static const uint32_t sides[] = {1, 2, 3, 5, 17, 64, SIDE};
	for (uint32_t i = 0; i < RECIPES; i++) {
		uint32_t width = sides[draw_below(UTIL_COUNT(sides))];
		uint32_t height = sides[draw_below(UTIL_COUNT(sides))];
		const struct pixel_key key = {.seed = 3, .position = i};
		struct step_recipe recipe;
		struct step_plan plan;
		draw_recipe(UTIL_MAX(width, height), &recipe);
		step_plan(&recipe, &key, width, height, &plan);
		check(&recipe, &plan, width, height);
	}
}

/* The narrowest blur that a recipe may have changes nothing. */
static void test_narrow_blur(void **state)
{
	(void)state;
	static const double sigmas[] = {0x1p-1074, 1e-300, 1e-160, 1e-153, 1e-9, 1e-4, 0.01};
	static const struct step_recipe none;
	static uint8_t before[BYTES], out[BYTES];
	image_fill(before, BYTES, 7);
	for (size_t i = 0; i < UTIL_COUNT(sigmas); i++) {
		const struct step_plan plan = {.count = 1,
			.op = {{.kind = OP_BLUR,
				.kernel = {23, 5},
				.sigma = {sigmas[i], sigmas[i]}}}};
		run(&none, &plan, SIDE, SIDE, SIDE, 0, out);
		assert_memory_equal(out, before, BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_narrow_blur),
		cmocka_unit_test(test_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

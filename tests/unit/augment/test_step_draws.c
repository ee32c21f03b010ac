/* The draws of each operation: probability, range, distribution, and independence of each value. */
#include "augment/step_warp.h"
#include "pixel/draw.h"
#include "unit/augment/steps.h"

#include <stdio.h>

static const double PI = 3.14159265358979323846;

/* Operations that run with a probability, and their parameters when they run. */
static const struct {
	enum step_kind step;
	enum op_kind op;
	double amount;
} chances[] = {
	{STEP_RANDOM_HORIZONTAL_FLIP, OP_FLIP_HORIZONTAL, 0},
	{STEP_RANDOM_VERTICAL_FLIP, OP_FLIP_VERTICAL, 0},
	{STEP_RANDOM_GRAYSCALE, OP_GRAYSCALE, 0},
	{STEP_RANDOM_SOLARIZE, OP_SOLARIZE, 128},
	{STEP_RANDOM_POSTERIZE, OP_POSTERIZE, 4},
	{STEP_RANDOM_EQUALIZE, OP_EQUALIZE, 0},
	{STEP_RANDOM_AUTOCONTRAST, OP_AUTOCONTRAST, 0},
	{STEP_RANDOM_INVERT, OP_INVERT, 0},
	{STEP_RANDOM_ADJUST_SHARPNESS, OP_SHARPNESS, 2},
	{STEP_RANDOM_PERSPECTIVE, OP_PERSPECTIVE, 0},
	{STEP_RANDOM_ERASING, OP_ERASE, 0},
};

static void check_chance(unsigned c, double p)
{
	char what[64];
	uint32_t happened = 0;
	struct step_recipe recipe = steps_recipe(chances[c].step);
	recipe.step[0].p = p;
	if (chances[c].step == STEP_RANDOM_ERASING) /* of a size that always fits */
		recipe.step[0].scale[1] = 0.25;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, c, i);
		assert_true(plan->count <= 1);
		happened += plan->count;
		if (plan->count == 0)
			continue;
		assert_int_equal(plan->op[0].kind, chances[c].op);
		assert_true(plan->op[0].amount == chances[c].amount);
	}
	(void)snprintf(what, sizeof(what), "step %d, p %g", chances[c].step, p);
	/* A perspective whose four corners stay in place counts as none: one in 57^8. */
	steps_check_share(happened, STEPS_DRAWS, p, what);
}

static void test_chances(void **state)
{
	static const double ps[] = {0, 0.1, 0.5, 0.8, 1};
	(void)state;
	for (unsigned c = 0; c < UTIL_COUNT(chances); c++)
		for (unsigned i = 0; i < UTIL_COUNT(ps); i++)
			check_chance(c, ps[i]);
}

/* Under one key, draws of different kinds are independent. */
static void test_chances_apart(void **state)
{
	static bool happened[UTIL_COUNT(chances)][STEPS_DRAWS];
	(void)state;
	for (unsigned c = 0; c < UTIL_COUNT(chances); c++) {
		struct step_recipe recipe = steps_recipe(chances[c].step);
		recipe.step[0].p = 0.5;
		for (uint32_t i = 0; i < STEPS_DRAWS; i++)
			happened[c][i] = steps_plan(&recipe, 20, i)->count;
		for (unsigned other = 0; other < c; other++) {
			uint32_t both = 0;
			for (uint32_t i = 0; i < STEPS_DRAWS; i++)
				both += happened[c][i] == happened[other][i];
			steps_check_share(both, STEPS_DRAWS, 0.5, "two kinds");
		}
	}
}

static void test_grayscale(void **state)
{
	struct step_recipe recipe = steps_recipe(STEP_GRAYSCALE);
	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(steps_plan(&recipe, 1, i)->count, 1);
		assert_int_equal(steps_plan(&recipe, 1, i)->op[0].kind, OP_GRAYSCALE);
	}
}

/* --- ColorJitter --- */

enum { JITTERS = 4, ORDERS = 24 };

static unsigned jitter_of(const struct op *op)
{
	assert_true(op->kind >= OP_BRIGHTNESS && op->kind <= OP_HUE);
	return op->kind - OP_BRIGHTNESS;
}

/* Which of the 24 orders. */
static unsigned jitter_order(const struct step_plan *plan)
{
	unsigned order = 0;
	for (unsigned i = 0; i < JITTERS; i++) {
		unsigned smaller = 0;
		for (unsigned j = i + 1; j < JITTERS; j++)
			smaller += jitter_of(&plan->op[j]) < jitter_of(&plan->op[i]);
		order = order * (JITTERS - i) + smaller;
	}
	return order;
}

static void test_color_jitter(void **state)
{
	static const double ends[JITTERS][2] = {{0.2, 1.8}, {0.5, 0.75}, {0, 3}, {-0.5, 0.25}};
	struct steps_histogram factors[JITTERS];
	struct steps_pairs pairs[JITTERS][JITTERS] = {0}, orders[JITTERS] = {0};
	uint32_t order_counts[ORDERS] = {0};
	struct step_recipe recipe = steps_recipe(STEP_COLOR_JITTER);
	struct step *step = &recipe.step[0];
	(void)state;
	memcpy(step->brightness, ends[0], sizeof(ends[0]));
	memcpy(step->contrast, ends[1], sizeof(ends[1]));
	memcpy(step->saturation, ends[2], sizeof(ends[2]));
	memcpy(step->hue, ends[3], sizeof(ends[3]));
	for (unsigned j = 0; j < JITTERS; j++)
		factors[j] = (struct steps_histogram){.from = ends[j][0], .to = ends[j][1]};
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		double units[JITTERS] = {-1, -1, -1, -1};
		const struct step_plan *plan = steps_plan(&recipe, 2, i);
		assert_int_equal(plan->count, JITTERS);
		for (unsigned j = 0; j < JITTERS; j++) {
			unsigned which = jitter_of(&plan->op[j]);
			assert_true(units[which] == -1); /* once each */
			units[which] =
				steps_unit(ends[which][0], ends[which][1], plan->op[j].amount);
			steps_count(&factors[which], plan->op[j].amount);
		}
		order_counts[jitter_order(plan)]++;
		for (unsigned a = 0; a < JITTERS; a++) {
			steps_pair(&orders[a], jitter_order(plan) / (double)ORDERS, units[a]);
			for (unsigned b = 0; b < a; b++)
				steps_pair(&pairs[a][b], units[a], units[b]);
		}
	}
	steps_check_shares(order_counts, NULL, ORDERS, "orders");
	for (unsigned a = 0; a < JITTERS; a++) {
		steps_check_uniform(&factors[a], "factor");
		steps_check_pairs(&orders[a], "order and factor");
		for (unsigned b = 0; b < a; b++)
			steps_check_pairs(&pairs[a][b], "two factors");
	}
}

/* A factor that is not given does not run, and does not change the other draws. */
static void test_color_jitter_parts(void **state)
{
	struct step_recipe all = steps_recipe(STEP_COLOR_JITTER), some = all, none = all;
	uint32_t first = 0;
	(void)state;
	some.step[0].contrast[0] = some.step[0].contrast[1] = 1;
	some.step[0].saturation[0] = some.step[0].saturation[1] = 1;
	none.step[0] = some.step[0];
	none.step[0].brightness[0] = none.step[0].brightness[1] = 1;
	none.step[0].hue[0] = none.step[0].hue[1] = 0;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		struct step_plan plan = *steps_plan(&all, 3, i);
		uint32_t kept = 0;
		for (uint32_t j = 0; j < plan.count; j++)
			if (plan.op[j].kind == OP_BRIGHTNESS || plan.op[j].kind == OP_HUE)
				plan.op[kept++] = plan.op[j];
		const struct step_plan *got = steps_plan(&some, 3, i);
		assert_int_equal(got->count, 2);
		for (uint32_t j = 0; j < 2; j++)
			assert_true(got->op[j].kind == plan.op[j].kind &&
				    got->op[j].amount == plan.op[j].amount);
		first += got->op[0].kind == OP_BRIGHTNESS;
		assert_int_equal(steps_plan(&none, 3, i)->count, 0);
	}
	steps_check_share(first, STEPS_DRAWS, 0.5, "brightness before hue");
	/* A factor that is fixed, but not 1, runs. */
	none.step[0].contrast[0] = none.step[0].contrast[1] = 0.5;
	assert_int_equal(steps_plan(&none, 3, 0)->count, 1);
	assert_true(steps_plan(&none, 3, 0)->op[0].amount == 0.5);
}

/* --- blurs --- */

static void test_gaussian_blur(void **state)
{
	struct steps_histogram sigma = {.from = 0.1, .to = 2.0};
	struct step_recipe recipe = steps_recipe(STEP_GAUSSIAN_BLUR);
	(void)state;
	recipe.step[0].kernel_size[1] = 9;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct op *op = steps_plan(&recipe, 4, i)->op;
		assert_int_equal(steps_plan(&recipe, 4, i)->count, 1);
		assert_int_equal(op->kind, OP_BLUR);
		assert_true(op->kernel[0] == 23 && op->kernel[1] == 9);
		assert_true(op->sigma[0] == op->sigma[1]);
		steps_count(&sigma, op->sigma[0]);
	}
	steps_check_uniform(&sigma, "sigma");
}

static void test_pillow_blur(void **state)
{
	struct steps_histogram radius = {.from = 0.5, .to = 4};
	struct step_recipe recipe = steps_recipe(STEP_GAUSSIAN_BLUR);
	(void)state;
	recipe.step[0].has_radius = true;
	recipe.step[0].radius[0] = 0.5;
	recipe.step[0].radius[1] = 4;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 4, i);
		assert_int_equal(plan->count, 1);
		assert_int_equal(plan->op[0].kind, OP_PILLOW_BLUR);
		steps_count(&radius, plan->op[0].amount);
	}
	steps_check_uniform(&radius, "radius");
}

static void test_three_augment(void **state)
{
	struct steps_histogram radius = {.from = 0.1, .to = 2.0};
	uint32_t counts[3] = {0};
	struct step_recipe recipe = steps_recipe(STEP_THREE_AUGMENT);
	(void)state;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 5, i);
		assert_int_equal(plan->count, 1);
		if (plan->op[0].kind == OP_GRAYSCALE) {
			counts[0]++;
		} else if (plan->op[0].kind == OP_SOLARIZE) {
			counts[1]++;
			assert_true(plan->op[0].amount == 128);
		} else {
			counts[2]++;
			assert_int_equal(plan->op[0].kind, OP_PILLOW_BLUR);
			steps_count(&radius, plan->op[0].amount);
		}
	}
	steps_check_shares(counts, NULL, 3, "one of three");
	steps_check_uniform(&radius, "radius");
}

/* --- places --- */

static struct step_recipe affine_recipe(void)
{
	struct step_recipe recipe = steps_recipe(STEP_RANDOM_AFFINE);
	recipe.step[0].degrees[0] = recipe.step[0].degrees[1] = 0;
	recipe.step[0].scale[0] = recipe.step[0].scale[1] = 1;
	return recipe;
}

static const struct op *affine_op(const struct step_recipe *recipe, uint64_t seed, uint32_t i)
{
	const struct step_plan *plan = steps_plan(recipe, seed, i);
	assert_int_equal(plan->count, 1);
	assert_int_equal(plan->op[0].kind, OP_AFFINE);
	return &plan->op[0];
}

static void check_angles(struct step_recipe *recipe, double turn)
{
	struct steps_histogram angles = {.from = -20, .to = 75};
	recipe->step[0].degrees[0] = -20;
	recipe->step[0].degrees[1] = 75;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const double *m = affine_op(recipe, 6, i)->matrix;
		steps_count(&angles, turn * atan2(m[1], m[0]) * 180 / PI);
	}
	steps_check_uniform(&angles, "angle");
}

/* torchvision's affine turns clockwise, Image.rotate counterclockwise; Pillow's matrices map
 * output to source. */
static void test_angles(void **state)
{
	struct step_recipe affine = affine_recipe(), rotation = steps_recipe(STEP_RANDOM_ROTATION);
	(void)state;
	check_angles(&affine, 1);
	check_angles(&rotation, -1);
}

static void test_affine_scale_and_shear(void **state)
{
	struct steps_histogram scales = {.from = 0.5, .to = 3}, x = {.from = -30, .to = 10},
			       y = {.from = 5, .to = 45};
	struct step_recipe scale = affine_recipe(), shear_x = scale, shear_y = scale;
	(void)state;
	scale.step[0].scale[0] = 0.5;
	scale.step[0].scale[1] = 3;
	shear_x.step[0].shear[0] = -30;
	shear_x.step[0].shear[1] = 10;
	shear_y.step[0].shear[2] = 5;
	shear_y.step[0].shear[3] = 45;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct op *op = affine_op(&scale, 7, i);
		assert_true(op->matrix[0] == op->matrix[4] && op->matrix[1] == 0);
		steps_count(&scales, 1 / op->matrix[0]);
		steps_count(&x, atan(affine_op(&shear_x, 8, i)->matrix[1]) * 180 / PI);
		steps_count(&y, atan(affine_op(&shear_y, 9, i)->matrix[3]) * 180 / PI);
	}
	steps_check_uniform(&scales, "scale");
	steps_check_uniform(&x, "shear along x");
	steps_check_uniform(&y, "shear along y");
}

/* round() of a number between -m and m: the integers at the ends are half as likely. */
static void test_affine_translation(void **state)
{
	enum { MOST = 11 }; /* 0.05 of 224 is 11.2 */
	struct step_recipe recipe = affine_recipe();
	uint32_t counts[2][2 * MOST + 1] = {{0}};
	double shares[2 * MOST + 1];
	struct steps_pairs pairs = {{0}};
	(void)state;
	recipe.step[0].translate[0] = recipe.step[0].translate[1] = 0.05;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 10, i);
		const double *m = plan->op[0].matrix;
		double x = plan->count ? -m[2] : 0, y = plan->count ? -m[5] : 0;
		assert_true(x == rint(x) && y == rint(y) && fabs(x) <= MOST && fabs(y) <= MOST);
		counts[0][(int)x + MOST]++;
		counts[1][(int)y + MOST]++;
		if (x != 0 && y != 0 && fabs(x) != MOST && fabs(y) != MOST)
			steps_pair(&pairs, (x + (x < 0) + 9) / 20, (y + (y < 0) + 9) / 20);
	}
	for (int i = 0; i <= 2 * MOST; i++)
		shares[i] = (i == 0 || i == 2 * MOST ? 0.7 : 1) / 22.4;
	steps_check_shares(counts[0], shares, UTIL_COUNT(shares), "translation by x");
	steps_check_shares(counts[1], shares, UTIL_COUNT(shares), "translation by y");
	steps_check_pairs(&pairs, "translation by x and y");
}

/* The test draws the corners again, from the words that step.c names, and must get the same
 * matrix. */
static void test_perspective(void **state)
{
	enum { INWARDS = 57 }; /* 0 .. 0.5 * 112 */
	struct step_recipe recipe = steps_recipe(STEP_RANDOM_PERSPECTIVE);
	const struct step_warp warp = {
		.width = STEPS_SIDE, .height = STEPS_SIDE, .interpolation = WEIGHTS_NEAREST};
	uint32_t counts[8][INWARDS] = {{0}};
	(void)state;
	recipe.step[0].p = 1;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct pixel_key key = {.seed = 11, .position = i};
		const struct philox draws[2] = {draw_words(&key, PHILOX_PERSPECTIVE, 0, 1),
			draw_words(&key, PHILOX_PERSPECTIVE, 0, 2)};
		int32_t in[8];
		for (unsigned k = 0; k < 8; k++) {
			in[k] = (int32_t)((uint64_t)draws[k / 4].word[k % 4] * INWARDS >> 32);
			counts[k][in[k]]++;
		}
		const int32_t base = STEPS_SIDE - INWARDS;
		const int32_t corners[4][2] = {{in[0], in[1]}, {base + in[2], in[3]},
			{base + in[4], base + in[5]}, {in[6], base + in[7]}};
		struct op want;
		assert_true(step_warp_perspective(&warp, corners, &want));
		const struct step_plan *plan = steps_plan(&recipe, 11, i);
		assert_int_equal(plan->count, 1);
		assert_memory_equal(plan->op[0].matrix, want.matrix, sizeof(want.matrix));
	}
	for (unsigned k = 0; k < 8; k++)
		steps_check_shares(counts[k], NULL, INWARDS, "corner");
}

/* The largest values that are allowed, in images with odd and with the smallest sides: nothing
 * leaves the image, and nothing fails. */
static void test_perspective_odd(void **state)
{
	struct step_recipe recipe = steps_recipe(STEP_RANDOM_PERSPECTIVE);
	struct step_plan plan;
	(void)state;
	recipe.step[0].p = recipe.step[0].distortion_scale = 1;
	for (uint32_t side = 1; side < 40; side++)
		for (uint32_t i = 0; i < 200; i++) {
			const struct pixel_key key = {.seed = 12, .position = i};
			step_plan(&recipe, &key, side, side, &plan);
			assert_true(plan.count <= 1);
		}
}

static void test_erasing(void **state)
{
	struct step_recipe recipe = steps_recipe(STEP_RANDOM_ERASING);
	struct steps_histogram area = {.from = 0.1, .to = 0.2},
			       ratio = {.from = log(0.5), .to = log(2)}, x = {.from = 0, .to = 1},
			       y = x;
	struct step_plan plan;
	(void)state;
	recipe.step[0].p = 1;
	recipe.step[0].scale[0] = 0.1;
	recipe.step[0].scale[1] = 0.2;
	recipe.step[0].ratio[0] = 0.5;
	recipe.step[0].ratio[1] = 2;
	recipe.step[0].value_random = true;
	recipe.step[0].value[1] = 0.25;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		enum { SIDE = 20000 }; /* so that rounding has no effect */
		const struct pixel_key key = {.seed = 13, .position = i};
		step_plan(&recipe, &key, SIDE, SIDE, &plan);
		assert_int_equal(plan.count, 1);
		const struct op *op = &plan.op[0];
		double w = op->box.w, h = op->box.h;
		steps_count(&area, fmin(fmax(w * h / SIDE / SIDE, 0.1), 0.2));
		steps_count(&ratio, fmin(fmax(log(h / w), log(0.5)), log(2)));
		steps_count(&x, op->box.x / (SIDE - w));
		steps_count(&y, op->box.y / (SIDE - h));
		assert_true(op->box.noise && op->box.value[1] == 0.25);
	}
	steps_check_uniform(&area, "area");
	steps_check_uniform(&ratio, "logarithm of the ratio");
	steps_check_uniform(&x, "column");
	steps_check_uniform(&y, "row");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chances),
		cmocka_unit_test(test_chances_apart),
		cmocka_unit_test(test_grayscale),
		cmocka_unit_test(test_color_jitter),
		cmocka_unit_test(test_color_jitter_parts),
		cmocka_unit_test(test_gaussian_blur),
		cmocka_unit_test(test_pillow_blur),
		cmocka_unit_test(test_three_augment),
		cmocka_unit_test(test_angles),
		cmocka_unit_test(test_affine_scale_and_shear),
		cmocka_unit_test(test_affine_translation),
		cmocka_unit_test(test_perspective),
		cmocka_unit_test(test_perspective_odd),
		cmocka_unit_test(test_erasing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

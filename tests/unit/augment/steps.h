/* Recipes with torchvision's defaults, and the statistics that the tests of draws share. Keys
 * are fixed, so a test that passes once always passes. */
#pragma once

#include "augment/step.h"
#include "base/util.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS_DRAWS = 20000, STEPS_SIDE = 224 };

static inline struct step steps_default(enum step_kind kind)
{
	return (struct step){
		.kind = kind,
		.p = kind == STEP_RANDOM_GRAYSCALE ? 0.1 : 0.5,
		.brightness = {0.6, 1.4},
		.contrast = {0.6, 1.4},
		.saturation = {0.6, 1.4},
		.hue = {-0.1, 0.1},
		.kernel_size = {23, 23},
		.sigma = {0.1, 2.0},
		.threshold = 128,
		.bits = 4,
		.sharpness_factor = 2,
		.degrees = {-30, 30},
		.scale = {kind == STEP_RANDOM_ERASING ? 0.02 : 0.75,
			kind == STEP_RANDOM_ERASING ? 0.33 : 1.25},
		.ratio = {0.3, 3.3},
		.distortion_scale = 0.5,
		.num_ops = 2,
		.magnitude = 9,
		.num_magnitude_bins = 31,
		.policy = STEP_POLICY_IMAGENET,
		.severity = 3,
		.mixture_width = 3,
		.chain_depth = -1,
		.alpha = 1,
		.all_ops = true,
		.interpolation = WEIGHTS_NEAREST,
		.timm = {.most = 10, .translate = -1},
		.size = {100, 160},
		.both = true,
		.min_size = {90, 110, 150},
		.min_sizes = 3,
		.max_size = 200,
		.padding = {.left = 3, .top = 4, .right = 5, .bottom = 6},
		.longest = 0.3,
		.random_scale_prob = 0.5,
		.random_scale_range = {0.85, 1.05},
		.random_aspect_prob = 0.5,
		.random_aspect_range = {0.9, 1.11},
	};
}

static inline struct step *steps_add(struct step_recipe *recipe, enum step_kind kind)
{
	struct step *step = &recipe->step[recipe->count];
	assert_true(recipe->count < STEP_MAX);
	*step = steps_default(kind);
	for (uint32_t i = 0; i < recipe->count; i++)
		step->same += recipe->step[i].kind == kind;
	recipe->count++;
	return step;
}

static inline struct step_recipe steps_recipe(enum step_kind kind)
{
	struct step_recipe recipe = {0};
	(void)steps_add(&recipe, kind);
	return recipe;
}

/* The plan of the sample at `position`. */
static inline const struct step_plan *steps_plan(
	const struct step_recipe *recipe, uint64_t seed, uint64_t position)
{
	static struct step_plan plan;
	const struct pixel_key key = {.seed = seed, .position = position};
	step_plan(recipe, &key, STEPS_SIDE, STEPS_SIDE, &plan);
	return &plan;
}

static inline bool steps_same_matrix(const struct op *a, const struct op *b)
{
	for (int i = 0; i < OP_MATRIX; i++)
		if (a->matrix[i] != b->matrix[i])
			return false;
	return true;
}

/* The count of `draws` attempts is within 4 sigma of its mean for probability `p`. */
static inline void steps_check_share(double count, double draws, double p, const char *what)
{
	double sigma = sqrt(draws * p * (1 - p));
	if (fabs(count - draws * p) > 4 * sigma + 1e-9)
		fail_msg("%s: %g of %g, expected %g +- %g", what, count, draws, draws * p, sigma);
}

/* The value that chi-square exceeds in one of 10,000 samples (Wilson and Hilferty's
 * approximation). */
static inline double steps_chi_square_limit(double freedom)
{
	double part = 2 / (9 * freedom), root = 1 - part + 3.719 * sqrt(part);
	return freedom * root * root * root;
}

/* Compares counts with `shares`, which add up to 1 (NULL: all equal); a count with share 0 must
 * be 0. */
static inline void steps_check_shares(
	const uint32_t *counts, const double *shares, unsigned kinds, const char *what)
{
	double sum = 0, total = 0, freedom = -1;
	for (unsigned i = 0; i < kinds; i++)
		total += counts[i];
	for (unsigned i = 0; i < kinds; i++) {
		double want = total * (shares ? shares[i] : 1.0 / kinds);
		if (want == 0) {
			assert_int_equal(counts[i], 0);
			continue;
		}
		assert_true(want >= 5);
		sum += (counts[i] - want) * (counts[i] - want) / want;
		freedom++;
	}
	if (sum > steps_chi_square_limit(freedom))
		fail_msg("%s: chi-square %.1f of %g degrees", what, sum, freedom);
}

enum { STEPS_BINS = 20, STEPS_PARTS = 4 };

/* Numbers that should be uniform between two ends, with none below or above. */
struct steps_histogram {
	double from, to;
	uint32_t bins[STEPS_BINS];
};

static inline double steps_unit(double from, double to, double x)
{
	if (!(x >= from - 1e-9 && x <= to + 1e-9))
		fail_msg("%.17g is not within %g .. %g", x, from, to);
	return fmin(fmax((x - from) / (to - from), 0), 1);
}

static inline void steps_count(struct steps_histogram *histogram, double x)
{
	double unit = steps_unit(histogram->from, histogram->to, x);
	histogram->bins[UTIL_MIN((int)(unit * STEPS_BINS), STEPS_BINS - 1)]++;
}

static inline void steps_check_uniform(const struct steps_histogram *histogram, const char *what)
{
	steps_check_shares(histogram->bins, NULL, STEPS_BINS, what);
}

/* Pairs of numbers between 0 and 1 that should be uniform and independent.
 */
struct steps_pairs {
	uint32_t cells[STEPS_PARTS * STEPS_PARTS];
};

static inline void steps_pair(struct steps_pairs *pairs, double a, double b)
{
	int row = UTIL_MIN((int)(a * STEPS_PARTS), STEPS_PARTS - 1);
	int column = UTIL_MIN((int)(b * STEPS_PARTS), STEPS_PARTS - 1);
	pairs->cells[row * STEPS_PARTS + column]++;
}

static inline void steps_check_pairs(const struct steps_pairs *pairs, const char *what)
{
	steps_check_shares(pairs->cells, NULL, STEPS_PARTS * STEPS_PARTS, what);
}

/* step: the random operations of a list, behind its crop, with torchvision's names, parameters and
 * defaults, and what they draw.
 *
 * A recipe is a flat list in the order written; steps that hold others (RandomApply, RandomChoice,
 * RandomOrder) are followed by them. step_plan turns it into concrete ops (op.h) for one sample: a
 * pure function of recipe, key and size, on every machine the same. Draws are Philox's, each named
 * by the step's kind, its place among the steps of that kind, and a number (draw.h: pixel_draw), so
 * that a list that gets one more step of another kind leaves the draws of the others alone. */
#pragma once

#include "augment/op.h"
#include "pixel/pixel.h"

#include <stdbool.h>
#include <stdint.h>

enum step_kind {
	STEP_RANDOM_HORIZONTAL_FLIP,
	STEP_RANDOM_VERTICAL_FLIP,
	STEP_COLOR_JITTER,
	STEP_GRAYSCALE, /* Grayscale(num_output_channels=3) */
	STEP_RANDOM_GRAYSCALE,
	STEP_GAUSSIAN_BLUR,
	STEP_RANDOM_SOLARIZE,
	STEP_RANDOM_POSTERIZE,
	STEP_RANDOM_EQUALIZE,
	STEP_RANDOM_AUTOCONTRAST,
	STEP_RANDOM_INVERT,
	STEP_RANDOM_ADJUST_SHARPNESS,
	STEP_RANDOM_AFFINE,
	STEP_RANDOM_ROTATION,
	STEP_RANDOM_PERSPECTIVE,
	STEP_RAND_AUGMENT,
	STEP_TRIVIAL_AUGMENT_WIDE,
	STEP_AUTO_AUGMENT,
	STEP_AUG_MIX,
	STEP_THREE_AUGMENT, /* DeiT III: one of gray, solarize, Pillow's blur */
	STEP_RANDOM_ERASING, /* last */
	STEP_RANDOM_APPLY,
	STEP_RANDOM_CHOICE,
	STEP_RANDOM_ORDER,
	STEP_KINDS,
};

enum step_policy { STEP_POLICY_IMAGENET, STEP_POLICY_CIFAR10, STEP_POLICY_SVHN };

enum {
	STEP_MAX = 32, /* of a recipe, those inside others included */
	STEP_SAME_MAX = 16, /* of one kind */
	STEP_PLAN_MAX = 64, /* ops that a recipe comes to at most */
};

/* Parameters: of those, the ones that torchvision's operation of that name has. */
struct step {
	enum step_kind kind;
	uint32_t same; /* how many of its kind stand before it */
	uint32_t inside; /* how many of the steps behind it are within it, at any depth */
	double p;
	/* ColorJitter: least and most factor (hue: offset); not given: [1, 1], hue [0, 0] */
	double brightness[2], contrast[2], saturation[2], hue[2];
	uint32_t kernel_size[2]; /* width, height */
	double sigma[2];
	double threshold; /* Solarize */
	uint32_t bits;
	double sharpness_factor;
	double degrees[2];
	double translate[2]; /* of width, height; 0, 0: none */
	double scale[2], ratio[2]; /* RandomAffine (1, 1: none), RandomErasing */
	double shear[4]; /* x from, to, y from, to; all 0: none */
	double center[2];
	bool has_center;
	double distortion_scale;
	uint32_t num_ops, magnitude, num_magnitude_bins;
	enum step_policy policy;
	uint32_t severity, mixture_width;
	int32_t chain_depth; /* -1: 1 to 3, drawn */
	double alpha;
	bool all_ops;
	enum weights_filter interpolation;
	double fill[3]; /* whole numbers, 0 .. 255 */
	double value[3]; /* RandomErasing, in units of what the row holds: 0 .. 255, or normalised
			  */
	bool value_random;
	double chances[STEP_SAME_MAX]; /* RandomChoice: `p` as a list; sums to 1 */
};

struct step_recipe {
	uint32_t count;
	struct step step[STEP_MAX];
};

struct step_plan {
	uint32_t count;
	struct op op[STEP_PLAN_MAX];
};

/* How many ops the recipe comes to at most: a list is refused where it is over STEP_PLAN_MAX. */
uint32_t step_most(const struct step_recipe *recipe);

/* What is done to one sample, whose image is width x height. Pure. */
void step_plan(const struct step_recipe *recipe, const struct pixel_key *key, uint32_t width,
	uint32_t height, struct step_plan *ret);

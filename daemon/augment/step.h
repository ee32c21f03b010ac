/* step: the operations of a list, with torchvision's names, parameters and defaults, and their
 * draws.
 *
 * A list that begins with a crop or a resize has its sizing done by pixel/, and its other
 * operations are steps, which keep the image's size. In all other lists every operation is a step.
 *
 * A recipe is a flat list in the written order; the steps nested in RandomApply, RandomChoice
 * and RandomOrder follow these. step_plan turns it into concrete ops (op.h) for one sample: a
 * pure function of recipe, key and size, the same on every machine. Philox makes the draws. The
 * kind of the step, its place among the steps of that kind, and a number identify a draw
 * (draw.h: pixel_draw), so that adding a step of another kind to a list does not change the
 * draws of the other steps. */
#pragma once

#include "augment/op.h"
#include "pixel/pixel.h"

#include <stdbool.h>
#include <stdint.h>

enum step_kind {
	/* Those that decide the image's size: */
	STEP_RANDOM_RESIZED_CROP,
	STEP_RESIZE,
	STEP_CENTER_CROP,
	STEP_RANDOM_CROP,
	STEP_PAD,
	STEP_RANDOM_RESIZE,
	STEP_SCALE_JITTER,
	STEP_RANDOM_SHORTEST_SIZE,
	STEP_RANDOM_ZOOM_OUT,
	STEP_RESIZE_KEEP_RATIO, /* timm's, and the next two */
	STEP_CENTER_CROP_OR_PAD,
	STEP_RANDOM_CROP_OR_PAD,
	STEP_SIZINGS, /* how many they are */
	/* Those that do not, except for RandomRotation with expand: */
	STEP_RANDOM_HORIZONTAL_FLIP = STEP_SIZINGS,
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
	STEP_TIMM_AUTO_AUGMENT, /* timm's policies */
	STEP_RANDOM_ERASING, /* last */
	STEP_RANDOM_APPLY,
	STEP_RANDOM_CHOICE,
	STEP_RANDOM_ORDER,
	STEP_KINDS,
};

enum step_policy { STEP_POLICY_IMAGENET, STEP_POLICY_CIFAR10, STEP_POLICY_SVHN };

/* timm's policies, by the first part of their strings. */
enum step_timm_policy {
	STEP_TIMM_RAND,
	STEP_TIMM_AUGMIX,
	STEP_TIMM_V0,
	STEP_TIMM_V0R,
	STEP_TIMM_ORIGINAL,
	STEP_TIMM_ORIGINALR,
	STEP_TIMM_3A,
};

/* What rand draws from. */
enum step_timm_set {
	STEP_TIMM_SET_ALL,
	STEP_TIMM_SET_WEIGHTS,
	STEP_TIMM_SET_3A,
	STEP_TIMM_SET_3AW,
};

/* What the other parts of timm's string say, unless a field of struct step has it: rand has
 * num_ops (n), magnitude (m) and p; augmix magnitude, mixture_width (w), chain_depth (d) and alpha
 * (a). */
struct step_timm {
	enum step_timm_policy policy;
	enum step_timm_set set; /* t, of rand */
	bool increasing; /* inc, of rand */
	bool blended; /* b, of augmix */
	bool uniform; /* magnitudes are drawn from 0 up; otherwise: */
	double spread; /* mstd: the standard deviation of magnitudes, 0 .. 1000 */
	uint32_t most; /* mmax: the largest magnitude, 1 .. 1000 */
	/* Share of a side at magnitude 10, 0 .. 1; below 0: as in timm's create_transform. */
	double translate;
};

enum {
	STEP_MAX = 32, /* steps of a recipe, including nested ones */
	STEP_SAME_MAX = 16, /* steps of one kind */
	STEP_PLAN_MAX = 64, /* the most ops that a recipe may result in */
};

/* Parameters: a step uses those that torchvision's operation of its name has. The comment of
 * each gives its range: reading a list refuses other values, and step_plan asserts it. Pairs are
 * least and most, in that order; every number is finite. */
struct step {
	enum step_kind kind;
	/* How many steps of its kind precede it, including flips that pixel_recipe does; below
	 * STEP_SAME_MAX. */
	uint32_t same;
	/* How many of the following steps are nested in it, at any depth: at least 1 for
	 * RandomApply, RandomChoice and RandomOrder, otherwise 0. */
	uint32_t inside;
	double p; /* 0 .. 1 */
	/* ColorJitter: least and most factor, 0 .. 1000 (hue: offset, -0.5 .. 0.5); if not given:
	 * [1, 1], hue [0, 0] */
	double brightness[2], contrast[2], saturation[2], hue[2];
	/* width, height; odd, 1 .. 255, and below twice the image's side */
	uint32_t kernel_size[2];
	double sigma[2]; /* greater than 0, up to 100 */
	/* GaussianBlur as Pillow's, in place of kernel_size and sigma: 0 .. 100. */
	double radius[2];
	bool has_radius;
	double threshold; /* Solarize: 0 .. 256 */
	uint32_t bits; /* 0 .. 8 */
	double sharpness_factor; /* 0 .. 1000 */
	double degrees[2]; /* -3600 .. 3600 */
	double translate[2]; /* share of width and height, 0 .. 1; 0, 0: none */
	/* RandomAffine: 0.001 .. 1000 (1, 1: none). RandomErasing: scale 0 .. 1, of the area; ratio
	 * 0.001 .. 1000. */
	double scale[2], ratio[2];
	double shear[4]; /* x from, to, y from, to, -89 .. 89 degrees; all 0: none */
	double center[2]; /* x, y in pixels, -65536 .. 65536 */
	bool has_center;
	double distortion_scale; /* 0 .. 1 */
	uint32_t num_ops; /* 1 .. 16 */
	uint32_t num_magnitude_bins; /* 2 .. 1000 */
	uint32_t magnitude; /* below num_magnitude_bins; TimmAutoAugment: 0 .. 1000 */
	struct step_timm timm;
	enum step_policy policy;
	uint32_t severity, mixture_width; /* 1 .. 10 each */
	int32_t chain_depth; /* 1 .. 16, or -1: 1 to 3, drawn for each chain */
	double alpha; /* 0.01 .. 100 */
	bool all_ops;
	/* Warps take NEAREST, BILINEAR or BICUBIC; TimmAutoAugment also RANDOM; resizes any. */
	enum weights_filter interpolation;
	/* Sizes: `both` sides, or one number for the shorter side. ScaleJitter, ResizeKeepRatio:
	 * the target. */
	struct pixel_size size;
	bool both;
	/* Resize, RandomShortestSize: the longest side that may result; 0: any. RandomResize: the
	 * sides below it are drawn. */
	uint32_t max_size;
	bool no_size; /* Resize: max_size is the longer side, whatever the shorter one becomes */
	uint32_t min_size[STEP_SAME_MAX], min_sizes; /* RandomShortestSize; RandomResize: one */
	struct pixel_padding padding; /* Pad, crops */
	bool expand; /* RandomRotation */
	double longest; /* ResizeKeepRatio, and these: 0 .. 1 */
	double random_scale_prob, random_aspect_prob;
	double random_scale_range[2], random_aspect_range[2]; /* 0.01 .. 100 */
	bool random_scale_area;
	double fill[3]; /* integers, 0 .. 255; fill=None is 0 */
	double value[3]; /* RandomErasing, in the units of the row: 0 .. 255, or normalized */
	bool value_random;
	/* RandomChoice: the probability of each directly nested step (at most STEP_SAME_MAX);
	 * 0 .. 1, with a sum of 1 */
	double chances[STEP_SAME_MAX];
};

struct step_recipe {
	uint32_t count;
	/* The most pixels that an image may have between two steps; 0: any number. */
	uint64_t pixels;
	struct step step[STEP_MAX];
};

/* Why a sample has no plan. */
enum step_refusal {
	STEP_FITS,
	STEP_E_SMALL, /* the image is smaller than RandomCrop's window or GaussianBlur's kernel */
	STEP_E_LARGE, /* a step would make an image of more than OP_SIDE_MAX or `pixels` */
};

struct step_plan {
	enum step_refusal refusal;
	enum step_kind refused; /* by this kind of step, whose image is of this size: */
	struct pixel_size at;
	struct pixel_size size; /* of the image after all ops */
	uint32_t count;
	struct op op[STEP_PLAN_MAX];
};

/* The most ops that the recipe may result in: reading a list refuses more than STEP_PLAN_MAX. */
uint32_t step_most(const struct step_recipe *recipe);

/* Makes the plan for one sample, whose image is width x height. With a refusal the plan must not be
 * carried out; recipes whose steps all keep the size are never refused. Pure. */
void step_plan(const struct step_recipe *recipe, const struct pixel_key *key, uint32_t width,
	uint32_t height, struct step_plan *ret);

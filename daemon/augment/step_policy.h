/* step_policy: RandAugment, TrivialAugmentWide, AutoAugment and AugMix: their operations, the
 * magnitudes, and the resulting ops.
 *
 * Operations, magnitudes and policies are those of torchvision 0.29 (torchvision/transforms/
 * autoaugment.py), with magnitudes as torch.linspace computes them: in 32-bit floats with a
 * fused multiply-add. torchvision.transforms.v2 has the same except for Solarize: its threshold
 * is 255 times a rounded share, which for some magnitudes gives a threshold that is one higher.
 * Pure; any thread. */
#pragma once

#include "augment/step_draw.h"

/* torchvision's names and, for RandAugment and TrivialAugmentWide, their order there. */
enum policy_op {
	POLICY_IDENTITY,
	POLICY_SHEAR_X,
	POLICY_SHEAR_Y,
	POLICY_TRANSLATE_X,
	POLICY_TRANSLATE_Y,
	POLICY_ROTATE,
	POLICY_BRIGHTNESS,
	POLICY_COLOR,
	POLICY_CONTRAST,
	POLICY_SHARPNESS,
	POLICY_POSTERIZE,
	POLICY_SOLARIZE,
	POLICY_AUTO_CONTRAST,
	POLICY_EQUALIZE,
	POLICY_INVERT,
	POLICY_OPS,
};
extern const char *const policy_op_names[POLICY_OPS];

/* The largest magnitude of an operation. */
struct policy_space {
	double shear, rotate, enhance; /* enhance: brightness, color, contrast, sharpness */
	/* Pixels: translate / divisor, times the image's side if of_side. */
	double translate, divisor;
	bool of_side;
	uint32_t bits,
		/* Posterize: bits kept at magnitude 0, and how many fewer at the largest. */
		bits_less;
};
extern const struct policy_space policy_space_rand, policy_space_trivial, policy_space_augmix;

/* Whether a magnitude may be negative, and whether there is a magnitude at all. */
bool policy_signed(enum policy_op op);
bool policy_has_magnitude(enum policy_op op);

/* Magnitude `bin` (0 .. bins - 1) of `bins` (at least 2) for an image of width x height, without
 * sign; 0 if the operation has none. */
double policy_magnitude(const struct policy_space *space, enum policy_op op, uint32_t bin,
	uint32_t bins, uint32_t width, uint32_t height);

/* The same with a sign if the operation has one: minus if the first bit of `sign` is set. */
double policy_drawn(const struct step_sample *sample, const struct policy_space *space,
	enum policy_op op, uint32_t bin, uint32_t bins, uint32_t sign);

/* torchvision's _apply_op: pushes the resulting op, or nothing if the image does not change. */
void policy_apply(
	struct step_sample *sample, const struct step *step, enum policy_op op, double magnitude);

/* AutoAugment. */
enum { POLICY_AUTO_BINS = 10, POLICY_AUTO_COUNT = 25, POLICY_AUTO_LENGTH = 2 };

struct policy_auto {
	enum policy_op op;
	double p;
	uint32_t bin; /* if there is a magnitude */
};
extern const struct policy_auto policy_auto[STEP_POLICY_SVHN + 1][POLICY_AUTO_COUNT]
					   [POLICY_AUTO_LENGTH];

/* For AugMix: the weights of mixture_width chains, with a sum of 1, from Dirichlet(alpha, ...), and
 * a Beta(alpha, alpha) number, from the first 96 draws of `operation`. Returns the latter. */
enum { POLICY_MIXTURE_MOST = 10 };
double policy_mixture(const struct step_sample *sample, const struct step *step,
	enum philox_operation operation, double ret_weights[POLICY_MIXTURE_MOST]);

/* The steps themselves. */
void step_rand_augment(struct step_sample *sample, const struct step *step);
void step_trivial_augment(struct step_sample *sample, const struct step *step);
void step_auto_augment(struct step_sample *sample, const struct step *step);
void step_aug_mix(struct step_sample *sample, const struct step *step);

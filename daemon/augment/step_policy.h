/* step_policy: RandAugment, TrivialAugmentWide, AutoAugment and AugMix: which operations they
 * choose from, how strong, and what becomes of that.
 *
 * Operations, magnitudes and policies are torchvision 0.29's (torchvision/transforms/
 * autoaugment.py), the magnitudes as torch.linspace computes them: in floats of 32 bits with a
 * fused multiply-add. torchvision.transforms.v2 has the same, but for Solarize: there the threshold
 * is 255 times a rounded share, which for some magnitudes comes to a threshold that is one higher.
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

/* What an operation's largest magnitude is. */
struct policy_space {
	double shear, rotate, enhance; /* enhance: brightness, color, contrast, sharpness */
	/* Pixels: translate / divisor, of the image's side or, if not of_side, as it is. */
	double translate, divisor;
	bool of_side;
	uint32_t bits,
		bits_less; /* Posterize: bits kept at magnitude 0, and how many less at last */
};
extern const struct policy_space policy_space_rand, policy_space_trivial, policy_space_augmix;

/* Whether a magnitude may be negative, too, and whether there is any. */
bool policy_signed(enum policy_op op);
bool policy_has_magnitude(enum policy_op op);

/* Magnitude `bin` (0 .. bins - 1) of `bins` (at least 2) in an image of width x height, without
 * sign; 0 where there is none. */
double policy_magnitude(const struct policy_space *space, enum policy_op op, uint32_t bin,
	uint32_t bins, uint32_t width, uint32_t height);

/* The same with a sign, where it has one: minus if `sign`'s first bit is set. */
double policy_drawn(const struct step_sample *sample, const struct policy_space *space,
	enum policy_op op, uint32_t bin, uint32_t bins, uint32_t sign);

/* torchvision's _apply_op: pushes what it comes to; nothing, where the image stays as it is. */
void policy_apply(
	struct step_sample *sample, const struct step *step, enum policy_op op, double magnitude);

/* AutoAugment. */
enum { POLICY_AUTO_BINS = 10, POLICY_AUTO_COUNT = 25, POLICY_AUTO_LENGTH = 2 };

struct policy_auto {
	enum policy_op op;
	double p;
	uint32_t bin; /* where there is a magnitude */
};
extern const struct policy_auto policy_auto[STEP_POLICY_SVHN + 1][POLICY_AUTO_COUNT]
					   [POLICY_AUTO_LENGTH];

/* The steps themselves. */
void step_rand_augment(struct step_sample *sample, const struct step *step);
void step_trivial_augment(struct step_sample *sample, const struct step *step);
void step_auto_augment(struct step_sample *sample, const struct step *step);
void step_aug_mix(struct step_sample *sample, const struct step *step);

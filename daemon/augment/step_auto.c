/* step_auto: AutoAugment; see step_policy.h. The policies are torchvision's, which come from
 * Cubuk et al., "AutoAugment: learning augmentation strategies from data", CVPR 2019. */
#include "augment/step_policy.h"

/* clang-format off */
const struct policy_auto policy_auto[STEP_POLICY_SVHN + 1][POLICY_AUTO_COUNT][POLICY_AUTO_LENGTH] = {
	[STEP_POLICY_IMAGENET] = {
		{{POLICY_POSTERIZE, 0.4, 8}, {POLICY_ROTATE, 0.6, 9}},
		{{POLICY_SOLARIZE, 0.6, 5}, {POLICY_AUTO_CONTRAST, 0.6, 0}},
		{{POLICY_EQUALIZE, 0.8, 0}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_POSTERIZE, 0.6, 7}, {POLICY_POSTERIZE, 0.6, 6}},
		{{POLICY_EQUALIZE, 0.4, 0}, {POLICY_SOLARIZE, 0.2, 4}},
		{{POLICY_EQUALIZE, 0.4, 0}, {POLICY_ROTATE, 0.8, 8}},
		{{POLICY_SOLARIZE, 0.6, 3}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_POSTERIZE, 0.8, 5}, {POLICY_EQUALIZE, 1.0, 0}},
		{{POLICY_ROTATE, 0.2, 3}, {POLICY_SOLARIZE, 0.6, 8}},
		{{POLICY_EQUALIZE, 0.6, 0}, {POLICY_POSTERIZE, 0.4, 6}},
		{{POLICY_ROTATE, 0.8, 8}, {POLICY_COLOR, 0.4, 0}},
		{{POLICY_ROTATE, 0.4, 9}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_EQUALIZE, 0.0, 0}, {POLICY_EQUALIZE, 0.8, 0}},
		{{POLICY_INVERT, 0.6, 0}, {POLICY_EQUALIZE, 1.0, 0}},
		{{POLICY_COLOR, 0.6, 4}, {POLICY_CONTRAST, 1.0, 8}},
		{{POLICY_ROTATE, 0.8, 8}, {POLICY_COLOR, 1.0, 2}},
		{{POLICY_COLOR, 0.8, 8}, {POLICY_SOLARIZE, 0.8, 7}},
		{{POLICY_SHARPNESS, 0.4, 7}, {POLICY_INVERT, 0.6, 0}},
		{{POLICY_SHEAR_X, 0.6, 5}, {POLICY_EQUALIZE, 1.0, 0}},
		{{POLICY_COLOR, 0.4, 0}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_EQUALIZE, 0.4, 0}, {POLICY_SOLARIZE, 0.2, 4}},
		{{POLICY_SOLARIZE, 0.6, 5}, {POLICY_AUTO_CONTRAST, 0.6, 0}},
		{{POLICY_INVERT, 0.6, 0}, {POLICY_EQUALIZE, 1.0, 0}},
		{{POLICY_COLOR, 0.6, 4}, {POLICY_CONTRAST, 1.0, 8}},
		{{POLICY_EQUALIZE, 0.8, 0}, {POLICY_EQUALIZE, 0.6, 0}},
	},
	[STEP_POLICY_CIFAR10] = {
		{{POLICY_INVERT, 0.1, 0}, {POLICY_CONTRAST, 0.2, 6}},
		{{POLICY_ROTATE, 0.7, 2}, {POLICY_TRANSLATE_X, 0.3, 9}},
		{{POLICY_SHARPNESS, 0.8, 1}, {POLICY_SHARPNESS, 0.9, 3}},
		{{POLICY_SHEAR_Y, 0.5, 8}, {POLICY_TRANSLATE_Y, 0.7, 9}},
		{{POLICY_AUTO_CONTRAST, 0.5, 0}, {POLICY_EQUALIZE, 0.9, 0}},
		{{POLICY_SHEAR_Y, 0.2, 7}, {POLICY_POSTERIZE, 0.3, 7}},
		{{POLICY_COLOR, 0.4, 3}, {POLICY_BRIGHTNESS, 0.6, 7}},
		{{POLICY_SHARPNESS, 0.3, 9}, {POLICY_BRIGHTNESS, 0.7, 9}},
		{{POLICY_EQUALIZE, 0.6, 0}, {POLICY_EQUALIZE, 0.5, 0}},
		{{POLICY_CONTRAST, 0.6, 7}, {POLICY_SHARPNESS, 0.6, 5}},
		{{POLICY_COLOR, 0.7, 7}, {POLICY_TRANSLATE_X, 0.5, 8}},
		{{POLICY_EQUALIZE, 0.3, 0}, {POLICY_AUTO_CONTRAST, 0.4, 0}},
		{{POLICY_TRANSLATE_Y, 0.4, 3}, {POLICY_SHARPNESS, 0.2, 6}},
		{{POLICY_BRIGHTNESS, 0.9, 6}, {POLICY_COLOR, 0.2, 8}},
		{{POLICY_SOLARIZE, 0.5, 2}, {POLICY_INVERT, 0.0, 0}},
		{{POLICY_EQUALIZE, 0.2, 0}, {POLICY_AUTO_CONTRAST, 0.6, 0}},
		{{POLICY_EQUALIZE, 0.2, 0}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_COLOR, 0.9, 9}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_AUTO_CONTRAST, 0.8, 0}, {POLICY_SOLARIZE, 0.2, 8}},
		{{POLICY_BRIGHTNESS, 0.1, 3}, {POLICY_COLOR, 0.7, 0}},
		{{POLICY_SOLARIZE, 0.4, 5}, {POLICY_AUTO_CONTRAST, 0.9, 0}},
		{{POLICY_TRANSLATE_Y, 0.9, 9}, {POLICY_TRANSLATE_Y, 0.7, 9}},
		{{POLICY_AUTO_CONTRAST, 0.9, 0}, {POLICY_SOLARIZE, 0.8, 3}},
		{{POLICY_EQUALIZE, 0.8, 0}, {POLICY_INVERT, 0.1, 0}},
		{{POLICY_TRANSLATE_Y, 0.7, 9}, {POLICY_AUTO_CONTRAST, 0.9, 0}},
	},
	[STEP_POLICY_SVHN] = {
		{{POLICY_SHEAR_X, 0.9, 4}, {POLICY_INVERT, 0.2, 0}},
		{{POLICY_SHEAR_Y, 0.9, 8}, {POLICY_INVERT, 0.7, 0}},
		{{POLICY_EQUALIZE, 0.6, 0}, {POLICY_SOLARIZE, 0.6, 6}},
		{{POLICY_INVERT, 0.9, 0}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_EQUALIZE, 0.6, 0}, {POLICY_ROTATE, 0.9, 3}},
		{{POLICY_SHEAR_X, 0.9, 4}, {POLICY_AUTO_CONTRAST, 0.8, 0}},
		{{POLICY_SHEAR_Y, 0.9, 8}, {POLICY_INVERT, 0.4, 0}},
		{{POLICY_SHEAR_Y, 0.9, 5}, {POLICY_SOLARIZE, 0.2, 6}},
		{{POLICY_INVERT, 0.9, 0}, {POLICY_AUTO_CONTRAST, 0.8, 0}},
		{{POLICY_EQUALIZE, 0.6, 0}, {POLICY_ROTATE, 0.9, 3}},
		{{POLICY_SHEAR_X, 0.9, 4}, {POLICY_SOLARIZE, 0.3, 3}},
		{{POLICY_SHEAR_Y, 0.8, 8}, {POLICY_INVERT, 0.7, 0}},
		{{POLICY_EQUALIZE, 0.9, 0}, {POLICY_TRANSLATE_Y, 0.6, 6}},
		{{POLICY_INVERT, 0.9, 0}, {POLICY_EQUALIZE, 0.6, 0}},
		{{POLICY_CONTRAST, 0.3, 3}, {POLICY_ROTATE, 0.8, 4}},
		{{POLICY_INVERT, 0.8, 0}, {POLICY_TRANSLATE_Y, 0.0, 2}},
		{{POLICY_SHEAR_Y, 0.7, 6}, {POLICY_SOLARIZE, 0.4, 8}},
		{{POLICY_INVERT, 0.6, 0}, {POLICY_ROTATE, 0.8, 4}},
		{{POLICY_SHEAR_Y, 0.3, 7}, {POLICY_TRANSLATE_X, 0.9, 3}},
		{{POLICY_SHEAR_X, 0.1, 6}, {POLICY_INVERT, 0.6, 0}},
		{{POLICY_SOLARIZE, 0.7, 2}, {POLICY_TRANSLATE_Y, 0.6, 7}},
		{{POLICY_SHEAR_Y, 0.8, 4}, {POLICY_INVERT, 0.8, 0}},
		{{POLICY_SHEAR_X, 0.7, 9}, {POLICY_TRANSLATE_Y, 0.8, 3}},
		{{POLICY_SHEAR_Y, 0.8, 5}, {POLICY_AUTO_CONTRAST, 0.7, 0}},
		{{POLICY_SHEAR_X, 0.7, 2}, {POLICY_INVERT, 0.1, 0}},
	},
};
/* clang-format on */

/* Draw 0, word 0: which policy. Draws 1 and 2, one per operation: words 0 and 1 whether it is
 * carried out, word 2 the sign. */
void step_auto_augment(struct step_sample *sample, const struct step *step)
{
	struct philox r = step_words(sample, PHILOX_AUTO_AUGMENT, step, 0);
	const struct policy_auto *chosen =
		policy_auto[step->policy][step_pick(r.word[0], POLICY_AUTO_COUNT)];
	for (uint32_t i = 0; i < POLICY_AUTO_LENGTH; i++) {
		r = step_words(sample, PHILOX_AUTO_AUGMENT, step, 1 + i);
		if (!step_happens(r, chosen[i].p))
			continue;
		policy_apply(sample, step, chosen[i].op,
			policy_drawn(sample, &policy_space_rand, chosen[i].op, chosen[i].bin,
				POLICY_AUTO_BINS, r.word[2]));
	}
}

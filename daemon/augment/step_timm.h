/* step_timm: TimmAutoAugment: the policies that timm (pytorch-image-models) selects by strings such
 * as "rand-m9-mstd0.5-inc1": their operations, their magnitudes, and the resulting ops.
 *
 * Operations, magnitudes and policies are those of timm 1.0.31 (timm/data/auto_augment.py). They
 * differ from torchvision's of the same names: a magnitude is a number from 0 to 10, not a bin;
 * each operation draws its magnitude and its filter; shears and translations are plain matrices.
 * Pure; any thread. */
#pragma once

#include "augment/step_draw.h"

enum timm_op {
	TIMM_AUTO_CONTRAST,
	TIMM_EQUALIZE,
	TIMM_INVERT,
	TIMM_ROTATE,
	TIMM_POSTERIZE,
	TIMM_POSTERIZE_INCREASING,
	TIMM_POSTERIZE_ORIGINAL,
	TIMM_SOLARIZE,
	TIMM_SOLARIZE_INCREASING,
	TIMM_SOLARIZE_ADD,
	TIMM_COLOR,
	TIMM_COLOR_INCREASING,
	TIMM_CONTRAST,
	TIMM_CONTRAST_INCREASING,
	TIMM_BRIGHTNESS,
	TIMM_BRIGHTNESS_INCREASING,
	TIMM_SHARPNESS,
	TIMM_SHARPNESS_INCREASING,
	TIMM_SHEAR_X,
	TIMM_SHEAR_Y,
	TIMM_TRANSLATE_X, /* timm's TranslateXRel */
	TIMM_TRANSLATE_Y,
	TIMM_DESATURATE,
	TIMM_BLUR,
	TIMM_BLUR_RANDOM, /* up to a radius that depends on the magnitude */
	TIMM_OPS,
};

/* timm's names. */
extern const char *const timm_op_names[TIMM_OPS];

enum {
	TIMM_MAGNITUDE = 10, /* the divisor of magnitudes, and their largest value by default */
	TIMM_SET_MOST = 15,
	TIMM_POLICY_COUNT = 25,
	TIMM_POLICY_LENGTH = 2,
};

/* A set that operations are drawn from. */
struct timm_set {
	uint32_t count;
	enum timm_op op[TIMM_SET_MOST];
	/* How likely each is, in any unit; all 0: equally, with replacement. With weights, no
	 * operation is drawn twice. */
	double weight[TIMM_SET_MOST];
};
const struct timm_set *timm_set_of(const struct step_timm *timm);
bool timm_set_weighted(const struct timm_set *set);

/* An operation of a policy; p 0 and a length of 1 in "3a" count as none. */
struct timm_policy_op {
	enum timm_op op;
	double p;
	uint32_t magnitude;
};
struct timm_policy {
	uint32_t count, length;
	struct timm_policy_op op[TIMM_POLICY_COUNT][TIMM_POLICY_LENGTH];
};
/* NULL for rand and augmix. */
const struct timm_policy *timm_policy_of(enum step_timm_policy policy);

/* What a draw decided about an operation. */
struct timm_drawn {
	double magnitude; /* 0 or more */
	bool negative; /* of operations with a sign */
	enum weights_filter filter; /* of those that move pixels */
	double share; /* TIMM_BLUR_RANDOM: of its radius, 0 .. 1 */
};

/* The argument that timm computes from a magnitude: degrees, a factor, bits, a threshold and so on;
 * 0 if the operation has none. `translate`: the share of a side that TranslateXRel moves at a
 * magnitude of 10. */
double timm_argument(enum timm_op op, const struct timm_drawn *drawn, double translate);

/* Pushes the resulting op, or nothing if the image does not change. */
void timm_apply(struct step_sample *sample, const struct step *step, enum timm_op op,
	const struct timm_drawn *drawn);

/* The amounts of the chains of OP_TIMM_BLEND from the weights and the share of the mix, as timm
 * computes them; in place. */
void timm_blended(float *weights, uint32_t count, float share);

/* The step itself, and the most ops that it results in. */
void step_timm_auto_augment(struct step_sample *sample, const struct step *step);
uint32_t step_timm_most(const struct step *step);

/* step_policy: see step_policy.h. */
#include "augment/step_policy.h"

#include "base/util.h"

#include <assert.h>
#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "float arithmetic must be done in float");

const char *const policy_op_names[POLICY_OPS] = {
	[POLICY_IDENTITY] = "Identity",
	[POLICY_SHEAR_X] = "ShearX",
	[POLICY_SHEAR_Y] = "ShearY",
	[POLICY_TRANSLATE_X] = "TranslateX",
	[POLICY_TRANSLATE_Y] = "TranslateY",
	[POLICY_ROTATE] = "Rotate",
	[POLICY_BRIGHTNESS] = "Brightness",
	[POLICY_COLOR] = "Color",
	[POLICY_CONTRAST] = "Contrast",
	[POLICY_SHARPNESS] = "Sharpness",
	[POLICY_POSTERIZE] = "Posterize",
	[POLICY_SOLARIZE] = "Solarize",
	[POLICY_AUTO_CONTRAST] = "AutoContrast",
	[POLICY_EQUALIZE] = "Equalize",
	[POLICY_INVERT] = "Invert",
};

/* The magnitudes of RandAugment and AutoAugment. */
const struct policy_space policy_space_rand = {.shear = 0.3,
	.rotate = 30,
	.enhance = 0.9,
	.translate = 150.0 / 331,
	.divisor = 1,
	.of_side = true,
	.bits = 8,
	.bits_less = 4};
const struct policy_space policy_space_trivial = {.shear = 0.99,
	.rotate = 135,
	.enhance = 0.99,
	.translate = 32,
	.divisor = 1,
	.bits = 8,
	.bits_less = 6};
const struct policy_space policy_space_augmix = {.shear = 0.3,
	.rotate = 30,
	.enhance = 0.9,
	.translate = 1,
	.divisor = 3,
	.of_side = true,
	.bits = 4,
	.bits_less = 4};

bool policy_signed(enum policy_op op)
{
	return op >= POLICY_SHEAR_X && op <= POLICY_SHARPNESS;
}

bool policy_has_magnitude(enum policy_op op)
{
	return op >= POLICY_SHEAR_X && op <= POLICY_SOLARIZE;
}

/* torch.linspace(from, to, bins)[bin], which counts from both ends. With so few bits, doubles
 * give the same result as a float fma: the product is exact, and the rounding of the sum is far
 * finer. */
static double policy_linspace(double from, double to, uint32_t bin, uint32_t bins)
{
	float first = (float)from, last = (float)to;
	float gap = (last - first) / (float)(bins - 1);
	if (bin < bins / 2)
		return (float)((double)first + (double)gap * bin);
	return (float)((double)last - (double)gap * (bins - 1 - bin));
}

static double policy_translation(const struct policy_space *space, uint32_t side)
{
	return (space->of_side ? space->translate * side : space->translate) / space->divisor;
}

/* bits - (torch.arange(bins) / ((bins - 1) / bits_less)).round() */
static double policy_bits(const struct policy_space *space, uint32_t bin, uint32_t bins)
{
	float per_bit = (float)((double)(bins - 1) / space->bits_less);
	return space->bits - (double)rintf((float)bin / per_bit);
}

static double policy_most(
	const struct policy_space *space, enum policy_op op, uint32_t width, uint32_t height)
{
	switch (op) {
	case POLICY_SHEAR_X:
	case POLICY_SHEAR_Y:
		return space->shear;
	case POLICY_TRANSLATE_X:
		return policy_translation(space, width);
	case POLICY_TRANSLATE_Y:
		return policy_translation(space, height);
	case POLICY_ROTATE:
		return space->rotate;
	default:
		return space->enhance;
	}
}

double policy_magnitude(const struct policy_space *space, enum policy_op op, uint32_t bin,
	uint32_t bins, uint32_t width, uint32_t height)
{
	assert(bins >= 2 && bin < bins);
	if (!policy_has_magnitude(op))
		return 0;
	if (op == POLICY_POSTERIZE)
		return policy_bits(space, bin, bins);
	if (op == POLICY_SOLARIZE)
		return policy_linspace(255, 0, bin, bins);
	return policy_linspace(0, policy_most(space, op, width, height), bin, bins);
}

/* ---- the ops of an operation ---- */

static bool policy_warp(const struct step_sample *sample, const struct step *step,
	enum policy_op op, double magnitude, struct op *ret)
{
	struct step_warp warp = step_warp_of(sample, step);
	switch (op) {
	case POLICY_SHEAR_X:
		return step_warp_shear_x(&warp, magnitude, ret);
	case POLICY_SHEAR_Y:
		return step_warp_shear_y(&warp, magnitude, ret);
	case POLICY_TRANSLATE_X:
		return step_warp_translate_x(&warp, magnitude, ret);
	case POLICY_TRANSLATE_Y:
		return step_warp_translate_y(&warp, magnitude, ret);
	default:
		return step_warp_rotate(&warp, magnitude, NULL, ret);
	}
}

/* For the other operations; `more` is added to the magnitude. */
static const struct {
	enum op_kind kind;
	double more;
} policy_kinds[POLICY_OPS] = {
	[POLICY_BRIGHTNESS] = {OP_BRIGHTNESS, 1},
	[POLICY_COLOR] = {OP_SATURATION, 1},
	[POLICY_CONTRAST] = {OP_CONTRAST, 1},
	[POLICY_SHARPNESS] = {OP_SHARPNESS, 1},
	[POLICY_POSTERIZE] = {OP_POSTERIZE, 0},
	[POLICY_SOLARIZE] = {OP_SOLARIZE, 0},
	[POLICY_AUTO_CONTRAST] = {OP_AUTOCONTRAST, 0},
	[POLICY_EQUALIZE] = {OP_EQUALIZE, 0},
	[POLICY_INVERT] = {OP_INVERT, 0},
};

void policy_apply(
	struct step_sample *sample, const struct step *step, enum policy_op op, double magnitude)
{
	struct op warped;
	if (op == POLICY_IDENTITY)
		return;
	if (op > POLICY_ROTATE)
		step_push_amount(sample, policy_kinds[op].kind, policy_kinds[op].more + magnitude);
	else if (policy_warp(sample, step, op, magnitude, &warped))
		step_push(sample, &warped);
}

/* ---- draws ---- */

double policy_drawn(const struct step_sample *sample, const struct policy_space *space,
	enum policy_op op, uint32_t bin, uint32_t bins, uint32_t sign)
{
	double magnitude = policy_magnitude(space, op, bin, bins, sample->width, sample->height);
	return policy_signed(op) && step_pick(sign, 2) ? -magnitude : magnitude;
}

/* Draw i is for operation i: word 0 which, word 1 the sign. */
void step_rand_augment(struct step_sample *sample, const struct step *step)
{
	assert(step->magnitude < step->num_magnitude_bins);
	for (uint32_t i = 0; i < step->num_ops; i++) {
		struct philox r = step_words(sample, PHILOX_RAND_AUGMENT, step, i);
		enum policy_op op = step_pick(r.word[0], POLICY_INVERT);
		policy_apply(sample, step, op,
			policy_drawn(sample, &policy_space_rand, op, step->magnitude,
				step->num_magnitude_bins, r.word[1]));
	}
}

/* Draw 0: word 0 which operation, word 1 its magnitude, word 2 the sign. */
void step_trivial_augment(struct step_sample *sample, const struct step *step)
{
	uint32_t bins = step->num_magnitude_bins;
	struct philox r = step_words(sample, PHILOX_TRIVIAL_AUGMENT, step, 0);
	enum policy_op op = step_pick(r.word[0], POLICY_INVERT);
	policy_apply(sample, step, op,
		policy_drawn(sample, &policy_space_trivial, op, step_pick(r.word[1], bins), bins,
			r.word[2]));
}

/* step_timm: see step_timm.h.
 *
 * Draws of PHILOX_TIMM: 0: which sub-policy (word 0), or the share of augmix's mix (see
 * variate_beta); 1 + 8 i + a: attempt a for the weight of chain i; 96 + k for operation k: words 0
 * and 1 which, words 2 and 3 whether; for the first of a chain, word 3 how many there are. Draws of
 * PHILOX_TIMM_AMOUNT: k for operation k: the first bit of word 0 the sign, word 1 the filter or the
 * radius, words 2 and 3 the magnitude. Operation k of chain i has number 16 i + k. */
#include "augment/step_timm.h"

#include "augment/step_policy.h"
#include "base/util.h"
#include "proto/variate.h"

#include <assert.h>
#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "double arithmetic must be done in double");

enum { TIMM_PICKS = 96, TIMM_DEPTH = 16, TIMM_WIDTH = 10, TIMM_CHAIN_MOST = 3 };

const char *const timm_op_names[TIMM_OPS] = {
	[TIMM_AUTO_CONTRAST] = "AutoContrast",
	[TIMM_EQUALIZE] = "Equalize",
	[TIMM_INVERT] = "Invert",
	[TIMM_ROTATE] = "Rotate",
	[TIMM_POSTERIZE] = "Posterize",
	[TIMM_POSTERIZE_INCREASING] = "PosterizeIncreasing",
	[TIMM_POSTERIZE_ORIGINAL] = "PosterizeOriginal",
	[TIMM_SOLARIZE] = "Solarize",
	[TIMM_SOLARIZE_INCREASING] = "SolarizeIncreasing",
	[TIMM_SOLARIZE_ADD] = "SolarizeAdd",
	[TIMM_COLOR] = "Color",
	[TIMM_COLOR_INCREASING] = "ColorIncreasing",
	[TIMM_CONTRAST] = "Contrast",
	[TIMM_CONTRAST_INCREASING] = "ContrastIncreasing",
	[TIMM_BRIGHTNESS] = "Brightness",
	[TIMM_BRIGHTNESS_INCREASING] = "BrightnessIncreasing",
	[TIMM_SHARPNESS] = "Sharpness",
	[TIMM_SHARPNESS_INCREASING] = "SharpnessIncreasing",
	[TIMM_SHEAR_X] = "ShearX",
	[TIMM_SHEAR_Y] = "ShearY",
	[TIMM_TRANSLATE_X] = "TranslateXRel",
	[TIMM_TRANSLATE_Y] = "TranslateYRel",
	[TIMM_DESATURATE] = "Desaturate",
	[TIMM_BLUR] = "GaussianBlur",
	[TIMM_BLUR_RANDOM] = "GaussianBlurRand",
};

/* ---- sets and policies ---- */

/* clang-format off */
static const struct timm_set timm_set_plain = {15,
	{TIMM_AUTO_CONTRAST, TIMM_EQUALIZE, TIMM_INVERT, TIMM_ROTATE, TIMM_POSTERIZE, TIMM_SOLARIZE,
		TIMM_SOLARIZE_ADD, TIMM_COLOR, TIMM_CONTRAST, TIMM_BRIGHTNESS, TIMM_SHARPNESS,
		TIMM_SHEAR_X, TIMM_SHEAR_Y, TIMM_TRANSLATE_X, TIMM_TRANSLATE_Y}, {0}};
static const struct timm_set timm_set_increasing = {15,
	{TIMM_AUTO_CONTRAST, TIMM_EQUALIZE, TIMM_INVERT, TIMM_ROTATE, TIMM_POSTERIZE_INCREASING,
		TIMM_SOLARIZE_INCREASING, TIMM_SOLARIZE_ADD, TIMM_COLOR_INCREASING,
		TIMM_CONTRAST_INCREASING, TIMM_BRIGHTNESS_INCREASING, TIMM_SHARPNESS_INCREASING,
		TIMM_SHEAR_X, TIMM_SHEAR_Y, TIMM_TRANSLATE_X, TIMM_TRANSLATE_Y}, {0}};
static const struct timm_set timm_set_weights = {15,
	{TIMM_ROTATE, TIMM_SHEAR_X, TIMM_SHEAR_Y, TIMM_TRANSLATE_X, TIMM_TRANSLATE_Y,
		TIMM_COLOR_INCREASING, TIMM_SHARPNESS_INCREASING, TIMM_AUTO_CONTRAST,
		TIMM_SOLARIZE_INCREASING, TIMM_SOLARIZE_ADD, TIMM_CONTRAST_INCREASING,
		TIMM_BRIGHTNESS_INCREASING, TIMM_EQUALIZE, TIMM_POSTERIZE_INCREASING, TIMM_INVERT},
	{3, 2, 2, 1, 1, 0.25, 0.25, 0.25, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05}};
static const struct timm_set timm_set_3a = {3,
	{TIMM_SOLARIZE_INCREASING, TIMM_DESATURATE, TIMM_BLUR}, {0}};
static const struct timm_set timm_set_3aw = {14,
	{TIMM_SOLARIZE_INCREASING, TIMM_DESATURATE, TIMM_BLUR, TIMM_ROTATE, TIMM_SHEAR_X,
		TIMM_SHEAR_Y, TIMM_POSTERIZE_INCREASING, TIMM_AUTO_CONTRAST, TIMM_COLOR_INCREASING,
		TIMM_SHARPNESS_INCREASING, TIMM_CONTRAST_INCREASING, TIMM_BRIGHTNESS_INCREASING,
		TIMM_EQUALIZE, TIMM_INVERT},
	{6, 6, 6, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1}};
static const struct timm_set timm_set_augmix = {13,
	{TIMM_AUTO_CONTRAST, TIMM_COLOR_INCREASING, TIMM_CONTRAST_INCREASING,
		TIMM_BRIGHTNESS_INCREASING, TIMM_SHARPNESS_INCREASING, TIMM_EQUALIZE, TIMM_ROTATE,
		TIMM_POSTERIZE_INCREASING, TIMM_SOLARIZE_INCREASING, TIMM_SHEAR_X, TIMM_SHEAR_Y,
		TIMM_TRANSLATE_X, TIMM_TRANSLATE_Y}, {0}};

/* The policies with an r differ in one operation. */
#define POLICY_V0(posterize) {25, 2, { \
	{{TIMM_EQUALIZE, 0.8, 1}, {TIMM_SHEAR_Y, 0.8, 4}}, \
	{{TIMM_COLOR, 0.4, 9}, {TIMM_EQUALIZE, 0.6, 3}}, \
	{{TIMM_COLOR, 0.4, 1}, {TIMM_ROTATE, 0.6, 8}}, \
	{{TIMM_SOLARIZE, 0.8, 3}, {TIMM_EQUALIZE, 0.4, 7}}, \
	{{TIMM_SOLARIZE, 0.4, 2}, {TIMM_SOLARIZE, 0.6, 2}}, \
	{{TIMM_COLOR, 0.2, 0}, {TIMM_EQUALIZE, 0.8, 8}}, \
	{{TIMM_EQUALIZE, 0.4, 8}, {TIMM_SOLARIZE_ADD, 0.8, 3}}, \
	{{TIMM_SHEAR_X, 0.2, 9}, {TIMM_ROTATE, 0.6, 8}}, \
	{{TIMM_COLOR, 0.6, 1}, {TIMM_EQUALIZE, 1.0, 2}}, \
	{{TIMM_INVERT, 0.4, 9}, {TIMM_ROTATE, 0.6, 0}}, \
	{{TIMM_EQUALIZE, 1.0, 9}, {TIMM_SHEAR_Y, 0.6, 3}}, \
	{{TIMM_COLOR, 0.4, 7}, {TIMM_EQUALIZE, 0.6, 0}}, \
	{{posterize, 0.4, 6}, {TIMM_AUTO_CONTRAST, 0.4, 7}}, \
	{{TIMM_SOLARIZE, 0.6, 8}, {TIMM_COLOR, 0.6, 9}}, \
	{{TIMM_SOLARIZE, 0.2, 4}, {TIMM_ROTATE, 0.8, 9}}, \
	{{TIMM_ROTATE, 1.0, 7}, {TIMM_TRANSLATE_Y, 0.8, 9}}, \
	{{TIMM_SHEAR_X, 0.0, 0}, {TIMM_SOLARIZE, 0.8, 4}}, \
	{{TIMM_SHEAR_Y, 0.8, 0}, {TIMM_COLOR, 0.6, 4}}, \
	{{TIMM_COLOR, 1.0, 0}, {TIMM_ROTATE, 0.6, 2}}, \
	{{TIMM_EQUALIZE, 0.8, 4}, {TIMM_EQUALIZE, 0.0, 8}}, \
	{{TIMM_EQUALIZE, 1.0, 4}, {TIMM_AUTO_CONTRAST, 0.6, 2}}, \
	{{TIMM_SHEAR_Y, 0.4, 7}, {TIMM_SOLARIZE_ADD, 0.6, 7}}, \
	{{posterize, 0.8, 2}, {TIMM_SOLARIZE, 0.6, 10}}, \
	{{TIMM_SOLARIZE, 0.6, 8}, {TIMM_EQUALIZE, 0.6, 1}}, \
	{{TIMM_COLOR, 0.8, 6}, {TIMM_ROTATE, 0.4, 5}}, \
}}
#define POLICY_ORIGINAL(posterize) {25, 2, { \
	{{posterize, 0.4, 8}, {TIMM_ROTATE, 0.6, 9}}, \
	{{TIMM_SOLARIZE, 0.6, 5}, {TIMM_AUTO_CONTRAST, 0.6, 5}}, \
	{{TIMM_EQUALIZE, 0.8, 8}, {TIMM_EQUALIZE, 0.6, 3}}, \
	{{posterize, 0.6, 7}, {posterize, 0.6, 6}}, \
	{{TIMM_EQUALIZE, 0.4, 7}, {TIMM_SOLARIZE, 0.2, 4}}, \
	{{TIMM_EQUALIZE, 0.4, 4}, {TIMM_ROTATE, 0.8, 8}}, \
	{{TIMM_SOLARIZE, 0.6, 3}, {TIMM_EQUALIZE, 0.6, 7}}, \
	{{posterize, 0.8, 5}, {TIMM_EQUALIZE, 1.0, 2}}, \
	{{TIMM_ROTATE, 0.2, 3}, {TIMM_SOLARIZE, 0.6, 8}}, \
	{{TIMM_EQUALIZE, 0.6, 8}, {posterize, 0.4, 6}}, \
	{{TIMM_ROTATE, 0.8, 8}, {TIMM_COLOR, 0.4, 0}}, \
	{{TIMM_ROTATE, 0.4, 9}, {TIMM_EQUALIZE, 0.6, 2}}, \
	{{TIMM_EQUALIZE, 0.0, 7}, {TIMM_EQUALIZE, 0.8, 8}}, \
	{{TIMM_INVERT, 0.6, 4}, {TIMM_EQUALIZE, 1.0, 8}}, \
	{{TIMM_COLOR, 0.6, 4}, {TIMM_CONTRAST, 1.0, 8}}, \
	{{TIMM_ROTATE, 0.8, 8}, {TIMM_COLOR, 1.0, 2}}, \
	{{TIMM_COLOR, 0.8, 8}, {TIMM_SOLARIZE, 0.8, 7}}, \
	{{TIMM_SHARPNESS, 0.4, 7}, {TIMM_INVERT, 0.6, 8}}, \
	{{TIMM_SHEAR_X, 0.6, 5}, {TIMM_EQUALIZE, 1.0, 9}}, \
	{{TIMM_COLOR, 0.4, 0}, {TIMM_EQUALIZE, 0.6, 3}}, \
	{{TIMM_EQUALIZE, 0.4, 7}, {TIMM_SOLARIZE, 0.2, 4}}, \
	{{TIMM_SOLARIZE, 0.6, 5}, {TIMM_AUTO_CONTRAST, 0.6, 5}}, \
	{{TIMM_INVERT, 0.6, 4}, {TIMM_EQUALIZE, 1.0, 8}}, \
	{{TIMM_COLOR, 0.6, 4}, {TIMM_CONTRAST, 1.0, 8}}, \
	{{TIMM_EQUALIZE, 0.8, 8}, {TIMM_EQUALIZE, 0.6, 3}}, \
}}

static const struct timm_policy timm_policies[] = {
	[STEP_TIMM_V0] = POLICY_V0(TIMM_POSTERIZE),
	[STEP_TIMM_V0R] = POLICY_V0(TIMM_POSTERIZE_INCREASING),
	[STEP_TIMM_ORIGINAL] = POLICY_ORIGINAL(TIMM_POSTERIZE_ORIGINAL),
	[STEP_TIMM_ORIGINALR] = POLICY_ORIGINAL(TIMM_POSTERIZE_INCREASING),
	[STEP_TIMM_3A] = {3, 1, {
		{{TIMM_SOLARIZE, 1.0, 5}},
		{{TIMM_DESATURATE, 1.0, 10}},
		{{TIMM_BLUR_RANDOM, 1.0, 10}},
	}},
};
/* clang-format on */

const struct timm_set *timm_set_of(const struct step_timm *timm)
{
	if (timm->policy == STEP_TIMM_AUGMIX)
		return &timm_set_augmix;
	switch (timm->set) {
	case STEP_TIMM_SET_WEIGHTS:
		return &timm_set_weights;
	case STEP_TIMM_SET_3A:
		return &timm_set_3a;
	case STEP_TIMM_SET_3AW:
		return &timm_set_3aw;
	default:
		return timm->increasing ? &timm_set_increasing : &timm_set_plain;
	}
}

bool timm_set_weighted(const struct timm_set *set)
{
	return set->weight[0] > 0;
}

const struct timm_policy *timm_policy_of(enum step_timm_policy policy)
{
	return policy >= STEP_TIMM_V0 ? &timm_policies[policy] : NULL;
}

/* ---- arguments ---- */

static double timm_clamp(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

/* "Increasing": 1 is no change, and a larger magnitude is farther from it, either way. */
static double timm_increasing(double level, bool negative)
{
	double away = level * 0.9;
	return fmax(0.1, 1.0 + (negative ? -away : away));
}

static double timm_signed(double argument, const struct timm_drawn *drawn)
{
	return drawn->negative ? -argument : argument;
}

double timm_argument(enum timm_op op, const struct timm_drawn *drawn, double translate)
{
	const double level = drawn->magnitude / 10.0;
	switch (op) {
	case TIMM_ROTATE:
		return timm_signed(level * 30.0, drawn);
	case TIMM_POSTERIZE:
		return trunc(level * 4);
	case TIMM_POSTERIZE_INCREASING:
		return 4 - trunc(level * 4);
	case TIMM_POSTERIZE_ORIGINAL:
		return trunc(level * 4) + 4;
	case TIMM_SOLARIZE:
		return fmin(256, trunc(level * 256));
	case TIMM_SOLARIZE_INCREASING:
		return 256 - fmin(256, trunc(level * 256));
	case TIMM_SOLARIZE_ADD:
		return fmin(128, trunc(level * 110));
	case TIMM_COLOR:
	case TIMM_CONTRAST:
	case TIMM_BRIGHTNESS:
	case TIMM_SHARPNESS:
		return level * 1.8 + 0.1;
	case TIMM_COLOR_INCREASING:
	case TIMM_CONTRAST_INCREASING:
	case TIMM_BRIGHTNESS_INCREASING:
	case TIMM_SHARPNESS_INCREASING:
		return timm_increasing(level, drawn->negative);
	case TIMM_SHEAR_X:
	case TIMM_SHEAR_Y:
		return timm_signed(level * 0.3, drawn);
	case TIMM_TRANSLATE_X:
	case TIMM_TRANSLATE_Y:
		return timm_signed(level * translate, drawn);
	case TIMM_DESATURATE:
		return timm_clamp(0.5 + (1.0 - 0.5) * level, 0.5, 1.0);
	case TIMM_BLUR:
		return timm_clamp(0.1 + (2.0 - 0.1) * level, 0.1, 2.0);
	case TIMM_BLUR_RANDOM:
		return timm_clamp(level, 0, 1);
	default:
		return 0;
	}
}

/* ---- ops ---- */

/* timm's matrices: one entry that is not the identity's. */
static void timm_push_matrix(
	struct step_sample *sample, const struct step_warp *warp, unsigned entry, double value)
{
	struct op op = {.kind = OP_AFFINE,
		.filter = warp->interpolation,
		.matrix = {1, 0, 0, 0, 1, 0},
		.fill = {warp->fill[0], warp->fill[1], warp->fill[2]}};
	op.matrix[entry] = value;
	if (value != 0)
		step_push(sample, &op);
}

static void timm_move(
	struct step_sample *sample, const struct step_warp *warp, enum timm_op op, double argument)
{
	struct op turned;
	switch (op) {
	case TIMM_SHEAR_X:
		timm_push_matrix(sample, warp, 1, argument);
		break;
	case TIMM_SHEAR_Y:
		timm_push_matrix(sample, warp, 3, argument);
		break;
	case TIMM_TRANSLATE_X:
		timm_push_matrix(sample, warp, 2, argument * warp->width);
		break;
	case TIMM_TRANSLATE_Y:
		timm_push_matrix(sample, warp, 5, argument * warp->height);
		break;
	default:
		if (step_warp_rotate(warp, argument, NULL, &turned))
			step_push(sample, &turned);
	}
}

/* Eight bits are the image itself; ImageOps.posterize makes it black for none and for fewer. */
static void timm_posterize(struct step_sample *sample, double bits)
{
	if (bits < 8)
		step_push_amount(sample, OP_POSTERIZE, fmax(bits, 0));
}

/* The others: one op, whose amount is the argument. */
static const enum op_kind timm_kinds[TIMM_OPS] = {
	[TIMM_AUTO_CONTRAST] = OP_AUTOCONTRAST,
	[TIMM_EQUALIZE] = OP_EQUALIZE,
	[TIMM_INVERT] = OP_INVERT,
	[TIMM_SOLARIZE] = OP_SOLARIZE,
	[TIMM_SOLARIZE_INCREASING] = OP_SOLARIZE,
	[TIMM_SOLARIZE_ADD] = OP_SOLARIZE_ADD,
	[TIMM_COLOR] = OP_SATURATION,
	[TIMM_COLOR_INCREASING] = OP_SATURATION,
	[TIMM_CONTRAST] = OP_CONTRAST,
	[TIMM_CONTRAST_INCREASING] = OP_CONTRAST,
	[TIMM_BRIGHTNESS] = OP_BRIGHTNESS,
	[TIMM_BRIGHTNESS_INCREASING] = OP_BRIGHTNESS,
	[TIMM_SHARPNESS] = OP_SHARPNESS,
	[TIMM_SHARPNESS_INCREASING] = OP_SHARPNESS,
	[TIMM_BLUR] = OP_PILLOW_BLUR,
};

void timm_apply(struct step_sample *sample, const struct step *step, enum timm_op op,
	const struct timm_drawn *drawn)
{
	double translate = step->timm.translate;
	if (translate < 0)
		translate = step->timm.policy == STEP_TIMM_AUGMIX ? 0.3 : 0.45;
	double argument = timm_argument(op, drawn, translate);
	struct step_warp warp = step_warp_of(sample, step);
	warp.interpolation = drawn->filter;
	switch (op) {
	case TIMM_ROTATE:
	case TIMM_SHEAR_X:
	case TIMM_SHEAR_Y:
	case TIMM_TRANSLATE_X:
	case TIMM_TRANSLATE_Y:
		timm_move(sample, &warp, op, argument);
		break;
	case TIMM_POSTERIZE:
	case TIMM_POSTERIZE_INCREASING:
	case TIMM_POSTERIZE_ORIGINAL:
		timm_posterize(sample, argument);
		break;
	case TIMM_DESATURATE:
		step_push_amount(sample, OP_SATURATION, timm_clamp(1.0 - argument, 0, 1));
		break;
	case TIMM_BLUR_RANDOM:
		/* random.uniform(0.1, 2.0 * factor) */
		step_push_amount(
			sample, OP_PILLOW_BLUR, 0.1 + (2.0 * argument - 0.1) * drawn->share);
		break;
	default:
		step_push_amount(sample, timm_kinds[op], argument);
	}
}

/* ---- draws ---- */

static enum weights_filter timm_filter(const struct step *step, uint32_t word)
{
	if (step->interpolation != WEIGHTS_RANDOM)
		return step->interpolation;
	return step_pick(word, 2) ? WEIGHTS_BICUBIC : WEIGHTS_BILINEAR;
}

static double timm_magnitude(const struct step *step, double magnitude, struct philox r)
{
	const struct step_timm *timm = &step->timm;
	if (timm->uniform)
		magnitude = step_between(r.word[2], (const double[2]){0, magnitude});
	else if (timm->spread > 0)
		magnitude += timm->spread * variate_normal(r.word[2], r.word[3]);
	return timm_clamp(magnitude, 0, timm->most);
}

/* Operation number `k`. */
static void timm_draw(struct step_sample *sample, const struct step *step, enum timm_op op,
	double magnitude, uint32_t k)
{
	struct philox r = step_words(sample, PHILOX_TIMM_AMOUNT, step, k);
	const struct timm_drawn drawn = {.magnitude = timm_magnitude(step, magnitude, r),
		.negative = step_pick(r.word[0], 2),
		.filter = timm_filter(step, r.word[1]),
		.share = philox_unit(r.word[1], 0)};
	timm_apply(sample, step, op, &drawn);
}

static struct philox timm_words(
	const struct step_sample *sample, const struct step *step, uint32_t k)
{
	return step_words(sample, PHILOX_TIMM, step, TIMM_PICKS + k);
}

/* Whether an operation is carried out, from the words that do not say which. */
static bool timm_happens(struct philox r, double p)
{
	return p >= 1 || philox_unit(r.word[2], r.word[3]) < p;
}

/* Sets the weight of what was drawn to 0: it is not drawn again. */
static uint32_t timm_pick_weighted(double *weight, uint32_t count, double share)
{
	double sum = 0;
	uint32_t chosen = 0;
	for (uint32_t i = 0; i < count; i++)
		sum += weight[i];
	share *= sum;
	for (uint32_t i = 0; i < count; i++) {
		if (weight[i] <= 0)
			continue;
		chosen = i;
		if (share < weight[i])
			break;
		share -= weight[i];
	}
	weight[chosen] = 0;
	return chosen;
}

static void timm_rand(struct step_sample *sample, const struct step *step)
{
	struct timm_set set = *timm_set_of(&step->timm);
	const bool weighted = timm_set_weighted(&set);
	assert(step->num_ops >= 1 && step->num_ops <= TIMM_DEPTH);
	for (uint32_t k = 0; k < step->num_ops; k++) {
		struct philox r = timm_words(sample, step, k);
		uint32_t which = weighted ? timm_pick_weighted(set.weight, set.count,
						    philox_unit(r.word[0], r.word[1]))
					  : (uint32_t)philox_below(r.word[0], r.word[1], set.count);
		if (timm_happens(r, step->p))
			timm_draw(sample, step, set.op[which], step->magnitude, k);
	}
}

static void timm_auto(struct step_sample *sample, const struct step *step)
{
	const struct timm_policy *policy = timm_policy_of(step->timm.policy);
	struct philox r = step_words(sample, PHILOX_TIMM, step, 0);
	const struct timm_policy_op *chosen = policy->op[step_pick(r.word[0], policy->count)];
	for (uint32_t k = 0; k < policy->length; k++)
		if (timm_happens(timm_words(sample, step, k), chosen[k].p))
			timm_draw(sample, step, chosen[k].op, chosen[k].magnitude, k);
}

static void timm_chain(struct step_sample *sample, const struct step *step, uint32_t chain)
{
	const struct timm_set *set = timm_set_of(&step->timm);
	uint32_t depth = (uint32_t)step->chain_depth, first = TIMM_DEPTH * chain;
	if (step->chain_depth < 0)
		depth = 1 + step_pick(timm_words(sample, step, first).word[3], TIMM_CHAIN_MOST);
	for (uint32_t k = first; k < first + depth; k++) {
		struct philox r = timm_words(sample, step, k);
		uint64_t which = philox_below(r.word[0], r.word[1], set->count);
		timm_draw(sample, step, set->op[which], step->magnitude, k);
	}
}

void timm_blended(float *weights, uint32_t count, float share)
{
	float rest = 1;
	for (uint32_t i = count; i > 0; i--) {
		float amount = rest > 0 ? weights[i - 1] * share / rest : 0;
		rest *= 1 - amount;
		weights[i - 1] = amount;
	}
}

static void timm_augmix(struct step_sample *sample, const struct step *step)
{
	double drawn[TIMM_WIDTH];
	float weights[TIMM_WIDTH];
	assert(step->mixture_width >= 1 && step->mixture_width <= TIMM_WIDTH);
	assert(step->chain_depth == -1 ||
		(step->chain_depth >= 1 && step->chain_depth <= TIMM_DEPTH));
	float share = (float)policy_mixture(sample, step, PHILOX_TIMM, drawn);
	for (uint32_t i = 0; i < step->mixture_width; i++)
		weights[i] = (float)drawn[i];
	if (step->timm.blended)
		timm_blended(weights, step->mixture_width, share);
	step_push(
		sample, &(const struct op){.kind = step->timm.blended ? OP_TIMM_BLEND : OP_TIMM_MIX,
				.amount = share,
				.chains = step->mixture_width});
	for (uint32_t i = 0; i < step->mixture_width; i++) {
		uint32_t at = sample->plan->count;
		step_push_amount(sample, OP_CHAIN, weights[i]);
		timm_chain(sample, step, i);
		sample->plan->op[at].length = sample->plan->count - at - 1;
	}
}

/* ---- the step ---- */

void step_timm_auto_augment(struct step_sample *sample, const struct step *step)
{
	if (step->timm.policy == STEP_TIMM_RAND)
		timm_rand(sample, step);
	else if (step->timm.policy == STEP_TIMM_AUGMIX)
		timm_augmix(sample, step);
	else
		timm_auto(sample, step);
}

uint32_t step_timm_most(const struct step *step)
{
	if (step->timm.policy == STEP_TIMM_RAND)
		return step->num_ops;
	if (step->timm.policy != STEP_TIMM_AUGMIX)
		return timm_policy_of(step->timm.policy)->length;
	uint32_t depth = step->chain_depth < 0 ? TIMM_CHAIN_MOST : (uint32_t)step->chain_depth;
	return 1 + step->mixture_width * (1 + depth);
}

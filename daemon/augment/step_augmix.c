/* step_augmix: the draws of AugMix; see step_policy.h. augmix.c mixes.
 *
 * torchvision mixes float32 numbers: the image by m[0], chain i by weights[i] * m[1], m being drawn
 * from Dirichlet(alpha, alpha) and weights from Dirichlet(alpha, ... alpha). torchvision always
 * uses its operations on tensors there; this code uses those on PIL images, as everywhere in this
 * folder (and as the paper's own code does: Hendrycks et al., "AugMix", ICLR 2020).
 *
 *   draw 0            m, see variate_beta
 *   1 + 8 i + a       attempt a for the weight of chain i
 *   96 + 16 i + k     operation k of chain i: word 0 which, 1 its magnitude, 2 the sign; word 3 of
 *                     the first how many there are */
#include "augment/step_policy.h"

#include "proto/variate.h"

#include <assert.h>

enum {
	AUGMIX_BINS = 10, /* _PARAMETER_MAX */
	AUGMIX_DEPTH = 16, /* the largest chain_depth */
	AUGMIX_ATTEMPTS = 8, /* all attempts fail once in 10^10 */
	AUGMIX_OPERATIONS = 96,
};

static double augmix_gamma(const struct step_sample *sample, const struct step *step,
	enum philox_operation operation, uint32_t chain)
{
	double log_of_it;
	for (uint32_t a = 0; a < AUGMIX_ATTEMPTS; a++) {
		struct philox r =
			step_words(sample, operation, step, 1 + AUGMIX_ATTEMPTS * chain + a);
		if (variate_gamma_log(step->alpha, r, &log_of_it))
			return log_of_it;
	}
	return variate_gamma_log_likely(step->alpha);
}

static struct philox augmix_words(
	const struct step_sample *sample, const struct step *step, uint32_t chain, uint32_t k)
{
	return step_words(
		sample, PHILOX_AUG_MIX, step, AUGMIX_OPERATIONS + AUGMIX_DEPTH * chain + k);
}

/* Without all_ops, AugMix leaves out the operations that ImageNet-C uses as corruptions:
 * brightness and so on. */
static enum policy_op augmix_pick(const struct step *step, uint32_t word)
{
	const uint32_t left_out = POLICY_SHARPNESS - POLICY_BRIGHTNESS + 1;
	if (step->all_ops)
		return POLICY_SHEAR_X + step_pick(word, POLICY_EQUALIZE);
	uint32_t op = POLICY_SHEAR_X + step_pick(word, POLICY_EQUALIZE - left_out);
	return op < POLICY_BRIGHTNESS ? op : op + left_out;
}

static void augmix_chain(struct step_sample *sample, const struct step *step, uint32_t chain)
{
	uint32_t depth = (uint32_t)step->chain_depth;
	if (step->chain_depth < 0)
		depth = 1 + step_pick(augmix_words(sample, step, chain, 0).word[3], 3);
	for (uint32_t k = 0; k < depth; k++) {
		struct philox r = augmix_words(sample, step, chain, k);
		enum policy_op op = augmix_pick(step, r.word[0]);
		policy_apply(sample, step, op,
			policy_drawn(sample, &policy_space_augmix, op,
				step_pick(r.word[1], step->severity), AUGMIX_BINS, r.word[2]));
	}
}

double policy_mixture(const struct step_sample *sample, const struct step *step,
	enum philox_operation operation, double ret_weights[POLICY_MIXTURE_MOST])
{
	assert(step->mixture_width >= 1 && step->mixture_width <= POLICY_MIXTURE_MOST);
	for (uint32_t i = 0; i < step->mixture_width; i++)
		ret_weights[i] = augmix_gamma(sample, step, operation, i);
	variate_shares(ret_weights, step->mixture_width);
	return variate_beta(step->alpha, step_words(sample, operation, step, 0));
}

void step_aug_mix(struct step_sample *sample, const struct step *step)
{
	double weights[POLICY_MIXTURE_MOST];
	assert(step->severity >= 1 && step->severity <= AUGMIX_BINS);
	assert(step->chain_depth == -1 ||
		(step->chain_depth >= 1 && step->chain_depth <= AUGMIX_DEPTH));
	double own = policy_mixture(sample, step, PHILOX_AUG_MIX, weights);
	step_push(sample,
		&(const struct op){
			.kind = OP_AUGMIX, .amount = (float)own, .chains = step->mixture_width});
	for (uint32_t i = 0; i < step->mixture_width; i++) {
		uint32_t at = sample->plan->count;
		float weight = (float)weights[i] * (float)(1 - own);
		step_push_amount(sample, OP_CHAIN, weight);
		augmix_chain(sample, step, i);
		sample->plan->op[at].length = sample->plan->count - at - 1;
	}
}

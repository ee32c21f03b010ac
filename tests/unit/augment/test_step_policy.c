/* RandAugment, TrivialAugmentWide, AutoAugment and AugMix: tables against torchvision's
 * (policies.txt, which e2e/pixels/policy_torchvision.py writes), and how often each operation,
 * magnitude and sign occurs. */
#include "augment/step_policy.h"
#include "unit/augment/steps.h"

#include <stdio.h>
#include <stdlib.h>

/* --- policies.txt --- */

static const char *const space_names[] = {"rand", "trivial", "augmix"};
static const struct policy_space *const spaces[] = {
	&policy_space_rand, &policy_space_trivial, &policy_space_augmix};
static const char *const policy_names[] = {"imagenet", "cifar10", "svhn"};

static const char *word(void)
{
	const char *text = strtok(NULL, " \n");
	assert_non_null(text);
	return text;
}

static uint32_t whole(void)
{
	return (uint32_t)strtoul(word(), NULL, 10);
}

static enum policy_op operation(void)
{
	const char *name = word();
	for (enum policy_op op = 0; op < POLICY_OPS; op++)
		if (strcmp(policy_op_names[op], name) == 0)
			return op;
	fail_msg("%s is not an operation", name);
	return POLICY_OPS;
}

static bool check_space(const char *name)
{
	for (unsigned s = 0; s < UTIL_COUNT(spaces); s++) {
		if (strcmp(space_names[s], name) != 0)
			continue;
		uint32_t bins = whole(), width = whole(), height = whole();
		enum policy_op op = operation();
		assert_true(policy_has_magnitude(op));
		for (uint32_t bin = 0; bin < bins; bin++)
			assert_true(policy_magnitude(spaces[s], op, bin, bins, width, height) ==
				    strtod(word(), NULL));
		assert_null(strtok(NULL, " \n"));
		return true;
	}
	return false;
}

static bool check_policy(const char *name)
{
	for (unsigned p = 0; p < UTIL_COUNT(policy_names); p++) {
		if (strcmp(policy_names[p], name) != 0)
			continue;
		const struct policy_auto *ours = policy_auto[p][whole()];
		for (unsigned i = 0; i < POLICY_AUTO_LENGTH; i++) {
			assert_int_equal(ours[i].op, operation());
			assert_true(ours[i].p == strtod(word(), NULL));
			assert_int_equal(ours[i].bin, whole());
		}
		return true;
	}
	return false;
}

static void test_tables(void **state)
{
	static char line[65536];
	unsigned tables = 0, policies = 0;
	FILE *file = fopen(POLICIES, "r");
	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			continue;
		const char *first = strtok(line, " \n");
		assert_non_null(first);
		if (check_space(first))
			tables++;
		else if (check_policy(first))
			policies++;
		else
			fail_msg("policies.txt: %s?", first);
	}
	(void)fclose(file);
	assert_int_equal(tables, 8 * 11);
	assert_int_equal(policies, 3 * POLICY_AUTO_COUNT);
}

/* --- which operation ran --- */

/* Each operation at each magnitude with each sign, as policy_apply makes it. */
enum { BINS_MOST = 31 };

struct known {
	uint32_t bins;
	struct step_plan plans[POLICY_OPS][BINS_MOST][2];
};

static void known_fill(struct known *known, const struct step *step,
	const struct policy_space *space, uint32_t bins)
{
	known->bins = bins;
	for (enum policy_op op = 0; op < POLICY_OPS; op++)
		for (uint32_t bin = 0; bin < bins; bin++)
			for (uint32_t minus = 0; minus < 2; minus++) {
				struct step_plan *plan = &known->plans[op][bin][minus];
				struct step_sample sample = {
					.width = STEPS_SIDE, .height = STEPS_SIDE, .plan = plan};
				plan->count = 0;
				policy_apply(&sample, step, op,
					policy_drawn(&sample, space, op, bin, bins,
						minus ? UINT32_MAX : 0));
			}
}

static bool op_is(const struct op *a, const struct op *b)
{
	return a->kind == b->kind && a->amount == b->amount && steps_same_matrix(a, b);
}

/* At the largest magnitude every operation except Identity has an effect, and always of the same
 * kind; only Rotate has a shortcut. */
static bool known_may_be(const struct known *known, enum policy_op i, const struct op *op)
{
	const struct step_plan *plan = &known->plans[i][known->bins - 1][0];
	return i == POLICY_ROTATE || (plan->count && plan->op[0].kind == op->kind);
}

/* The first operation with the observed effect. */
static enum policy_op known_find(
	const struct known *known, const struct op *op, uint32_t *ret_bin, uint32_t *ret_minus)
{
	for (enum policy_op i = 0; i < POLICY_OPS; i++)
		for (*ret_bin = 0; *ret_bin < known->bins && known_may_be(known, i, op); ++*ret_bin)
			for (*ret_minus = 0; *ret_minus < 2; ++*ret_minus) {
				const struct step_plan *plan =
					&known->plans[i][*ret_bin][*ret_minus];
				if (plan->count && op_is(op, &plan->op[0]))
					return i;
			}
	fail_msg("no operation has this effect: kind %d, amount %g", op->kind, op->amount);
	return POLICY_OPS;
}

static struct known known;

/* --- RandAugment --- */

enum { RAND_OPS = POLICY_INVERT };

/* Two operations: the draws in which both have a visible effect, so neither is Identity. */
static void test_rand_augment(void **state)
{
	enum { SEEN = RAND_OPS - 1 };
	struct step_recipe recipe = steps_recipe(STEP_RAND_AUGMENT);
	uint32_t seen[3] = {0}, pairs[SEEN * SEEN] = {0}, minus[POLICY_OPS] = {0},
		 all[POLICY_OPS] = {0};
	const double q = 1.0 / RAND_OPS;
	const double shares[3] = {q * q, 2 * q * (1 - q), (1 - q) * (1 - q)};
	(void)state;
	known_fill(&known, &recipe.step[0], &policy_space_rand, 31);
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 1, i);
		enum policy_op ops[2] = {0};
		assert_true(plan->count <= 2);
		seen[plan->count]++;
		for (uint32_t k = 0; k < plan->count; k++) {
			/* Magnitude 9; for Posterize, 8 and others have the same effect. */
			uint32_t bin, sign;
			ops[k] = known_find(&known, &plan->op[k], &bin, &sign);
			assert_true(op_is(&plan->op[k], &known.plans[ops[k]][9][sign].op[0]));
			all[ops[k]]++;
			minus[ops[k]] += sign;
		}
		if (plan->count == 2)
			pairs[(ops[0] - 1) * SEEN + ops[1] - 1]++;
	}
	steps_check_shares(seen, shares, 3, "how many are seen");
	steps_check_shares(pairs, NULL, SEEN * SEEN, "two operations");
	for (enum policy_op op = 0; op < POLICY_OPS; op++)
		steps_check_share(
			minus[op], all[op], policy_signed(op) ? 0.5 : 0, policy_op_names[op]);
}

static void test_rand_augment_parameters(void **state)
{
	struct step_recipe recipe = steps_recipe(STEP_RAND_AUGMENT);
	uint32_t longest = 0, bin = 0, sign = 0;
	(void)state;
	recipe.step[0].num_ops = 16;
	recipe.step[0].magnitude = 4;
	recipe.step[0].num_magnitude_bins = 5;
	recipe.step[0].interpolation = WEIGHTS_BICUBIC;
	recipe.step[0].fill[1] = 200;
	known_fill(&known, &recipe.step[0], &policy_space_rand, 5);
	for (uint32_t i = 0; i < 2000; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 2, i);
		longest = UTIL_MAX(longest, plan->count);
		for (uint32_t k = 0; k < plan->count; k++) {
			const struct op *op = &plan->op[k];
			enum policy_op which = known_find(&known, op, &bin, &sign);
			assert_true(op_is(op, &known.plans[which][4][sign].op[0]));
			assert_true(op->kind != OP_AFFINE ||
				    (op->filter == WEIGHTS_BICUBIC && op->fill[1] == 200 &&
					    op->fill[0] == 0));
		}
	}
	assert_int_equal(longest, 16);
}

/* --- TrivialAugmentWide --- */

static bool is_warp(enum policy_op op)
{
	return op >= POLICY_SHEAR_X && op <= POLICY_ROTATE;
}

/* Warps of magnitude 0 have no visible effect. */
static void test_trivial_augment(void **state)
{
	enum { BINS = 31 };
	struct step_recipe recipe = steps_recipe(STEP_TRIVIAL_AUGMENT_WIDE);
	uint32_t ops[RAND_OPS] = {0}, bins[RAND_OPS][2 * BINS] = {{0}}, bin, sign;
	double shares[RAND_OPS], signed_bins[2 * BINS];
	(void)state;
	known_fill(&known, &recipe.step[0], &policy_space_trivial, BINS);
	for (uint32_t i = 0; i < 2 * STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 3, i);
		enum policy_op op = POLICY_IDENTITY;
		bin = sign = 0;
		assert_true(plan->count <= 1);
		if (plan->count)
			op = known_find(&known, &plan->op[0], &bin, &sign);
		ops[op]++;
		bins[op][2 * bin + sign]++;
	}
	for (enum policy_op op = 0; op < POLICY_INVERT; op++)
		shares[op] = (is_warp(op) ? 1 - 1.0 / BINS : 1.0) / RAND_OPS;
	shares[POLICY_IDENTITY] += 5.0 / BINS / RAND_OPS;
	steps_check_shares(ops, shares, RAND_OPS, "operations");
	for (enum policy_op op = 0; op <= POLICY_SHARPNESS; op++) {
		/* At magnitude 0 both signs have the same effect, and warps have none. */
		for (unsigned i = 0; i < 2 * BINS; i++)
			signed_bins[i] = 0.5 / (is_warp(op) ? BINS - 1 : BINS);
		signed_bins[0] = is_warp(op) ? 0 : 1.0 / BINS;
		signed_bins[1] = 0;
		if (policy_signed(op))
			steps_check_shares(bins[op], signed_bins, 2 * BINS, policy_op_names[op]);
	}
	for (unsigned i = 0; i < 2 * BINS; i++)
		signed_bins[i] = i % 2 ? 0 : 1.0 / BINS;
	steps_check_shares(bins[POLICY_SOLARIZE], signed_bins, 2 * BINS, "Solarize");
	/* Bits 8 .. 2: five magnitudes each; the ends get half as many, and even numbers get the
	 * ties. */
	memset(signed_bins, 0, sizeof(signed_bins));
	for (bin = 0; bin < BINS; bin++) {
		const struct op *op = &known.plans[POLICY_POSTERIZE][bin][0].op[0];
		enum policy_op which = known_find(&known, op, &ops[0], &sign);
		assert_int_equal(which, POLICY_POSTERIZE);
		signed_bins[2 * ops[0] + sign] += 1.0 / BINS;
	}
	steps_check_shares(bins[POLICY_POSTERIZE], signed_bins, 2 * BINS, "Posterize");
}

/* --- AutoAugment --- */

/* The possible results of a policy, and their probabilities. */
struct outcome {
	uint32_t count;
	struct op op[POLICY_AUTO_LENGTH];
	double share;
};

struct outcomes {
	uint32_t count;
	struct outcome list[512];
};

static bool outcome_is(const struct outcome *outcome, const struct op *op, uint32_t count)
{
	bool is = outcome->count == count;
	for (uint32_t i = 0; is && i < count; i++)
		is = op_is(&outcome->op[i], &op[i]);
	return is;
}

static struct outcome *outcome_of(struct outcomes *outcomes, const struct op *op, uint32_t count)
{
	for (uint32_t i = 0; i < outcomes->count; i++)
		if (outcome_is(&outcomes->list[i], op, count))
			return &outcomes->list[i];
	return NULL;
}

static void outcome_add(struct outcomes *outcomes, const struct step_plan *plan, double share)
{
	struct outcome *outcome = outcome_of(outcomes, plan->op, plan->count);
	if (!outcome) {
		assert_true(outcomes->count < UTIL_COUNT(outcomes->list));
		outcome = &outcomes->list[outcomes->count++];
		outcome->count = plan->count;
		memcpy(outcome->op, plan->op, plan->count * sizeof(plan->op[0]));
	}
	outcome->share += share;
}

/* Each operation of a policy: does not run, runs with plus, runs with minus. */
static void outcomes_of_policy(
	struct outcomes *outcomes, const struct policy_auto *ops, const struct known *all)
{
	static struct step_plan plan;
	for (unsigned way = 0; way < 9; way++) {
		const unsigned ways[POLICY_AUTO_LENGTH] = {way % 3, way / 3};
		double share = 1.0 / POLICY_AUTO_COUNT;
		plan.count = 0;
		for (unsigned i = 0; i < POLICY_AUTO_LENGTH; i++) {
			share *= ways[i] ? ops[i].p / 2 : 1 - ops[i].p;
			if (ways[i])
				plan.op[plan.count++] =
					all->plans[ops[i].op][ops[i].bin][ways[i] - 1].op[0];
		}
		if (share > 0)
			outcome_add(outcomes, &plan, share);
	}
}

static void check_auto(enum step_policy policy)
{
	static struct outcomes outcomes;
	static uint32_t counts[UTIL_COUNT(outcomes.list) + 1];
	static double shares[UTIL_COUNT(outcomes.list) + 1];
	struct step_recipe recipe = steps_recipe(STEP_AUTO_AUGMENT);
	unsigned kinds = 1; /* 0: results that are too rare to be counted separately */
	memset(&outcomes, 0, sizeof(outcomes));
	memset(counts, 0, sizeof(counts));
	shares[0] = 0;
	recipe.step[0].policy = policy;
	known_fill(&known, &recipe.step[0], &policy_space_rand, POLICY_AUTO_BINS);
	for (unsigned i = 0; i < POLICY_AUTO_COUNT; i++)
		outcomes_of_policy(&outcomes, policy_auto[policy][i], &known);
	uint32_t cell[UTIL_COUNT(outcomes.list)];
	for (uint32_t i = 0; i < outcomes.count; i++) {
		cell[i] = outcomes.list[i].share * STEPS_DRAWS < 10 ? 0 : kinds++;
		shares[cell[i]] = outcomes.list[i].share + (cell[i] ? 0 : shares[0]);
	}
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 4 + policy, i);
		const struct outcome *outcome = outcome_of(&outcomes, plan->op, plan->count);
		assert_non_null(outcome);
		counts[cell[outcome - outcomes.list]]++;
	}
	assert_true(kinds > 30);
	steps_check_shares(counts, shares, kinds, policy_names[policy]);
}

static void test_auto_augment(void **state)
{
	(void)state;
	check_auto(STEP_POLICY_IMAGENET);
	check_auto(STEP_POLICY_CIFAR10);
	check_auto(STEP_POLICY_SVHN);
}

/* --- AugMix --- */

/* The chains cover the rest without gaps. */
static const struct op *chain_next(const struct step_plan *plan, const struct op *chain)
{
	const struct op *end = plan->op + plan->count;
	assert_true(chain < end && chain->kind == OP_CHAIN);
	assert_true(chain->length < (uint32_t)(end - chain));
	return chain + 1 + chain->length;
}

static void test_aug_mix_weights(void **state)
{
	struct step_recipe recipe = steps_recipe(STEP_AUG_MIX);
	struct steps_histogram own = {.from = 0, .to = 1}, share = own;
	struct steps_pairs pairs = {{0}};
	(void)state;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 8, i);
		const struct op *op = plan->op, *chain = op + 1;
		double sum = op->amount, first = 0;
		assert_true(op->kind == OP_AUGMIX && op->chains == 3);
		for (uint32_t c = 0; c < op->chains; c++, chain = chain_next(plan, chain)) {
			assert_true(chain->amount == (float)chain->amount && chain->amount >= 0);
			sum += chain->amount;
			first = c ? first : chain->amount / (1 - op->amount);
		}
		assert_ptr_equal(chain, plan->op + plan->count);
		assert_true(fabs(sum - 1) < 1e-6);
		steps_count(&own, op->amount);
		/* With three shares and alpha 1, each share is Beta(1, 2). */
		double unit = fmin(fmax(first * (2 - first), 0), 1);
		steps_count(&share, unit);
		steps_pair(&pairs, op->amount, unit);
	}
	steps_check_uniform(&own, "the image's weight");
	steps_check_uniform(&share, "a chain's weight");
	steps_check_pairs(&pairs, "the image's and a chain's weight");
}

/* Variances of Beta(alpha, alpha) and of one of ten Dirichlet shares. */
static void test_aug_mix_alpha(void **state)
{
	static const double alphas[] = {0.01, 0.3, 5, 100};
	(void)state;
	for (unsigned a = 0; a < UTIL_COUNT(alphas); a++) {
		double own = 0, share = 0, alpha = alphas[a], counted = 0;
		struct step_recipe recipe = steps_recipe(STEP_AUG_MIX);
		recipe.step[0].alpha = alpha;
		recipe.step[0].mixture_width = 10;
		for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
			const struct op *op = steps_plan(&recipe, 9 + a, i)->op;
			own += (op->amount - 0.5) * (op->amount - 0.5);
			if (op->amount > 0.999) /* too little remains for its shares to show */
				continue;
			double first = op[1].amount / (1 - op->amount);
			assert_true(first >= 0 && first <= 1.001);
			share += (first - 0.1) * (first - 0.1);
			counted++;
		}
		assert_true(fabs(own / STEPS_DRAWS * 4 * (2 * alpha + 1) - 1) < 0.05);
		assert_true(fabs(share / counted / 0.09 * (10 * alpha + 1) - 1) < 0.12);
	}
}

static void test_aug_mix_depth(void **state)
{
	struct step_recipe recipe = steps_recipe(STEP_AUG_MIX);
	/* Five of thirteen operations are warps, and one magnitude in three is 0. */
	const double q = 5.0 / 13 / 3, r = 1 - q;
	const double shares[4] = {(q + q * q + q * q * q) / 3, (r + 2 * q * r + 3 * q * q * r) / 3,
		(r * r + 3 * q * r * r) / 3, r * r * r / 3};
	uint32_t lengths[4] = {0}, longest = 0;
	(void)state;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 13, i);
		const struct op *chain = plan->op + 1;
		for (uint32_t c = 0; c < 3; c++, chain = chain_next(plan, chain)) {
			assert_true(chain->length <= 3);
			lengths[chain->length]++;
		}
	}
	steps_check_shares(lengths, shares, 4, "length of a chain");
	recipe.step[0].chain_depth = 16;
	recipe.step[0].mixture_width = 2;
	for (uint32_t i = 0; i < 1000; i++)
		longest = UTIL_MAX(longest, steps_plan(&recipe, 13, i)->op[1].length);
	assert_int_equal(longest, 16);
}

static void check_aug_mix_ops(bool all_ops, uint32_t severity)
{
	enum { DEPTH = 2 };
	struct step_recipe recipe = steps_recipe(STEP_AUG_MIX);
	uint32_t ops[POLICY_OPS] = {0}, solarized[10] = {0}, bin, sign;
	double shares[POLICY_OPS] = {0}, bins[10] = {0}, kinds = all_ops ? 13 : 9;
	recipe.step[0].all_ops = all_ops;
	recipe.step[0].severity = severity;
	recipe.step[0].mixture_width = 1;
	recipe.step[0].chain_depth = DEPTH;
	known_fill(&known, &recipe.step[0], &policy_space_augmix, 10);
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 14 + severity, i);
		ops[POLICY_IDENTITY] += DEPTH - plan->op[1].length;
		for (uint32_t k = 0; k < plan->op[1].length; k++) {
			enum policy_op op = known_find(&known, &plan->op[2 + k], &bin, &sign);
			assert_true(bin < severity);
			ops[op]++;
			if (op == POLICY_SOLARIZE)
				solarized[bin]++;
		}
	}
	for (enum policy_op op = POLICY_SHEAR_X; op <= POLICY_EQUALIZE; op++) {
		bool there = all_ops || op < POLICY_BRIGHTNESS || op > POLICY_SHARPNESS;
		double lost = is_warp(op) ? 1.0 / severity : 0;
		shares[op] = there ? (1 - lost) / kinds : 0;
		shares[POLICY_IDENTITY] += lost / kinds;
	}
	steps_check_shares(ops, shares, POLICY_OPS, "operations");
	for (uint32_t i = 0; i < severity; i++)
		bins[i] = 1.0 / severity;
	steps_check_shares(solarized, bins, 10, "magnitudes");
}

static void test_aug_mix_ops(void **state)
{
	(void)state;
	check_aug_mix_ops(true, 3);
	check_aug_mix_ops(false, 10);
	check_aug_mix_ops(true, 10);
	check_aug_mix_ops(false, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_rand_augment),
		cmocka_unit_test(test_rand_augment_parameters),
		cmocka_unit_test(test_trivial_augment),
		cmocka_unit_test(test_auto_augment),
		cmocka_unit_test(test_aug_mix_weights),
		cmocka_unit_test(test_aug_mix_alpha),
		cmocka_unit_test(test_aug_mix_depth),
		cmocka_unit_test(test_aug_mix_ops),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

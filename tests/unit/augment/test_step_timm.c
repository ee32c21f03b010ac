/* timm's policies: arguments, sets and sub-policies equal timm's own (timm.txt, which
 * e2e/pixels/timm_policies.py writes and compares pixels with); and what is drawn. */
#include "augment/augment.h"
#include "augment/step_timm.h"
#include "unit/augment/steps.h"

#include <stdio.h>
#include <stdlib.h>

/* --- timm.txt --- */

static const char *word(void)
{
	const char *text = strtok(NULL, " \n");
	assert_non_null(text);
	return text;
}

static double number(void)
{
	return strtod(word(), NULL);
}

static enum timm_op operation(void)
{
	const char *name = word();
	for (enum timm_op op = 0; op < TIMM_OPS; op++)
		if (strcmp(timm_op_names[op], name) == 0)
			return op;
	fail_msg("%s is not an operation", name);
	return TIMM_OPS;
}

static void check_argument(void)
{
	enum timm_op op = operation();
	const struct timm_drawn drawn = {.magnitude = number(), .negative = number() != 0};
	assert_true(timm_argument(op, &drawn, 0.45) == number());
}

static void check_set(void)
{
	static const struct {
		const char *name;
		struct step_timm timm;
	} sets[] = {
		{"rand", {.policy = STEP_TIMM_RAND}},
		{"rand-inc1", {.policy = STEP_TIMM_RAND, .increasing = true}},
		{"rand-tweights", {.policy = STEP_TIMM_RAND, .set = STEP_TIMM_SET_WEIGHTS}},
		{"rand-t3a", {.policy = STEP_TIMM_RAND, .set = STEP_TIMM_SET_3A}},
		{"rand-t3aw", {.policy = STEP_TIMM_RAND, .set = STEP_TIMM_SET_3AW}},
		{"augmix", {.policy = STEP_TIMM_AUGMIX}},
	};
	const char *name = word();
	for (size_t i = 0; i < UTIL_COUNT(sets); i++) {
		if (strcmp(sets[i].name, name) != 0)
			continue;
		const struct timm_set *set = timm_set_of(&sets[i].timm);
		for (uint32_t k = 0; k < set->count; k++) {
			assert_int_equal(set->op[k], operation());
			assert_true(set->weight[k] == number());
		}
		assert_null(strtok(NULL, " \n"));
		return;
	}
	fail_msg("%s is not a set", name);
}

static const char *const policy_names[] = {[STEP_TIMM_V0] = "v0",
	[STEP_TIMM_V0R] = "v0r",
	[STEP_TIMM_ORIGINAL] = "original",
	[STEP_TIMM_ORIGINALR] = "originalr",
	[STEP_TIMM_3A] = "3a"};

static void check_policy(uint32_t next[UTIL_COUNT(policy_names)])
{
	const char *name = word();
	for (enum step_timm_policy p = STEP_TIMM_V0; p <= STEP_TIMM_3A; p++) {
		if (strcmp(policy_names[p], name) != 0)
			continue;
		const struct timm_policy *policy = timm_policy_of(p);
		assert_true(next[p] < policy->count);
		const struct timm_policy_op *ops = policy->op[next[p]++];
		for (uint32_t k = 0; k < policy->length; k++) {
			assert_int_equal(ops[k].op, operation());
			assert_true(ops[k].p == number());
			assert_true(ops[k].magnitude == number());
		}
		assert_null(strtok(NULL, " \n"));
		return;
	}
	fail_msg("%s is not a policy", name);
}

static void test_facts(void **state)
{
	static char line[4096];
	uint32_t arguments = 0, sets = 0, policies[UTIL_COUNT(policy_names)] = {0};
	FILE *file = fopen(TIMM, "r");
	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			continue;
		const char *first = strtok(line, " \n");
		if (strcmp(first, "argument") == 0) {
			check_argument();
			arguments++;
		} else if (strcmp(first, "set") == 0) {
			check_set();
			sets++;
		} else {
			assert_string_equal(first, "policy");
			check_policy(policies);
		}
	}
	(void)fclose(file);
	assert_int_equal(arguments, (25 + 9) * 17);
	assert_int_equal(sets, 6);
	for (enum step_timm_policy p = STEP_TIMM_V0; p <= STEP_TIMM_3A; p++)
		assert_int_equal(policies[p], timm_policy_of(p)->count);
}

/* --- rand --- */

static struct step_recipe rand_recipe(enum step_timm_set set)
{
	struct step_recipe recipe = steps_recipe(STEP_TIMM_AUTO_AUGMENT);
	struct step *step = &recipe.step[0];
	step->num_ops = 1;
	step->p = 1;
	step->magnitude = 5;
	step->timm.set = set;
	step->interpolation = WEIGHTS_RANDOM;
	return recipe;
}

/* Which operation of t3a an op is: its kind says it. */
static unsigned of_3a(const struct op *op)
{
	return op->kind == OP_SOLARIZE ? 0 : op->kind == OP_SATURATION ? 1 : 2;
}

static void test_which_and_whether(void **state)
{
	uint32_t counts[3] = {0}, happened = 0;
	struct step_recipe recipe = rand_recipe(STEP_TIMM_SET_3A);
	(void)state;
	recipe.step[0].p = 0.3;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 30, i);
		if (!plan->count)
			continue;
		assert_int_equal(plan->count, 1);
		assert_true(plan->op[0].kind != OP_PILLOW_BLUR || plan->op[0].amount == 1.05);
		counts[of_3a(plan->op)]++;
		happened++;
	}
	steps_check_share(happened, STEPS_DRAWS, 0.3, "p");
	steps_check_shares(counts, NULL, 3, "which of t3a");
}

/* All operations of a set are in a plan of as many, each once; the first is drawn by its weight. */
static void test_without_replacement(void **state)
{
	static const double shares[4] = {6.0 / 33, 6.0 / 33, 6.0 / 33, 15.0 / 33};
	uint32_t first[4] = {0};
	struct step_recipe recipe = rand_recipe(STEP_TIMM_SET_3AW);
	(void)state;
	recipe.step[0].num_ops = 14;
	for (uint32_t i = 0; i < 4000; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 31, i);
		uint32_t blurs = 0, equalized = 0;
		assert_int_equal(plan->count, 14);
		for (uint32_t k = 0; k < plan->count; k++) {
			blurs += plan->op[k].kind == OP_PILLOW_BLUR;
			equalized += plan->op[k].kind == OP_EQUALIZE;
		}
		assert_true(blurs == 1 && equalized == 1);
		const struct op *op = plan->op;
		bool gray = op->kind == OP_SATURATION && op->amount == 0.25;
		first[op->kind == OP_SOLARIZE        ? 0
			: gray                       ? 1
			: op->kind == OP_PILLOW_BLUR ? 2
						     : 3]++;
	}
	steps_check_shares(first, shares, 4, "the first by its weight");
}

static void test_magnitudes(void **state)
{
	struct steps_histogram uniform = {.from = 0, .to = 8};
	struct step_recipe recipe = rand_recipe(STEP_TIMM_SET_3A);
	struct step_timm *timm = &recipe.step[0].timm;
	double sum = 0, squares = 0;
	uint32_t count = 0, ends = 0;
	(void)state;
	recipe.step[0].magnitude = 8;
	timm->uniform = true;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct op *op = steps_plan(&recipe, 32, i)->op;
		if (op->kind == OP_PILLOW_BLUR)
			steps_count(&uniform, (op->amount - 0.1) / 1.9 * 10);
	}
	steps_check_uniform(&uniform, "uniform magnitudes");
	timm->uniform = false;
	timm->spread = 1.5;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct op *op = steps_plan(&recipe, 33, i)->op;
		if (op->kind != OP_SATURATION)
			continue;
		/* Desaturate: (1 - level / 10) / 2; what is beyond 10 counts as 10. */
		double away = 10 * (1 - 2 * op->amount) - 8;
		assert_true(away <= 2 + 1e-9);
		count++;
		ends += away > 2 - 1e-9;
		sum += away > 0 ? 0 : away * away;
		squares += away > 0 ? 0 : 1;
	}
	/* Phi(-2 / 1.5), and the mean square of the lower half. */
	steps_check_share(ends, count, 0.0912112, "normal magnitudes that are cut off");
	steps_check_share(squares, count, 0.5, "normal magnitudes below the mean");
	assert_true(fabs(sum / squares / (1.5 * 1.5) - 1) < 0.1);
}

static void test_signs_and_filters(void **state)
{
	uint32_t cells[4] = {0};
	struct step_recipe recipe = rand_recipe(STEP_TIMM_SET_ALL);
	(void)state;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct op *op = steps_plan(&recipe, 34, i)->op;
		if (op->kind != OP_AFFINE || op->matrix[1] == 0 || op->matrix[3] != 0)
			continue;
		assert_true(fabs(op->matrix[1]) == 0.15); /* ShearX */
		assert_true(op->filter == WEIGHTS_BILINEAR || op->filter == WEIGHTS_BICUBIC);
		cells[2 * (op->matrix[1] < 0) + (op->filter == WEIGHTS_BICUBIC)]++;
	}
	steps_check_shares(cells, NULL, 4, "signs and filters");
	recipe.step[0].interpolation = WEIGHTS_NEAREST;
	for (uint32_t i = 0; i < 1000; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 35, i);
		assert_true(plan->count == 0 || plan->op[0].filter == WEIGHTS_NEAREST ||
			    plan->op[0].kind != OP_AFFINE);
	}
}

/* --- policies --- */

static void test_3a(void **state)
{
	struct steps_histogram radius = {.from = 0.1, .to = 2};
	uint32_t counts[3] = {0};
	struct step_recipe recipe = steps_recipe(STEP_TIMM_AUTO_AUGMENT);
	(void)state;
	recipe.step[0].timm.policy = STEP_TIMM_3A;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 36, i);
		assert_int_equal(plan->count, 1);
		unsigned which = of_3a(plan->op);
		counts[which]++;
		assert_true(which == 2 || plan->op[0].amount == (which ? 0 : 128));
		if (which == 2)
			steps_count(&radius, plan->op[0].amount);
	}
	steps_check_shares(counts, NULL, 3, "3a");
	steps_check_uniform(&radius, "radius");
}

/* Sub-policies 13 and 22 of original: Invert with 0.6, then Equalize. No other inverts first. */
static void test_original(void **state)
{
	uint32_t inverted = 0;
	struct step_recipe recipe = steps_recipe(STEP_TIMM_AUTO_AUGMENT);
	(void)state;
	recipe.step[0].timm.policy = STEP_TIMM_ORIGINAL;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 37, i);
		assert_true(plan->count <= 2);
		inverted += plan->count == 2 && plan->op[0].kind == OP_INVERT &&
			    plan->op[1].kind == OP_EQUALIZE;
	}
	steps_check_share(inverted, STEPS_DRAWS, 2.0 / 25 * 0.6, "Invert, Equalize");
}

/* --- augmix --- */

static struct step_recipe augmix_recipe(bool blended)
{
	struct step_recipe recipe = steps_recipe(STEP_TIMM_AUTO_AUGMENT);
	recipe.step[0].timm.policy = STEP_TIMM_AUGMIX;
	recipe.step[0].timm.uniform = true;
	recipe.step[0].timm.blended = blended;
	return recipe;
}

static void test_augmix(void **state)
{
	struct steps_histogram share = {.from = 0, .to = 1};
	const struct step_recipe recipe = augmix_recipe(false);
	(void)state;
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 38, i);
		double sum = 0;
		uint32_t at = 1;
		assert_true(plan->op[0].kind == OP_TIMM_MIX && plan->op[0].chains == 3);
		for (uint32_t c = 0; c < 3; c++, at += 1 + plan->op[at].length) {
			assert_int_equal(plan->op[at].kind, OP_CHAIN);
			assert_true(plan->op[at].length <= 3);
			sum += plan->op[at].amount;
		}
		assert_int_equal(at, plan->count);
		assert_true(fabs(sum - 1) < 1e-6);
		steps_count(&share, plan->op[0].amount);
	}
	steps_check_uniform(&share, "the share of the mix");
}

/* Blending one after the other leaves 1 - share of the image, and its weight of each chain. */
static void test_blended(void **state)
{
	float weights[3] = {0.5f, 0.3f, 0.2f};
	(void)state;
	timm_blended(weights, 3, 0.6f);
	assert_true(fabs((1 - weights[0]) * (1 - weights[1]) * (1 - weights[2]) - 0.4) < 1e-6);
	assert_true(fabs(weights[0] * (1 - weights[1]) * (1 - weights[2]) - 0.3) < 1e-6);
	assert_true(fabs(weights[2] - 0.12) < 1e-6);
	float whole[2] = {0, 1};
	timm_blended(whole, 2, 1);
	assert_true(whole[0] == 0 && whole[1] == 1);
}

/* What the mixes make of one pixel: 100, whose chains are the inverse (155) and itself. */
static void test_mixes(void **state)
{
	static const struct {
		enum op_kind kind;
		float share, amounts[2];
		int want;
	} cases[] = {
		{OP_TIMM_MIX, 0.5f, {0.75f, 0.25f}, 120}, /* 116.25 + 25 = 141.25: 120.5 */
		{OP_TIMM_MIX, 0, {1, 0}, 100}, {OP_TIMM_MIX, 1, {1, 0}, 155},
		{OP_TIMM_BLEND, 0.5f, {0.5f, 0.25f}, 120}, /* 127.5: 127; 127 - 6.75 */
	};
	const struct step_recipe recipe = augmix_recipe(false);
	struct augmenter *augmenter;
	struct fault fault;
	(void)state;
	assert_int_equal(augmenter_new(&recipe, 1, &augmenter, &fault), 0);
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		const struct step_plan plan = {.count = 4,
			.op = {{.kind = cases[i].kind, .amount = cases[i].share, .chains = 2},
				{.kind = OP_CHAIN, .amount = cases[i].amounts[0], .length = 1},
				{.kind = OP_INVERT},
				{.kind = OP_CHAIN, .amount = cases[i].amounts[1]}}};
		uint8_t out[3];
		memset(augmenter_image(augmenter), 100, 3);
		augmenter_run(augmenter, &plan, 1, 1, out);
		assert_int_equal(out[0], cases[i].want);
		assert_int_equal(out[2], cases[i].want);
	}
	augmenter_free(augmenter);
}

static void test_solarize_add(void **state)
{
	const struct step_recipe none = {0};
	const struct step_plan plan = {
		.count = 1, .op = {{.kind = OP_SOLARIZE_ADD, .amount = 128}}};
	struct augmenter *augmenter;
	struct fault fault;
	uint8_t out[3];
	(void)state;
	assert_int_equal(augmenter_new(&none, 1, &augmenter, &fault), 0);
	memcpy(augmenter_image(augmenter), "\x00\x7f\x80", 3);
	augmenter_run(augmenter, &plan, 1, 1, out);
	assert_memory_equal(out, "\x80\xff\x80", 3);
	augmenter_free(augmenter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_facts),
		cmocka_unit_test(test_which_and_whether),
		cmocka_unit_test(test_without_replacement),
		cmocka_unit_test(test_magnitudes),
		cmocka_unit_test(test_signs_and_filters),
		cmocka_unit_test(test_3a),
		cmocka_unit_test(test_original),
		cmocka_unit_test(test_augmix),
		cmocka_unit_test(test_blended),
		cmocka_unit_test(test_mixes),
		cmocka_unit_test(test_solarize_add),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

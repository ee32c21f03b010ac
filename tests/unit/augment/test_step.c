/* Recipes: nested steps, the number of their ops, and that draws depend only on seed, epoch,
 * position, view and the step's place among steps of its kind. */
#include "base/hash.h"
#include "unit/augment/steps.h"

#include <stdio.h>

static bool same_axis(const struct pad_axis *a, const struct pad_axis *b)
{
	return a->mode == b->mode && a->side == b->side && a->before == b->before &&
	       a->after == b->after && a->more == b->more && a->place == b->place &&
	       a->window == b->window && a->mirrored == b->mirrored;
}

static bool same_op(const struct op *a, const struct op *b)
{
	return a->kind == b->kind && a->width == b->width && a->height == b->height &&
	       same_axis(&a->axis[0], &b->axis[0]) && same_axis(&a->axis[1], &b->axis[1]) &&
	       a->filter == b->filter && a->amount == b->amount && a->kernel[0] == b->kernel[0] &&
	       a->kernel[1] == b->kernel[1] && a->sigma[0] == b->sigma[0] &&
	       a->sigma[1] == b->sigma[1] && a->box.x == b->box.x && a->box.y == b->box.y &&
	       a->box.w == b->box.w && a->box.h == b->box.h && a->chains == b->chains &&
	       a->length == b->length && steps_same_matrix(a, b);
}

static bool same_ops(const struct op *a, const struct op *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!same_op(&a[i], &b[i]))
			return false;
	return true;
}

static bool same_plan(const struct step_plan *a, const struct step_plan *b)
{
	return a->count == b->count && same_ops(a->op, b->op, a->count);
}

/* Steps below it hold no other steps. */
static const enum step_kind LEAVES = STEP_RANDOM_APPLY;

/* --- keys --- */

enum { SAMPLES = 3000 };

/* How many plans under one key equal the plans under another key. */
static uint32_t agreements(
	const struct step_recipe *recipe, struct pixel_key key, struct pixel_key other)
{
	static struct step_plan a, b;
	uint32_t count = 0;
	for (uint32_t i = 0; i < SAMPLES; i++) {
		step_plan(recipe, &key, STEPS_SIDE, STEPS_SIDE, &a);
		step_plan(recipe, &other, STEPS_SIDE, STEPS_SIDE, &b);
		count += same_plan(&a, &b);
		key.position++;
		other.position++;
	}
	return count;
}

/* Two estimates of one probability. */
static void check_alike(uint32_t a, uint32_t b, const char *what)
{
	double p = (a + b) / 2.0 / SAMPLES;
	double sigma = sqrt(2 * SAMPLES * p * (1 - p));
	if (fabs((double)a - b) > 4 * sigma + 1e-9)
		fail_msg("%s: %u of %d agree, expected %u", what, b, SAMPLES, a);
}

/* Two samples that differ in one part of the key agree as rarely as two samples that are far
 * apart. */
static void test_keys(void **state)
{
	const struct pixel_key key = {.seed = 1, .position = 1000};
	struct pixel_key far = key, next = key, seed = key, epoch = key, view = key;
	char what[64];
	(void)state;
	far.position += 1u << 30;
	next.position++;
	seed.seed++;
	epoch.epoch++;
	view.view++;
	for (enum step_kind kind = 0; kind < LEAVES; kind++) {
		struct step_recipe recipe = steps_recipe(kind);
		uint32_t by_chance = agreements(&recipe, key, far);
		(void)snprintf(what, sizeof(what), "step %d", kind);
		if (kind == STEP_GRAYSCALE || kind == STEP_RESIZE || kind == STEP_CENTER_CROP ||
			kind == STEP_PAD || kind == STEP_CENTER_CROP_OR_PAD) {
			assert_int_equal(by_chance, SAMPLES);
			continue;
		}
		assert_true(by_chance < SAMPLES * 9 / 10);
		check_alike(by_chance, agreements(&recipe, key, next), what);
		check_alike(by_chance, agreements(&recipe, key, seed), what);
		check_alike(by_chance, agreements(&recipe, key, epoch), what);
		check_alike(by_chance, agreements(&recipe, key, view), what);
	}
}

/* The same for the second of a kind. */
static void test_same(void **state)
{
	static struct step_plan first, second;
	(void)state;
	for (enum step_kind kind = 0; kind < LEAVES; kind++) {
		struct step_recipe recipe = steps_recipe(kind), other = recipe;
		const struct pixel_key key = {.seed = 2}, far = {.seed = 2, .position = 1u << 30};
		uint32_t by_chance = agreements(&recipe, key, far), same = 0;
		other.step[0].same = 1;
		for (uint32_t i = 0; i < SAMPLES; i++) {
			const struct pixel_key at = {.seed = 2, .position = i};
			step_plan(&recipe, &at, STEPS_SIDE, STEPS_SIDE, &first);
			step_plan(&other, &at, STEPS_SIDE, STEPS_SIDE, &second);
			same += same_plan(&first, &second);
		}
		check_alike(by_chance, same, "second of a kind");
	}
}

static void test_pure(void **state)
{
	static struct step_plan a, b;
	(void)state;
	for (enum step_kind kind = 0; kind < LEAVES; kind++)
		for (uint32_t i = 0; i < 100; i++) {
			struct step_recipe recipe = steps_recipe(kind);
			const struct pixel_key key = {
				.seed = 3, .position = i, .epoch = i % 3, .view = i % 2};
			memset(&a, 0x55, sizeof(a));
			memset(&b, 0xaa, sizeof(b));
			step_plan(&recipe, &key, STEPS_SIDE, STEPS_SIDE, &a);
			step_plan(&recipe, &key, STEPS_SIDE, STEPS_SIDE, &b);
			assert_true(same_plan(&a, &b));
		}
}

/* One step after the other, each as if it were the only one. */
static void check_two(enum step_kind first, enum step_kind second)
{
	static struct step_plan a, b;
	struct step_recipe two = steps_recipe(first), alone[2] = {steps_recipe(first), {0}};
	(void)steps_add(&two, second);
	alone[1].count = 1;
	alone[1].step[0] = two.step[1];
	for (uint32_t i = 0; i < 50; i++) {
		a = *steps_plan(&alone[0], 4, i);
		b = *steps_plan(&alone[1], 4, i);
		const struct step_plan *both = steps_plan(&two, 4, i);
		assert_int_equal(both->count, a.count + b.count);
		assert_true(same_ops(both->op, a.op, a.count));
		assert_true(same_ops(both->op + a.count, b.op, b.count));
	}
}

static void test_list(void **state)
{
	struct step_recipe none = {0};
	(void)state;
	assert_int_equal(steps_plan(&none, 4, 0)->count, 0);
	for (enum step_kind first = STEP_SIZINGS; first < LEAVES; first++)
		for (enum step_kind second = STEP_SIZINGS; second < LEAVES; second++)
			check_two(first, second);
}

/* --- steps within steps --- */

/* Always Posterize; the number of bits marks which step ran. */
static void add_mark(struct step_recipe *recipe, uint32_t mark)
{
	struct step *step = steps_add(recipe, STEP_RANDOM_POSTERIZE);
	step->p = 1;
	step->bits = mark;
}

static uint32_t mark_of(const struct step_plan *plan, uint32_t i)
{
	assert_true(i < plan->count);
	assert_int_equal(plan->op[i].kind, OP_POSTERIZE);
	return (uint32_t)plan->op[i].amount;
}

static void test_apply(void **state)
{
	struct step_recipe recipe = {0};
	uint32_t happened = 0;
	(void)state;
	add_mark(&recipe, 0);
	struct step *apply = steps_add(&recipe, STEP_RANDOM_APPLY);
	apply->p = 0.3;
	apply->inside = 2;
	add_mark(&recipe, 1);
	add_mark(&recipe, 2);
	add_mark(&recipe, 3);
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 5, i);
		bool all = plan->count == 4;
		happened += all;
		assert_true(all || plan->count == 2);
		assert_int_equal(mark_of(plan, 0), 0);
		assert_int_equal(mark_of(plan, plan->count - 1), 3);
		assert_true(!all || (mark_of(plan, 1) == 1 && mark_of(plan, 2) == 2));
	}
	steps_check_share(happened, STEPS_DRAWS, 0.3, "RandomApply");
	assert_int_equal(step_most(&recipe), 5 - 1);
}

static void test_choice(void **state)
{
	static const double chances[][6] = {{0.25, 0.25, 0.25, 0.25}, {0.5, 0.125, 0.375, 0},
		{0, 0, 1, 0}, {0.1, 0.2, 0.3, 0.4}};
	(void)state;
	for (unsigned c = 0; c < UTIL_COUNT(chances); c++) {
		uint32_t counts[4] = {0};
		struct step_recipe recipe = {0};
		struct step *choice = steps_add(&recipe, STEP_RANDOM_CHOICE);
		choice->inside = 4;
		memcpy(choice->chances, chances[c], sizeof(chances[c]));
		for (uint32_t i = 0; i < 4; i++)
			add_mark(&recipe, i);
		for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
			const struct step_plan *plan = steps_plan(&recipe, 6 + c, i);
			assert_int_equal(plan->count, 1);
			counts[mark_of(plan, 0)]++;
		}
		steps_check_shares(counts, chances[c], 4, "RandomChoice");
		assert_int_equal(step_most(&recipe), 1);
	}
}

static void test_order(void **state)
{
	uint32_t counts[24] = {0};
	struct step_recipe recipe = {0};
	(void)state;
	steps_add(&recipe, STEP_RANDOM_ORDER)->inside = 4;
	for (uint32_t i = 0; i < 4; i++)
		add_mark(&recipe, i);
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		const struct step_plan *plan = steps_plan(&recipe, 10, i);
		unsigned order = 0, seen = 0;
		assert_int_equal(plan->count, 4);
		for (uint32_t k = 0; k < 4; k++) {
			unsigned smaller = 0;
			for (uint32_t j = k + 1; j < 4; j++)
				smaller += mark_of(plan, j) < mark_of(plan, k);
			seen |= 1u << mark_of(plan, k);
			order = order * (4 - k) + smaller;
		}
		assert_int_equal(seen, 15);
		counts[order]++;
	}
	steps_check_shares(counts, NULL, 24, "RandomOrder");
	assert_int_equal(step_most(&recipe), 4);
}

/* Order of [Apply of [Choice of [1, Apply of [2, 3]], 4], 5], then 6. */
static struct step_recipe nested(double p)
{
	struct step_recipe recipe = {0};
	struct step *step = steps_add(&recipe, STEP_RANDOM_ORDER);
	step->inside = 8;
	step = steps_add(&recipe, STEP_RANDOM_APPLY);
	step->inside = 6;
	step->p = 1;
	step = steps_add(&recipe, STEP_RANDOM_CHOICE);
	step->inside = 4;
	step->chances[0] = step->chances[1] = 0.5;
	add_mark(&recipe, 1);
	step = steps_add(&recipe, STEP_RANDOM_APPLY);
	step->inside = 2;
	step->p = p;
	add_mark(&recipe, 2);
	add_mark(&recipe, 3);
	add_mark(&recipe, 4);
	add_mark(&recipe, 5);
	add_mark(&recipe, 6);
	return recipe;
}

/* The marks as the digits of a number. */
static uint32_t digits(const struct step_plan *plan)
{
	uint32_t number = 0;
	for (uint32_t i = 0; i < plan->count; i++)
		number = number * 10 + mark_of(plan, i);
	return number;
}

static void test_nested(void **state)
{
	static const struct {
		uint32_t digits;
		double share;
	} want[] = {{1456, 0.25}, {5146, 0.25}, {23456, 0.0625}, {52346, 0.0625}, {456, 0.1875},
		{546, 0.1875}};
	uint32_t counts[UTIL_COUNT(want)] = {0};
	double shares[UTIL_COUNT(want)];
	struct step_recipe recipe = nested(0.25);
	(void)state;
	assert_int_equal(step_most(&recipe), 5);
	for (uint32_t i = 0; i < STEPS_DRAWS; i++) {
		uint32_t number = digits(steps_plan(&recipe, 11, i)), found = 0;
		while (found < UTIL_COUNT(want) && want[found].digits != number)
			found++;
		if (found == UTIL_COUNT(want))
			fail_msg("%u is not a possible order", number);
		counts[found]++;
	}
	for (unsigned i = 0; i < UTIL_COUNT(want); i++)
		shares[i] = want[i].share;
	steps_check_shares(counts, shares, UTIL_COUNT(want), "nested");
}

/* As many steps as a recipe may have, each inside the one before. */
static void test_deep(void **state)
{
	struct step_recipe recipe = {0};
	(void)state;
	for (uint32_t i = 0; i + 1 < STEP_MAX; i++) {
		struct step *step = steps_add(&recipe, STEP_RANDOM_APPLY);
		step->inside = STEP_MAX - 1 - i;
		step->same = i % STEP_SAME_MAX;
		step->p = 1;
	}
	add_mark(&recipe, 7);
	assert_int_equal(step_most(&recipe), 1);
	assert_int_equal(digits(steps_plan(&recipe, 12, 0)), 7);
	recipe = (struct step_recipe){0};
	struct step *order = steps_add(&recipe, STEP_RANDOM_ORDER);
	order->inside = STEP_MAX - 1;
	for (uint32_t i = 1; i < STEP_MAX; i++) {
		add_mark(&recipe, i % 8);
		recipe.step[i].same %= STEP_SAME_MAX;
	}
	assert_int_equal(step_most(&recipe), STEP_MAX - 1);
	assert_int_equal(steps_plan(&recipe, 12, 0)->count, STEP_MAX - 1);
}

/* --- how many --- */

static void test_most(void **state)
{
	static const struct {
		enum step_kind kind;
		uint32_t most;
	} cases[] = {{STEP_COLOR_JITTER, 4}, {STEP_RAND_AUGMENT, 2}, {STEP_AUTO_AUGMENT, 2},
		{STEP_AUG_MIX, 1 + 3 * 4}, {STEP_RANDOM_ERASING, 1}, {STEP_THREE_AUGMENT, 1},
		{STEP_TIMM_AUTO_AUGMENT, 2}};
	struct step_recipe recipe = {0}, all = {0};
	uint32_t sum = 0;
	(void)state;
	assert_int_equal(step_most(&recipe), 0);
	steps_add(&all, STEP_RANDOM_CHOICE)->inside = UTIL_COUNT(cases);
	for (unsigned i = 0; i < UTIL_COUNT(cases); i++) {
		struct step_recipe one = steps_recipe(cases[i].kind);
		(void)steps_add(&recipe, cases[i].kind);
		(void)steps_add(&all, cases[i].kind);
		sum += cases[i].most;
		assert_int_equal(step_most(&one), cases[i].most);
		assert_int_equal(step_most(&recipe), sum);
	}
	assert_int_equal(step_most(&all), 13);
	recipe = steps_recipe(STEP_AUG_MIX);
	recipe.step[0].mixture_width = 10;
	recipe.step[0].chain_depth = 16;
	assert_int_equal(step_most(&recipe), 1 + 10 * 17);
	recipe = steps_recipe(STEP_TIMM_AUTO_AUGMENT);
	recipe.step[0].timm.policy = STEP_TIMM_AUGMIX;
	assert_int_equal(step_most(&recipe), 1 + 3 * 4);
	recipe.step[0].timm.policy = STEP_TIMM_3A;
	assert_int_equal(step_most(&recipe), 1);
	recipe = steps_recipe(STEP_COLOR_JITTER);
	recipe.step[0].hue[0] = recipe.step[0].hue[1] = 0;
	assert_int_equal(step_most(&recipe), 3);
}

/* No plan is longer than the bound. */
static void test_most_holds(void **state)
{
	(void)state;
	for (enum step_kind kind = 0; kind < LEAVES; kind++) {
		uint32_t longest = 0;
		struct step_recipe recipe = steps_recipe(kind);
		for (uint32_t i = 0; i < STEPS_DRAWS; i++)
			longest = UTIL_MAX(longest, steps_plan(&recipe, 13, i)->count);
		assert_int_equal(longest, step_most(&recipe));
	}
}

/* --- the promise: same seed, same draws --- */

static uint64_t hash_double(uint64_t h, double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof(bits));
	return hash_u64(h, bits);
}

static uint64_t hash_op(uint64_t h, const struct op *op)
{
	h = hash_double(hash_u64(h, op->kind), op->amount);
	for (int i = 0; i < OP_MATRIX; i++)
		h = hash_double(h, op->matrix[i]);
	h = hash_double(h, op->sigma[0]);
	h = hash_u64(hash_u64(h, op->box.x), op->box.y);
	h = hash_u64(hash_u64(h, op->box.w), op->box.h);
	if (op->width)
		h = hash_u64(hash_u64(h, op->width), op->height);
	for (int i = 0; i < 2 && op->kind == OP_WINDOW; i++)
		h = hash_u64(hash_u64(h, op->axis[i].before), op->axis[i].place);
	return hash_u64(hash_u64(h, op->chains), op->length);
}

static void test_golden(void **state)
{
	static const uint64_t want[STEP_KINDS] = {
		[STEP_RANDOM_RESIZED_CROP] = 0x43c2ec04f1d09504u,
		[STEP_RESIZE] = 0x0030a4b0eb8c84ceu,
		[STEP_CENTER_CROP] = 0x25b80d1cf12f8bbdu,
		[STEP_RANDOM_CROP] = 0x50797d5c36a3ec1du,
		[STEP_PAD] = 0xa542c3ddc16847b8u,
		[STEP_RANDOM_RESIZE] = 0x89bda11198d19972u,
		[STEP_SCALE_JITTER] = 0xb67ce3be0d45a4c5u,
		[STEP_RANDOM_SHORTEST_SIZE] = 0x358fdcf58dd9ce89u,
		[STEP_RANDOM_ZOOM_OUT] = 0x00bc266e49edc2d1u,
		[STEP_RESIZE_KEEP_RATIO] = 0xae1bb60855e3065bu,
		[STEP_CENTER_CROP_OR_PAD] = 0x25b80d1cf12f8bbdu,
		[STEP_RANDOM_CROP_OR_PAD] = 0xf2e62fa812e64242u,
		[STEP_RANDOM_HORIZONTAL_FLIP] = 0x48bb529603a0c995u,
		[STEP_RANDOM_VERTICAL_FLIP] = 0x99bd2b2c7c661faeu,
		[STEP_COLOR_JITTER] = 0x5716aceabd3731d4u,
		[STEP_GRAYSCALE] = 0xa06b308ec5246e45u,
		[STEP_RANDOM_GRAYSCALE] = 0xf1dac38a8238d58cu,
		[STEP_GAUSSIAN_BLUR] = 0xcad4dd37ea59f07bu,
		[STEP_RANDOM_SOLARIZE] = 0xd0efdcacfb82ecc6u,
		[STEP_RANDOM_POSTERIZE] = 0x5ed9da3bf774a6ebu,
		[STEP_RANDOM_EQUALIZE] = 0xa8795c2e47a6836au,
		[STEP_RANDOM_AUTOCONTRAST] = 0x403a7634d8670cd5u,
		[STEP_RANDOM_INVERT] = 0xbfa76abfb2541659u,
		[STEP_RANDOM_ADJUST_SHARPNESS] = 0xe313d11f3f4371e5u,
		[STEP_RANDOM_AFFINE] = 0x6b0446ab5533a0abu,
		[STEP_RANDOM_ROTATION] = 0xccc0ba921a83ea18u,
		[STEP_RANDOM_PERSPECTIVE] = 0xcd28c6d4d72c9284u,
		[STEP_RAND_AUGMENT] = 0x0882243a6b280d6du,
		[STEP_TRIVIAL_AUGMENT_WIDE] = 0xdb45a37da58a0c8du,
		[STEP_AUTO_AUGMENT] = 0x1d55e3a7f6e21df9u,
		[STEP_AUG_MIX] = 0xf5bc4c59910d8705u,
		[STEP_THREE_AUGMENT] = 0x21e8e1f76c371578u,
		[STEP_TIMM_AUTO_AUGMENT] = 0xeb9bc905daea3ba8u,
		[STEP_RANDOM_ERASING] = 0x5666291f17b093b9u,
	};
	static struct step_plan plan;
	unsigned wrong = 0;
	(void)state;
	for (enum step_kind kind = 0; kind < LEAVES; kind++) {
		struct step_recipe recipe = steps_recipe(kind);
		uint64_t h = HASH_SEED;
		recipe.step[0].same = 1;
		recipe.step[0].p = 0.5;
		for (uint32_t i = 0; i < 1000; i++) {
			const struct pixel_key key = {.seed = 14,
				.position = i * 7919ull,
				.epoch = i % 90,
				.view = i % 3};
			step_plan(&recipe, &key, 160 + i % 100, 224, &plan);
			for (uint32_t k = 0; k < plan.count; k++)
				h = hash_op(h, &plan.op[k]);
			h = hash_u64(h, plan.count);
		}
		if (hash_mix(h) == want[kind])
			continue;
		print_error("step %d draws other values than before: 0x%016llx\n", kind,
			(unsigned long long)hash_mix(h));
		wrong++;
	}
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_pure),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_apply),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_most),
		cmocka_unit_test(test_most_holds),
		cmocka_unit_test(test_golden),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* An image through a plan: where each op writes, which memory stays unchanged, and that the
 * parts of an augmenter's memory do not overlap. */
#include "augment/augment.h"
#include "base/hash.h"
#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SIDE = 37, BYTES = 3 * SIDE * SIDE };

static const struct op invert = {.kind = OP_INVERT}, flip = {.kind = OP_FLIP_HORIZONTAL},
		       erase = {.kind = OP_ERASE};

static void image_fill(uint8_t *image)
{
	for (size_t i = 0; i < BYTES; i++)
		image[i] = (uint8_t)hash_mix(i + 1);
}

static struct augmenter *augmenter_make(const struct step_recipe *recipe)
{
	struct augmenter *augmenter;
	struct fault fault;
	assert_int_equal(augmenter_new(recipe, SIDE, &augmenter, &fault), 0);
	return augmenter;
}

/* Ops of both kinds, in place and not, in any order. Applying an op twice undoes it, so a list's
 * result follows from the number of each op. */
static void test_orders(void **state)
{
	(void)state;
	static const struct step_recipe none;
	static uint8_t before[BYTES], out[BYTES];
	struct augmenter *augmenter = augmenter_make(&none);
	image_fill(before);
	for (unsigned list = 0; list < 64; list++) {
		struct step_plan plan = {0};
		unsigned inverted = 0, flipped = 0;
		for (unsigned bit = 0; bit < list % 7; bit++) {
			bool one = list >> bit & 1;
			plan.op[plan.count++] = one ? flip : invert;
			flipped ^= one;
			inverted ^= !one;
		}
		plan.op[plan.count++] = erase;
		image_fill(augmenter_image(augmenter));
		augmenter_run(augmenter, &plan, SIDE, SIDE, out);
		for (size_t i = 0; i < BYTES; i++) {
			size_t x = i / 3 % SIDE, row = i / 3 / SIDE;
			size_t at = 3 * (row * SIDE + (flipped ? SIDE - 1 - x : x)) + i % 3;
			assert_int_equal(out[i], inverted ? 255 - before[at] : before[at]);
		}
	}
	augmenter_free(augmenter);
}

/* Half of the image, plus a quarter of the result of each of two chains. Each result is the image's
 * inverse; one chain also flips it twice. The sum is gray only if the image is unchanged when the
 * second chain starts. */
static void test_chains(void **state)
{
	(void)state;
	static const struct step_recipe recipe = {.count = 1, .step = {{.kind = STEP_AUG_MIX}}};
	static uint8_t before[BYTES], out[BYTES];
	struct augmenter *augmenter = augmenter_make(&recipe);
	const struct step_plan plan = {.count = 8,
		.op = {{.kind = OP_AUGMIX, .amount = 0.5, .chains = 2},
			{.kind = OP_CHAIN, .amount = 0.25, .length = 3}, flip, invert, flip,
			{.kind = OP_CHAIN, .amount = 0.25, .length = 1}, invert, invert}};
	image_fill(before);
	image_fill(augmenter_image(augmenter));
	augmenter_run(augmenter, &plan, SIDE, SIDE, out);
	for (size_t i = 0; i < BYTES; i++)
		assert_int_equal(out[i], 255 - 127);
	augmenter_free(augmenter);
}

/* Blurs use all of the scratch memory, so an overlap with memory beside it would show. */
static void test_scratch(void **state)
{
	(void)state;
	static const struct step_recipe none, mix = {.count = 1, .step = {{.kind = STEP_AUG_MIX}}};
	static uint8_t out[2][BYTES];
	const struct step_plan plan = {.count = 3,
		.op = {{.kind = OP_BLUR, .kernel = {2 * SIDE - 1, 2 * SIDE - 1}, .sigma = {9, 9}},
			{.kind = OP_PILLOW_BLUR, .amount = 3}, flip}};
	for (int i = 0; i < 2; i++) {
		struct augmenter *augmenter = augmenter_make(i ? &mix : &none);
		image_fill(augmenter_image(augmenter));
		augmenter_run(augmenter, &plan, SIDE, SIDE, out[i]);
		augmenter_free(augmenter);
	}
	assert_memory_equal(out[0], out[1], BYTES);
	assert_true(augmenter_bytes(&mix, SIDE) >= augmenter_bytes(&none, SIDE) + 6 * BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_orders),
		cmocka_unit_test(test_chains),
		cmocka_unit_test(test_scratch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

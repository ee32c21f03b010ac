/* step: see step.h. Determines which steps are carried out and in which order, and makes the draws
 * of the steps that are operations themselves; step_policy.c has the rest.
 *
 * Draws of a step, by number and word; unless the table says otherwise, words 0 and 1 of draw 0
 * decide whether the step is carried out.
 *
 *   ColorJitter        0  word 0: the order; 1  words 0 .. 3: brightness, contrast, saturation, hue
 *   GaussianBlur       0  word 0: sigma, or Pillow's radius
 *   RandomAffine       0  angle, translation by x, y, scale; 1  shear by x, y
 *   RandomRotation     0  word 0: angle
 *   RandomPerspective  1  top left x, y, top right x, y; 2  bottom right x, y, bottom left x, y
 *   ThreeAugment       0  word 0: which operation; 1: the radius of the blur
 *   RandomErasing      see proto/erase.h
 *   RandomResizedCrop  a  of attempt a, see pixel/draw.h
 *   RandomCrop         0  words 0 and 1: row; 2 and 3: column; so does RandomCropOrPad
 *   RandomResize       0  words 0 and 1: the size
 *   ScaleJitter        0  word 0: the scale, in 24 bits as torch.rand
 *   RandomShortestSize 0  words 0 and 1: which size
 *   RandomZoomOut      1  words 0, 1, 2: side, left, top, in 24 bits
 *   all that resize    k  of PHILOX_INTERPOLATION, k the kind, word 0: a filter that is random
 *   ResizeKeepRatio    0  words 0 and 1: whether to scale; 2: scale; 1  the same of the aspect
 *   RandomChoice       0  words 0 and 1: which step
 *   RandomOrder        i  words 0 and 1: with which of the i + 1 first the i-th changes places */
#include "augment/step.h"

#include "augment/step_policy.h"
#include "augment/step_size.h"
#include "augment/step_timm.h"
#include "base/util.h"
#include "proto/erase.h"

#include <assert.h>
#include <math.h>

/* ---- operations without a strength ---- */

static bool step_wanted(
	const struct step_sample *sample, enum philox_operation operation, const struct step *step)
{
	return step_happens(step_words(sample, operation, step, 0), step->p);
}

static void step_maybe(struct step_sample *sample, const struct step *step,
	enum philox_operation operation, enum op_kind kind, double amount)
{
	if (step_wanted(sample, operation, step))
		step_push_amount(sample, kind, amount);
}

static void step_flip_horizontal(struct step_sample *sample, const struct step *step)
{
	step_maybe(sample, step, PHILOX_HORIZONTAL_FLIP, OP_FLIP_HORIZONTAL, 0);
}

static void step_flip_vertical(struct step_sample *sample, const struct step *step)
{
	step_maybe(sample, step, PHILOX_VERTICAL_FLIP, OP_FLIP_VERTICAL, 0);
}

static void step_grayscale(struct step_sample *sample, const struct step *step)
{
	(void)step;
	step_push_amount(sample, OP_GRAYSCALE, 0);
}

static void step_random_grayscale(struct step_sample *sample, const struct step *step)
{
	step_maybe(sample, step, PHILOX_GRAYSCALE, OP_GRAYSCALE, 0);
}

static void step_solarize(struct step_sample *sample, const struct step *step)
{
	assert(step->threshold >= 0 && step->threshold <= 256);
	step_maybe(sample, step, PHILOX_SOLARIZE, OP_SOLARIZE, step->threshold);
}

static void step_posterize(struct step_sample *sample, const struct step *step)
{
	assert(step->bits <= 8);
	step_maybe(sample, step, PHILOX_POSTERIZE, OP_POSTERIZE, step->bits);
}

static void step_equalize(struct step_sample *sample, const struct step *step)
{
	step_maybe(sample, step, PHILOX_EQUALIZE, OP_EQUALIZE, 0);
}

static void step_autocontrast(struct step_sample *sample, const struct step *step)
{
	step_maybe(sample, step, PHILOX_AUTOCONTRAST, OP_AUTOCONTRAST, 0);
}

static void step_invert(struct step_sample *sample, const struct step *step)
{
	step_maybe(sample, step, PHILOX_INVERT, OP_INVERT, 0);
}

static void step_adjust_sharpness(struct step_sample *sample, const struct step *step)
{
	assert(step->sharpness_factor >= 0);
	step_maybe(sample, step, PHILOX_ADJUST_SHARPNESS, OP_SHARPNESS, step->sharpness_factor);
}

/* ---- operations with a strength ---- */

enum { JITTERS = 4 };

/* The operations of ColorJitter in torchvision's order; false if an operation would change nothing:
 * torchvision leaves it out, too. */
static bool step_jitter(
	const struct step *step, uint32_t which, enum op_kind *ret_kind, const double **ret_range)
{
	const struct {
		enum op_kind kind;
		const double *range;
		double nothing;
	} jitters[JITTERS] = {
		{OP_BRIGHTNESS, step->brightness, 1},
		{OP_CONTRAST, step->contrast, 1},
		{OP_SATURATION, step->saturation, 1},
		{OP_HUE, step->hue, 0},
	};
	*ret_kind = jitters[which].kind;
	*ret_range = jitters[which].range;
	return jitters[which].range[0] != jitters[which].nothing ||
	       jitters[which].range[1] != jitters[which].nothing;
}

/* The permutation of `count` things with number `order`, from 0. */
static void step_permute(uint32_t order, uint32_t *things, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t other = order % i, thing = things[other];
		order /= i;
		things[other] = things[i - 1];
		things[i - 1] = thing;
	}
}

static void step_color_jitter(struct step_sample *sample, const struct step *step)
{
	uint32_t order[JITTERS] = {0, 1, 2, 3};
	enum op_kind kind;
	const double *range;
	struct philox r = step_words(sample, PHILOX_COLOR_JITTER, step, 0);
	step_permute(step_pick(r.word[0], 24), order, JITTERS);
	r = step_words(sample, PHILOX_COLOR_JITTER, step, 1);
	for (uint32_t i = 0; i < JITTERS; i++)
		if (step_jitter(step, order[i], &kind, &range))
			step_push_amount(sample, kind, step_between(r.word[order[i]], range));
}

static uint32_t step_jitters(const struct step *step)
{
	enum op_kind kind;
	const double *range;
	uint32_t count = 0;
	for (uint32_t i = 0; i < JITTERS; i++)
		count += step_jitter(step, i, &kind, &range);
	return count;
}

static void step_gaussian_blur(struct step_sample *sample, const struct step *step)
{
	struct philox r = step_words(sample, PHILOX_GAUSSIAN_BLUR, step, 0);
	if (step->has_radius) {
		step_push_amount(sample, OP_PILLOW_BLUR, step_between(r.word[0], step->radius));
		return;
	}
	double sigma = step_between(r.word[0], step->sigma);
	if (step->kernel_size[0] >= 2 * sample->width ||
		step->kernel_size[1] >= 2 * sample->height) {
		step_refuse(sample, step, STEP_E_SMALL);
		return;
	}
	assert(sigma > 0 && (step->kernel_size[0] & step->kernel_size[1] & 1));
	step_push(sample, &(const struct op){.kind = OP_BLUR,
				  .kernel = {step->kernel_size[0], step->kernel_size[1]},
				  .sigma = {sigma, sigma}});
}

/* DeiT III's recipe (facebookresearch/deit, augment.py): grayscale, solarize at 128 and Pillow's
 * blur of a radius of 0.1 to 2. */
static void step_three_augment(struct step_sample *sample, const struct step *step)
{
	static const double radius[2] = {0.1, 2.0};
	struct philox r = step_words(sample, PHILOX_THREE_AUGMENT, step, 0);
	switch (step_pick(r.word[0], 3)) {
	case 0:
		step_push_amount(sample, OP_GRAYSCALE, 0);
		break;
	case 1:
		step_push_amount(sample, OP_SOLARIZE, 128);
		break;
	default:
		step_push_amount(sample, OP_PILLOW_BLUR, step_between(r.word[1], radius));
	}
}

/* ---- operations on positions ---- */

static int32_t step_translation(uint32_t word, double share, uint32_t side)
{
	double most = share * side;
	return (int32_t)rint(step_between(word, (const double[2]){-most, most}));
}

static void step_affine_op(struct step_sample *sample, const struct step *step)
{
	struct op op;
	struct philox r = step_words(sample, PHILOX_AFFINE, step, 0);
	struct philox s = step_words(sample, PHILOX_AFFINE, step, 1);
	struct step_warp warp = step_warp_of(sample, step);
	struct step_affine affine = {.angle = step_between(r.word[0], step->degrees),
		.translate = {step_translation(r.word[1], step->translate[0], sample->width),
			step_translation(r.word[2], step->translate[1], sample->height)},
		.scale = step_between(r.word[3], step->scale),
		.shear = {step_between(s.word[0], step->shear),
			step_between(s.word[1], step->shear + 2)},
		.center = step->has_center ? step->center : NULL};
	assert(affine.scale > 0);
	if (step_warp_affine(&warp, &affine, &op))
		step_push(sample, &op);
}

static void step_rotation(struct step_sample *sample, const struct step *step)
{
	struct op op;
	struct philox r = step_words(sample, PHILOX_ROTATION, step, 0);
	struct step_warp warp = step_warp_of(sample, step);
	double angle = step_between(r.word[0], step->degrees);
	const double *center = step->has_center ? step->center : NULL;
	struct pixel_size size;
	if (step->expand && step_warp_rotate_all(&warp, angle, center, &op, &size))
		step_push_size(sample, step, &op, size.width, size.height);
	else if (!step->expand && step_warp_rotate(&warp, angle, center, &op))
		step_push(sample, &op);
}

/* A distance from the near or the far end of a side, inward, as far as distortion_scale allows. */
static int32_t step_corner(const struct step *step, uint32_t word, uint32_t side, bool far)
{
	assert(step->distortion_scale >= 0 && step->distortion_scale <= 1);
	uint32_t half = side / 2, count = (uint32_t)(step->distortion_scale * half) + 1;
	uint32_t inwards = step_pick(word, count);
	return (int32_t)(far ? side - count + inwards : inwards);
}

static void step_perspective(struct step_sample *sample, const struct step *step)
{
	struct op op;
	uint32_t w = sample->width, h = sample->height;
	if (!step_wanted(sample, PHILOX_PERSPECTIVE, step))
		return;
	struct philox r = step_words(sample, PHILOX_PERSPECTIVE, step, 1);
	struct philox s = step_words(sample, PHILOX_PERSPECTIVE, step, 2);
	const int32_t corners[4][2] = {
		{step_corner(step, r.word[0], w, false), step_corner(step, r.word[1], h, false)},
		{step_corner(step, r.word[2], w, true), step_corner(step, r.word[3], h, false)},
		{step_corner(step, s.word[0], w, true), step_corner(step, s.word[1], h, true)},
		{step_corner(step, s.word[2], w, false), step_corner(step, s.word[3], h, true)},
	};
	struct step_warp warp = step_warp_of(sample, step);
	if (step_warp_perspective(&warp, corners, &op))
		step_push(sample, &op);
}

static void step_erasing(struct step_sample *sample, const struct step *step)
{
	const struct erase_key key = {.seed = sample->key->seed,
		.position = sample->key->position,
		.epoch = sample->key->epoch,
		.operation = PHILOX_ERASING,
		.step = sample->key->view << 12 | step->same << 8};
	struct erase_box box;
	struct op op = {.kind = OP_ERASE};
	if (!erase_happens(&key, step->p) ||
		!erase_box(&key, step->scale, step->ratio, sample->width, sample->height, &box))
		return;
	op.box.x = box.x;
	op.box.y = box.y;
	op.box.w = box.w;
	op.box.h = box.h;
	for (int c = 0; c < 3; c++)
		op.box.value[c] = step->value[c];
	op.box.noise = step->value_random;
	step_push(sample, &op);
}

/* ---- which steps, in which order ---- */

typedef void step_fn(struct step_sample *sample, const struct step *step);

static step_fn *const step_functions[STEP_KINDS] = {
	[STEP_RANDOM_RESIZED_CROP] = step_resized_crop,
	[STEP_RESIZE] = step_resize,
	[STEP_CENTER_CROP] = step_center_crop,
	[STEP_RANDOM_CROP] = step_random_crop,
	[STEP_PAD] = step_pad,
	[STEP_RANDOM_RESIZE] = step_random_resize,
	[STEP_SCALE_JITTER] = step_scale_jitter,
	[STEP_RANDOM_SHORTEST_SIZE] = step_shortest_size,
	[STEP_RANDOM_ZOOM_OUT] = step_zoom_out,
	[STEP_RESIZE_KEEP_RATIO] = step_keep_ratio,
	[STEP_CENTER_CROP_OR_PAD] = step_center_crop,
	[STEP_RANDOM_CROP_OR_PAD] = step_crop_or_pad,
	[STEP_RANDOM_HORIZONTAL_FLIP] = step_flip_horizontal,
	[STEP_RANDOM_VERTICAL_FLIP] = step_flip_vertical,
	[STEP_COLOR_JITTER] = step_color_jitter,
	[STEP_GRAYSCALE] = step_grayscale,
	[STEP_RANDOM_GRAYSCALE] = step_random_grayscale,
	[STEP_GAUSSIAN_BLUR] = step_gaussian_blur,
	[STEP_RANDOM_SOLARIZE] = step_solarize,
	[STEP_RANDOM_POSTERIZE] = step_posterize,
	[STEP_RANDOM_EQUALIZE] = step_equalize,
	[STEP_RANDOM_AUTOCONTRAST] = step_autocontrast,
	[STEP_RANDOM_INVERT] = step_invert,
	[STEP_RANDOM_ADJUST_SHARPNESS] = step_adjust_sharpness,
	[STEP_RANDOM_AFFINE] = step_affine_op,
	[STEP_RANDOM_ROTATION] = step_rotation,
	[STEP_RANDOM_PERSPECTIVE] = step_perspective,
	[STEP_RAND_AUGMENT] = step_rand_augment,
	[STEP_TRIVIAL_AUGMENT_WIDE] = step_trivial_augment,
	[STEP_AUTO_AUGMENT] = step_auto_augment,
	[STEP_AUG_MIX] = step_aug_mix,
	[STEP_THREE_AUGMENT] = step_three_augment,
	[STEP_TIMM_AUTO_AUGMENT] = step_timm_auto_augment,
	[STEP_RANDOM_ERASING] = step_erasing,
};

/* Indices of steps. */
struct step_list {
	uint32_t count;
	uint32_t at[STEP_MAX];
};

/* The steps among `from` .. `to` - 1 that are not nested in another of them. */
static void step_direct(
	const struct step_recipe *recipe, uint32_t from, uint32_t to, struct step_list *ret)
{
	ret->count = 0;
	for (uint32_t i = from; i < to; i += 1 + recipe->step[i].inside)
		ret->at[ret->count++] = i;
}

static void step_shuffle(
	const struct step_sample *sample, const struct step *step, struct step_list *list)
{
	for (uint32_t i = 1; i < list->count; i++) {
		struct philox r = step_words(sample, PHILOX_ORDER, step, i);
		uint32_t other = (uint32_t)philox_below(r.word[0], r.word[1], i + 1);
		uint32_t moved = list->at[other];
		list->at[other] = list->at[i];
		list->at[i] = moved;
	}
}

/* The last step with a nonzero chance takes what rounding leaves of the sum. */
static void step_choose(
	const struct step_sample *sample, const struct step *step, struct step_list *list)
{
	struct philox r = step_words(sample, PHILOX_CHOICE, step, 0);
	double left = philox_unit(r.word[0], r.word[1]);
	uint32_t chosen = 0;
	assert(list->count >= 1 && list->count <= STEP_SAME_MAX);
	for (uint32_t i = 0; i < list->count; i++) {
		if (step->chances[i] <= 0)
			continue;
		chosen = i;
		if (left < step->chances[i])
			break;
		left -= step->chances[i];
	}
	list->at[0] = list->at[chosen];
	list->count = 1;
}

/* The nested steps to carry out, in order. */
static void step_open(const struct step_sample *sample, const struct step_recipe *recipe,
	uint32_t at, struct step_list *ret)
{
	const struct step *step = &recipe->step[at];
	step_direct(recipe, at + 1, at + 1 + step->inside, ret);
	if (step->kind == STEP_RANDOM_CHOICE)
		step_choose(sample, step, ret);
	else if (step->kind == STEP_RANDOM_ORDER)
		step_shuffle(sample, step, ret);
	else if (!step_wanted(sample, PHILOX_APPLY, step))
		ret->count = 0;
}

/* Pushes them on the stack, the first of them last. */
static void step_stack(struct step_list *stack, const struct step_list *list)
{
	assert(stack->count + list->count <= STEP_MAX);
	for (uint32_t i = list->count; i > 0; i--)
		stack->at[stack->count++] = list->at[i - 1];
}

void step_plan(const struct step_recipe *recipe, const struct pixel_key *key, uint32_t width,
	uint32_t height, struct step_plan *ret)
{
	struct step_sample sample = {key, width, height, ret, recipe->pixels};
	struct step_list stack = {0}, list;
	assert(recipe->count <= STEP_MAX && width >= 1 && height >= 1);
	ret->count = 0;
	ret->refusal = STEP_FITS;
	step_direct(recipe, 0, recipe->count, &list);
	step_stack(&stack, &list);
	while (stack.count && !ret->refusal) {
		uint32_t at = stack.at[--stack.count];
		step_fn *function = step_functions[recipe->step[at].kind];
		if (function) {
			function(&sample, &recipe->step[at]);
			continue;
		}
		step_open(&sample, recipe, at, &list);
		step_stack(&stack, &list);
	}
	ret->size = (struct pixel_size){sample.height, sample.width};
}

/* ---- how many ops ---- */

static uint32_t step_most_mixed(const struct step *step)
{
	return 1 + step->mixture_width *
			   (1 + (step->chain_depth < 0 ? 3 : (uint32_t)step->chain_depth));
}

/* For a step without nested steps. */
static uint32_t step_most_itself(const struct step *step)
{
	switch (step->kind) {
	case STEP_COLOR_JITTER:
		return step_jitters(step);
	case STEP_RAND_AUGMENT:
		return step->num_ops;
	case STEP_AUTO_AUGMENT:
		return POLICY_AUTO_LENGTH;
	case STEP_AUG_MIX:
		return step_most_mixed(step);
	case STEP_TIMM_AUTO_AUGMENT:
		return step_timm_most(step);
	default:
		return 1;
	}
}

/* The sum over all nested steps, or the largest of them. */
static uint32_t step_most_of(const uint32_t *most, const struct step_list *list, bool one)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < list->count; i++) {
		uint32_t of_it = most[list->at[i]];
		sum = one ? UTIL_MAX(sum, of_it) : sum + of_it;
	}
	return sum;
}

uint32_t step_most(const struct step_recipe *recipe)
{
	uint32_t most[STEP_MAX];
	struct step_list list;
	assert(recipe->count <= STEP_MAX);
	for (uint32_t i = recipe->count; i > 0; i--) {
		const struct step *step = &recipe->step[i - 1];
		step_direct(recipe, i, i + step->inside, &list);
		most[i - 1] = step_functions[step->kind]
				      ? step_most_itself(step)
				      : step_most_of(most, &list, step->kind == STEP_RANDOM_CHOICE);
	}
	step_direct(recipe, 0, recipe->count, &list);
	return step_most_of(most, &list, false);
}

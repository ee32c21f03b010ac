/* transforms_sizes: see transforms_sizes.h. */
#include "definition/transforms/transforms_sizes.h"

#include "augment/step_size.h"
#include "base/util.h"
#include "definition/transforms/transforms_table.h"

#include <assert.h>
#include <math.h>

#define SIZES_MOST ((uint64_t)1 << 24)

bool transforms_sides_are_one(const struct transforms_sides *sides)
{
	return sides->least_width == sides->most_width && sides->least_height == sides->most_height;
}

static bool sizes_keeps(const struct transforms_op *op)
{
	return op->kind >= TRANSFORMS_STEP(STEP_SIZINGS) && !op->step.expand;
}

bool transforms_changes_size(const struct transforms *transforms, uint32_t i)
{
	for (uint32_t k = i; k <= i + transforms->op[i].step.inside; k++)
		if (!sizes_keeps(&transforms->op[k]))
			return true;
	return false;
}

/* ---- one operation ---- */

static void sizes_set(struct transforms_sides *sides, struct pixel_size size)
{
	sides->least_width = sides->most_width = size.width;
	sides->least_height = sides->most_height = size.height;
}

/* Each side is between these; the operation leaves the size open. */
static void sizes_between(struct transforms_sides *sides, uint64_t least, double most_width,
	double most_height, uint32_t opener)
{
	sides->least_width = sides->least_height = UTIL_MAX(least, (uint64_t)1);
	sides->most_width = (uint64_t)fmin(ceil(most_width), (double)SIZES_MOST);
	sides->most_height = (uint64_t)fmin(ceil(most_height), (double)SIZES_MOST);
	sides->most_width = UTIL_MAX(sides->most_width, sides->least_width);
	sides->most_height = UTIL_MAX(sides->most_height, sides->least_height);
	sides->opener = opener;
}

/* The most that width / height and height / width can be. */
static double sizes_wide(const struct transforms_sides *sides)
{
	return (double)sides->most_width / (double)sides->least_height;
}

static double sizes_tall(const struct transforms_sides *sides)
{
	return (double)sides->most_height / (double)sides->least_width;
}

/* The shorter side becomes `least` .. `most`, the longer one at most `longest` (0: any). */
static void sizes_shorter(struct transforms_sides *sides, uint32_t least, uint32_t most,
	uint32_t longest, uint32_t opener)
{
	double width = most * fmax(sizes_wide(sides), 1),
	       height = most * fmax(sizes_tall(sides), 1);
	if (longest) {
		width = fmin(width, longest);
		height = fmin(height, longest);
		least = 1;
	}
	sizes_between(sides, least, width, height, opener);
}

static void sizes_keep_ratio(
	const struct step *step, struct transforms_sides *sides, uint32_t opener)
{
	double width = fmax(step->size.width, step->size.height * sizes_wide(sides));
	double height = fmax(step->size.height, step->size.width * sizes_tall(sides));
	double factor = 1;
	if (step->longest >= 1) {
		width = step->size.width;
		height = step->size.height;
	}
	if (step->random_scale_prob > 0)
		factor = fmax(1, step->random_scale_area ? 1 / sqrt(step->random_scale_range[0])
							 : step->random_scale_range[1]);
	if (step->random_aspect_prob > 0)
		factor *=
			sqrt(fmax(step->random_aspect_range[1], 1 / step->random_aspect_range[0]));
	sizes_between(sides, 1, width * factor + 1, height * factor + 1, opener);
}

/* The size that Resize and ResizeKeepRatio make of one size, if nothing is drawn. */
static bool sizes_known(const struct step *step, struct transforms_sides *sides)
{
	bool draws = step->random_scale_prob > 0 || step->random_aspect_prob > 0;
	uint64_t width, height;
	if (!transforms_sides_are_one(sides) || sides->most_width > OP_SIDE_MAX ||
		sides->most_height > OP_SIDE_MAX)
		return false;
	const uint32_t w = (uint32_t)sides->most_width, h = (uint32_t)sides->most_height;
	if (step->kind == STEP_RESIZE)
		step_resized(step, w, h, &width, &height);
	else if (step->kind == STEP_RESIZE_KEEP_RATIO && !draws)
		step_kept_ratio(step, w, h, 1, 1, &width, &height);
	else
		return false;
	sizes_between(sides, 1, (double)width, (double)height, sides->opener);
	sides->least_width = sides->most_width;
	sides->least_height = sides->most_height;
	return true;
}

static void sizes_pad(const struct step *step, struct transforms_sides *sides)
{
	const struct pixel_padding *padding = &step->padding;
	uint64_t across = (uint64_t)padding->left + padding->right;
	uint64_t down = (uint64_t)padding->top + padding->bottom;
	sides->least_width += across;
	sides->most_width += across;
	sides->least_height += down;
	sides->most_height += down;
}

static void sizes_turn(struct transforms_sides *sides, uint32_t opener)
{
	double most = hypot((double)sides->most_width, (double)sides->most_height) + 2;
	sizes_between(sides, UTIL_MIN(sides->least_width, sides->least_height), most, most, opener);
}

/* The sizes after an operation that contains none. `step`: as transforms_steps makes it. */
static void sizes_after(const struct step *step, uint32_t i, struct transforms_sides *sides)
{
	uint64_t longest = step->max_size;
	switch ((int)step->kind) {
	case STEP_RANDOM_RESIZED_CROP:
	case STEP_CENTER_CROP:
	case STEP_RANDOM_CROP:
	case STEP_CENTER_CROP_OR_PAD:
	case STEP_RANDOM_CROP_OR_PAD:
		sizes_set(sides, step->size);
		return;
	default:
		break;
	}
	if (step->kind == STEP_RESIZE && step->both)
		sizes_set(sides, step->size);
	else if (sizes_known(step, sides))
		return;
	else if (step->kind == STEP_RESIZE && step->no_size)
		sizes_between(sides, 1, (double)longest, (double)longest, i);
	else if (step->kind == STEP_RESIZE)
		sizes_shorter(sides, step->size.height, step->size.height, step->max_size, i);
	else if (step->kind == STEP_RANDOM_RESIZE)
		sizes_shorter(sides, step->min_size[0], step->max_size - 1, 0, i);
	else if (step->kind == STEP_RANDOM_SHORTEST_SIZE) {
		uint32_t least = UINT32_MAX, most = 0;
		for (uint32_t k = 0; k < step->min_sizes; k++) {
			least = UTIL_MIN(least, step->min_size[k]);
			most = UTIL_MAX(most, step->min_size[k]);
		}
		/* The product may round down. */
		sizes_shorter(sides, least - 1, most, step->max_size, i);
	} else if (step->kind == STEP_SCALE_JITTER)
		sizes_between(sides, 1, step->size.height * step->scale[1] + 1,
			step->size.width * step->scale[1] + 1, i);
	else if (step->kind == STEP_RANDOM_ZOOM_OUT && step->p > 0)
		sizes_between(sides, UTIL_MIN(sides->least_width, sides->least_height),
			(double)sides->most_width * step->scale[1] + 1,
			(double)sides->most_height * step->scale[1] + 1, i);
	else if (step->kind == STEP_RESIZE_KEEP_RATIO)
		sizes_keep_ratio(step, sides, i);
	else if (step->kind == STEP_PAD)
		sizes_pad(step, sides);
	else if (step->expand)
		sizes_turn(sides, i);
}

/* ---- operations that contain others ---- */

struct sizes_walk {
	const struct transforms *transforms;
	struct transforms_sizes *sizes;
	bool seen[TRANSFORMS_MAX];
};

/* Both: an image may come either way. `opener` is at fault where each way alone makes one size. */
static void sizes_join(
	struct transforms_sides *sides, const struct transforms_sides *other, uint32_t opener)
{
	bool one = transforms_sides_are_one(sides), other_one = transforms_sides_are_one(other);
	uint32_t within = one ? other->opener : sides->opener;
	sides->least_width = UTIL_MIN(sides->least_width, other->least_width);
	sides->most_width = UTIL_MAX(sides->most_width, other->most_width);
	sides->least_height = UTIL_MIN(sides->least_height, other->least_height);
	sides->most_height = UTIL_MAX(sides->most_height, other->most_height);
	sides->opener = one && other_one ? opener : within;
}

static void sizes_walk_one(struct sizes_walk *walk, uint32_t i, struct transforms_sides *sides);

static void sizes_walk_list(
	struct sizes_walk *walk, uint32_t from, uint32_t to, struct transforms_sides *sides)
{
	for (uint32_t i = from; i < to; i += 1 + walk->transforms->op[i].step.inside)
		sizes_walk_one(walk, i, sides);
}

static void sizes_walk_apply(struct sizes_walk *walk, uint32_t i, struct transforms_sides *sides)
{
	const struct step *step = &walk->transforms->op[i].step;
	struct transforms_sides without = *sides;
	sizes_walk_list(walk, i + 1, i + 1 + step->inside, sides);
	if (step->p <= 0)
		*sides = without;
	else if (step->p < 1)
		sizes_join(sides, &without, i);
}

static void sizes_walk_choice(struct sizes_walk *walk, uint32_t i, struct transforms_sides *sides)
{
	struct step step;
	struct transforms_sides all = *sides;
	bool first = true;
	uint32_t number = 0;
	transforms_step(walk->transforms, i, &step);
	for (uint32_t k = i + 1; k <= i + step.inside; number++) {
		struct transforms_sides one = *sides;
		sizes_walk_one(walk, k, &one);
		if (step.chances[number] > 0 && first)
			all = one;
		else if (step.chances[number] > 0)
			sizes_join(&all, &one, i);
		first = first && step.chances[number] <= 0;
		k += 1 + walk->transforms->op[k].step.inside;
	}
	*sides = all;
}

/* The sizes after all operations in any order: by the sets of those that have come already. */
static void sizes_walk_order(struct sizes_walk *walk, uint32_t i, struct transforms_sides *sides)
{
	const struct transforms *transforms = walk->transforms;
	struct transforms_sides after[1 << TRANSFORMS_ORDERS_MAX];
	bool reached[1 << TRANSFORMS_ORDERS_MAX] = {true};
	uint32_t at[TRANSFORMS_ORDERS_MAX], count = 0;
	for (uint32_t k = i + 1; k <= i + transforms->op[i].step.inside;
		k += 1 + transforms->op[k].step.inside) {
		if (count == TRANSFORMS_ORDERS_MAX) {
			walk->sizes->orders = i + 1;
			sizes_walk_list(walk, i + 1, i + 1 + transforms->op[i].step.inside, sides);
			return;
		}
		at[count++] = k;
	}
	after[0] = *sides;
	for (uint32_t set = 0; set < 1u << count; set++)
		for (uint32_t k = 0; k < count; k++) {
			if (set >> k & 1)
				continue;
			struct transforms_sides next = after[set];
			uint32_t with = set | 1u << k;
			sizes_walk_one(walk, at[k], &next);
			if (reached[with])
				sizes_join(&after[with], &next, i);
			else
				after[with] = next;
			reached[with] = true;
		}
	*sides = after[(1u << count) - 1];
}

static void sizes_walk_leaf(
	const struct sizes_walk *walk, uint32_t i, struct transforms_sides *sides)
{
	struct step step;
	transforms_step(walk->transforms, i, &step);
	sizes_after(&step, i, sides);
}

static void sizes_walk_one(struct sizes_walk *walk, uint32_t i, struct transforms_sides *sides)
{
	struct transforms_sides *before = &walk->sizes->before[i];
	if (walk->seen[i])
		sizes_join(before, sides, i);
	else
		*before = *sides;
	walk->seen[i] = true;
	switch ((int)walk->transforms->op[i].kind) {
	case STEP_RANDOM_APPLY:
		sizes_walk_apply(walk, i, sides);
		break;
	case STEP_RANDOM_CHOICE:
		sizes_walk_choice(walk, i, sides);
		break;
	case STEP_RANDOM_ORDER:
		if (transforms_changes_size(walk->transforms, i))
			sizes_walk_order(walk, i, sides);
		else
			sizes_walk_list(
				walk, i + 1, i + 1 + walk->transforms->op[i].step.inside, sides);
		break;
	default:
		sizes_walk_leaf(walk, i, sides);
	}
}

void transforms_find_sizes(const struct transforms *transforms, struct transforms_sizes *ret)
{
	struct sizes_walk walk = {.transforms = transforms, .sizes = ret};
	struct transforms_sides sides = {
		1, WEIGHTS_SOURCE_MAX, 1, WEIGHTS_SOURCE_MAX, TRANSFORMS_MAX};
	assert(transforms->count <= TRANSFORMS_MAX);
	*ret = (struct transforms_sizes){.orders = 0};
	sizes_walk_list(&walk, 0, transforms->count, &sides);
	ret->last = sides;
}

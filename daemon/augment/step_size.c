/* step_size: see step_size.h. The order of the operations on numbers is torchvision's and timm's:
 * it decides sizes that are close to the next integer. Pure functions. */
#include "augment/step_size.h"

#include "base/util.h"
#include "proto/elementary.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "float arithmetic must be done in float");

/* ---- resizing ---- */

/* As pixel_plan_place draws it for the head of a list. */
static enum weights_filter size_filter(const struct step_sample *sample, const struct step *step)
{
	if (step->interpolation != WEIGHTS_RANDOM)
		return step->interpolation;
	struct philox r = step_words(sample, PHILOX_INTERPOLATION, step, step->kind);
	return philox_below(r.word[0], 0, 2) ? WEIGHTS_BICUBIC : WEIGHTS_BILINEAR;
}

static void size_push_resize(struct step_sample *sample, const struct step *step,
	struct draw_box box, uint64_t width, uint64_t height)
{
	struct op op = {.kind = OP_RESIZE, .filter = size_filter(sample, step)};
	op.box.x = box.x;
	op.box.y = box.y;
	op.box.w = box.w;
	op.box.h = box.h;
	width = UTIL_MAX(width, (uint64_t)1);
	height = UTIL_MAX(height, (uint64_t)1);
	bool whole = box.w == sample->width && box.h == sample->height;
	if (!whole || width != box.w || height != box.h)
		step_push_size(sample, step, &op, width, height);
}

static void size_push_whole(
	struct step_sample *sample, const struct step *step, uint64_t width, uint64_t height)
{
	const struct draw_box box = {.w = sample->width, .h = sample->height};
	size_push_resize(sample, step, box, width, height);
}

void step_resized_crop(struct step_sample *sample, const struct step *step)
{
	const struct draw_box box = draw_resized_crop(
		sample->key, step->same, step->scale, step->ratio, sample->width, sample->height);
	size_push_resize(sample, step, box, step->size.width, step->size.height);
}

/* torchvision's _compute_resized_output_size. Python rounds quotients of integers correctly, so
 * integer division agrees with int(a * b / c). */
static void size_shorter(uint64_t size, uint64_t most, bool no_size, uint32_t width,
	uint32_t height, uint64_t *ret_width, uint64_t *ret_height)
{
	uint64_t shorter = UTIL_MIN(width, height), longer = UTIL_MAX(width, height);
	uint64_t new_shorter = size, new_longer = size * longer / shorter;
	if (no_size) {
		new_shorter = most * shorter / longer;
		new_longer = most;
	} else if (most && new_longer > most) {
		new_shorter = most * new_shorter / new_longer;
		new_longer = most;
	}
	*ret_width = width <= height ? new_shorter : new_longer;
	*ret_height = width <= height ? new_longer : new_shorter;
}

void step_resized(const struct step *step, uint32_t width, uint32_t height, uint64_t *ret_width,
	uint64_t *ret_height)
{
	*ret_width = step->size.width;
	*ret_height = step->size.height;
	if (!step->both)
		size_shorter(step->size.height, step->max_size, step->no_size, width, height,
			ret_width, ret_height);
	*ret_width = UTIL_MAX(*ret_width, (uint64_t)1);
	*ret_height = UTIL_MAX(*ret_height, (uint64_t)1);
}

void step_resize(struct step_sample *sample, const struct step *step)
{
	uint64_t width, height;
	step_resized(step, sample->width, sample->height, &width, &height);
	size_push_whole(sample, step, width, height);
}

void step_random_resize(struct step_sample *sample, const struct step *step)
{
	struct philox r = step_words(sample, PHILOX_RANDOM_RESIZE, step, 0);
	uint64_t width, height;
	assert(step->min_size[0] < step->max_size);
	uint64_t size = step->min_size[0] +
			philox_below(r.word[0], r.word[1], step->max_size - step->min_size[0]);
	size_shorter(size, 0, false, sample->width, sample->height, &width, &height);
	size_push_whole(sample, step, width, height);
}

/* torch.rand: 24 bits, as a float. */
static float size_rand(uint32_t word)
{
	return (float)(word >> 8) * 0x1p-24f;
}

/* least + torch.rand(1) * (most - least). */
static float size_between(uint32_t word, const double range[2])
{
	return (float)range[0] + size_rand(word) * (float)(range[1] - range[0]);
}

void step_scale_jitter(struct step_sample *sample, const struct step *step)
{
	struct philox r = step_words(sample, PHILOX_SCALE_JITTER, step, 0);
	/* torchvision compares the first number with the width, and the second with the height. */
	double by_height = (double)step->size.width / sample->height;
	double by_width = (double)step->size.height / sample->width;
	float ratio = (float)UTIL_MIN(by_height, by_width) * size_between(r.word[0], step->scale);
	size_push_whole(sample, step, (uint64_t)((float)sample->width * ratio),
		(uint64_t)((float)sample->height * ratio));
}

void step_shortest_size(struct step_sample *sample, const struct step *step)
{
	struct philox r = step_words(sample, PHILOX_SHORTEST_SIZE, step, 0);
	assert(step->min_sizes >= 1);
	uint32_t size = step->min_size[philox_below(r.word[0], r.word[1], step->min_sizes)];
	double ratio = (double)size / UTIL_MIN(sample->width, sample->height);
	if (step->max_size)
		ratio = fmin(
			ratio, (double)step->max_size / UTIL_MAX(sample->width, sample->height));
	size_push_whole(sample, step, (uint64_t)(sample->width * ratio),
		(uint64_t)(sample->height * ratio));
}

/* timm's ResizeKeepRatio.get_params. */
void step_kept_ratio(const struct step *step, uint32_t width, uint32_t height, double down,
	double across, uint64_t *ret_width, uint64_t *ret_height)
{
	double by_height = (double)height / step->size.height;
	double by_width = (double)width / step->size.width;
	double ratio = fmax(by_height, by_width) * step->longest +
		       fmin(by_height, by_width) * (1.0 - step->longest);
	*ret_width = UTIL_MAX(draw_round(width * across / ratio), (uint64_t)1);
	*ret_height = UTIL_MAX(draw_round(height * down / ratio), (uint64_t)1);
}

void step_keep_ratio(struct step_sample *sample, const struct step *step)
{
	double down = 1, across = 1;
	uint64_t width, height;
	struct philox r = step_words(sample, PHILOX_KEEP_RATIO, step, 0);
	if (step->random_scale_prob > 0 && step_happens(r, step->random_scale_prob)) {
		down = step_between(r.word[2], step->random_scale_range);
		if (step->random_scale_area)
			down = 1.0 / sqrt(down);
		across = down;
	}
	r = step_words(sample, PHILOX_KEEP_RATIO, step, 1);
	if (step->random_aspect_prob > 0 && step_happens(r, step->random_aspect_prob)) {
		const double aspect[2] = {elementary_log(step->random_aspect_range[0]),
			elementary_log(step->random_aspect_range[1])};
		double factor = sqrt(elementary_exp(step_between(r.word[2], aspect)));
		down /= factor;
		across *= factor;
	}
	step_kept_ratio(step, sample->width, sample->height, down, across, &width, &height);
	size_push_whole(sample, step, width, height);
}

/* ---- windows ---- */

static void size_push_window(struct step_sample *sample, const struct step *step,
	const struct pad_axis *x, const struct pad_axis *y)
{
	struct op op = {.kind = OP_WINDOW, .axis = {*x, *y}};
	memcpy(op.fill, step->padding.fill, sizeof op.fill);
	if (x->window != x->side || y->window != y->side || !pad_is_inside(x) || !pad_is_inside(y))
		step_push_size(sample, step, &op, x->window, y->window);
}

void step_center_crop(struct step_sample *sample, const struct step *step)
{
	struct pad_axis x = pad_center(step->size.width, sample->width);
	struct pad_axis y = pad_center(step->size.height, sample->height);
	x.mode = y.mode = step->padding.mode;
	size_push_window(sample, step, &x, &y);
}

void step_random_crop(struct step_sample *sample, const struct step *step)
{
	const struct pixel_padding *padding = &step->padding;
	struct philox r = step_words(sample, PHILOX_RANDOM_CROP, step, 0);
	struct pad_axis x = pad_random(
		padding->mode, step->size.width, sample->width, padding->left, padding->right);
	struct pad_axis y = pad_random(
		padding->mode, step->size.height, sample->height, padding->top, padding->bottom);
	if (!padding->if_needed && (x.more || y.more)) {
		step_refuse(sample, step, STEP_E_SMALL);
		return;
	}
	y.place = (uint32_t)philox_below(r.word[0], r.word[1], pad_side(&y) - y.window + 1);
	x.place = (uint32_t)philox_below(r.word[2], r.word[3], pad_side(&x) - x.window + 1);
	size_push_window(sample, step, &x, &y);
}

static struct pad_axis size_padded(
	enum pixel_padding_mode mode, uint32_t side, uint32_t before, uint32_t after)
{
	return (struct pad_axis){.mode = mode,
		.side = side,
		.before = before,
		.after = after,
		.window = side + before + after};
}

void step_pad(struct step_sample *sample, const struct step *step)
{
	const struct pixel_padding *padding = &step->padding;
	const struct pad_axis x =
		size_padded(padding->mode, sample->width, padding->left, padding->right);
	const struct pad_axis y =
		size_padded(padding->mode, sample->height, padding->top, padding->bottom);
	size_push_window(sample, step, &x, &y);
}

/* int(missing * torch.rand(1)), and what is left of it behind the image. */
static struct pad_axis size_zoomed(uint32_t side, float ratio, uint32_t word)
{
	uint32_t canvas = (uint32_t)((float)side * ratio), missing = canvas - side;
	uint32_t before = (uint32_t)((float)missing * size_rand(word));
	return size_padded(PIXEL_PAD_CONSTANT, side, before, missing - before);
}

void step_zoom_out(struct step_sample *sample, const struct step *step)
{
	if (!step_happens(step_words(sample, PHILOX_ZOOM_OUT, step, 0), step->p))
		return;
	struct philox r = step_words(sample, PHILOX_ZOOM_OUT, step, 1);
	float ratio = size_between(r.word[0], step->scale);
	const struct pad_axis x = size_zoomed(sample->width, ratio, r.word[1]);
	const struct pad_axis y = size_zoomed(sample->height, ratio, r.word[2]);
	size_push_window(sample, step, &x, &y);
}

/* timm's crop_or_pad along one axis: the window begins up to `side - size` before or after the
 * image does. */
static struct pad_axis size_crop_or_pad(
	enum pixel_padding_mode mode, uint32_t size, uint32_t side, uint32_t high, uint32_t low)
{
	struct pad_axis axis = {.mode = mode, .side = side, .window = size};
	if (side >= size) {
		axis.place = (uint32_t)philox_below(high, low, side - size + 1);
		return axis;
	}
	axis.before = (uint32_t)philox_below(high, low, size - side + 1);
	axis.after = size - side - axis.before;
	return axis;
}

void step_crop_or_pad(struct step_sample *sample, const struct step *step)
{
	struct philox r = step_words(sample, PHILOX_CROP_OR_PAD, step, 0);
	const struct pad_axis y = size_crop_or_pad(
		step->padding.mode, step->size.height, sample->height, r.word[0], r.word[1]);
	const struct pad_axis x = size_crop_or_pad(
		step->padding.mode, step->size.width, sample->width, r.word[2], r.word[3]);
	size_push_window(sample, step, &x, &y);
}

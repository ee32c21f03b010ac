/* pixel: see pixel.h. Plans are pure; a sink belongs to one worker thread. */
#include "pixel/pixel.h"

#include "base/util.h"
#include "pixel/draw.h"
#include "pixel/kernels.h"
#include "pixel/pad.h"
#include "pixel/resample.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

_Static_assert((int)PIXEL_ROW_SLACK >= (int)KERNELS_SLACK, "kernels read so far behind a row");

enum { PIXEL_SHRINK_MAX = 3 };

struct pixel_sink {
	uint32_t max_side;
	struct resample *resample;
	/* The job, if its window extends beyond the image. */
	struct pad_axis pad_x, pad_y;
	uint8_t fill[PIXEL_PLANES];
	uint8_t *padded; /* the row, or NULL */
};

_Static_assert((int)PAD_WINDOW_MAX >= (int)PIXEL_SIDE_MAX, "a window is a row");

/* int(round(spare / 2.0)): Python rounds halves to even. */
static uint32_t pixel_center(uint32_t spare)
{
	return (uint32_t)draw_round((double)spare / 2.0);
}

struct pixel_recipe pixel_recipe_train(struct pixel_size size)
{
	return (struct pixel_recipe){.kind = PIXEL_RESIZED_CROP,
		.size = size,
		.scale = {DRAW_SCALE_MIN, DRAW_SCALE_MAX},
		.ratio = {DRAW_RATIO_MIN, DRAW_RATIO_MAX},
		.flip = 0.5};
}

static uint32_t pixel_eval_side(uint32_t side)
{
	return (uint32_t)((uint64_t)side * 256 / 224);
}

struct pixel_recipe pixel_recipe_eval(struct pixel_size size)
{
	return (struct pixel_recipe){.kind = PIXEL_RESIZE,
		.size = size,
		.resize = {pixel_eval_side(size.height), pixel_eval_side(size.width)},
		.both = size.height != size.width};
}

/* torchvision's Resize(size) of an int: the shorter side becomes `size`, the longer int(size *
 * long / short). Python rounds quotients of integers correctly, and a quotient that is not an
 * integer is at least 1/65,535 away from one: so integer division agrees. */
static void pixel_plan_resize(const struct pixel_recipe *recipe, struct pixel_plan *plan)
{
	uint64_t size = recipe->resize.height, w = plan->crop_w, h = plan->crop_h;
	plan->resize_w = (uint32_t)(w <= h ? size : size * w / h);
	plan->resize_h = (uint32_t)(w > h ? size : size * h / w);
	if (recipe->both) {
		plan->resize_w = recipe->resize.width;
		plan->resize_h = recipe->resize.height;
	}
}

/* ---- the position of the window ---- */

/* Computes both axes of a plan whose crop and sizes are known, for a random window at its first
 * position. */
static void pixel_axes(const struct pixel_recipe *recipe, const struct pixel_plan *plan,
	struct pad_axis *ret_x, struct pad_axis *ret_y)
{
	if (!recipe->random_window) {
		*ret_x = pad_center(recipe->size.width, plan->resize_w);
		*ret_y = pad_center(recipe->size.height, plan->resize_h);
		return;
	}
	const struct pixel_padding *padding = &recipe->padding;
	*ret_x = pad_random(
		padding->mode, recipe->size.width, plan->resize_w, padding->left, padding->right);
	*ret_y = pad_random(
		padding->mode, recipe->size.height, plan->resize_h, padding->top, padding->bottom);
}

static void pixel_plan_window(
	const struct pad_axis *x, const struct pad_axis *y, struct pixel_plan *plan)
{
	plan->place_x = x->place;
	plan->place_y = y->place;
	plan->padded = !pad_is_inside(x) || !pad_is_inside(y);
	if (!plan->padded) {
		plan->window_x = x->place - x->before - x->more;
		plan->window_y = y->place - y->before - y->more;
		plan->window_w = x->window;
		plan->window_h = y->window;
		return;
	}
	struct pad_run across = pad_run(x), down = pad_run(y);
	plan->window_x = across.low;
	plan->window_y = down.low;
	plan->window_w = across.count;
	plan->window_h = down.count;
}

bool pixel_recipe_fits(const struct pixel_recipe *recipe, uint32_t src_w, uint32_t src_h)
{
	struct pad_axis x, y;
	struct pixel_plan plan;
	if (!recipe->random_window || recipe->padding.if_needed)
		return true;
	pixel_plan_from_crop(recipe, 0, 0, src_w, src_h, false, src_w, src_h, &plan);
	pixel_axes(recipe, &plan, &x, &y);
	return x.more == 0 && y.more == 0;
}

/* torchvision draws the row before the column. */
void pixel_plan_place(
	const struct pixel_recipe *recipe, const struct pixel_key *key, struct pixel_plan *plan)
{
	struct pad_axis x, y;
	if (recipe->filter == WEIGHTS_RANDOM) {
		struct philox drawn = draw_words(key, PHILOX_INTERPOLATION, 0, 0);
		plan->filter =
			philox_below(drawn.word[0], 0, 2) ? WEIGHTS_BICUBIC : WEIGHTS_BILINEAR;
	}
	if (!recipe->random_window)
		return;
	struct philox r = draw_words(key, PHILOX_RANDOM_CROP, 0, 0);
	pixel_axes(recipe, plan, &x, &y);
	y.place = (uint32_t)philox_below(r.word[0], r.word[1], pad_side(&y) - y.window + 1);
	x.place = (uint32_t)philox_below(r.word[2], r.word[3], pad_side(&x) - x.window + 1);
	pixel_plan_window(&x, &y, plan);
}

/* ---- plans ---- */

void pixel_plan_from_crop(const struct pixel_recipe *recipe, uint32_t crop_x, uint32_t crop_y,
	uint32_t crop_w, uint32_t crop_h, bool flip, uint32_t src_w, uint32_t src_h,
	struct pixel_plan *ret)
{
	assert(pixel_crop_fits(crop_x, crop_y, crop_w, crop_h, src_w, src_h));
	struct pixel_plan plan = {
		.crop_x = crop_x,
		.crop_y = crop_y,
		.crop_w = crop_w,
		.crop_h = crop_h,
		.resize_w = crop_w,
		.resize_h = crop_h,
		.filter = recipe->filter == WEIGHTS_RANDOM ? WEIGHTS_BILINEAR : recipe->filter,
		.flip = flip,
	};
	if (recipe->kind == PIXEL_RESIZE)
		pixel_plan_resize(recipe, &plan);
	if (recipe->kind == PIXEL_RESIZED_CROP) {
		plan.resize_w = recipe->size.width;
		plan.resize_h = recipe->size.height;
	}
	struct pad_axis x, y;
	pixel_axes(recipe, &plan, &x, &y);
	if (recipe->random_window) {
		x.place = pixel_center(pad_side(&x) - x.window);
		y.place = pixel_center(pad_side(&y) - y.window);
	}
	pixel_plan_window(&x, &y, &plan);
	*ret = plan;
}

bool pixel_crop_fits(uint32_t crop_x, uint32_t crop_y, uint32_t crop_w, uint32_t crop_h,
	uint32_t src_w, uint32_t src_h)
{
	return crop_w >= 1 && crop_h >= 1 && src_w <= WEIGHTS_SOURCE_MAX &&
	       src_h <= WEIGHTS_SOURCE_MAX && (uint64_t)crop_x + crop_w <= src_w &&
	       (uint64_t)crop_y + crop_h <= src_h;
}

void pixel_plan_make(const struct pixel_recipe *recipe, const struct pixel_key *key, uint32_t src_w,
	uint32_t src_h, struct pixel_plan *ret)
{
	struct draw_box box = {.w = src_w, .h = src_h};
	if (recipe->kind == PIXEL_RESIZED_CROP)
		box = draw_resized_crop(key, 0, recipe->scale, recipe->ratio, src_w, src_h);
	bool flip = draw_flip(key, PHILOX_HORIZONTAL_FLIP, recipe->flip);
	pixel_plan_from_crop(recipe, box.x, box.y, box.w, box.h, flip, src_w, src_h, ret);
	ret->flip_vertical = draw_flip(key, PHILOX_VERTICAL_FLIP, recipe->flip_vertical);
	pixel_plan_place(recipe, key, ret);
}

uint64_t pixel_sink_bytes(uint32_t max_side)
{
	return sizeof(struct pixel_sink) + resample_bytes(max_side);
}

int pixel_sink_new(uint32_t max_side, struct pixel_sink **ret, struct fault *fault)
{
	if (max_side < 1 || max_side > PIXEL_SIDE_MAX)
		return fault_set(fault, -EINVAL, "image size %u: expected 1 to %d pixels", max_side,
			PIXEL_SIDE_MAX);
	struct pixel_sink *sink = malloc(sizeof(*sink));
	if (!sink)
		return fault_set(fault, -ENOMEM, "not enough memory for a pixel sink");
	int rc = resample_new(max_side, &sink->resample, fault);
	if (rc < 0) {
		free(sink);
		return rc;
	}
	sink->max_side = max_side;
	*ret = sink;
	return 0;
}

void pixel_sink_free(struct pixel_sink *sink)
{
	if (!sink)
		return;
	resample_free(sink->resample);
	free(sink);
}

void pixel_plan_shrink(struct pixel_plan *plan)
{
	plan->shrink = PIXEL_SHRINK_MAX;
	while (plan->shrink && (plan->crop_w >> plan->shrink < plan->resize_w ||
				       plan->crop_h >> plan->shrink < plan->resize_h))
		plan->shrink--;
}

/* One axis of the crop in the shrunk source: the pixels that it touches, the first and the last
 * possibly in part. Eighths up to 65,535 are exact as floats. */
static struct weights_axis pixel_axis(
	uint8_t shrink, uint32_t crop_at, uint32_t crop, uint32_t *ret_at)
{
	uint32_t unit = 1u << shrink, at = crop_at >> shrink;
	*ret_at = at;
	if (!shrink)
		return (struct weights_axis){.source = crop};
	uint32_t inside = crop_at - at * unit;
	return (struct weights_axis){.source = (inside + crop + unit - 1) >> shrink,
		.from = (float)inside / (float)unit,
		.to = (float)(inside + crop) / (float)unit};
}

/* *ret_x, *ret_y: the pixel that is the origin of the job, shrunk if the plan is. */
static struct resample_job pixel_job(
	const struct pixel_plan *plan, uint8_t *out, uint32_t *ret_x, uint32_t *ret_y)
{
	struct weights_axis x = pixel_axis(plan->shrink, plan->crop_x, plan->crop_w, ret_x);
	struct weights_axis y = pixel_axis(plan->shrink, plan->crop_y, plan->crop_h, ret_y);
	x.result = plan->resize_w;
	x.window_at = plan->window_x;
	y.result = plan->resize_h;
	y.window_at = plan->window_y;
	x.window = plan->window_w;
	y.window = plan->window_h;
	x.filter = y.filter = plan->filter;
	return (struct resample_job){
		.x = x,
		.y = y,
		.flip = plan->flip,
		.flip_vertical = plan->flip_vertical,
		.out = out,
	};
}

void pixel_plan_region(const struct pixel_plan *plan, struct pixel_region *ret)
{
	uint32_t x, y, x0, x1, y0, y1;
	struct resample_job job = pixel_job(plan, NULL, &x, &y);
	weights_reach(&job.x, &x0, &x1);
	weights_reach(&job.y, &y0, &y1);
	*ret = (struct pixel_region){
		.x0 = x + x0,
		.y0 = y + y0,
		.x1 = x + x1,
		.y1 = y + y1,
	};
}

/* The job writes the run of both axes in place, already flipped. */
static void pixel_pad(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, struct resample_job *job)
{
	struct pad_axis *x = &sink->pad_x, *y = &sink->pad_y;
	pixel_axes(recipe, plan, x, y);
	x->place = plan->place_x;
	y->place = plan->place_y;
	x->mirrored = plan->flip;
	y->mirrored = plan->flip_vertical;
	struct pad_run across = pad_run(x), down = pad_run(y);
	sink->padded = job->out;
	memcpy(sink->fill, recipe->padding.fill, sizeof(sink->fill));
	job->stride = (size_t)PIXEL_PLANES * recipe->size.width;
	job->out += down.at * job->stride + (size_t)PIXEL_PLANES * across.at;
	job->flip = across.falling;
	job->flip_vertical = down.falling;
}

void pixel_sink_begin(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out, struct pixel_region *ret_region)
{
	assert(recipe->size.height >= 1 && recipe->size.width >= 1 &&
		pixel_longer(recipe->size) <= sink->max_side);
	uint32_t x, y;
	struct resample_job job = pixel_job(plan, out, &x, &y);
	struct resample_region region;
	sink->padded = NULL;
	if (plan->padded)
		pixel_pad(sink, recipe, plan, &job);
	resample_begin(sink->resample, &job, &region);
	*ret_region = (struct pixel_region){
		.x0 = x + region.x0,
		.y0 = y + region.y0,
		.x1 = x + region.x1,
		.y1 = y + region.y1,
	};
}

void pixel_sink_place(struct pixel_sink *sink, uint8_t *out)
{
	assert(!sink->padded);
	resample_place(sink->resample, out);
}

void pixel_sink_weave(const struct pixel_sink *sink, uint8_t *to,
	const uint8_t *const rgb[PIXEL_PLANES], uint32_t pixels)
{
	resample_weave(sink->resample, to, rgb, pixels);
}

struct resample *pixel_sink_resample(struct pixel_sink *sink)
{
	return sink->resample;
}

void pixel_sink_row(void *sink, const uint8_t *const rgb[PIXEL_PLANES])
{
	const struct pixel_sink *own = sink;
	resample_row(own->resample, rgb);
}

void pixel_sink_end(struct pixel_sink *sink)
{
	assert(resample_missing(sink->resample) == 0);
	if (sink->padded)
		pad_fill(&sink->pad_x, &sink->pad_y, sink->fill, sink->padded);
}

/* pixel: see pixel.h. Plans are pure; a sink belongs to one worker thread. */
#include "pixel/pixel.h"

#include "base/util.h"
#include "pixel/draw.h"
#include "pixel/kernels.h"
#include "pixel/resample.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

_Static_assert((int)PIXEL_ROW_SLACK >= (int)KERNELS_SLACK, "kernels read so far behind a row");

enum { PIXEL_IMAGE_SIZE_MAX = 2048, PIXEL_SHRINK_MAX = 3 };

struct pixel_sink {
	uint32_t max_image_size;
	struct resample *resample;
};

/* int(round(spare / 2.0)): Python rounds halves to even. */
static uint32_t pixel_center(uint32_t spare)
{
	return (uint32_t)draw_round((double)spare / 2.0);
}

struct pixel_recipe pixel_recipe_train(uint32_t image_size)
{
	return (struct pixel_recipe){.kind = PIXEL_RESIZED_CROP,
		.image_size = image_size,
		.scale = {DRAW_SCALE_MIN, DRAW_SCALE_MAX},
		.ratio = {DRAW_RATIO_MIN, DRAW_RATIO_MAX},
		.flip = 0.5};
}

struct pixel_recipe pixel_recipe_eval(uint32_t image_size)
{
	return (struct pixel_recipe){.kind = PIXEL_RESIZE,
		.image_size = image_size,
		.resize = (uint32_t)((uint64_t)image_size * 256 / 224)};
}

/* torchvision's Resize(size) of an int: the shorter side becomes size, the longer int(size * long /
 * short). Python divides integers correctly rounded, and a quotient that is no integer is at least
 * 1/65,535 away from one: integers agree. */
static void pixel_plan_resize(const struct pixel_recipe *recipe, struct pixel_plan *plan)
{
	uint64_t size = recipe->resize, w = plan->crop_w, h = plan->crop_h;
	plan->resize_w = (uint32_t)(recipe->both || w <= h ? size : size * w / h);
	plan->resize_h = (uint32_t)(recipe->both || w > h ? size : size * h / w);
	plan->window_x = pixel_center(plan->resize_w - recipe->image_size);
	plan->window_y = pixel_center(plan->resize_h - recipe->image_size);
}

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
		.resize_w = recipe->image_size,
		.resize_h = recipe->image_size,
		.flip = flip,
	};
	if (recipe->kind == PIXEL_RESIZE)
		pixel_plan_resize(recipe, &plan);
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
		box = draw_resized_crop(key, recipe->scale, recipe->ratio, src_w, src_h);
	bool flip = draw_flip(key, PHILOX_HORIZONTAL_FLIP, recipe->flip);
	pixel_plan_from_crop(recipe, box.x, box.y, box.w, box.h, flip, src_w, src_h, ret);
	ret->flip_vertical = draw_flip(key, PHILOX_VERTICAL_FLIP, recipe->flip_vertical);
}

uint64_t pixel_sink_bytes(uint32_t max_image_size)
{
	return sizeof(struct pixel_sink) + resample_bytes(max_image_size);
}

int pixel_sink_new(uint32_t max_image_size, struct pixel_sink **ret, struct fault *fault)
{
	if (max_image_size < 1 || max_image_size > PIXEL_IMAGE_SIZE_MAX)
		return fault_set(fault, -EINVAL, "image size %u: expected 1 to %d pixels",
			max_image_size, PIXEL_IMAGE_SIZE_MAX);
	struct pixel_sink *sink = malloc(sizeof(*sink));
	if (!sink)
		return fault_set(fault, -ENOMEM, "pixel sink: no memory");
	int rc = resample_new(max_image_size, &sink->resample, fault);
	if (rc < 0) {
		free(sink);
		return rc;
	}
	sink->max_image_size = max_image_size;
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

/* One axis of the crop in the shrunk source: the pixels that it touches, the first and the last of
 * them perhaps in part. Eighths of up to 65,535 are exact as floats. */
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

/* *ret_x, *ret_y: the pixel, shrunk if the plan is, from which the job counts. */
static struct resample_job pixel_job(const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out, uint32_t *ret_x, uint32_t *ret_y)
{
	struct weights_axis x = pixel_axis(plan->shrink, plan->crop_x, plan->crop_w, ret_x);
	struct weights_axis y = pixel_axis(plan->shrink, plan->crop_y, plan->crop_h, ret_y);
	x.result = plan->resize_w;
	x.window_at = plan->window_x;
	y.result = plan->resize_h;
	y.window_at = plan->window_y;
	x.window = y.window = recipe->image_size;
	x.filter = y.filter = recipe->filter;
	return (struct resample_job){
		.x = x,
		.y = y,
		.flip = plan->flip,
		.flip_vertical = plan->flip_vertical,
		.out = out,
	};
}

void pixel_plan_region(
	const struct pixel_recipe *recipe, const struct pixel_plan *plan, struct pixel_region *ret)
{
	uint32_t x, y, x0, x1, y0, y1;
	struct resample_job job = pixel_job(recipe, plan, NULL, &x, &y);
	weights_reach(&job.x, &x0, &x1);
	weights_reach(&job.y, &y0, &y1);
	*ret = (struct pixel_region){
		.x0 = x + x0,
		.y0 = y + y0,
		.x1 = x + x1,
		.y1 = y + y1,
	};
}

void pixel_sink_begin(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, uint8_t *out, struct pixel_region *ret_region)
{
	assert(recipe->image_size >= 1 && recipe->image_size <= sink->max_image_size);
	uint32_t x, y;
	struct resample_job job = pixel_job(recipe, plan, out, &x, &y);
	struct resample_region region;
	resample_begin(sink->resample, &job, &region);
	*ret_region = (struct pixel_region){
		.x0 = x + region.x0,
		.y0 = y + region.y0,
		.x1 = x + region.x1,
		.y1 = y + region.y1,
	};
}

void pixel_sink_row(void *sink, const uint8_t *const rgb[PIXEL_PLANES])
{
	const struct pixel_sink *own = sink;
	resample_row(own->resample, rgb);
}

void pixel_sink_end(struct pixel_sink *sink)
{
	assert(resample_missing(sink->resample) == 0);
	(void)sink;
}

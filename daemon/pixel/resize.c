/* resize: see resize.h. */
#include "pixel/resize.h"

#include "base/util.h"
#include "pixel/resample.h"

static size_t resize_pitch(uint32_t width)
{
	return util_align((uint64_t)width + PIXEL_ROW_SLACK, 64);
}

uint64_t pixel_resize_scratch(uint32_t width)
{
	return PIXEL_PLANES * resize_pitch(width);
}

/* Columns [x0, x1) of a row, as three planes. */
static void resize_planes(
	const uint8_t *row, uint32_t x0, uint32_t x1, uint8_t *const planes[PIXEL_PLANES])
{
	const uint8_t *from = row + (size_t)PIXEL_PLANES * x0;
	for (size_t i = 0; i < x1 - x0; i++)
		for (size_t plane = 0; plane < PIXEL_PLANES; plane++)
			planes[plane][i] = from[PIXEL_PLANES * i + plane];
}

static void resize_tile(struct resample *resample, const struct pixel_resize *resize,
	const struct weights_axis *x, const struct weights_axis *y, uint8_t *scratch)
{
	const size_t stride = (size_t)PIXEL_PLANES * resize->to_size.width;
	const size_t pitch = resize_pitch(resize->from_size.width);
	uint8_t *const planes[PIXEL_PLANES] = {scratch, scratch + pitch, scratch + 2 * pitch};
	const struct resample_job job = {.x = *x,
		.y = *y,
		.out = resize->to + y->window_at * stride + (size_t)PIXEL_PLANES * x->window_at,
		.stride = stride};
	struct resample_region region;
	resample_begin(resample, &job, &region);
	for (uint32_t row = region.y0; row < region.y1; row++) {
		resize_planes(
			resize->from + row * resize->from_stride, region.x0, region.x1, planes);
		resample_row(resample, (const uint8_t *const *)planes);
	}
}

void pixel_resize(struct pixel_sink *sink, const struct pixel_resize *resize, uint8_t *scratch)
{
	struct resample *resample = pixel_sink_resample(sink);
	const uint32_t most = resample_window(resample);
	const struct pixel_size from = resize->from_size, to = resize->to_size;
	struct weights_axis x = {
		.source = from.width, .result = to.width, .filter = resize->filter};
	struct weights_axis y = {
		.source = from.height, .result = to.height, .filter = resize->filter};
	for (y.window_at = 0; y.window_at < to.height; y.window_at += y.window) {
		y.window = UTIL_MIN(most, to.height - y.window_at);
		for (x.window_at = 0; x.window_at < to.width; x.window_at += x.window) {
			x.window = UTIL_MIN(most, to.width - x.window_at);
			resize_tile(resample, resize, &x, &y, scratch);
		}
	}
}

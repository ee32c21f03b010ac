/* resample: see resample.h. Worker threads, one object each.
 *
 * Between resample_begin and the last row: rows_in rows have arrived, rows_out rows of the vertical
 * pass are complete, and the ring or the running sums hold every input row that an incomplete
 * output of the vertical pass needs.
 *
 * A row in the ring, or anywhere between the passes, is three planes, `pitch` bytes apart, of whole
 * grains: the code also computes what follows the pixels of a plane, and never reads it. */
#include "pixel/resample.h"

#include "base/util.h"
#include "pixel/kernels.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	PLANES = 3,
	/* Outputs that use one row: 2 x 3 for the widest filter, and one for the ends. */
	OPEN_MOST = 7,
	/* Besides the window: the widest row that a vertical pass receives if it is first. */
	WIDE_MORE = 32768 + 64,
};

struct resample {
	void *memory; /* of everything, including this struct */
	const struct kernels *kernels;
	uint32_t max_window;
	uint8_t *arena; /* the memory of a job; its parts follow each other */
	uint64_t arena_bytes, arena_used;

	/* The job. */
	uint8_t *out;
	size_t stride;
	struct weights x, y;
	bool vertical_first;
	bool flip_vertical;
	uint32_t rows, rows_in, rows_out;
	uint32_t source; /* pixels of an arriving row */
	uint32_t pitch, row; /* bytes of a row of the vertical pass */

	/* Horizontal pass: `table` for few taps; `many`, if not NULL, for many. */
	uint8_t *table;
	struct kernels_many many;

	/* Vertical pass: the last `ring_mask` + 1 rows; or, if that is NULL, sums of outputs by
	 * their number modulo OPEN_MOST, and the sums of their weights. */
	uint8_t *ring;
	uint32_t ring_mask;
	uint32_t *sums;
	double sum[OPEN_MOST];
	uint8_t *line; /* an output row of the vertical pass */
	uint8_t *narrow; /* an output row of the horizontal pass outside the ring */
};

static uint32_t plane_pitch(uint64_t pixels)
{
	return (uint32_t)util_align(pixels, KERNELS_OUTPUTS);
}

static uint64_t row_bytes(uint32_t pitch)
{
	return util_align(PLANES * (uint64_t)pitch, KERNELS_GRAIN);
}

/* The most memory that jobs need, with the horizontal pass first or second. Weights: an output
 * of many taps has at most 6 x scale + 2, a window is not larger than the result, and each is
 * padded. Wide rows: vertical first means h - oh > 2 (w - ow), so w < 32,768 + ow; the window of
 * a larger result is not wider. */
static uint64_t arena_most(uint32_t max_window)
{
	uint64_t window = max_window, narrow = row_bytes(plane_pitch(window));
	uint64_t wide_pixels = window + WIDE_MORE, wide = row_bytes(plane_pitch(wide_pixels));
	uint64_t padding = window * (2 + KERNELS_RUN),
		 few = util_align(window, KERNELS_GRAIN) * KERNELS_PACKED;
	uint64_t first = 6 * (uint64_t)WEIGHTS_SOURCE_MAX + padding,
		 second = 6 * wide_pixels + padding;
	first = UTIL_MAX(first * sizeof(int32_t), few) + 2 * narrow +
		UTIL_MAX(narrow * WEIGHTS_FEW, narrow * OPEN_MOST * sizeof(uint32_t));
	second = UTIL_MAX(second * sizeof(int32_t), few) + wide + narrow +
		 wide * OPEN_MOST * sizeof(uint32_t);
	return UTIL_MAX(first, second) + 8 * (uint64_t)KERNELS_GRAIN + KERNELS_SLACK;
}

/* Places one buffer of `bytes`; only adds its size while the base is unknown. */
static void *resample_carve(uint8_t *base, uint64_t *at, uint64_t bytes)
{
	uint8_t *p = base ? base + *at : NULL;
	*at += util_align(bytes, KERNELS_GRAIN);
	return p;
}

static void resample_carve_weights(
	struct weights *w, uint8_t *base, uint64_t *at, uint32_t max_window)
{
	w->first = resample_carve(base, at, max_window * sizeof(*w->first));
	w->taps = resample_carve(base, at, max_window * sizeof(*w->taps));
	w->value = resample_carve(base, at, weights_room(max_window) * sizeof(*w->value));
}

/* Lays out all memory from `base` on; returns its size. */
static uint64_t resample_layout(struct resample *r, uint8_t *base, uint32_t max_window)
{
	uint64_t at = 0;
	(void)resample_carve(base, &at, sizeof(*r));
	resample_carve_weights(&r->x, base, &at, max_window);
	resample_carve_weights(&r->y, base, &at, max_window);
	r->arena_bytes = arena_most(max_window);
	r->arena = resample_carve(base, &at, r->arena_bytes);
	return at;
}

uint64_t resample_bytes(uint32_t max_window)
{
	struct resample r;
	return resample_layout(&r, NULL, max_window) + KERNELS_GRAIN;
}

int resample_new(uint32_t max_window, struct resample **ret, struct fault *fault)
{
	const struct kernels *kernels;
	int rc = kernels_choose(&kernels, fault);
	if (rc < 0)
		return rc;
	uint64_t bytes = resample_bytes(max_window);
	/* calloc: pages that no source needs are never touched. */
	uint8_t *memory = calloc(1, bytes);
	if (!memory)
		return fault_set(fault, -ENOMEM,
			"resampler for %u pixels: %llu bytes of memory were refused; free memory "
			"or lower "
			"--threads",
			max_window, (unsigned long long)bytes);
	uint8_t *base = memory + (-(uintptr_t)memory & (KERNELS_GRAIN - 1));
	struct resample *r = (struct resample *)(void *)base;
	(void)resample_layout(r, base, max_window);
	r->memory = memory;
	r->kernels = kernels;
	r->max_window = max_window;
	*ret = r;
	return 0;
}

void resample_free(struct resample *r)
{
	if (r)
		free(r->memory);
}

uint32_t resample_missing(const struct resample *r)
{
	return r->rows - r->rows_in;
}

/* Pillow's ImagingResampleInner: the vertical pass is first if the height shrinks by more than
 * twice what the width loses. The size of the whole source decides, even if only a part of it is
 * resized. */
static bool resample_vertical_first(const struct weights_axis *x, const struct weights_axis *y)
{
	int64_t lower = (int64_t)y->source - y->result, narrower = (int64_t)x->source - x->result;
	return lower > 0 && lower > 2 * narrower;
}

static void *arena_take(struct resample *r, uint64_t bytes)
{
	void *piece = resample_carve(r->arena, &r->arena_used, bytes);
	assert(r->arena_used <= r->arena_bytes);
	return piece;
}

void resample_place(struct resample *r, uint8_t *out)
{
	assert(r->rows_in == 0);
	r->out = out;
}

void resample_weave(
	const struct resample *r, uint8_t *to, const uint8_t *const rgb[PLANES], uint32_t pixels)
{
	r->kernels->weave(to, rgb, pixels);
}

uint32_t resample_window(const struct resample *r)
{
	return r->max_window;
}

static uint32_t many_taps(const struct weights *w, uint32_t i)
{
	return (uint32_t)util_align(w->taps[i], KERNELS_RUN);
}

/* The weights of all outputs, one after the other. */
static void resample_set_many(struct resample *r)
{
	const struct weights *w = &r->x;
	uint64_t total = 0;
	for (uint32_t i = 0; i < w->count; i++)
		total += many_taps(w, i);
	int32_t *value = arena_take(r, total * sizeof(*value));
	r->many = (struct kernels_many){.weights = w, .value = value};
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t taps = w->taps[i], padded = many_taps(w, i);
		if (w->few)
			memcpy(value, w->value + (size_t)i * w->stride, taps * sizeof(*value));
		else
			weights_output(w, i, value);
		memset(value + taps, 0, (padded - taps) * sizeof(*value));
		value += padded;
	}
}

static void resample_set_across(struct resample *r)
{
	r->many.value = NULL;
	r->table = NULL;
	if (r->x.few) {
		uint64_t before = r->arena_used;
		r->table = arena_take(
			r, util_align(r->x.count, KERNELS_GRAIN) * (uint64_t)KERNELS_PACKED);
		if (r->kernels->pack(&r->x, r->table))
			return;
		r->arena_used = before;
	}
	resample_set_many(r);
}

static void resample_set_down(struct resample *r)
{
	uint64_t row = r->row;
	r->line = arena_take(r, row + KERNELS_SLACK);
	r->narrow = arena_take(r, row_bytes(plane_pitch(r->x.count)));
	uint32_t rows = 1;
	while (rows < r->y.most)
		rows *= 2;
	r->ring = NULL;
	if (r->y.few && rows * row <= r->arena_bytes - r->arena_used) {
		r->ring = arena_take(r, rows * row);
		r->ring_mask = rows - 1;
		return;
	}
	assert(r->y.axis.filter != WEIGHTS_NEAREST);
	r->sums = arena_take(r, OPEN_MOST * row * sizeof(*r->sums));
}

void resample_begin(
	struct resample *r, const struct resample_job *job, struct resample_region *ret_region)
{
	assert(job->x.window <= r->max_window && job->y.window <= r->max_window);
	assert(job->x.filter == job->y.filter);
	weights_make(&r->x, &job->x, job->flip);
	weights_make(&r->y, &job->y, false);
	r->out = job->out;
	r->stride = job->stride ? job->stride : (size_t)PLANES * job->x.window;
	r->flip_vertical = job->flip_vertical;
	r->vertical_first = resample_vertical_first(&job->x, &job->y);
	r->source = r->x.end - r->x.begin;
	r->rows = r->y.end - r->y.begin;
	r->rows_in = r->rows_out = 0;
	r->pitch = plane_pitch(r->vertical_first ? r->source : r->x.count);
	r->row = (uint32_t)row_bytes(r->pitch);
	r->arena_used = 0;
	resample_set_across(r);
	resample_set_down(r);
	*ret_region = (struct resample_region){
		.x0 = r->x.begin, .y0 = r->y.begin, .x1 = r->x.end, .y1 = r->y.end};
}

/* Horizontal pass of a row into planes of `pitch`. */
static void resample_across(
	struct resample *r, uint8_t *to, uint32_t pitch, const uint8_t *const from[PLANES])
{
	uint8_t *const planes[PLANES] = {to, to + pitch, to + 2 * (size_t)pitch};
	if (r->many.value)
		r->kernels->across_many(planes, from, &r->many);
	else
		r->kernels->across(planes, from, &r->x, r->table);
}

/* Takes row rows_out of the vertical pass, which is complete in `line`. */
static void resample_emit(struct resample *r)
{
	uint32_t y = r->rows_out++;
	uint8_t *out = r->out + (r->flip_vertical ? r->y.count - 1 - y : y) * r->stride;
	const uint8_t *row = r->line;
	uint32_t pitch = r->pitch;
	if (r->vertical_first) {
		const uint8_t *const from[PLANES] = {row, row + pitch, row + 2 * (size_t)pitch};
		pitch = plane_pitch(r->x.count);
		resample_across(r, r->narrow, pitch, from);
		row = r->narrow;
	}
	const uint8_t *const planes[PLANES] = {row, row + pitch, row + 2 * (size_t)pitch};
	r->kernels->weave(out, planes, r->x.count);
}

static uint8_t *resample_ring_row(const struct resample *r, uint32_t row)
{
	return r->ring + (size_t)(row & r->ring_mask) * r->row;
}

/* Whether output y of the vertical pass has all its rows after `row`. */
static bool resample_complete(const struct resample *r, uint32_t y, uint32_t row)
{
	return y < r->y.count && r->y.first[y] + r->y.taps[y] - 1 <= row;
}

/* Runs the vertical pass from the ring after `row` has arrived. */
static void resample_down_ring(struct resample *r, uint32_t row)
{
	for (; resample_complete(r, r->rows_out, row); resample_emit(r)) {
		uint32_t y = r->rows_out, taps = r->y.taps[y];
		const uint8_t *rows[WEIGHTS_FEW];
		for (uint32_t t = 0; t < taps; t++)
			rows[t] = resample_ring_row(r, r->y.first[y] + t);
		r->kernels->down(r->line, rows, r->y.value + (size_t)y * r->y.stride, taps, r->row);
	}
}

static uint32_t *resample_sums(const struct resample *r, uint32_t y)
{
	return r->sums + (size_t)(y % OPEN_MOST) * r->row;
}

/* Adds a row to the sums of output y. */
static void resample_add(
	struct resample *r, uint32_t y, uint32_t row, const uint8_t *const from[PLANES])
{
	uint32_t *sums = resample_sums(r, y), tap = row - r->y.first[y];
	if (tap == 0) {
		for (size_t j = 0; j < r->row; j++)
			sums[j] = WEIGHTS_HALF;
		r->sum[y % OPEN_MOST] = weights_sum(&r->y, y);
	}
	if (tap >= r->y.taps[y])
		return;
	int32_t value = weights_tap(&r->y, y, tap, r->sum[y % OPEN_MOST]);
	uint32_t pixels = r->vertical_first ? r->source : r->x.count;
	for (int c = 0; c < PLANES; c++)
		r->kernels->down_add(sums + (size_t)c * r->pitch, from[c], value, pixels);
}

/* The same with running sums. */
static void resample_down_running(
	struct resample *r, uint32_t row, const uint8_t *const from[PLANES])
{
	for (uint32_t y = r->rows_out; y < r->y.count && r->y.first[y] <= row; y++) {
		assert(y - r->rows_out < OPEN_MOST);
		resample_add(r, y, row, from);
	}
	for (; resample_complete(r, r->rows_out, row); resample_emit(r))
		r->kernels->down_end(r->line, resample_sums(r, r->rows_out), r->row);
}

/* Puts an arrived row into the ring. */
static void resample_keep(struct resample *r, uint32_t row, const uint8_t *const rgb[PLANES])
{
	uint8_t *place = resample_ring_row(r, row);
	if (!r->vertical_first)
		resample_across(r, place, r->pitch, rgb);
	else
		for (int c = 0; c < PLANES; c++)
			memcpy(place + (size_t)c * r->pitch, rgb[c], r->source);
}

void resample_row(struct resample *r, const uint8_t *const rgb[PLANES])
{
	assert(r->rows_in < r->rows);
	uint32_t row = r->rows_in++;
	if (r->ring) {
		resample_keep(r, row, rgb);
		resample_down_ring(r, row);
	} else if (r->vertical_first) {
		resample_down_running(r, row, rgb);
	} else {
		uint8_t *n = r->narrow;
		const uint8_t *const planes[PLANES] = {n, n + r->pitch, n + 2 * (size_t)r->pitch};
		resample_across(r, n, r->pitch, rgb);
		resample_down_running(r, row, planes);
	}
	assert(r->rows_in < r->rows || r->rows_out == r->y.count);
}

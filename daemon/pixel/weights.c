/* weights: see weights.h. Worker threads, each with tables of its own. */
#include "pixel/weights.h"

#include "base/util.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *const weights_filter_names[WEIGHTS_FILTERS + 2] = {
	[WEIGHTS_BILINEAR] = "bilinear",
	[WEIGHTS_BICUBIC] = "bicubic",
	[WEIGHTS_BOX] = "box",
	[WEIGHTS_HAMMING] = "hamming",
	[WEIGHTS_LANCZOS] = "lanczos",
	[WEIGHTS_NEAREST] = "nearest",
	[WEIGHTS_RANDOM] = "random",
};

/* Half the width of each filter at scale 1. */
static const double filter_support[WEIGHTS_FILTERS] = {
	[WEIGHTS_BILINEAR] = 1.0,
	[WEIGHTS_BICUBIC] = 2.0,
	[WEIGHTS_BOX] = 0.5,
	[WEIGHTS_HAMMING] = 1.0,
	[WEIGHTS_LANCZOS] = 3.0,
};

static inline double filter_bilinear(double x)
{
	x = fabs(x);
	return x < 1.0 ? 1.0 - x : 0.0;
}

/* Keys' cubic with a = -1/2. */
static inline double filter_bicubic(double x)
{
	const double a = -0.5;
	x = fabs(x);
	if (x < 1.0)
		return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
	return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static inline double filter_box(double x)
{
	return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
}

/* Hamming's window has its two constants in single precision. */
static inline double filter_hamming(double x)
{
	x = fabs(x);
	if (x == 0.0)
		return 1.0;
	if (x >= 1.0)
		return 0.0;
	x = x * M_PI;
	return sin(x) / x * ((double)0.54f + (double)0.46f * cos(x));
}

static inline double filter_sinc(double x)
{
	if (x == 0.0)
		return 1.0;
	x = x * M_PI;
	return sin(x) / x;
}

static inline double filter_lanczos(double x)
{
	return -3.0 <= x && x < 3.0 ? filter_sinc(x) * filter_sinc(x / 3) : 0.0;
}

/* `filter` is a constant where speed matters. */
static inline __attribute__((always_inline)) double filter_at(enum weights_filter filter, double x)
{
	switch (filter) {
	case WEIGHTS_BICUBIC:
		return filter_bicubic(x);
	case WEIGHTS_BOX:
		return filter_box(x);
	case WEIGHTS_HAMMING:
		return filter_hamming(x);
	case WEIGHTS_LANCZOS:
		return filter_lanczos(x);
	case WEIGHTS_BILINEAR:
	default:
		return filter_bilinear(x);
	}
}

/* Whether each output is an unchanged source pixel: then Pillow skips the pass, or crops, or its
 * weights are 1 and zeros. */
static bool axis_copies(const struct weights_axis *axis, float from, float to)
{
	return to - from == (float)axis->result && from == (float)(uint32_t)from;
}

/* Sets everything in the weights except the tables. */
static void axis_open(struct weights *w, const struct weights_axis *axis, bool mirrored)
{
	assert(axis->source >= 1 && axis->source <= WEIGHTS_SOURCE_MAX && axis->window >= 1);
	assert((uint64_t)axis->window_at + axis->window <= axis->result);
	bool whole = axis->from == 0 && axis->to == 0;
	float from = axis->from, to = whole ? (float)axis->source : axis->to;
	assert(from >= 0 && from < to && to <= (float)axis->source);
	w->axis = *axis;
	if (axis_copies(axis, from, to))
		w->axis.filter = WEIGHTS_NEAREST;
	w->mirrored = mirrored;
	w->count = axis->window;
	w->origin = from;
	w->scale = (double)(to - from) / axis->result;
	double wide = w->scale < 1.0 ? 1.0 : w->scale;
	w->support = filter_support[w->axis.filter] * wide;
	w->inverse = 1.0 / wide;
}

static double output_center(const struct weights *w, uint32_t at)
{
	return w->origin + ((double)at + 0.5) * w->scale;
}

/* The source pixels that output `at` of the result uses: [*ret_from, return value). */
static uint32_t output_reach(const struct weights *w, uint32_t at, uint32_t *ret_from)
{
	double center = output_center(w, at);
	int32_t from = (int32_t)(center - w->support + 0.5);
	int32_t to = (int32_t)(center + w->support + 0.5);
	*ret_from = from < 0 ? 0 : (uint32_t)from;
	return UTIL_MIN((uint32_t)to, w->axis.source);
}

/* The position in the result of output i of the window. */
static uint32_t output_at(const struct weights *w, uint32_t i)
{
	return w->axis.window_at + (w->mirrored ? w->count - 1 - i : i);
}

static double output_tap(const struct weights *w, double center, uint32_t pixel)
{
	return filter_at(w->axis.filter, ((double)pixel - center + 0.5) * w->inverse);
}

static int32_t fixed_point(double part)
{
	return (int32_t)(part * (double)(1 << WEIGHTS_BITS) + copysign(0.5, part));
}

double weights_sum(const struct weights *w, uint32_t i)
{
	double center = output_center(w, output_at(w, i)), sum = 0.0;
	uint32_t from = w->begin + w->first[i];
	for (uint32_t t = 0; t < w->taps[i]; t++)
		sum += output_tap(w, center, from + t);
	return sum;
}

int32_t weights_tap(const struct weights *w, uint32_t i, uint32_t tap, double sum)
{
	double part =
		output_tap(w, output_center(w, output_at(w, i)), w->begin + w->first[i] + tap);
	return fixed_point(sum != 0.0 ? part / sum : part);
}

void weights_output(const struct weights *w, uint32_t i, int32_t *value)
{
	/* Evaluates the filter twice: that is cheaper than scratch for 65,535 doubles. */
	double sum = weights_sum(w, i);
	for (uint32_t t = 0; t < w->taps[i]; t++)
		value[t] = weights_tap(w, i, t, sum);
}

/* An output of few taps: evaluates the filter once. */
static inline __attribute__((always_inline)) void few_output(
	const struct weights *w, uint32_t i, enum weights_filter filter)
{
	double part[WEIGHTS_FEW], sum = 0.0, center = output_center(w, output_at(w, i));
	int32_t *value = w->value + (size_t)i * w->stride;
	uint32_t from = w->begin + w->first[i], taps = w->taps[i];
	for (uint32_t t = 0; t < taps; t++) {
		part[t] = filter_at(
			filter, ((double)(int32_t)(from + t) - center + 0.5) * w->inverse);
		sum += part[t];
	}
	for (uint32_t t = 0; t < taps; t++)
		value[t] = fixed_point(sum != 0.0 ? part[t] / sum : part[t]);
	for (uint32_t t = taps; t < w->stride; t++)
		value[t] = 0;
}

static void few_make(const struct weights *w)
{
	if (w->axis.filter == WEIGHTS_BILINEAR)
		for (uint32_t i = 0; i < w->count; i++)
			few_output(w, i, WEIGHTS_BILINEAR);
	else
		for (uint32_t i = 0; i < w->count; i++)
			few_output(w, i, w->axis.filter);
}

static void few_make_nearest(const struct weights *w)
{
	memset(w->value, 0, (size_t)w->count * w->stride * sizeof(*w->value));
	for (uint32_t i = 0; i < w->count; i++)
		w->value[(size_t)i * w->stride] = 1 << WEIGHTS_BITS;
}

/* One source pixel per output: Pillow adds up the scale from output to output. */
static void nearest_make(struct weights *w)
{
	double place = w->origin + w->scale * 0.5;
	for (uint32_t at = 0; at < w->axis.window_at; at++)
		place += w->scale;
	for (uint32_t i = 0; i < w->count; i++, place += w->scale) {
		uint32_t to = w->mirrored ? w->count - 1 - i : i;
		w->first[to] = UTIL_MIN((uint32_t)place, w->axis.source - 1);
		w->taps[to] = 1;
	}
}

static void reach_make(struct weights *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t to = output_reach(w, output_at(w, i), &w->first[i]);
		assert(w->first[i] < to);
		w->taps[i] = to - w->first[i];
	}
}

/* The range that all outputs use; afterwards `first` counts from its beginning. */
static void reach_sum_up(struct weights *w)
{
	w->begin = UINT32_MAX;
	w->end = w->most = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		w->begin = UTIL_MIN(w->begin, w->first[i]);
		w->end = UTIL_MAX(w->end, w->first[i] + w->taps[i]);
		w->most = UTIL_MAX(w->most, w->taps[i]);
	}
	for (uint32_t i = 0; i < w->count; i++)
		w->first[i] -= w->begin;
}

void weights_make(struct weights *w, const struct weights_axis *axis, bool mirrored)
{
	axis_open(w, axis, mirrored);
	bool nearest = w->axis.filter == WEIGHTS_NEAREST;
	if (nearest)
		nearest_make(w);
	else
		reach_make(w);
	reach_sum_up(w);
	w->few = w->most <= WEIGHTS_FEW;
	w->stride = (uint32_t)util_align(w->most, WEIGHTS_QUAD);
	if (nearest)
		few_make_nearest(w);
	else if (w->few)
		few_make(w);
}

void weights_reach(const struct weights_axis *axis, uint32_t *ret_begin, uint32_t *ret_end)
{
	struct weights w;
	axis_open(&w, axis, false);
	uint32_t last = axis->window_at + axis->window - 1, unused;
	if (w.axis.filter == WEIGHTS_NEAREST) {
		/* One more pixel on either side: only adding up the scale tells which pixel it
		 * is. */
		double from = output_center(&w, axis->window_at) - 1;
		*ret_begin = from < 0 ? 0 : (uint32_t)from;
		*ret_end = UTIL_MIN((uint32_t)output_center(&w, last) + 2, axis->source);
		return;
	}
	(void)output_reach(&w, axis->window_at, ret_begin);
	*ret_end = output_reach(&w, last, &unused);
}

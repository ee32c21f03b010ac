/* weights: see weights.h. Worker threads, each with tables of its own. */
#include "pixel/weights.h"

#include "base/util.h"

#include <assert.h>
#include <string.h>

/* One axis's constants, named as they enter the formulas. */
struct filter {
	double origin, scale, support, inverse;
	uint32_t source;
};

static struct filter filter_make(const struct weights_axis *axis)
{
	double part = axis->to > 0 ? (double)axis->to - (double)axis->from : (double)axis->source;
	double scale = part / (double)axis->result;
	double wide = scale < 1.0 ? 1.0 : scale;
	return (struct filter){.origin = (double)axis->from,
		.scale = scale,
		.support = wide,
		.inverse = 1.0 / wide,
		.source = axis->source};
}

/* Where output `at` has its middle in the source. */
static double filter_center(const struct filter *f, uint32_t at)
{
	return f->origin + ((double)at + 0.5) * f->scale;
}

/* Source pixels that output `at` reaches: [*ret_from, return value). */
static uint32_t filter_reach(const struct filter *f, double center, uint32_t *ret_from)
{
	int64_t from = (int64_t)(center - f->support + 0.5);
	int64_t to = (int64_t)(center + f->support + 0.5);
	*ret_from = from < 0 ? 0 : (uint32_t)from;
	return to > f->source ? f->source : (uint32_t)to;
}

static double filter_at(const struct filter *f, double center, uint32_t pixel)
{
	double x = __builtin_fabs(((double)(int32_t)pixel - center + 0.5) * f->inverse);
	return x < 1.0 ? 1.0 - x : 0.0;
}

/* Cuts zeros off both ends of `taps` values; returns how many are left and moves *first. */
static uint32_t filter_trim(uint32_t *value, uint32_t taps, uint32_t *first)
{
	uint32_t zeros = 0;
	while (taps && !value[taps - 1])
		taps--;
	while (zeros < taps && !value[zeros])
		zeros++;
	assert(zeros < taps);
	if (zeros)
		memmove(value, value + zeros, (taps - zeros) * sizeof(*value));
	*first += zeros;
	return taps - zeros;
}

/* One output's weights. The triangle is evaluated twice, for the sum and for the quotients: cheaper
 * than a scratch of 65,535 doubles. The sum is never zero: the pixel nearest to the center is at
 * most half a pixel away. Returns how many values were written. */
static uint32_t filter_output(
	const struct filter *f, double center, uint32_t *value, uint32_t room, uint32_t *ret_first)
{
	uint32_t from, to = filter_reach(f, center, &from);
	assert(from < to && to - from <= room);
	double sum = 0.0;
	for (uint32_t p = from; p < to; p++)
		sum += filter_at(f, center, p);
	for (uint32_t p = from; p < to; p++) {
		double part = filter_at(f, center, p) / sum;
		value[p - from] = (uint32_t)(int32_t)(0.5 + part * (double)(1 << WEIGHTS_BITS));
	}
	*ret_first = from;
	return filter_trim(value, to - from, ret_first);
}

/* From rows of `from` values to rows of `to`, fewer: in place. */
static void weights_repack(struct weights *w, uint32_t from, uint32_t to)
{
	for (uint32_t i = 1; i < w->count && from != to; i++)
		memmove(w->value + (size_t)i * to, w->value + (size_t)i * from,
			to * sizeof(*w->value));
	w->stride = to;
}

void weights_make(struct weights *w, const struct weights_axis *axis, bool mirrored)
{
	assert(axis->source >= 1 && axis->source <= WEIGHTS_SOURCE_MAX && axis->window >= 1);
	assert((uint64_t)axis->window_at + axis->window <= axis->result);
	assert(axis->from >= 0 && axis->from <= axis->to && axis->to <= (float)axis->source);
	struct filter f = filter_make(axis);
	uint32_t room = UTIL_MIN((uint32_t)(2.0 * f.support) + 2, axis->source), most = 1;
	w->count = axis->window;
	w->begin = UINT32_MAX;
	w->end = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		uint32_t at = axis->window_at + (mirrored ? w->count - 1 - i : i);
		double center = filter_center(&f, at);
		uint32_t *value = w->value + (size_t)i * room;
		w->taps[i] = filter_output(&f, center, value, room, &w->first[i]);
		for (uint32_t t = w->taps[i]; t < room; t++)
			value[t] = 0;
		w->begin = UTIL_MIN(w->begin, w->first[i]);
		w->end = UTIL_MAX(w->end, w->first[i] + w->taps[i]);
		most = UTIL_MAX(most, w->taps[i]);
	}
	for (uint32_t i = 0; i < w->count; i++)
		w->first[i] -= w->begin;
	weights_repack(w, room, most);
}

void weights_reach(const struct weights_axis *axis, uint32_t *ret_begin, uint32_t *ret_end)
{
	struct filter f = filter_make(axis);
	uint32_t last = axis->window_at + axis->window - 1, unused;
	(void)filter_reach(&f, filter_center(&f, axis->window_at), ret_begin);
	*ret_end = filter_reach(&f, filter_center(&f, last), &unused);
}

void weights_align(struct weights *w)
{
	uint32_t width = w->end - w->begin;
	for (uint32_t i = 0; i < w->count; i++) {
		if (w->first[i] + w->stride <= width)
			continue;
		uint32_t shift = w->first[i] + w->stride - width;
		uint32_t *value = w->value + (size_t)i * w->stride;
		memmove(value + shift, value, (w->stride - shift) * sizeof(*value));
		memset(value, 0, shift * sizeof(*value));
		w->first[i] -= shift;
	}
}

/* twin: the source pixels and weights that Pillow uses for one output of an axis, implemented
 * again, output by output and with all its doubles, as the reference of the tests. */
#pragma once

#include "pixel/weights.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct twin_output {
	int from, taps;
	int64_t *value; /* malloc'ed */
};

static inline double twin_sinc(double x)
{
	return x == 0 ? 1.0 : sin(x * M_PI) / (x * M_PI);
}

static inline double twin_filter(enum weights_filter filter, double x)
{
	double a = fabs(x);
	switch (filter) {
	case WEIGHTS_BICUBIC:
		if (a < 1)
			return ((-0.5 + 2.0) * a - (-0.5 + 3.0)) * a * a + 1;
		return a < 2 ? (((a - 5) * a + 8) * a - 4) * -0.5 : 0;
	case WEIGHTS_BOX:
		return x > -0.5 && x <= 0.5;
	case WEIGHTS_HAMMING:
		return a >= 1 ? 0 : twin_sinc(a) * (a == 0 ? 1 : 0.54f + 0.46f * cos(a * M_PI));
	case WEIGHTS_LANCZOS:
		return x >= -3 && x < 3 ? twin_sinc(x) * twin_sinc(x / 3) : 0;
	default:
		return a < 1 ? 1 - a : 0;
	}
}

static inline bool twin_whole(const struct weights_axis *axis)
{
	return axis->from == 0 && (axis->to == 0 || axis->to == (float)axis->source);
}

/* The source pixel of a single tap of weight 1, or -1: nearest, or a skipped pass. */
static inline int twin_single(const struct weights_axis *axis, double scale, uint32_t at)
{
	if (axis->filter != WEIGHTS_NEAREST)
		return twin_whole(axis) && axis->source == axis->result ? (int)at : -1;
	double place = axis->from + scale * 0.5;
	while (at-- > 0)
		place += scale;
	return (int)place;
}

static inline struct twin_output twin_output_new(const struct weights_axis *axis, uint32_t at)
{
	static const double supports[] = {1, 2, 0.5, 1, 3};
	float end = axis->from == 0 && axis->to == 0 ? (float)axis->source : axis->to;
	double scale = (double)(end - axis->from) / (int)axis->result;
	struct twin_output out = {.taps = 1, .from = twin_single(axis, scale, at)};
	if (out.from >= 0) {
		out.value = malloc(sizeof(*out.value));
		*out.value = 1 << 22;
		return out;
	}
	double wide = fmax(scale, 1.0), support = supports[axis->filter] * wide;
	double center = axis->from + (at + 0.5) * scale, inverse = 1.0 / wide, sum = 0.0;
	int from = (int)(center - support + 0.5), to = (int)(center + support + 0.5);
	out.from = from < 0 ? 0 : from;
	out.taps = (to > (int)axis->source ? (int)axis->source : to) - out.from;
	double *k = malloc((size_t)out.taps * sizeof(double));
	out.value = malloc((size_t)out.taps * sizeof(*out.value));
	for (int t = 0; t < out.taps; t++)
		sum += k[t] = twin_filter(axis->filter, (t + out.from - center + 0.5) * inverse);
	for (int t = 0; t < out.taps; t++) {
		double part = (sum != 0 ? k[t] / sum : k[t]) * 4194304.0;
		out.value[t] = (int64_t)(part < 0 ? part - 0.5 : part + 0.5);
	}
	free(k);
	return out;
}

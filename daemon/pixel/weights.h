/* weights: how much each output pixel of an axis takes from which source pixels, as in Pillow.
 *
 * The convolutions of Pillow's Image.resize (libImaging/Resample.c, precompute_coeffs and
 * normalize_coeffs_8bpc): a filter as wide as the scale, or of its own width when enlarging;
 * weights in doubles, normalized, then rounded to a fixed point of 22 bits. The order of the
 * operations decides the last bit and must not change. Two filters use sines, from libm as in
 * Pillow; a difference in the last bit would change about one weight in a billion. WEIGHTS_NEAREST
 * is not a convolution but a walk through the source (libImaging/Geometry.c, ImagingScaleAffine)
 * with one tap.
 *
 * Outputs with few taps have their values in a table. Tables for outputs with many taps would need
 * megabytes, so their values are computed for one output, or one value, at a time. A table belongs
 * to one thread; resample.c owns its arrays. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	WEIGHTS_BITS = 22,
	WEIGHTS_SOURCE_MAX = 65535,
	WEIGHTS_FEW = 32, /* the maximum of taps of outputs with a table */
	WEIGHTS_QUAD = 4, /* strides are multiples of it */
};

/* Half a unit of the fixed point. Every sum begins with it, so that the shift at its end rounds. */
#define WEIGHTS_HALF (1 << (WEIGHTS_BITS - 1))

enum weights_filter {
	WEIGHTS_BILINEAR,
	WEIGHTS_BICUBIC,
	WEIGHTS_BOX,
	WEIGHTS_HAMMING,
	WEIGHTS_LANCZOS,
	WEIGHTS_NEAREST,
	WEIGHTS_FILTERS,
	/* In recipes only: WEIGHTS_BILINEAR or WEIGHTS_BICUBIC, drawn for each sample. The number
	 * is part of hashes in states: never renumber. */
	WEIGHTS_RANDOM = WEIGHTS_FILTERS,
};

/* "bilinear" and so on, and "random"; NULL after the last. */
extern const char *const weights_filter_names[WEIGHTS_FILTERS + 2];

/* The part [from, to) of `source` pixels is resized to `result`, of which only [window_at,
 * window_at + window) is needed. */
struct weights_axis {
	uint32_t source, result;
	uint32_t window_at, window;
	enum weights_filter filter;
	/* As in Image.resize(box=...): pixels outside the part, but in the source, count too.
	 * Floats, as in Pillow. Both 0: the whole source. */
	float from, to;
};

struct weights {
	struct weights_axis axis;
	bool mirrored;
	bool few; /* the values are in the table */
	/* The constants of precompute_coeffs. */
	double origin, scale, support, inverse;
	uint32_t count; /* outputs: the window */
	uint32_t most; /* the largest number of taps of an output */
	uint32_t stride; /* values per output */
	uint32_t begin, end; /* the source pixels that the outputs need */
	uint32_t *first; /* per output: its first source pixel, counted from `begin`; never falls
			    unless mirrored */
	uint32_t *taps; /* per output: how many source pixels from there; at least 1 */
	int32_t *value; /* of few taps: count x stride, zero behind `taps`; an output's values add
			   up to 2^22, give or take roundings */
};

/* Room that `value` must have. */
static inline uint64_t weights_room(uint32_t window_max)
{
	return (uint64_t)WEIGHTS_FEW * window_max;
}

/* Fills the table. `mirrored`: output i is the window's i-th pixel from the end. The part is not
 * empty, and is inside the source. */
void weights_make(struct weights *weights, const struct weights_axis *axis, bool mirrored);

/* The values of one output, taps[i] of them. */
void weights_output(const struct weights *weights, uint32_t i, int32_t *value);

/* One value, for any tap of output i; `sum` is that of weights_sum for the output. */
double weights_sum(const struct weights *weights, uint32_t i);
int32_t weights_tap(const struct weights *weights, uint32_t i, uint32_t tap, double sum);

/* The source pixels that the window needs, as weights_make finds them. Pure. */
void weights_reach(const struct weights_axis *axis, uint32_t *ret_begin, uint32_t *ret_end);

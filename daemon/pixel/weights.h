/* weights: what each output pixel of an axis takes from which source pixels, as Pillow has it.
 *
 * The convolutions of Pillow's Image.resize (libImaging/Resample.c, precompute_coeffs and
 * normalize_coeffs_8bpc): a filter as wide as the scale, or of its own width when enlarging;
 * weights in doubles, normalized, then rounded to a fixed point of 22 bits. The order of the
 * operations decides the last bit and must stay. Two filters have sines in them: those are libm's,
 * as they are for Pillow; a last bit of theirs that differed would have to meet one weight in a
 * billion to be seen. WEIGHTS_NEAREST is no convolution but its own walk through the source
 * (libImaging/Geometry.c, ImagingScaleAffine), of one tap.
 *
 * Outputs of few taps have their values in a table; those of many have none, since together they
 * would take megabytes: they are asked for one output, or one value, at a time. A table belongs to
 * one thread; its arrays are lent by resample.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	WEIGHTS_BITS = 22,
	WEIGHTS_SOURCE_MAX = 65535,
	WEIGHTS_FEW = 32, /* most taps of outputs that have a table */
	WEIGHTS_QUAD = 4, /* strides are multiples of it */
};

/* Half a unit of the fixed point: where every sum begins, so that the shift at its end rounds. */
#define WEIGHTS_HALF (1 << (WEIGHTS_BITS - 1))

enum weights_filter {
	WEIGHTS_BILINEAR,
	WEIGHTS_BICUBIC,
	WEIGHTS_BOX,
	WEIGHTS_HAMMING,
	WEIGHTS_LANCZOS,
	WEIGHTS_NEAREST,
	WEIGHTS_FILTERS,
};

/* "bilinear" and so on, NULL behind the last. */
extern const char *const weights_filter_names[WEIGHTS_FILTERS + 1];

/* Of `source` pixels the part [from, to) is resized to `result`, of which only [window_at,
 * window_at + window) is wanted. */
struct weights_axis {
	uint32_t source, result;
	uint32_t window_at, window;
	enum weights_filter filter;
	/* As Image.resize(box=...) has it: pixels beyond the part, but in the source, are taken
	 * from too. Floats, because Pillow's are. Both 0: all of the source. */
	float from, to;
};

struct weights {
	struct weights_axis axis;
	bool mirrored;
	bool few; /* there are values */
	/* The constants of precompute_coeffs. */
	double origin, scale, support, inverse;
	uint32_t count; /* outputs: the window */
	uint32_t most; /* taps that any output has */
	uint32_t stride; /* values per output */
	uint32_t begin, end; /* source pixels that anything is taken from */
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
 * empty and lies in the source. */
void weights_make(struct weights *weights, const struct weights_axis *axis, bool mirrored);

/* The values of one output, taps[i] of them. */
void weights_output(const struct weights *weights, uint32_t i, int32_t *value);

/* The same one by one, for any tap of output i; `sum` is weights_sum's of that output. */
double weights_sum(const struct weights *weights, uint32_t i);
int32_t weights_tap(const struct weights *weights, uint32_t i, uint32_t tap, double sum);

/* Source pixels that the window takes from, as weights_make finds them. Pure. */
void weights_reach(const struct weights_axis *axis, uint32_t *ret_begin, uint32_t *ret_end);

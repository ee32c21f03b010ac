/* weights: what each output pixel of an axis takes from which source pixels, as Pillow has it.
 *
 * Pillow's antialiased bilinear filter (libImaging/Resample.c, precompute_coeffs and
 * normalize_coeffs_8bpc): a triangle whose half width is the scale, or one source pixel when
 * enlarging; weights in doubles, normalised, then rounded to a fixed point of 22 bits. The order of
 * the operations below decides the last bit and must stay. Weights that round to zero at either end
 * are left out: they change no byte, and the source pixels behind them need not be decoded.
 *
 * A table belongs to one thread; its arrays are lent by resample.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WEIGHTS_BITS = 22, WEIGHTS_SOURCE_MAX = 65535 };

/* Half a unit of the fixed point: where every sum begins, so that the shift at its end rounds. */
#define WEIGHTS_HALF (1u << (WEIGHTS_BITS - 1))

/* Of `source` pixels the part [from, to) is resized to `result`, of which only [window_at,
 * window_at + window) is wanted. */
struct weights_axis {
	uint32_t source, result;
	uint32_t window_at, window;
	/* As Image.resize(box=...) has it: pixels beyond the part, but in the source, are taken
	 * from too. Floats, because Pillow's are. Both 0: all of the source. */
	float from, to;
};

struct weights {
	uint32_t count; /* outputs: the window */
	uint32_t stride; /* weights per output: the most that any output has */
	uint32_t begin, end; /* source pixels that anything is taken from */
	uint32_t *first; /* per output: its first source pixel, counted from `begin`; never falls
			    unless mirrored */
	uint32_t *taps; /* per output: how many source pixels from there */
	uint32_t *value; /* count x stride, zero behind `taps`; an output's values add up to 2^22,
			    give or take roundings */
};

/* Room that `value` must have for windows up to `window_max` of sources up to WEIGHTS_SOURCE_MAX.
 * An output reaches over at most 2 x scale + 1 source pixels, or 3 when enlarging, and a window is
 * no larger than the result: so all reach over at most 2 x source + window pixels together; one
 * more window covers rounding, and one more enlarging. */
static inline uint64_t weights_room(uint32_t window_max)
{
	return 2 * (uint64_t)WEIGHTS_SOURCE_MAX + 4 * (uint64_t)window_max;
}

/* Fills the table. `mirrored`: output i is the window's i-th pixel from the end. */
void weights_make(struct weights *weights, const struct weights_axis *axis, bool mirrored);

/* Source pixels that the window may take from, weights that round to zero among them. Pure. */
void weights_reach(const struct weights_axis *axis, uint32_t *ret_begin, uint32_t *ret_end);

/* Moves the outputs at the end of the source to the left until first + stride <= end - begin, with
 * zeros before their values, so that a kernel may take `stride` pixels from each `first`. `taps` is
 * not kept. */
void weights_align(struct weights *weights);

/* draw: the random parameters of a sample, the same on every machine.
 *
 * torchvision's RandomResizedCrop.get_params (ten attempts, then the central crop) and its flips,
 * with the draws taken from Philox. exp and log are proto/elementary.h's, for the reason that is
 * given there. Pure functions; any thread. */
#pragma once

#include "pixel/pixel.h"
#include "proto/philox.h"

/* torchvision's defaults. */
#define DRAW_SCALE_MIN 0.08
#define DRAW_SCALE_MAX 1.0
#define DRAW_RATIO_MIN (3.0 / 4.0)
#define DRAW_RATIO_MAX (4.0 / 3.0)

/* Draw `number` (below 256) of an operation, of which `same` (below 16) stand before it in its
 * list: what is drawn hangs on these, seed, epoch, position and view, and on nothing else. */
struct philox draw_words(const struct pixel_key *key, enum philox_operation operation,
	uint32_t same, uint32_t number);

/* A box of the source, in pixels. */
struct draw_box {
	uint32_t x, y, w, h;
};

/* Attempt number a uses draw_words(key, PHILOX_RESIZED_CROP, 0, a): word 0 gives the area, word 1
 * the logarithm of the ratio, word 2 the row, word 3 the column, 32 bits each (torch draws 24).
 * `scale` is the least and the most of the source's area (0 <= least <= most, most > 0), `ratio` of
 * width by height (above 0). Sides of the source: 1 .. 65,535. */
struct draw_box draw_resized_crop(const struct pixel_key *key, const double scale[2],
	const double ratio[2], uint32_t src_w, uint32_t src_h);

/* Words 0 and 1 of draw_words(key, operation, 0, 0): true with probability `p`. */
bool draw_flip(const struct pixel_key *key, enum philox_operation operation, double p);

/* Nearest integer, halves to even, as Python's round(); 0 <= x < 2^53. */
uint64_t draw_round(double x);

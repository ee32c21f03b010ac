/* draw: the random parameters of a sample, the same on every machine.
 *
 * torchvision's RandomResizedCrop.get_params (ten attempts, then the central crop) and its flips,
 * with draws from Philox. exp and log are those of proto/elementary.h, which says why. Pure
 * functions; any thread. */
#pragma once

#include "pixel/pixel.h"
#include "proto/philox.h"

/* torchvision's defaults. */
#define DRAW_SCALE_MIN 0.08
#define DRAW_SCALE_MAX 1.0
#define DRAW_RATIO_MIN (3.0 / 4.0)
#define DRAW_RATIO_MAX (4.0 / 3.0)

/* Draw `number` (below 256) of an operation that `same` (below 16) equal operations precede in its
 * list. The draw depends only on these and on seed, epoch, position and view. */
struct philox draw_words(const struct pixel_key *key, enum philox_operation operation,
	uint32_t same, uint32_t number);

/* A box of the source, in pixels. */
struct draw_box {
	uint32_t x, y, w, h;
};

/* Attempt number a uses draw_words(key, PHILOX_RESIZED_CROP, same, a): word 0 gives the area,
 * word 1 the logarithm of the ratio, word 2 the row, word 3 the column, 32 bits each (torch
 * draws 24). `scale` has the minimum and the maximum of the area, as shares of the source's (0
 * <= minimum <= maximum, maximum > 0); `ratio` those of width / height (above 0). The source has
 * 1 .. 65,535 pixels on a side. */
struct draw_box draw_resized_crop(const struct pixel_key *key, uint32_t same, const double scale[2],
	const double ratio[2], uint32_t src_w, uint32_t src_h);

/* Words 0 and 1 of draw_words(key, operation, 0, 0): true with probability `p`. */
bool draw_flip(const struct pixel_key *key, enum philox_operation operation, double p);

/* Nearest integer, halves to even, as Python's round(); 0 <= x < 2^53. */
uint64_t draw_round(double x);

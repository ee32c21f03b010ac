/* draw: the random parameters of a sample, the same on every machine.
 *
 * torchvision's RandomResizedCrop.get_params (scale 0.08 to 1, ratio 3/4 to 4/3, ten attempts, then
 * the central crop) and RandomHorizontalFlip(0.5), with the draws taken from Philox. exp is
 * proto/elementary.h's, for the reason that is given there. Pure functions; any thread. */
#pragma once

#include "pixel/pixel.h"

/* A box of the source, in pixels. */
struct draw_box {
	uint32_t x, y, w, h;
};

/* Attempt number a uses philox_draw(..., PHILOX_RESIZED_CROP, a): word 0 gives the area, word 1 the
 * logarithm of the ratio, word 2 the row, word 3 the column, 32 bits each (torch draws 24). Sides
 * of the source: 1 .. 65,535. */
struct draw_box draw_resized_crop(const struct pixel_key *key, uint32_t src_w, uint32_t src_h);

/* Words 0 and 1 of philox_draw(..., PHILOX_HORIZONTAL_FLIP, 0). */
bool draw_flip(const struct pixel_key *key);

/* Nearest integer, halves to even, as Python's round(); 0 <= x < 2^53. */
uint64_t draw_round(double x);

/* erase: the rectangle of torchvision's RandomErasing, drawn alike by whoever erases.
 *
 * The daemon erases a list's RandomErasing, the client what comes behind Normalize, on the CPU or
 * on the GPU: with equal key, scale and ratio they erase the same rectangle. No libm here: see
 * elementary.h. Pure functions; any thread. */
#pragma once

#include "proto/philox.h"

#include <stdbool.h>
#include <stdint.h>

/* torchvision's defaults. */
#define ERASE_SCALE_MIN 0.02
#define ERASE_SCALE_MAX 0.33
#define ERASE_RATIO_MIN 0.3
#define ERASE_RATIO_MAX 3.3

/* What names the draws. */
struct erase_key {
	uint64_t seed;
	uint64_t position; /* below 2^48 */
	uint32_t epoch;
	enum philox_operation operation; /* PHILOX_ERASING of samples, PHILOX_BATCH_ERASE of rows */
	uint32_t step; /* of the first draw, of eleven; samples: view << 12 | same << 8 */
};

struct erase_box {
	uint32_t x, y, w, h;
};

/* Whether, with probability `probability`: words 0 and 1 of draw `step`. */
bool erase_happens(const struct erase_key *key, double probability);

/* The rectangle in an image of width x height; false where nothing is erased: none of ten attempts
 * fitted, or a side was rounded to nothing. Attempt number a, from 1 on, uses draw `step` + a: word
 * 0 gives the area, which is between `scale` (0 .. 1) of the image's, word 1 the logarithm of
 * `ratio` (height by width, above 0), word 2 the row, word 3 the column. */
bool erase_box(const struct erase_key *key, const double scale[2], const double ratio[2],
	uint32_t width, uint32_t height, struct erase_box *ret);

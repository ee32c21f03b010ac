/* erase: the rectangle and the noise of torchvision's RandomErasing, drawn alike by whoever erases.
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

/* Whose noise. */
struct erase_noise {
	uint64_t seed;
	uint64_t position; /* its low 48 bits count */
	uint32_t epoch;
	uint32_t view; /* below 16 */
};

/* Three values of N(0, 1) for the pixel at y * width + x: of the draw of philox_draw(seed, epoch,
 * position, PHILOX_BATCH_NOISE, pixel), where a pixel of more than 16 bits goes on above the
 * operation's low 8 bits, and the view above 24. Of its words w: u = w 2^-32 + 2^-33 in float32,
 * angle t = w 2^-31 pi, and by Box and Muller r(w0) cos t(w1), r(w0) sin t(w1), r(w2) cos t(w3),
 * r = sqrt(-2 log u): what the device computes in float32 is computed in double here, and rounded.
 */
void erase_noise(const struct erase_noise *noise, uint32_t pixel, float ret_values[3]);

/* erase: the rectangle and the noise of torchvision's RandomErasing, the same for daemon and
 * clients.
 *
 * The daemon applies the RandomErasing of a list of transforms, the client the one that follows
 * Normalize, on the CPU or on the GPU. With equal key, scale and ratio both erase the same
 * rectangle. This code does not use libm: see elementary.h. Pure functions; any thread. */
#pragma once

#include "proto/philox.h"

#include <stdbool.h>
#include <stdint.h>

/* torchvision's defaults. */
#define ERASE_SCALE_MIN 0.02
#define ERASE_SCALE_MAX 0.33
#define ERASE_RATIO_MIN 0.3
#define ERASE_RATIO_MAX 3.3

/* The key of the draws. */
struct erase_key {
	uint64_t seed;
	uint64_t position; /* below 2^48 */
	uint32_t epoch;
	enum philox_operation
		operation; /* PHILOX_ERASING for samples, PHILOX_BATCH_ERASE for rows */
	uint32_t step; /* of the first of eleven draws; for samples: view << 12 | same << 8 */
};

struct erase_box {
	uint32_t x, y, w, h;
};

/* Whether to erase, with this probability: words 0 and 1 of draw `step`. */
bool erase_happens(const struct erase_key *key, double probability);

/* The rectangle in an image of width x height; false where nothing is erased: none of ten attempts
 * fits, or a side is rounded to 0. Attempt number a, from 1 on, uses draw `step` + a: word 0 gives
 * the area, as a share of the image's between the two values of `scale` (0 .. 1); word 1 the
 * logarithm of the ratio, between the two values of `ratio` (height / width, above 0); word 2 the
 * row; word 3 the column. */
bool erase_box(const struct erase_key *key, const double scale[2], const double ratio[2],
	uint32_t width, uint32_t height, struct erase_box *ret);

/* The key of the noise. */
struct erase_noise {
	uint64_t seed;
	uint64_t position; /* its low 48 bits count */
	uint32_t epoch;
	uint32_t view; /* below 16 */
};

/* Three values of N(0, 1) for the pixel at y * width + x, from philox_draw(seed, epoch, position,
 * PHILOX_BATCH_NOISE, pixel), where the bits of a pixel number above 16 are above the operation's
 * low 8 bits, and the view is above bit 24. With u(w) = w 2^-32 + 2^-33 in float32, t(w) = w 2^-31
 * pi and r(w) = sqrt(-2 log u(w)), the values are by Box and Muller r(w0) cos t(w1), r(w0) sin
 * t(w1) and r(w2) cos t(w3). The device computes them in float32; here they are computed in double
 * and rounded. */
void erase_noise(const struct erase_noise *noise, uint32_t pixel, float ret_values[3]);

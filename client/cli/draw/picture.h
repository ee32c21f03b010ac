/* picture: writes RGB pixels to a PNG or PPM file, whole or not at all (output.h). Main thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum picture_format { PICTURE_PNG, PICTURE_PPM };

struct picture {
	uint32_t width, height;
	uint8_t *rgb; /* height x width x 3 */
};

/* `replace` is as for output_write. 0, or a negative errno with a fault. */
int picture_write(const char *path, enum picture_format format, const struct picture *picture,
	bool replace, struct fault *fault);

/* Writes to an open stream and flushes it; does not close it. 0, or a negative errno with a fault
 * that names it `name`. */
int picture_put(FILE *file, const char *name, enum picture_format format,
	const struct picture *picture, struct fault *fault);

/* How two images of the same size differ. */
struct picture_difference {
	uint64_t pixels;
	unsigned largest; /* of a channel */
	uint32_t x, y; /* the first one */
};

/* Compares row `y` of the picture with the same row of another one, and adds the differences. */
void picture_compare(const struct picture *picture, uint32_t y, const uint8_t *rgb,
	struct picture_difference *difference);

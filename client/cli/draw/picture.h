/* picture: RGB pixels into a PNG or PPM file, all of it or nothing (output.h). Main thread. */
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

/* `replace`: in place of a file that is there, or of what a symbolic link leads to; else -EEXIST. 0
 * or a negative errno with a fault. */
int picture_write(const char *path, enum picture_format format, const struct picture *picture,
	bool replace, struct fault *fault);

/* To an open stream, which is left open, and flushed. 0, or a negative errno with a fault that
 * calls it `name`. */
int picture_put(FILE *file, const char *name, enum picture_format format,
	const struct picture *picture, struct fault *fault);

/* Where two pictures of one size differ. */
struct picture_difference {
	uint64_t pixels;
	unsigned largest; /* of a channel */
	uint32_t x, y; /* of the first */
};

/* Adds row `y` of the picture against another one's. */
void picture_compare(const struct picture *picture, uint32_t y, const uint8_t *rgb,
	struct picture_difference *difference);

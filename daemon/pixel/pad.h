/* pad: windows that reach beyond the image, along one axis at a time.
 *
 * torchvision's RandomCrop pads the image, pads it once more if it is still too small, and cuts out
 * a window. CenterCrop pads an image that is too small with zeros. Each pixel of such a window is a
 * pixel of the image or `fill`, and columns and rows are independent. In every mode the window's
 * pixels move through the image by at most one at each step. So the needed pixels are adjacent, and
 * somewhere in the window they form one run: the sink writes them there, and all other pixels are
 * copies of these. Pure functions; any thread. */
#pragma once

#include "pixel/pixel.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAD_WINDOW_MAX = 4096 };

struct pad_axis {
	enum pixel_padding_mode mode;
	uint32_t side; /* pixels of the image, 1 or more */
	uint32_t before, after; /* pixels of padding at its ends */
	uint32_t more; /* further padding at each end */
	uint32_t place, window; /* in the padded image */
	bool mirrored; /* the window, afterwards */
};

/* CenterCrop's window of `size` pixels; an image that is too small is padded equally. */
struct pad_axis pad_center(uint32_t size, uint32_t side);

/* RandomCrop's window at its first place: padding as written, and as much more at each end as is
 * missing then. */
struct pad_axis pad_random(enum pixel_padding_mode mode, uint32_t size, uint32_t side,
	uint32_t before, uint32_t after);

/* Whether the window is inside the image. */
bool pad_is_inside(const struct pad_axis *axis);

/* Pixels of the padded image. */
uint32_t pad_side(const struct pad_axis *axis);

/* Which pixel of the image is the window's i-th pixel; -1: fill. */
int32_t pad_source(const struct pad_axis *axis, uint32_t i);

/* The window needs pixels [low, low + count) of the image; `count` is at least 1 and at most the
 * window. They are the window's pixels from `at` on, in this order or, if `falling`, from the last
 * to the first. `none`: the window needs none, and the pixels that are written there are
 * overwritten. */
struct pad_run {
	uint32_t low, count, at;
	bool falling, none;
};
struct pad_run pad_run(const struct pad_axis *axis);

/* Completes the window (rows without gaps, 3 bytes per pixel) after the runs of both axes have been
 * written. */
void pad_fill(
	const struct pad_axis *x, const struct pad_axis *y, const uint8_t fill[3], uint8_t *out);

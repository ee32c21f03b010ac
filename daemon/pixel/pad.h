/* pad: windows that reach beyond the image, along one axis at a time.
 *
 * torchvision's RandomCrop pads the image, and once more where it is still too small, and cuts a
 * window out; CenterCrop pads with zeros what is too small. Each pixel of such a window is one of
 * the image's or `fill`, column and row apart from each other. Whatever the mode, a window's pixels
 * move through the image by at most one at each step, so that those that are needed lie side by
 * side, and somewhere in the window they do so in one run: there the sink puts them, and all others
 * are copies of these. Pure functions; any thread. */
#pragma once

#include "pixel/pixel.h"

#include <stdbool.h>
#include <stdint.h>

enum { PAD_WINDOW_MAX = 2048 };

struct pad_axis {
	enum pixel_padding_mode mode;
	uint32_t side; /* pixels of the image, 1 or more */
	uint32_t before, after; /* how many are put at its ends */
	uint32_t more; /* and then at either end once more */
	uint32_t place, window; /* of what that comes to */
	bool mirrored; /* then */
};

/* Pixels of the image once it is padded. */
uint32_t pad_side(const struct pad_axis *axis);

/* Which of the image's pixels is the window's i-th; -1: fill. */
int32_t pad_source(const struct pad_axis *axis, uint32_t i);

/* Pixels [low, low + count) of the image are what the window needs, `count` at least 1 and at most
 * the window; they are its own from `at` on, in this order or, if `falling`, from the last to the
 * first. `none`: the window needs none, and what is put there is overwritten. */
struct pad_run {
	uint32_t low, count, at;
	bool falling, none;
};
struct pad_run pad_run(const struct pad_axis *axis);

/* Completes the window, row after row without gaps, 3 bytes a pixel, where the runs of both axes
 * are in place. */
void pad_fill(
	const struct pad_axis *x, const struct pad_axis *y, const uint8_t fill[3], uint8_t *out);

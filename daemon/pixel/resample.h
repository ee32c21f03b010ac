/* resample: Pillow's antialiased bilinear resize of RGB rows, bit for bit, as the rows come.
 *
 * A row of the source region comes in, rows of the window go out. The horizontal pass is first, or
 * the vertical one where Pillow has it so; between the passes lies uint8. A pass whose size does
 * not change has the single weight 1.0 and so copies, as Pillow does by leaving it out. Memory is
 * bounded whatever the scale, and taken once.
 *
 * Horizontal first: rows are gathered in a block of 32, the block is turned, resampled and turned
 * back, and the vertical pass takes the narrow rows one by one. Vertical first: the vertical pass
 * takes rows of the source's width, and what it puts out goes through blocks.
 *
 * The vertical pass adds up to 8 rows at a time out of a ring (all enlarging, and shrinking to
 * about a quarter); beyond that, rows are added to running sums, of which shrinking needs two. Rows
 * wider than 4,096 pixels go through the horizontal pass singly, and through the vertical one by
 * running sums, so that blocks stay small. Belongs to one thread. */
#pragma once

#include "base/fault.h"
#include "pixel/weights.h"

#include <stdbool.h>
#include <stdint.h>

struct resample;

struct resample_job {
	struct weights_axis x, y; /* windows at most max_window */
	bool flip;
	uint8_t *out; /* x.window x y.window x 3 bytes, written by the time of the last row */
};

/* Source pixels that the window takes from, counted from the source's corner. */
struct resample_region {
	uint32_t x0, y0, x1, y1;
};

int resample_new(uint32_t max_window, struct resample **ret, struct fault *fault);
void resample_free(struct resample *resample);

/* Bytes that resample_new takes. */
uint64_t resample_bytes(uint32_t max_window);

void resample_begin(struct resample *resample, const struct resample_job *job,
	struct resample_region *ret_region);

/* The next row of the region, x1 - x0 bytes each of R, G, B; not kept. */
void resample_row(struct resample *resample, const uint8_t *const rgb[3]);

/* Rows of the region that have not come yet. */
uint32_t resample_missing(const struct resample *resample);

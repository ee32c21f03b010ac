/* resample: Pillow's resize of RGB rows by any of its filters, bit for bit, as the rows come.
 *
 * Three planar rows of the source region come in, rows of the window go out as pixels of three
 * bytes. The horizontal pass is first, or the vertical one where Pillow has it so; between the
 * passes lies uint8. A pass whose size does not change has the single weight 1.0 and so copies, as
 * Pillow does by leaving it out. Memory is bounded whatever the scale, and taken once.
 *
 * Horizontal first: each row is resampled as it comes, into a ring of narrow rows which stays in
 * the nearest cache; the vertical pass takes them from there. Vertical first: rows are copied into
 * a ring of wide ones, and what the vertical pass puts out is resampled at once. Either way three
 * finished rows are woven into the window.
 *
 * Where an output takes more than WEIGHTS_FEW rows (bilinear: shrinking to a sixteenth), or the
 * ring does not fit, rows are added to running sums instead, of which the widest filter needs
 * seven. Belongs to one thread. */
#pragma once

#include "base/fault.h"
#include "pixel/weights.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resample;

struct resample_job {
	struct weights_axis x, y; /* windows at most max_window; the same filter */
	bool flip, flip_vertical;
	uint8_t *out; /* x.window x y.window x 3 bytes, written by the time of the last row */
	size_t stride; /* bytes from one row there to the next; 0: there are no gaps */
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

/* The next row of the region, x1 - x0 bytes each of R, G, B, and KERNELS_SLACK readable bytes
 * behind each; not kept. */
void resample_row(struct resample *resample, const uint8_t *const rgb[3]);

/* Rows of the region that have not come yet. */
uint32_t resample_missing(const struct resample *resample);

/* resample: Pillow's resize of RGB rows by any of its filters, bit for bit, while the rows arrive.
 *
 * Three planar rows of the source region go in, and rows of the window come out as pixels of three
 * bytes. The horizontal pass is first, or the vertical one where Pillow does it first; rows between
 * the passes are uint8. A pass whose size does not change has the single weight 1.0 and copies,
 * which equals Pillow, which leaves it out. Memory is bounded at every scale, and allocated once.
 *
 * Horizontal first: each row is resampled when it arrives, into a ring of narrow rows that stays in
 * the first cache, and the vertical pass reads them from there. Vertical first: rows are copied
 * into a ring of wide rows, and each result of the vertical pass is resampled at once. In both
 * cases three finished rows are interleaved into the window.
 *
 * Where an output needs more than WEIGHTS_FEW rows (bilinear: shrinking to a sixteenth), or the
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
	uint8_t *out; /* x.window x y.window x 3 bytes, complete after the last row */
	size_t stride; /* bytes from one of its rows to the next; 0: no gaps */
};

/* The source pixels that the window needs, counted from the source's corner. */
struct resample_region {
	uint32_t x0, y0, x1, y1;
};

int resample_new(uint32_t max_window, struct resample **ret, struct fault *fault);
void resample_free(struct resample *resample);

/* Bytes that resample_new allocates. */
uint64_t resample_bytes(uint32_t max_window);

void resample_begin(struct resample *resample, const struct resample_job *job,
	struct resample_region *ret_region);

/* Before the first row: `out` replaces that of the job. */
void resample_place(struct resample *resample, uint8_t *out);

void resample_weave(
	const struct resample *resample, uint8_t *to, const uint8_t *const rgb[3], uint32_t pixels);

/* The largest window. */
uint32_t resample_window(const struct resample *resample);

/* Takes the next row of the region: x1 - x0 bytes each of R, G and B, and KERNELS_SLACK readable
 * bytes after each. It keeps no pointers to them. */
void resample_row(struct resample *resample, const uint8_t *const rgb[3]);

/* How many rows of the region are still to come. */
uint32_t resample_missing(const struct resample *resample);

/* grid: which points a sweep measures: every combination of the values of its axes. Pure.
 *
 *   threads=1,2,4      these values        batch-size=32,64      image-size=160,224
 *   threads=1..8       every whole number of a range
 *   threads=1..16*2    1, 2, 4, 8, 16
 *   threads=1..3,6     both */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <stdint.h>

enum grid_axis { GRID_THREADS, GRID_BATCH, GRID_IMAGE, GRID_AXES };

enum { GRID_VALUES = 64, GRID_POINTS = 100 };

extern const char *const grid_name[GRID_AXES]; /* as in --sweep: "threads", ... */
extern const char *const grid_unit[GRID_AXES]; /* "decoding threads", ... */

struct grid {
	uint64_t value[GRID_AXES][GRID_VALUES];
	size_t count[GRID_AXES]; /* 0: not swept */
	enum grid_axis order[GRID_AXES]; /* as given; the first is the x axis of a plot */
	size_t swept;
};

struct grid_point {
	uint64_t value[GRID_AXES]; /* 0 for an axis that is not swept */
};

/* Adds the argument of one --sweep. 0, or -EINVAL with a fault: an unknown axis, or one given
 * twice; a value that is missing, not a number, out of range, or not in rising order. */
int grid_add(struct grid *grid, const char *text, struct fault *fault);

/* 0, or -EINVAL with a fault if there are too many combinations. */
int grid_check(const struct grid *grid, struct fault *fault);

/* At least 1. */
size_t grid_points(const struct grid *grid);

/* The last axis varies fastest. */
struct grid_point grid_at(const struct grid *grid, size_t number);

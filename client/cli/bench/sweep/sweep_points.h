/* sweep_points: what a sweep has measured, point by point. sweep.c fills it in; sweep_show.c,
 * sweep_plot.c and page.c present it. Main thread. */
#pragma once

#include "client/cli/bench/compare.h"
#include "client/cli/bench/measure.h"
#include "client/cli/bench/sweep/grid.h"
#include "client/cli/bench/sweep/spread.h"
#include "client/cli/bench/yardstick.h"
#include "client/cli/options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweep_options {
	struct option_list sweeps;
	uint64_t rounds; /* 0: 3 if anything is compared, otherwise 1 */
	bool yardstick, compare;
	const char *python, *plot, *report; /* NULL: not given */
};

struct sweep_point {
	struct grid_point at;
	/* As used, or as asked for if no run succeeded. */
	uint64_t threads, batch_size;
	struct pixel_size image_size;
	struct measure run[SPREAD_MAX];
	struct spread rate; /* images/s of the daemon, one for each run */
	struct spread yardstick, torch; /* images/s of the others, in the same rounds */
	struct spread ratio, times; /* rate : yardstick, rate : torch, round by round */
	uint64_t torch_broken;
	bool failed; /* a run ended with an error, which was reported; no further runs */
};

struct sweep {
	const struct sweep_options *options;
	const struct measure_options *measure;
	struct grid grid;
	unsigned rounds;
	struct sweep_point *point;
	size_t points;
	struct yardstick *yardstick;
	struct compare compare;
	int argc; /* the command, for the report */
	char **argv;
};

/* Whether there are several runs, so that medians are reported. */
bool sweep_compares(const struct sweep *sweep);

/* The run of a point whose rate is nearest to the median. NULL: none succeeded. */
const struct measure *sweep_middle(const struct sweep_point *point);

/* The point with the highest median. NULL: none succeeded. */
const struct sweep_point *sweep_fastest(const struct sweep *sweep);

/* "4 threads, batch 64, 224 px" */
const char *sweep_name(const struct sweep_point *point, char *buffer, size_t room);

/* sweep: what `penstock bench` does when it compares: several points, several rounds, the
 * yardstick, another loader. Main thread.
 *
 * Rounds are interleaved: each measures every point once, and beside it the yardstick on as many
 * threads and the other loader with as many workers, every second round in the opposite order. So
 * what else goes on in the machine meets all alike, and medians are compared. */
#pragma once

#include "client/cli/compare.h"
#include "client/cli/grid.h"
#include "client/cli/measure.h"
#include "client/cli/options.h"
#include "client/cli/spread.h"
#include "client/cli/yardstick.h"

#include <stdbool.h>
#include <stdint.h>

struct sweep_options {
	struct option_list sweeps;
	uint64_t rounds; /* 0: 3 where anything is compared, else 1 */
	bool yardstick, compare;
	const char *python, *plot, *report; /* NULL: not given */
};

#define SWEEP_OPTIONS(sweep)                                                                      \
	{"sweep", 0, OPTION_LIST, &(sweep).sweeps, "AXIS=LIST",                                   \
		"measure every value of threads, batch-size or image-size: threads=1,2,4, "       \
		"threads=1..8, threads=1..16*2; again for another axis: all combinations",        \
		0, 0, NULL},                                                                      \
		{"rounds", 0, OPTION_NUMBER, &(sweep).rounds, "N",                                \
			"times that each is measured, in turn; medians are told (3 where "        \
			"something is compared, else 1)",                                         \
			1, SPREAD_MAX, NULL},                                                     \
		{"yardstick", 0, OPTION_FLAG, &(sweep).yardstick, NULL,                           \
			"beside it, how fast libjpeg-turbo decodes the same files in full on "    \
			"as many threads",                                                        \
			0, 0, NULL},                                                              \
		{"compare", 0, OPTION_FLAG, &(sweep).compare, NULL,                               \
			"beside it, PyTorch's DataLoader over the same files with as many "       \
			"workers",                                                                \
			0, 0, NULL},                                                              \
		{"python", 0, OPTION_TEXT, &(sweep).python, "FILE",                               \
			"the Python that has torch and torchvision ($VIRTUAL_ENV's, python3)", 0, \
			0, NULL},                                                                 \
		{"plot", 0, OPTION_TEXT, &(sweep).plot, "FILE",                                   \
			"draw a sweep, or a run over time, as .svg or .png", 0, 0, NULL},         \
	{                                                                                         \
		"report", 0, OPTION_TEXT, &(sweep).report, "FILE",                                \
			"write a page for people, one HTML file", 0, 0, NULL                      \
	}

struct sweep_point {
	struct grid_point at;
	uint64_t threads, batch_size, image_size; /* as used; as asked for where no run was one */
	struct measure run[SPREAD_MAX];
	struct spread rate; /* images/s that the daemon made, one for each run */
	struct spread yardstick, torch; /* theirs, in the same rounds */
	struct spread ratio, times; /* rate : yardstick, rate : torch, round by round */
	uint64_t torch_broken;
	bool failed; /* a run ended with an error, which was said; no further ones */
};

struct sweep {
	const struct sweep_options *options;
	const struct measure_options *measure;
	struct grid grid;
	unsigned rounds;
	struct sweep_point *point;
	size_t points;
	struct yardstick *yardstick;
	struct yardstick_files files;
	struct compare compare;
	int argc; /* the command, for the report */
	char **argv;
};

/* Whether anything is asked for beyond one run's figures. */
bool sweep_wanted(const struct sweep_options *options);

/* Whether several things are measured, so that medians of each are told. */
bool sweep_compares(const struct sweep *sweep);

/* All of it: measures, prints (`json`: one object), draws, writes the page. The exit code, after
 * saying why it is not CLI_OK. */
int sweep_main(const struct sweep_options *options, const struct measure_options *measure,
	bool json, int argc, char **argv);

/* The run that tells most of a point: its rate is nearest to the median. NULL: none worked. */
const struct measure *sweep_middle(const struct sweep_point *point);

/* The point of the highest median. NULL: none worked. */
const struct sweep_point *sweep_fastest(const struct sweep *sweep);

/* "4 threads, batch 64, 224 px" */
const char *sweep_name(const struct sweep_point *point, char *buffer, size_t room);

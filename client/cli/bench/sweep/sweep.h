/* sweep: what `penstock bench` does when it compares: several points, several rounds, the
 * yardstick, another loader. Main thread.
 *
 * Rounds are interleaved: each measures every point once, and beside it the yardstick on as many
 * threads and the other loader with as many workers, every second round in the opposite order. So
 * what else goes on in the machine meets all alike, and medians are compared. */
#pragma once

#include "client/cli/bench/sweep/sweep_points.h"

#include <stdbool.h>

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

/* Whether anything is asked for beyond one run's figures. */
bool sweep_wanted(const struct sweep_options *options);

/* All of it: measures, prints (`json`: one object), draws, writes the page. The exit code, after
 * saying why it is not CLI_OK. */
int sweep_main(const struct sweep_options *options, const struct measure_options *measure,
	bool json, int argc, char **argv);

/* sweep: what `penstock bench` does when it compares: several points, several rounds, the
 * yardstick, another loader. Main thread.
 *
 * Rounds are interleaved. Each round measures every point once, and beside it the yardstick on as
 * many threads and the other loader with as many workers; every second round goes in the opposite
 * order. So other activity on the machine affects all points alike, and the medians can be
 * compared.
 *
 * A map of this folder:
 *   sweep.[ch]            this
 *   grid.[ch]             which points a sweep has
 *   spread.[ch]           medians of repeated measurements
 *   sweep_points.[ch]     what was measured at each point
 *   sweep_show.[ch]       prints it, for people and as JSON
 *   sweep_plot.c          draws it
 *   page.[ch]             the report for people, one HTML file; page.css is its style */
#pragma once

#include "client/cli/bench/sweep/sweep_points.h"

#include <stdbool.h>

#define SWEEP_OPTIONS(sweep)                                                                   \
	{"sweep", 0, OPTION_LIST, &(sweep).sweeps, "AXIS=LIST",                                \
		"measure every value of threads, batch-size or image-size: threads=1,2,4, "    \
		"threads=1..8 or threads=1..16*2; may be given for several of them",           \
		0, 0, NULL},                                                                   \
		{"rounds", 0, OPTION_NUMBER, &(sweep).rounds, "N",                             \
			"how often to measure each point, for medians (3 if anything is "      \
			"compared, otherwise 1)",                                              \
			1, SPREAD_MAX, NULL},                                                  \
		{"yardstick", 0, OPTION_FLAG, &(sweep).yardstick, NULL,                        \
			"also measure libjpeg-turbo's full decode", 0, 0, NULL},               \
		{"compare", 0, OPTION_FLAG, &(sweep).compare, NULL,                            \
			"also measure PyTorch's DataLoader over the files", 0, 0, NULL},       \
		{"python", 0, OPTION_TEXT, &(sweep).python, "FILE",                            \
			"for --compare: a Python with torch and torchvision ($VIRTUAL_ENV's, " \
			"or python3)",                                                         \
			0, 0, NULL},                                                           \
		{"plot", 0, OPTION_TEXT, &(sweep).plot, "FILE",                                \
			"draw the sweep, or the run over time: .svg or .png", 0, 0, NULL},     \
	{                                                                                      \
		"report", 0, OPTION_TEXT, &(sweep).report, "FILE",                             \
			"write a report, one HTML file", 0, 0, NULL                            \
	}

/* Whether any option asks for more than the figures of one run. */
bool sweep_wanted(const struct sweep_options *options);

/* Measures, prints (`json`: one object), draws, and writes the page. The exit code, after saying
 * why it is not CLI_OK. */
int sweep_main(const struct sweep_options *options, const struct measure_options *measure,
	bool json, int argc, char **argv);

/* sweep_show: prints what a sweep found, as a table or as JSON, and draws it (sweep_plot.c). Main
 * thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/bench/sweep/sweep_points.h"
#include "client/cli/draw/plot.h"

/* CLI_OK, or CLI_FAILED after saying why. */
int sweep_show_people(const struct sweep *sweep);
int sweep_show_json(const struct sweep *sweep);

/* A plot of a sweep over its first axis, or of one run over time, with what it points to. 0, or
 * -ENOMEM. The caller frees it with sweep_plot_deinit. */
struct sweep_plot {
	struct plot plot;
	struct plot_series *series;
	struct plot_point *points;
};
int sweep_plot_init(struct sweep_plot *plot, const struct sweep *sweep);
int sweep_plot_over_time(struct sweep_plot *plot, const struct measure *run, const char *title);
void sweep_plot_deinit(struct sweep_plot *plot);

/* Writes the plot to a file. 0, or a negative errno with a fault. */
int sweep_show_plot(const struct sweep *sweep, const char *path, struct fault *fault);

/* What exactly was measured beside the loader, in a sentence; "" if it was not asked for. */
const char *sweep_yardstick_words(const struct sweep *sweep, char *buffer, size_t room);
const char *sweep_torch_words(const struct sweep *sweep, char *buffer, size_t room);

/* Whether runs made entry points: they then cost nearly as much as a first epoch, and differ from
 * later runs. */
bool sweep_made_entry_points(const struct sweep *sweep);
#define SWEEP_MADE                                                                              \
	"some runs made entry points as they went, as a first epoch does, so not all runs are " \
	"alike"

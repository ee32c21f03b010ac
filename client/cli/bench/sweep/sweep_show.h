/* sweep_show: what a sweep found, as a table, as JSON and as a plot. Main thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/bench/sweep/sweep_points.h"
#include "client/cli/draw/plot.h"

/* CLI_OK, or CLI_FAILED after saying why. */
int sweep_show_people(const struct sweep *sweep);
int sweep_show_json(const struct sweep *sweep);

/* What there is to draw: a sweep over its first axis; one point over time. To be freed with
 * sweep_plot_deinit; -ENOMEM. */
struct sweep_plot {
	struct plot plot;
	struct plot_series *series;
	struct plot_point *points;
	char title[320], subtitle[256], label[96];
};
int sweep_plot_init(struct sweep_plot *plot, const struct sweep *sweep);
int sweep_plot_over_time(struct sweep_plot *plot, const struct measure *run, const char *title);
void sweep_plot_deinit(struct sweep_plot *plot);

/* 0, or a negative errno with a fault. */
int sweep_show_plot(const struct sweep *sweep, const char *path, struct fault *fault);

/* What exactly stands beside the loader, in a sentence; "" where it was not asked for. */
const char *sweep_yardstick_words(const struct sweep *sweep, char *buffer, size_t room);
const char *sweep_torch_words(const struct sweep *sweep, char *buffer, size_t room);

/* Whether runs made checkpoints as they went, so that they are near the cost of a first epoch and
 * not all alike. */
bool sweep_made_entry_points(const struct sweep *sweep);

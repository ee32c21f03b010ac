/* sweep_plot: see sweep_show.h. Decides which lines the plot of a sweep has. */
#include "client/cli/bench/sweep/sweep_show.h"

#include "base/util.h"
#include "client/cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plot_point sweep_plot_point(double x, const struct spread *spread)
{
	return (struct plot_point){.x = x,
		.y = spread_median(spread),
		.least = spread_least(spread),
		.most = spread_most(spread)};
}

/* Room for `series` of at most `points` each. */
static int sweep_plot_reserve(struct sweep_plot *plot, size_t series, size_t points)
{
	plot->series = calloc(series, sizeof *plot->series);
	plot->points = calloc(series * points, sizeof *plot->points);
	if (!plot->series || !plot->points) {
		sweep_plot_deinit(plot);
		return -ENOMEM;
	}
	for (size_t i = 0; i < series; i++)
		plot->series[i].point = plot->points + i * points;
	plot->plot.series = plot->series;
	return 0;
}

void sweep_plot_deinit(struct sweep_plot *plot)
{
	free(plot->series);
	free(plot->points);
	plot->series = NULL;
	plot->points = NULL;
}

static int sweep_plot_value(enum grid_axis axis, uint64_t value, char *buffer, size_t room)
{
	switch (axis) {
	case GRID_THREADS:
		return snprintf(buffer, room, "%" PRIu64 " thread%s", value, value == 1 ? "" : "s");
	case GRID_BATCH:
		return snprintf(buffer, room, "batch %" PRIu64, value);
	default:
		return snprintf(buffer, room, "%" PRIu64 " px", value);
	}
}

/* The values of all axes but the first, or only of threads: "batch 64, 224 px". */
static void sweep_plot_name(const struct sweep *sweep, const struct sweep_point *point,
	bool threads_alone, char *buffer, size_t room)
{
	size_t at = 0;
	*buffer = 0;
	for (size_t i = 1; i < sweep->grid.swept && at < room; i++) {
		enum grid_axis axis = sweep->grid.order[i];
		if (threads_alone && axis != GRID_THREADS)
			continue;
		at += (size_t)snprintf(buffer + at, room - at, "%s", at ? ", " : "");
		if (at < room)
			at += (size_t)sweep_plot_value(
				axis, point->at.value[axis], buffer + at, room - at);
	}
}

/* A kind of line: its name, which the values of the other axes follow, and what it shows. */
struct sweep_line {
	const char *name;
	size_t spread; /* offset in struct sweep_point */
	bool threads_alone; /* it depends only on the number of threads */
};

static const struct sweep_line sweep_line_loader = {"", offsetof(struct sweep_point, rate), false};
static const struct sweep_line sweep_line_torch = {
	"DataLoader", offsetof(struct sweep_point, torch), false};
static const struct sweep_line sweep_line_yardstick = {
	"libjpeg-turbo", offsetof(struct sweep_point, yardstick), true};

static void sweep_plot_call(const struct sweep *sweep, const struct sweep_point *point,
	const struct sweep_line *line, char *buffer, size_t room)
{
	char values[48];
	sweep_plot_name(sweep, point, line->threads_alone, values, sizeof values);
	const char *name = *line->name || *values ? line->name : "penstock";
	(void)snprintf(buffer, room, "%s%s%s", name, *name && *values ? ", " : "", values);
}

/* Adds a line of the points that differ from point `number` only in the first axis, which varies
 * slowest. */
static void sweep_plot_line(struct sweep_plot *plot, const struct sweep *sweep, size_t number,
	const struct sweep_line *line)
{
	size_t lines = sweep->points / sweep->grid.count[sweep->grid.order[0]];
	struct plot_series *series = &plot->series[plot->plot.count++];
	sweep_plot_call(sweep, &sweep->point[number], line, series->name, sizeof series->name);
	for (size_t i = number; i < sweep->points; i += lines) {
		const struct sweep_point *point = &sweep->point[i];
		const struct spread *spread =
			(const struct spread *)(const void *)((const char *)point + line->spread);
		if (spread->count)
			series->point[series->count++] = sweep_plot_point(
				(double)point->at.value[sweep->grid.order[0]], spread);
	}
}

/* The yardstick has a line for each number of threads, or one line if threads are the first
 * axis. */
static void sweep_plot_lines(struct sweep_plot *plot, const struct sweep *sweep)
{
	size_t lines = sweep->points / sweep->grid.count[sweep->grid.order[0]];
	for (size_t i = 0; i < lines; i++)
		sweep_plot_line(plot, sweep, i, &sweep_line_loader);
	for (size_t i = 0; i < lines && sweep->options->compare; i++)
		sweep_plot_line(plot, sweep, i, &sweep_line_torch);
	for (size_t i = 0; i < lines && sweep->yardstick; i++) {
		bool known = false;
		for (size_t j = 0; j < i; j++)
			known |= sweep->point[j].at.value[GRID_THREADS] ==
				 sweep->point[i].at.value[GRID_THREADS];
		if (!known)
			sweep_plot_line(plot, sweep, i, &sweep_line_yardstick);
	}
}

/* Whether each value is at least half as large again as the previous one, as in 1, 2, 4. */
static bool sweep_plot_grows(const struct grid *grid)
{
	enum grid_axis axis = grid->order[0];
	for (size_t i = 1; i < grid->count[axis]; i++)
		if (2 * grid->value[axis][i] < 3 * grid->value[axis][i - 1])
			return false;
	return grid->count[axis] > 2;
}

static void sweep_plot_words(struct plot *plot, const struct sweep *sweep)
{
	enum grid_axis axis = sweep->grid.order[0];
	const char *described = sweep_middle(sweep_fastest(sweep))->described;
	/* With one axis, threads, the rest of the stream is the same for all points. */
	bool same = sweep->grid.swept == 1 && axis == GRID_THREADS;
	plot->logarithmic = sweep_plot_grows(&sweep->grid);
	(void)snprintf(plot->title, sizeof plot->title, "%s", sweep->measure->source);
	(void)snprintf(plot->subtitle, sizeof plot->subtitle, "%s%s%u round%s of %.3g s: median%s",
		same ? described : "", same ? "; " : "", sweep->rounds,
		sweep->rounds == 1 ? "" : "s", sweep->measure->seconds,
		sweep->rounds == 1 ? "" : ", least and most");
	(void)snprintf(plot->x_label, sizeof plot->x_label, "%s%s", grid_unit[axis],
		plot->logarithmic ? " (logarithmic)" : "");
}

int sweep_plot_over_time(struct sweep_plot *plot, const struct measure *run, const char *title)
{
	*plot = (struct sweep_plot){.plot = {.x_label = "time since the start of the window, s",
					    .y_label = "images/s",
					    .count = 1}};
	if (sweep_plot_reserve(plot, 1, SERIES_MAX) < 0)
		return -ENOMEM;
	(void)snprintf(plot->plot.title, sizeof plot->plot.title, "%s", title);
	(void)snprintf(plot->plot.subtitle, sizeof plot->plot.subtitle, "%s", run->described);
	(void)snprintf(plot->plot.y_label, sizeof plot->plot.y_label, "images/s%s",
		run->trainers > 1 ? " of each trainer" : "");
	/* Half a second or more for each point: short parts have few batches, and a jagged rate. */
	double rates[SERIES_MAX],
		span_s = run->series.count ? run->series.sample[run->series.count - 1].t_s : 0;
	unsigned columns = (unsigned)UTIL_MIN(UTIL_MAX(span_s * 2, 1.0), SERIES_MAX);
	columns = UTIL_MIN(columns, run->series.count);
	plot->plot.x_most = span_s;
	series_rates(&run->series, columns, rates);
	for (unsigned i = 0; i < columns; i++)
		plot->series[0].point[plot->series[0].count++] = (struct plot_point){
			(i + 0.5) * span_s / columns, rates[i], rates[i], rates[i]};
	return 0;
}

int sweep_plot_init(struct sweep_plot *plot, const struct sweep *sweep)
{
	if (!sweep->grid.swept)
		return sweep_plot_over_time(
			plot, sweep_middle(sweep_fastest(sweep)), sweep->measure->source);
	*plot = (struct sweep_plot){.plot = {.y_label = "images/s", .marks = true}};
	/* There are three kinds of lines, and at most a line of each kind for every point. */
	if (sweep_plot_reserve(plot, 3 * sweep->points, GRID_VALUES) < 0)
		return -ENOMEM;
	sweep_plot_words(&plot->plot, sweep);
	sweep_plot_lines(plot, sweep);
	return 0;
}

int sweep_show_plot(const struct sweep *sweep, const char *path, struct fault *fault)
{
	struct sweep_plot plot;
	if (sweep_plot_init(&plot, sweep) < 0)
		return fault_set(fault, -ENOMEM, "cannot write %s: out of memory", path);
	int r = plot_save(&plot.plot, path, fault);
	sweep_plot_deinit(&plot);
	return r;
}

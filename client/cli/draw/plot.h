/* plot: values over a number, one line for each series: axes with units and round ticks, a legend,
 * the least and the most of repeated measurements as whiskers. Main thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/draw/drawing.h"

#include <stdbool.h>
#include <stddef.h>

struct plot_point {
	double x, y;
	double least, most; /* both y where it was measured once */
};

struct plot_series {
	char name[64];
	struct plot_point *point; /* by rising x */
	size_t count;
};

struct plot {
	const char *title, *subtitle; /* cut where they are too long */
	const char *x_label, *y_label; /* with their units */
	const struct plot_series *series;
	size_t count;
	bool marks; /* a mark at each point, ticks at their x alone; else ticks at round x */
	bool logarithmic; /* x; marks only, all x above 0 */
};

enum { PLOT_WIDTH = 960 };

/* The caller frees the drawing. `drawing->failed` where memory was out. */
void plot_draw(const struct plot *plot, struct drawing *ret);

enum plot_format { PLOT_SVG, PLOT_PNG };

/* By the name's end. 0, or -EINVAL with a fault for any other. */
int plot_format(const char *path, enum plot_format *ret, struct fault *fault);

/* All of it or nothing (output.h), in place of a file that is there. PNG has twice the pixels. 0 or
 * a negative errno with a fault. */
int plot_save(const struct plot *plot, const char *path, struct fault *fault);

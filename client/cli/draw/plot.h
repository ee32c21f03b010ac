/* plot: values over a number, with a line for each series, axes with units and round ticks, a
 * legend, and whiskers from the least to the most of repeated measurements. Main thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/draw/drawing.h"

#include <stdbool.h>
#include <stddef.h>

struct plot_point {
	double x, y;
	double least, most; /* both y if it was measured once */
};

struct plot_series {
	char name[64];
	struct plot_point *point; /* by rising x */
	size_t count;
};

struct plot {
	char title[320], subtitle[256]; /* cut if too long */
	char x_label[96], y_label[32]; /* with their units */
	const struct plot_series *series;
	size_t count;
	double x_most; /* without marks, the x axis reaches at least this far */
	/* A mark at each point, and ticks only at their x; otherwise ticks at round x. */
	bool marks;
	bool logarithmic; /* the x axis; only with marks, and if all x are above 0 */
};

enum { PLOT_WIDTH = 960 };

/* The caller frees the drawing. If memory ran out, its `failed` is set. */
void plot_draw(const struct plot *plot, struct drawing *ret);

enum plot_format { PLOT_SVG, PLOT_PNG };

/* The format that the end of the name says. 0, or -EINVAL with a fault. */
int plot_format(const char *path, enum plot_format *ret, struct fault *fault);

/* Writes a file whole or not at all (output.h); an existing file is replaced. A PNG file has two
 * pixels for each unit. 0, or a negative errno with a fault. */
int plot_save(const struct plot *plot, const char *path, struct fault *fault);

/* drawing: lines, marks and text as a list, which becomes SVG or pixels. A plot is made of it. Main
 * thread.
 *
 * Units are CSS pixels, and (0, 0) is at the upper left. Colors are roles. An SVG in a page takes
 * them from the page's style (`--drawing-ink` and so on), so that it follows light and dark; SVG
 * files and pixels have those for a light background.
 *
 * A map of this folder:
 *   drawing.[ch]   this
 *   plot.[ch]      axes, lines and a legend, as a drawing, and as a file
 *   markup.[ch]    text inside SVG and HTML
 *   canvas.[ch]    an RGB image in memory: rectangles, strokes, images, letters
 *   font.[ch]      the letters
 *   make/          make_font.c renders the letters while penstock is built
 *   picture.[ch]   writes RGB pixels to a PNG or PPM file
 *   thumb.[ch]     a source made small while it is decoded */
#pragma once

#include "client/cli/draw/canvas.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum drawing_color {
	DRAWING_PAPER,
	DRAWING_INK,
	DRAWING_MUTED,
	DRAWING_GRID,
	DRAWING_FIRST, /* of those that tell series apart */
	DRAWING_COLORS = DRAWING_FIRST + 8
};

enum drawing_shape {
	DRAWING_DISC,
	DRAWING_SQUARE,
	DRAWING_TRIANGLE,
	DRAWING_DIAMOND,
	DRAWING_SHAPES
};

enum drawing_anchor { DRAWING_START, DRAWING_MIDDLE, DRAWING_END };

struct drawing_at {
	double x, y;
};

struct drawing_text {
	struct drawing_at at; /* on the baseline */
	double size; /* of the letters, like font-size; pixels have those of enum font_face */
	enum drawing_anchor anchor;
	bool turned; /* reads upward */
	bool bold;
	enum drawing_color color;
};

/* What a mark stands for. The SVG has it as data-x and data-y, and as a title that browsers
 * show. */
struct drawing_value {
	double x, y;
	const char *title;
};

struct drawing_item;

struct drawing {
	double width, height;
	const char *title; /* for screen readers; kept, not copied */
	struct drawing_item *item;
	size_t count, room;
	bool failed; /* memory ran out */
};

void drawing_init(struct drawing *drawing, double width, double height, const char *title);
void drawing_deinit(struct drawing *drawing);

void drawing_line(struct drawing *drawing, struct drawing_at from, struct drawing_at to,
	double thick, enum drawing_color color);
void drawing_path(struct drawing *drawing, const struct drawing_at *at, size_t count, double thick,
	enum drawing_color color);
void drawing_mark(struct drawing *drawing, struct drawing_at at, double radius,
	enum drawing_shape shape, enum drawing_color color, const struct drawing_value *value);
void drawing_write(struct drawing *drawing, const struct drawing_text *text, const char *words);

/* How wide the text is in DejaVu Sans; a browser may show it in a narrower font. */
double drawing_width(const char *words, double size);

/* `themed`: with the colors of the page's style, as wide as the page allows. 0, or -ENOMEM. */
int drawing_svg(const struct drawing *drawing, bool themed, FILE *file);

/* With `scale` pixels for each unit. 0 and a canvas that the caller frees, or -ENOMEM. */
int drawing_pixels(const struct drawing *drawing, double scale, struct canvas *ret);

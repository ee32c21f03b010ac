/* canvas: an RGB image in memory, to draw rectangles, strokes, images and letters on. Main
 * thread. */
#pragma once

#include "client/cli/draw/font.h"

#include <stdbool.h>
#include <stdint.h>

struct canvas {
	int width, height;
	uint8_t *rgb; /* height x width x 3 */
};

struct canvas_box {
	int x, y, w, h;
};

/* 0, or -ENOMEM. `color` is 0xRRGGBB. */
int canvas_init(struct canvas *canvas, int width, int height, uint32_t color);
void canvas_deinit(struct canvas *canvas);

/* All drawing is clipped at the edges. */
void canvas_fill(struct canvas *canvas, struct canvas_box box, uint32_t color);

/* The outline of the box, `thick` pixels wide, inside the box. */
void canvas_frame(struct canvas *canvas, struct canvas_box box, int thick, uint32_t color);

/* A straight stroke with round ends and smooth edges from (line[0], line[1]) to (line[2], line[3]);
 * a disc if both are the same. Pixel (x, y) covers x .. x + 1, y .. y + 1. */
void canvas_stroke(struct canvas *canvas, const double line[4], double thick, uint32_t color);

/* Multiplies the pixels inside `outer` but outside `inner` by `percent` / 100. */
void canvas_dim(
	struct canvas *canvas, struct canvas_box outer, struct canvas_box inner, int percent);

/* The largest box with the proportions w : h in the middle of `box`. */
struct canvas_box canvas_fit(struct canvas_box box, int w, int h);

/* Scales an image of w x h pixels to the box: each pixel is the average of the area that it
 * covers. */
void canvas_image(struct canvas *canvas, struct canvas_box box, const uint8_t *rgb, int w, int h);

/* One line of letters, on a baseline that begins at (x, y); `turned`: it reads upward. Returns how
 * far it goes along the baseline. */
int canvas_letters(struct canvas *canvas, int x, int y, enum font_face face, bool turned,
	uint32_t color, const char *text);

/* One line of letters with its top left at (x, y), as much as fits into `width` pixels. Returns the
 * width drawn. */
int canvas_text(struct canvas *canvas, int x, int y, enum font_face face, int width, uint32_t color,
	const char *text);

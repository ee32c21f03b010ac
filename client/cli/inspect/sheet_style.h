/* sheet_style: what the images that `show` draws have in common: sizes, colors, the lines at the
 * top. */
#pragma once

#include "client/cli/draw/canvas.h"
#include "client/cli/draw/font.h"

enum {
	SHEET_MARGIN = 32,
	SHEET_GAP = 6, /* pixels between a source and its row */
	SHEET_GUTTER = 22, /* pixels between cells */
	SHEET_TITLE = 3, /* scale of the letters */
	SHEET_TEXT = 2,
	SHEET_LINE = FONT_HEIGHT * SHEET_TEXT + 4,
	SHEET_HEAD = FONT_HEIGHT * (SHEET_TITLE + SHEET_TEXT) + 30,
};

enum {
	SHEET_PAPER = 0xfbfaf7,
	SHEET_INK = 0x1f2328,
	SHEET_GRAY = 0x6a7078,
	SHEET_EDGE = 0xd7d5cf,
	SHEET_EMPTY = 0xecebe6,
	SHEET_CROP = 0xffd23f,
	SHEET_ORANGE = 0xc45a00,
	SHEET_RED = 0xb3261e,
};

static inline void sheet_head(struct canvas *canvas, const char *title, const char *subtitle)
{
	int width = canvas->width - 2 * SHEET_MARGIN;
	(void)canvas_text(canvas, SHEET_MARGIN, SHEET_MARGIN, SHEET_TITLE, width, SHEET_INK, title);
	(void)canvas_text(canvas, SHEET_MARGIN, SHEET_MARGIN + FONT_HEIGHT * SHEET_TITLE + 8,
		SHEET_TEXT, width, SHEET_GRAY, subtitle);
}

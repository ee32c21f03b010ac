/* sheet_style: what the images that `show` draws have in common: sizes, colors, the lines at the
 * top. */
#pragma once

#include "client/cli/draw/canvas.h"
#include "client/cli/draw/font.h"

enum {
	SHEET_MARGIN = 32,
	SHEET_GAP = 6, /* pixels between a source and its row */
	SHEET_GUTTER = 22, /* pixels between cells */
	SHEET_LINE = 24, /* from a line of FONT_TEXT to the next */
	SHEET_SMALL_LINE = 18, /* of FONT_SMALL */
	SHEET_TITLE_LINE = 40, /* of FONT_TITLE */
	SHEET_HEAD = SHEET_TITLE_LINE + SHEET_LINE + 20,
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

/* A title is the path of a dataset and what is shown of it, so its middle gives way. */
static inline void sheet_head(struct canvas *canvas, const char *title, const char *subtitle)
{
	enum { SHEET_HEAD_TEXT = 1024 };
	char fitting[SHEET_HEAD_TEXT];
	int width = canvas->width - 2 * SHEET_MARGIN;
	font_fit(FONT_TITLE, title, width, FONT_CUT_MIDDLE, fitting, sizeof fitting);
	(void)canvas_text(
		canvas, SHEET_MARGIN, SHEET_MARGIN, FONT_TITLE, width, SHEET_INK, fitting);
	(void)canvas_text(canvas, SHEET_MARGIN, SHEET_MARGIN + SHEET_TITLE_LINE, FONT_TEXT, width,
		SHEET_GRAY, subtitle);
}

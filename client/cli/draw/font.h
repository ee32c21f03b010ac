/* font: letters for contact sheets and plots: printable ASCII, five columns by seven rows, and two
 * rows below the baseline. */
#pragma once

#include <stdint.h>

enum {
	FONT_WIDTH = 5,
	FONT_HEIGHT = 9,
	FONT_ADVANCE = 6,
	FONT_FIRST = ' ',
	FONT_LAST = '~',
};

/* FONT_HEIGHT rows of five bits; the leftmost is the highest. Characters that are not printable
 * ASCII become a question mark. */
const uint8_t *font_glyph(char c);

/* font: lettering for the contact sheet: printable ASCII, five columns by seven rows, and two rows
 * below the line for descenders. */
#pragma once

#include <stdint.h>

enum {
	FONT_WIDTH = 5,
	FONT_HEIGHT = 9,
	FONT_ADVANCE = 6,
	FONT_FIRST = ' ',
	FONT_LAST = '~',
};

/* FONT_HEIGHT rows of five bits, the leftmost the highest. What is not printable ASCII is shown as
 * a question mark. */
const uint8_t *font_glyph(char c);

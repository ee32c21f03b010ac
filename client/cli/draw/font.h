/* font: the letters of contact sheets and plots: DejaVu Sans, rendered while penstock is built
 * (make/make_font.c). ASCII, Latin-1 and some punctuation exist; every other character is drawn as
 * U+FFFD, and combining marks are left out. Any thread; pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of make_font.c. */
enum font_face {
	FONT_SMALL, /* 14 pixels */
	FONT_TEXT, /* 18 */
	FONT_TITLE, /* 28 */
	FONT_HEAD, /* 40, bold */
	FONT_FACES
};

struct font {
	uint8_t size; /* pixels, as in CSS's font-size */
	bool bold;
	uint8_t ascent, descent; /* of a line, above and below the baseline */
};

struct font_glyph {
	uint32_t at; /* of its pixels in the table */
	uint8_t width, height;
	uint8_t advance; /* from its origin to the origin of the next glyph */
	int8_t left, top; /* from its origin to its upper left pixel: to the right, and up */
};

enum { FONT_PIXELS = 48 * 48 /* No glyph is larger. */ };

const struct font *font_of(enum font_face face);

/* The face whose size is nearest, bold or not. */
enum font_face font_nearest(double size, bool bold);

/* The glyph of the character at `*text`, which then points behind the character. NULL at the end of
 * the text. Each malformed byte counts as a character. */
const struct font_glyph *font_next(enum font_face face, const char **text);

/* The glyph's pixels row by row: 0 outside the letter, 255 inside, between them at its edges. */
void font_pixels(const struct font_glyph *glyph, uint8_t ret_pixels[FONT_PIXELS]);

/* How many pixels the text takes. */
int font_width(enum font_face face, const char *text);

/* The part that gives way in a text that is too wide. File names differ at their ends. */
enum font_cut { FONT_CUT_END, FONT_CUT_MIDDLE };

/* Writes the text, or as much of it as fits into `width` pixels, with an ellipsis for the rest. */
void font_fit(enum font_face face, const char *text, int width, enum font_cut cut, char *ret_text,
	size_t room);

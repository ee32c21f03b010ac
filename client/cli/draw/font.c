/* font: see font.h. font_table.h is made in the build folder (cmake/PenstockFont.cmake). */
#include "client/cli/draw/font.h"

#include "base/util.h"
#include "proto/utf8.h"
#include <font_table.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONT_ELLIPSIS "\xe2\x80\xa6"

enum { FONT_POINTS = UTIL_COUNT(font_points) };

_Static_assert(UTIL_COUNT(font_faces) == FONT_FACES, "make_font.c has the faces of enum font_face");
_Static_assert(UTIL_COUNT(font_glyphs) == (size_t)FONT_FACES * FONT_POINTS,
	"each face has a glyph for each character");

const struct font *font_of(enum font_face face)
{
	return &font_faces[face];
}

enum font_face font_nearest(double size, bool bold)
{
	enum font_face best = FONT_TEXT;
	double least = INFINITY;
	for (int i = 0; i < FONT_FACES; i++) {
		/* A face of the other weight is taken only if no face has this one. */
		double far = fabs(font_faces[i].size - size) +
			     (font_faces[i].bold == bold ? 0 : UINT8_MAX);
		if (far < least) {
			least = far;
			best = (enum font_face)i;
		}
	}
	return best;
}

static int font_compare(const void *key, const void *element)
{
	int32_t point = *(const int32_t *)key;
	uint16_t here = *(const uint16_t *)element;
	return (point > here) - (point < here);
}

/* The place of the character in the table; of U+FFFD, the last, if it is not there. */
static size_t font_place(int32_t point)
{
	const uint16_t *found =
		bsearch(&point, font_points, FONT_POINTS, sizeof *font_points, font_compare);
	return found ? (size_t)(found - font_points) : FONT_POINTS - 1;
}

const struct font_glyph *font_next(enum font_face face, const char **text)
{
	static const struct font_glyph nothing;
	if (!**text)
		return NULL;
	size_t bytes;
	int32_t point = utf8_decode(*text, &bytes);
	*text += bytes;
	/* Combining diacritical marks: names from other systems spell their accents with them. */
	if (point >= 0x300 && point < 0x370)
		return &nothing;
	return &font_glyphs[(size_t)face * FONT_POINTS + font_place(point)];
}

/* Nibble number `at` of a glyph. */
static unsigned font_nibble(const struct font_glyph *glyph, size_t at)
{
	return font_coverage[glyph->at + at / 2] >> (at % 2 ? 0 : 4) & 15;
}

void font_pixels(const struct font_glyph *glyph, uint8_t ret_pixels[FONT_PIXELS])
{
	size_t pixels = (size_t)glyph->width * glyph->height, nibble = 0;
	for (size_t i = 0; i < pixels;) {
		unsigned level = font_nibble(glyph, nibble++), run = 1;
		if (level == 0 || level == 15)
			run += font_nibble(glyph, nibble++);
		memset(ret_pixels + i, (int)level * 17, run);
		i += run;
	}
}

int font_width(enum font_face face, const char *text)
{
	int width = 0;
	for (const struct font_glyph *glyph; (glyph = font_next(face, &text));)
		width += glyph->advance;
	return width;
}

/* The bytes at the beginning of the text that fit into `width` pixels. */
static size_t font_fitting(enum font_face face, const char *text, int width)
{
	const char *end = text, *next = text;
	for (const struct font_glyph *glyph; (glyph = font_next(face, &next)); end = next) {
		width -= glyph->advance;
		if (width < 0)
			break;
	}
	return (size_t)(end - text);
}

/* The end of the text that fits into `width` pixels of the `whole` that the text takes. */
static const char *font_tail(enum font_face face, const char *text, int whole, int width)
{
	const struct font_glyph *glyph;
	while (whole > width && (glyph = font_next(face, &text)))
		whole -= glyph->advance;
	return text;
}

static size_t font_append(char *text, size_t at, size_t room, const char *more, size_t bytes)
{
	bytes = UTIL_MIN(bytes, utf8_cut(more, room - 1 - at));
	memcpy(text + at, more, bytes);
	text[at + bytes] = 0;
	return at + bytes;
}

void font_fit(enum font_face face, const char *text, int width, enum font_cut cut, char *ret_text,
	size_t room)
{
	int whole = font_width(face, text), dots = font_width(face, FONT_ELLIPSIS);
	if (whole <= width) {
		(void)font_append(ret_text, 0, room, text, strlen(text));
		return;
	}
	int left = UTIL_MAX(width - dots, 0);
	size_t head = font_fitting(face, text, cut == FONT_CUT_MIDDLE ? left / 2 : left);
	size_t at = font_append(ret_text, 0, room, text, head);
	if (dots <= width)
		at = font_append(ret_text, at, room, FONT_ELLIPSIS, sizeof FONT_ELLIPSIS - 1);
	if (cut == FONT_CUT_MIDDLE) {
		const char *tail = font_tail(face, text, whole, left - left / 2);
		(void)font_append(ret_text, at, room, tail, strlen(tail));
	}
}

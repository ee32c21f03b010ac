/* paper: lines of character cells with attributes: what `penstock top` writes on, whether a
 * terminal or a file shows it in the end. No terminal is needed, so that a test can read what was
 * written.
 *
 * A paper has a fixed width and grows by lines. What is put beyond the width is cut. Texts come
 * from the daemon's JSON and may hold anything: control characters, marks that turn the writing
 * direction and what is no UTF-8 become `?`; wide characters take their two cells. Where the locale
 * is not UTF-8 whatever is not ASCII is a `?`. When memory is out the paper stays as it was and
 * says so in `failed`. Any thread; a paper is used by one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum paper_attr {
	PAPER_PLAIN = 0,
	PAPER_BOLD = 1,
	PAPER_DIM = 2,
	PAPER_REVERSE = 4,
	PAPER_GOOD = 8,
	PAPER_WARN = 16,
	PAPER_BAD = 32,
};

enum { PAPER_GLYPH = 16 };

struct paper_cell {
	char text[PAPER_GLYPH]; /* a character with what combines; "" behind a wide one */
	uint8_t attr; /* of enum paper_attr */
};

struct paper {
	int width, rows, room, at; /* at: the column where the next text goes */
	bool utf8, failed;
	struct paper_cell *cells;
};

void paper_init(struct paper *paper, int width, bool utf8);
void paper_free(struct paper *paper);

/* Begins another line. What is put before the first one goes nowhere. */
void paper_line(struct paper *paper);

/* Puts text at the cursor of the last line and moves it behind. */
void paper_put(struct paper *paper, unsigned attr, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts a text into exactly so many columns: filled up with blanks, or cut with a mark. */
void paper_field(struct paper *paper, unsigned attr, const char *text, int columns, bool right);

/* Moves the cursor to a column, never back. */
void paper_tab(struct paper *paper, int column);

/* Puts a text at the cursor, broken between words; further lines begin at the same column. */
void paper_wrap(struct paper *paper, unsigned attr, const char *text);

/* Adds an attribute to all of the last line, its empty rest included. */
void paper_mark(struct paper *paper, unsigned attr);

/* Appends lines of another paper of the same width; those that it does not have are left out. */
void paper_append(struct paper *paper, const struct paper *from, int first, int count);

/* The cell; NULL outside. */
const struct paper_cell *paper_at(const struct paper *paper, int row, int column);

/* How many columns a text takes here. */
int paper_columns(const char *text, bool utf8);

/* As lines of text without blanks at their ends. */
void paper_print(const struct paper *paper, FILE *out);

/* paper: lines of character cells with attributes. `penstock top` writes on it; a terminal or a
 * file shows it later. It needs no terminal, so a test can read what was written.
 *
 * A paper has a fixed width and grows by lines. Text beyond the width is cut. Texts come from
 * the daemon's JSON and may hold anything: control characters, marks that change the writing
 * direction, and invalid UTF-8 become `?`; wide characters take two cells. If the locale is not
 * UTF-8, every character outside ASCII becomes `?`. When memory runs out, the paper stays as it
 * was and sets `failed`. Any thread; one thread at a time uses a paper. */
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
	char text[PAPER_GLYPH]; /* a character with its combining marks; "" after a wide one */
	uint8_t attr; /* of enum paper_attr */
};

struct paper {
	int width, rows, room, at; /* at: the column where the next text goes */
	bool utf8, failed;
	struct paper_cell *cells;
};

void paper_init(struct paper *paper, int width, bool utf8);
void paper_free(struct paper *paper);

/* Begins another line. Text before the first line is dropped. */
void paper_line(struct paper *paper);

/* Writes text at the cursor of the last line and moves the cursor to its end. */
void paper_put(struct paper *paper, unsigned attr, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Writes a text into exactly `columns` columns: padded with blanks, or cut with a mark. */
void paper_field(struct paper *paper, unsigned attr, const char *text, int columns, bool right);

/* Moves the cursor to a column, never back. */
void paper_tab(struct paper *paper, int column);

/* Writes a text at the cursor and breaks it between words; further lines begin at the same
 * column. */
void paper_wrap(struct paper *paper, unsigned attr, const char *text);

/* Adds an attribute to the whole last line, including its empty rest. */
void paper_mark(struct paper *paper, unsigned attr);

/* Appends lines of another paper of the same width; ignores lines that it does not have. */
void paper_append(struct paper *paper, const struct paper *from, int first, int count);

/* The cell; NULL outside the paper. */
const struct paper_cell *paper_at(const struct paper *paper, int row, int column);

/* How many columns a text takes here. */
int paper_columns(const char *text, bool utf8);

/* Prints lines of text without trailing blanks. */
void paper_print(const struct paper *paper, FILE *out);

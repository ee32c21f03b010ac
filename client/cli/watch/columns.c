/* columns: see columns.h. */
#include "client/cli/watch/columns.h"

#include "base/util.h"

#include <string.h>

enum { COLUMNS_NARROW = 60 };

static int columns_measure(const struct columns *columns, int c, bool utf8)
{
	int widest = 0;
	for (size_t row = 0; row < columns->rows; row++) {
		struct columns_cell cell = {.attr = PAPER_PLAIN};
		columns->cell(columns->context, row, c, &cell);
		widest = UTIL_MAX(widest, paper_columns(cell.text, utf8));
	}
	return widest ? UTIL_MAX(widest, paper_columns(columns->column[c].title, utf8)) : 0;
}

/* The least width of a column. */
static int columns_least(const struct columns *columns, int c, const int *wanted)
{
	int least = columns->column[c].least;
	return least ? UTIL_MIN(least, wanted[c]) : wanted[c];
}

/* The column with that rank; -1: none. */
static int columns_ranked(const struct columns *columns, int rank)
{
	for (int c = 0; c < columns->count; c++)
		if (columns->column[c].rank == rank)
			return c;
	return -1;
}

/* Widens the columns of lower rank last, up to `most` each. */
static void columns_widen(struct columns *columns, const int *most, int left)
{
	for (int rank = 0; rank < columns->count; rank++) {
		int c = columns_ranked(columns, rank);
		if (c < 0 || !columns->width[c])
			continue;
		int more = UTIL_MAX(UTIL_MIN(left, most[c] - columns->width[c]), 0);
		columns->width[c] += more;
		left -= more;
	}
}

/* What is left of the width. */
static int columns_left(const struct columns *columns, int width)
{
	bool first = true;
	for (int c = 0; c < columns->count; c++) {
		if (!columns->width[c])
			continue;
		width -= columns->width[c] + (first ? 0 : columns->gap);
		first = false;
	}
	return width;
}

void columns_plan(struct columns *columns, int width, bool utf8)
{
	int wanted[COLUMNS_MOST] = {0}, most[COLUMNS_MOST] = {0}, left = width, shown = 0;
	columns->gap = width < COLUMNS_NARROW ? 1 : 2;
	memset(columns->width, 0, sizeof columns->width);
	for (int c = 0; c < columns->count; c++) {
		wanted[c] = columns_measure(columns, c, utf8);
		most[c] = columns->column[c].most;
	}
	for (int rank = 0; rank < columns->count; rank++) {
		int c = columns_ranked(columns, rank), gap = shown ? columns->gap : 0;
		if (c < 0 || !wanted[c] || columns_least(columns, c, wanted) + gap > left)
			continue;
		columns->width[c] = columns_least(columns, c, wanted);
		left -= columns->width[c] + gap;
		shown++;
	}
	columns_widen(columns, wanted, columns_left(columns, width));
	columns_widen(columns, most, columns_left(columns, width));
}

void columns_head(const struct columns *columns, struct paper *paper)
{
	bool first = true;
	paper_line(paper);
	for (int c = 0; c < columns->count; c++) {
		if (!columns->width[c])
			continue;
		paper_tab(paper, first ? 0 : paper->at + columns->gap);
		first = false;
		paper_field(paper, PAPER_DIM, columns->column[c].title, columns->width[c],
			columns->column[c].right);
	}
}

void columns_row(const struct columns *columns, struct paper *paper, size_t row)
{
	bool first = true;
	paper_line(paper);
	for (int c = 0; c < columns->count; c++) {
		struct columns_cell cell = {.attr = PAPER_PLAIN};
		if (!columns->width[c])
			continue;
		paper_tab(paper, first ? 0 : paper->at + columns->gap);
		first = false;
		columns->cell(columns->context, row, c, &cell);
		paper_field(
			paper, cell.attr, cell.text, columns->width[c], columns->column[c].right);
	}
}

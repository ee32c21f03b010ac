/* columns: see columns.h. */
#include "client/cli/watch/columns.h"

#include "base/util.h"

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

void columns_plan(struct columns *columns, int width, bool utf8)
{
	int wanted[COLUMNS_MOST] = {0}, left = width, shown = 0;
	columns->gap = width < COLUMNS_NARROW ? 1 : 2;
	for (int c = 0; c < columns->count; c++) {
		wanted[c] = columns_measure(columns, c, utf8);
		columns->width[c] = 0;
	}
	for (int rank = 0; rank < columns->count; rank++) {
		int c = columns_ranked(columns, rank), gap = shown ? columns->gap : 0;
		if (c < 0 || !wanted[c] || columns_least(columns, c, wanted) + gap > left)
			continue;
		columns->width[c] = columns_least(columns, c, wanted);
		left -= columns->width[c] + gap;
		shown++;
	}
	for (int rank = 0; rank < columns->count; rank++) {
		int c = columns_ranked(columns, rank);
		if (c < 0 || !columns->width[c])
			continue;
		int more = UTIL_MIN(left, wanted[c] - columns->width[c]);
		columns->width[c] += more;
		left -= more;
	}
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

/* columns: a table that fits its width: the columns that matter least are left out, those with room
 * to give are cut, and only as many rows are drawn as are asked for.
 *
 * Drawn on a paper. Any thread; nothing is kept but the plan. */
#pragma once

#include "client/cli/watch/paper.h"

#include <stddef.h>

enum { COLUMNS_MOST = 16, COLUMNS_CELL = 512 };

struct column {
	const char *title;
	bool right; /* numbers */
	unsigned char rank; /* 0 matters most */
	unsigned char least; /* may be cut to so many columns; 0: never cut */
};

struct columns_cell {
	char text[COLUMNS_CELL];
	unsigned attr;
};

struct columns {
	const struct column *column;
	int count;
	size_t rows;
	/* Fills in a cell, which comes empty and plain. A column without any text is left out. */
	void (*cell)(const void *context, size_t row, int column, struct columns_cell *ret_cell);
	const void *context;
	/* By columns_plan: */
	int width[COLUMNS_MOST]; /* 0: left out */
	int gap;
};

/* Measures all rows and decides what is shown in `width`. */
void columns_plan(struct columns *columns, int width, bool utf8);

/* Each appends a line. */
void columns_head(const struct columns *columns, struct paper *paper);
void columns_row(const struct columns *columns, struct paper *paper, size_t row);

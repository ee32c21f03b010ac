/* columns: a table that fits a width. It leaves out the columns that matter least, cuts those that
 * may be cut, lets bars grow into what is left, and draws only the rows that the caller asks for.
 *
 * It draws on a paper. Any thread; its only state is the plan. */
#pragma once

#include "client/cli/watch/paper.h"

#include <stddef.h>

enum { COLUMNS_MOST = 16, COLUMNS_CELL = 512 };

struct column {
	const char *title;
	bool right; /* numbers */
	unsigned char rank; /* 0 matters most */
	unsigned char least; /* may be cut down to this width; 0: never cut */
	unsigned char most; /* a bar: may grow to this width where there is room; 0: no bar */
};

struct columns_cell {
	char text[COLUMNS_CELL];
	unsigned attr;
};

struct columns {
	const struct column *column;
	int count;
	size_t rows;
	/* Fills in a cell, which is empty and plain before. A column without any text is left
	 * out. */
	void (*cell)(const void *context, size_t row, int column, struct columns_cell *ret_cell);
	const void *context;
	/* Set by columns_plan, which measures cells while all widths are 0: */
	int width[COLUMNS_MOST]; /* 0: left out */
	int gap;
};

/* Measures all rows and decides which columns `width` has room for. */
void columns_plan(struct columns *columns, int width, bool utf8);

/* Each function appends a line. */
void columns_head(const struct columns *columns, struct paper *paper);
void columns_row(const struct columns *columns, struct paper *paper, size_t row);

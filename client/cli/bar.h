/* bar: draws a share as a bar of character cells, or several shares of a whole side by side. Any
 * thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { BAR_CELLS = 64, BAR_ROOM = BAR_CELLS * 3 + 1, BAR_KINDS = 4 };

/* Writes `cells` cells (at most BAR_CELLS), of which `share` is full, into `buffer` (BAR_ROOM
 * bytes) and returns it. UTF-8 has eighths of a cell, ASCII only whole ones. */
const char *bar_share(double share, int cells, bool utf8, char *buffer);

/* The same for `kinds` amounts that make up a whole, drawn from dark to light. An amount above 0
 * gets at least one cell as long as there are cells. */
const char *bar_parts(const double *amount, int kinds, int cells, bool utf8, char *buffer);

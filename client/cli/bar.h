/* bar: a share as a bar of character cells, and the shares of a whole one beside the other. Any
 * thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { BAR_CELLS = 64, BAR_ROOM = BAR_CELLS * 3 + 1, BAR_KINDS = 4 };

/* Writes `cells` cells, at most BAR_CELLS, into `buffer` (BAR_ROOM bytes) and returns it: `share`
 * of them full. Eighths of a cell in UTF-8, whole ones in ASCII. */
const char *bar_share(double share, int cells, bool utf8, char *buffer);

/* The same of `kinds` amounts that make up a whole, from the darkest to the lightest; what is above
 * 0 gets a cell as long as there are any. */
const char *bar_parts(const double *amount, int kinds, int cells, bool utf8, char *buffer);

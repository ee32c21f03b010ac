/* bar: see bar.h. */
#include "client/cli/bar.h"

#include "base/util.h"

#include <string.h>

const char *bar_share(double share, int cells, bool utf8, char *buffer)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	int most = UTIL_MAX(UTIL_MIN(cells, BAR_CELLS), 0), i = 0;
	/* NaN counts as 0. */
	double within = share > 0 ? UTIL_MIN(share, 1.0) : 0;
	int parts = (int)(within * most * 8 + 0.5), whole = utf8 ? parts / 8 : (parts + 4) / 8;
	char *at = buffer;
	*at = 0;
	for (; i < whole; i++)
		at = stpcpy(at, utf8 ? "█" : "#");
	if (utf8 && parts % 8) {
		at = stpcpy(at, eighths[parts % 8]);
		i++;
	}
	for (; i < most; i++)
		at = stpcpy(at, utf8 ? "░" : "-");
	return buffer;
}

/* How many cells each amount gets. The sums are rounded, so that all cells are given out. */
static void bar_divide(const double *amount, int kinds, int cells, int *ret_cells)
{
	double total = 0, sum = 0;
	int given = 0, most = 0;
	for (int k = 0; k < kinds; k++)
		total += amount[k];
	for (int k = 0; k < kinds; k++) {
		sum += amount[k];
		int until = total > 0 ? (int)(sum / total * cells + 0.5) : 0;
		ret_cells[k] = until - given;
		given = until;
		if (ret_cells[k] > ret_cells[most])
			most = k;
	}
	for (int k = 0; k < kinds; k++)
		if (amount[k] > 0 && !ret_cells[k] && ret_cells[most] > 1) {
			ret_cells[k]++;
			ret_cells[most]--;
		}
}

const char *bar_parts(const double *amount, int kinds, int cells, bool utf8, char *buffer)
{
	static const char *const shades[] = {"█", "▓", "▒", "░"}, *const letters[] = {
									  "#", "=", "-", "."};
	int each[BAR_KINDS] = {0}, most = UTIL_MAX(UTIL_MIN(cells, BAR_CELLS), 0);
	char *at = buffer;
	*at = 0;
	bar_divide(amount, UTIL_MIN(kinds, BAR_KINDS), most, each);
	for (int k = 0; k < UTIL_MIN(kinds, BAR_KINDS); k++)
		for (int i = 0; i < each[k]; i++)
			at = stpcpy(at, utf8 ? shades[k] : letters[k]);
	return buffer;
}

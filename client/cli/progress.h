/* progress: one line on the terminal for what takes longer than a second: how far, how fast, how
 * long still.
 *
 * Drawn on stderr, and only where that is a terminal; otherwise nothing is ever written. The line
 * is redrawn ten times a second at most and wiped at the end, so results printed afterwards stand
 * alone. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum progress_unit { PROGRESS_ITEMS, PROGRESS_BYTES, PROGRESS_SECONDS };

struct progress {
	const char *label; /* "indexing" */
	enum progress_unit unit;
	uint64_t total; /* 0: unknown. Seconds are counted in nanoseconds */
	uint64_t start_ns, drawn_ns;
	bool terminal, utf8, shown, at_once;
};

/* `at_once`: draw from the beginning instead of after the first second (for what is known to take
 * long). */
void progress_begin(struct progress *progress, const char *label, enum progress_unit unit,
	uint64_t total, bool at_once);

/* `done` of the total. `note` (NULL: the rate and the time left) is printed behind the bar instead.
 * Cheap when it is not yet time. */
void progress_update(struct progress *progress, uint64_t done, const char *note);

/* Wipes the line. */
void progress_end(struct progress *progress);

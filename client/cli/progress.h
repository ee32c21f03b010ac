/* progress: a line on the terminal while something takes longer than a second: how far it is, how
 * fast, how long it will take.
 *
 * It is drawn on stderr, and only if that is a terminal. It is redrawn at most ten times a second,
 * and erased at the end. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum progress_unit { PROGRESS_ITEMS, PROGRESS_BYTES, PROGRESS_SECONDS };

struct progress {
	const char *label; /* "indexing" */
	enum progress_unit unit;
	uint64_t total; /* 0: unknown. PROGRESS_SECONDS counts nanoseconds */
	uint64_t start_ns, drawn_ns;
	bool terminal, utf8, shown, at_once;
};

/* `at_once` draws from the beginning instead of after the first second, for work that is known to
 * take long. */
void progress_begin(struct progress *progress, const char *label, enum progress_unit unit,
	uint64_t total, bool at_once);

/* Draws the line if it is time: `done` of the total, and after the bar the note, or for NULL the
 * rate and the time left. */
void progress_update(struct progress *progress, uint64_t done, const char *note);

/* Erases the line. */
void progress_end(struct progress *progress);

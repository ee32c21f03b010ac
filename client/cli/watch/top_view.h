/* top_view: what `penstock top` shows, as lines of cells. It depends on the daemon's last two
 * answers, on what the user looks at, and on the size of the terminal. Pure: no terminal, no clock,
 * no daemon, so tests can cover every size and every odd answer.
 *
 * A map of this folder:
 *   status.c         penstock status and penstock stop
 *   top.c            penstock top: its options, and its output as text
 *   top_impl.h       what top.c shares with the two files below
 *   top_terminal.c   the output on a terminal, redrawn
 *   top_absent.c     in place of top_terminal.c and screen.c in a build without ncurses
 *   top_view.[ch]    keys, selection, and which part gets which lines
 *   top_parts.h      what the four top_ files around it share
 *   top_head.c       the daemon: title, verdict and its evidence, memory, machine, GPUs
 *   top_table.c      streams and trainers, one row each
 *   top_pages.c      pages: one stream in detail, memory, notices, help
 *   columns.[ch]     a table that fits a width
 *   paper.[ch]       lines of character cells
 *   screen.[ch]      a paper on the terminal, and its keys
 *   feed.[ch]        asks the daemon for its status, in a thread of its own
 *   why/             penstock why
 *
 * Any key of an answer may be missing; then nothing is shown for it. The paper makes the texts
 * of an answer harmless. */
#pragma once

#include "client/cli/document.h"
#include "client/cli/watch/paper.h"

#include <stdbool.h>
#include <stddef.h>

enum top_page {
	TOP_STREAMS, /* the first page: head and streams */
	TOP_STREAM, /* one stream in detail */
	TOP_TRAINERS,
	TOP_MEMORY,
	TOP_NOTICES,
	TOP_HELP,
	TOP_PAGES
};

enum top_key {
	TOP_KEY_UP = 256,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_BACK, /* Esc */
};

enum top_outcome {
	TOP_NOTHING, /* the key has no meaning here */
	TOP_REDRAW,
	TOP_QUIT,
};

enum { TOP_NAME = 256, TOP_SENTENCE = 1024 };

struct top_view {
	bool utf8;
	bool plain; /* no terminal: show everything, select nothing */
	double interval_s;
	/* The answers; borrowed. `before` is NULL while there is only one answer; rates are then
	 * averages since the daemon started. */
	const struct node *now, *before;
	double elapsed_s; /* between the two */
	char gone[TOP_SENTENCE]; /* why no newer answer has come; "" otherwise */
	/* top_view_key changes what follows. */
	enum top_page page, back;
	bool paused;
	unsigned order[TOP_PAGES]; /* how the rows of a page are sorted */
	size_t selected; /* row of the selected stream */
	char name[TOP_NAME]; /* of the selected stream, whose row may change */
	int scroll; /* the first visible line of a long page */
	/* From the last drawing: how far the keys may go. */
	int lines, window;
};

/* The time between two questions. */
#define TOP_INTERVAL_LEAST_MS 200
#define TOP_INTERVAL_LEAST_S (TOP_INTERVAL_LEAST_MS / 1000.0)
enum { TOP_INTERVAL_MOST_S = 60 };

/* Takes the next answer. The caller keeps both answers valid until it replaces them. */
void top_view_take(
	struct top_view *view, const struct node *now, const struct node *before, double elapsed_s);

/* Handles a key: a character or one of enum top_key. */
enum top_outcome top_view_key(struct top_view *view, int key);

/* Draws `height` lines on an empty paper. */
void top_view_draw(struct top_view *view, int height, struct paper *ret_paper);

/* Draws everything, for a file, in as many lines as it takes. */
void top_view_print(struct top_view *view, struct paper *ret_paper);

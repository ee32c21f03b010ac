/* top_view: what `penstock top` shows, as lines of cells: from the daemon's last answer, the one
 * before it, what was looked at and how large the terminal is. Pure: no terminal, no clock, no
 * daemon, so that every size and every odd answer can be tested.
 *
 * A map of the parts:
 *   top_view.c    what was pressed, what is selected, what goes where when there is little room
 *   top_head.c    the daemon: title, verdict, its evidence, memory, machine, devices
 *   top_table.c   streams and trainers
 *   top_pages.c   one stream closer, memory, notices, help
 *
 * Any key of an answer may be missing: what is not there is not shown. Texts of an answer are tamed
 * by the paper. */
#pragma once

#include "client/cli/document.h"
#include "client/cli/watch/paper.h"

#include <stdbool.h>
#include <stddef.h>

enum top_page {
	TOP_STREAMS, /* the first: head and streams */
	TOP_STREAM, /* one of them, closer */
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
	TOP_NOTHING, /* a key without a meaning here */
	TOP_REDRAW,
	TOP_QUIT,
};

enum { TOP_NAME = 256, TOP_SENTENCE = 1024 };

struct top_view {
	bool utf8;
	bool plain; /* no terminal: all of it, nothing selected */
	double interval_s;
	/* The answers; borrowed. `before` is NULL while there is but one: rates are then averages
	 * since the daemon's start. */
	const struct node *now, *before;
	double elapsed_s; /* between the two */
	char gone[TOP_SENTENCE]; /* why there is no newer answer; "" while there is */
	/* What top_view_key changes. */
	enum top_page page, back;
	bool paused;
	unsigned order[TOP_PAGES]; /* how the rows of a page are sorted */
	size_t selected; /* among the streams as they are shown */
	char name[TOP_NAME]; /* of the selected one: it may move */
	int scroll; /* the first line of a page that does not fit */
	/* Of the last drawing: how far the keys may go. */
	int lines, window;
};

/* Between two questions. */
#define TOP_INTERVAL_LEAST_S 0.2
enum { TOP_INTERVAL_MOST_S = 60 };

/* Takes another answer; both stay the caller's, and must last until they are replaced. */
void top_view_take(
	struct top_view *view, const struct node *now, const struct node *before, double elapsed_s);

/* A key: a character or one of enum top_key. */
enum top_outcome top_view_key(struct top_view *view, int key);

/* Draws `height` lines on an empty paper. */
void top_view_draw(struct top_view *view, int height, struct paper *ret_paper);

/* Draws everything, as many lines as it takes, for a file. */
void top_view_print(struct top_view *view, struct paper *ret_paper);

/* top_impl: what top.c, which prints text, shares with top_terminal.c, which redraws a terminal,
 * and with top_absent.c, which replaces top_terminal.c in a build without ncurses. Main thread. */
#pragma once

#include "client/cli/document.h"
#include "client/cli/watch/feed.h"
#include "client/cli/watch/top_view.h"

#include <stdbool.h>
#include <stdint.h>

struct top {
	const char *socket;
	double interval_s;
	uint64_t count; /* snapshots; 0: unlimited */
	bool json;
	struct top_view view;
	struct feed *feed;
	int signals; /* signalfd */
	/* The last answer, the one before it, when they came, and since when no answer has come. */
	struct node *now, *before;
	double now_s, before_s, gone_s;
	double daemon_pid;
};

/* Adds the next answer; takes over `root`. */
void top_take(struct top *top, struct node *root, double at_s);
void top_forget(struct top *top);

/* Whether stdin and stdout are a terminal that can be redrawn. Prints a note if only this build
 * prevents it. */
bool top_terminal_possible(void);
/* Redraws until a key or a signal ends it. Returns the exit code. */
int top_terminal(struct top *top);

/* screen: a paper on the terminal, and its keys: the one place that knows ncurses, whose names
 * collide with everybody's. Main thread. */
#pragma once

#include "client/cli/watch/paper.h"

/* Whether stdin and stdout are a terminal whose cursor can be moved. */
bool screen_possible(void);

/* Takes the terminal over; `colours`: as far as it has them. 0 or a negative errno. */
int screen_open(bool colours);
/* Gives it back as it was. */
void screen_close(void);

void screen_size(int *ret_columns, int *ret_lines);
/* The window has another size now, or somebody else has drawn on it. */
void screen_resized(void);
void screen_redraw(void);

/* Gives the terminal back and stops, as Ctrl-Z asks for; returns when it is continued. SIGTSTP has
 * to be blocked. */
void screen_suspend(void);

void screen_draw(const struct paper *paper);

/* The next key that was pressed: a character, or one of enum top_key of top_view.h; 0 for none. */
int screen_key(void);

/* screen: shows a paper on the terminal and reads its keys. Only screen.c uses ncurses, because the
 * names of ncurses collide with many others. Main thread. */
#pragma once

#include "client/cli/watch/paper.h"

/* Whether stdin and stdout are a terminal whose cursor can be moved. */
bool screen_possible(void);

/* Takes over the terminal; `colors`: uses colors if the terminal has them. 0 or a negative
 * errno. */
int screen_open(bool colors);
/* Restores the terminal. */
void screen_close(void);

void screen_size(int *ret_columns, int *ret_lines);
/* screen_resized: the window has another size now. screen_redraw: another program has drawn on
 * it. */
void screen_resized(void);
void screen_redraw(void);

/* Restores the terminal and stops the process, as Ctrl-Z asks; returns when the process is
 * continued. SIGTSTP must be blocked. */
void screen_suspend(void);

void screen_draw(const struct paper *paper);

/* The next key that was pressed: a character, or one of enum top_key of top_view.h; 0 for none. */
int screen_key(void);

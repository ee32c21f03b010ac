/* place: the place where tests start private daemons: a separate folder, with fake_penstockd in
 * place of penstockd. Each started daemon appends a line of facts. */
#pragma once

#include "penstock/penstock.h"

#include <sys/types.h>

enum { PLACE_FACTS = 8192 };

struct place {
	char folder[64], run[72]; /* the client must make `run` */
	char socket[96], facts[112], log[96], spawn_lock[96];
};

extern struct place place;

void place_make(void);
/* Ends every daemon that wrote its facts, and removes the folder. */
void place_remove(void);

/* Options for a stream of a private daemon here. */
struct penstock_options place_options(void);

/* All facts so far; how many daemons were started, and the last one's pid. */
void place_read(char text[PLACE_FACTS]);
unsigned place_starts(pid_t *ret_last);

/* Kills the daemon that was started last, and the processes that serve these streams. */
void place_kill(struct penstock_stream *const stream[], int streams);

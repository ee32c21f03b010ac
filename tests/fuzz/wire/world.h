/* world: a daemon inside this process, whose event loop the test turns.
 *
 * Its folder has two tiny datasets (one has a broken file), lists and a cache. The event loop runs
 * when world_turn is called; the reader and one worker have threads of their own, as always. All
 * functions: one thread, which is the event loop's and the clients'. */
#pragma once

#include "serve/server.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <stddef.h>

enum { WORLD_PATIENCE_S = 60, WORLD_IMAGES = 7 };

struct world {
	char root[64];
	struct config config;
	struct server *server;
	bool over; /* the last turn was the daemon's last one */
	uint64_t restarts;
};

/* Makes the datasets, then the daemon. On failure it aborts with a sentence, as every function
 * here. */
void world_make(struct world *world);
/* Only the daemon, in place of one that has ended. */
void world_begin(struct world *world);
void world_finish(struct world *world);
/* Removes everything, including the folder. */
void world_remove(struct world *world);

void world_turn(struct world *world, int timeout_ms);
int world_connect(const struct world *world);
/* Turns until the daemon has taken everything that was sent to it over this connection. */
void world_settle(struct world *world, int fd);
/* Turns until the daemon has that many clients and groups, and no task. */
void world_calm(struct world *world, uint32_t clients, uint32_t groups);

/* Copies a text, with the root in place of each @. Returns its length. */
size_t world_text(const struct world *world, const char *text, char *ret, size_t room);

uint64_t world_reserved(const struct world *world);
/* Turns until that much memory is reserved. */
void world_returns(struct world *world, uint64_t reserved);
/* Whether this process has at most that many descriptors; waits a while, because threads have
 * some for a moment. */
bool world_has_fds(struct world *world, int count);
int world_fds(void);

/* Ends the process, and prints what was wrong and the notes (world_note) since world_forget. */
_Noreturn void world_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void world_forget(void);

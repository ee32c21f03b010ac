/* loan: shared memory that others are given, and whether they still have it.
 *
 * What a client maps stays in memory until it lets go, whatever the daemon does: a sealed memfd can
 * neither be shrunk nor punched. So the daemon has to know. Once it has given up all that it has of
 * a memfd itself, the kernel tells when that is destroyed (inotify, IN_DELETE_SELF): when nobody
 * has a descriptor of it any more, one under way in a socket or one of O_PATH among them, nor a
 * mapping, nor anything that was opened anew from those.
 *
 * Clients get an open file of their own, read-only where nobody is to write: then not even the
 * seals are what stops a writer first.
 *
 * It takes /proc and a watch of inotify. Without /proc clients get the memfd itself; without either
 * nobody knows whether they have it.
 *
 * Any thread; a loan belongs to one at a time. */
#pragma once

#include <stdbool.h>

struct handout_watch;

struct handout {
	int give; /* for clients; -1: closed */
	struct handout_watch *watch; /* NULL: it cannot be known */
};

#define HANDOUT_NONE ((struct handout){.give = -1, .watch = NULL})

/* Opens what tells, once; the first loan does so too. At the start, so that no stream adds a
 * descriptor that stays. */
void handout_begin(void);

/* Takes over `memfd`, which is closed; cannot fail. */
struct handout handout_make(int memfd, bool writable);

/* Nobody is given it any more; once the daemon has unmapped it too, it may be asked whether it is
 * held. */
void handout_end(struct handout *loan);

/* Hears what has been let go of, of all loans: handout_is_held is as true as the last of these. */
void handout_look(void);

/* Whether somebody has it, once it was ended. False where it cannot be known. */
bool handout_is_held(const struct handout *loan);

void handout_deinit(struct handout *loan);

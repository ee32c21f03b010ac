/* loan: shared memory that others are given, and whether they still have it.
 *
 * What a client maps stays in memory until it lets go, whatever the daemon does: a sealed memfd can
 * neither be shrunk nor punched. So the daemon has to know. Clients get a descriptor of an open
 * file of their own, and the kernel tells whether any open file of a memfd but one's own is left:
 * it grants a write lease (fcntl, F_SETLEASE) to nobody else's reader. That sees descriptors, also
 * those under way in a socket, mappings, and whatever was opened anew from them.
 *
 * That file is read-only besides, where nobody is to write: then not even the seals are what stops
 * a writer first.
 *
 * It takes /proc. Without it clients get the memfd itself, and nobody knows whether they have it.
 *
 * Any thread; a loan belongs to one at a time. */
#pragma once

#include <stdbool.h>

struct loan {
	int give; /* for clients; -1: closed */
	int probe; /* the daemon's own; -1: it cannot be known */
};

#define LOAN_NONE ((struct loan){.give = -1, .probe = -1})

/* Takes over `memfd`, which is closed; cannot fail. */
struct loan loan_make(int memfd, bool writable);

/* Nobody is given it any more; it may still be asked whether it is held. */
void loan_end(struct loan *loan);

/* Whether somebody has it, once it was ended. False where it cannot be known. */
bool loan_is_held(const struct loan *loan);

void loan_deinit(struct loan *loan);

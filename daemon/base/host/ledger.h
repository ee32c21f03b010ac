/* ledger: the memory budget, and which part of the daemon holds how much of it.
 *
 * A module reserves a line before it allocates the memory and releases the line after it has freed
 * the memory. The ledger refuses what does not fit, with a sentence. One module, the borrower, may
 * use what nobody has reserved; it returns that memory when a reservation needs it, so for
 * reservations borrowed memory counts as free. Any thread. */
#pragma once

#include "base/fault.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { LEDGER_LINES = 256, LEDGER_NAME = 64 };

struct ledger_line {
	char name[LEDGER_NAME]; /* "" when free */
	uint64_t bytes;
};

struct ledger {
	pthread_mutex_t lock;
	uint64_t budget, reserved, borrowed;
	/* One less than in a snapshot, whose last line is the borrower's. */
	struct ledger_line line[LEDGER_LINES - 1];
	const char *borrower; /* its name; NULL: nobody borrows */
	bool (*call)(void *context);
	void *context;
};

void ledger_init(struct ledger *ledger, uint64_t budget_bytes);
void ledger_deinit(struct ledger *ledger);

/* `name` is not empty. May block until the borrower has returned memory. 0 and a line number, or
 * -ENOMEM with a fault that says how much is free and which lines hold the rest. */
int ledger_reserve(struct ledger *ledger, uint64_t bytes, const char *name, int *ret_line,
	struct fault *fault);
void ledger_release(struct ledger *ledger, int line);

/* Bytes that are not reserved, whether borrowed or not. */
uint64_t ledger_free(struct ledger *ledger);

/* Names the borrower; NULL: there is none any more, and it has returned everything. A thread that
 * reserves calls `call`, without the ledger's lock, while ledger_excess is not 0. `call` returns
 * memory until the excess is 0 and returns true; or it returns false where that takes too long, and
 * the reservation is refused. */
void ledger_set_borrower(
	struct ledger *ledger, const char *name, bool (*call)(void *context), void *context);

/* For the borrower, before it allocates: false where fewer bytes are free than it wants. */
bool ledger_borrow(struct ledger *ledger, uint64_t bytes);
/* For the borrower, after it has freed. */
void ledger_return(struct ledger *ledger, uint64_t bytes);
/* How many borrowed bytes have been reserved since, and must be returned. */
uint64_t ledger_excess(struct ledger *ledger);

/* Copies the lines in use, and one for borrowed memory, and returns how many. For status and for
 * the plan that is printed at start. */
int ledger_snapshot(struct ledger *ledger, struct ledger_line ret[LEDGER_LINES]);

/* ledger: the one memory budget and who holds what of it.
 *
 * A line is reserved before the memory is allocated and released after it is freed. What does not
 * fit is refused with a sentence. What nobody has reserved may be borrowed, by one who gives it
 * back when a reservation needs it: for reservations it is as good as free. Any thread. */
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
	struct ledger_line line[LEDGER_LINES - 1]; /* and one for what is borrowed */
	const char *borrower; /* its name; NULL: nobody borrows */
	bool (*call)(void *context);
	void *context;
};

void ledger_init(struct ledger *ledger, uint64_t budget_bytes);
void ledger_deinit(struct ledger *ledger);

/* `name` is not empty. May block while what is borrowed is given back. 0 and a line number, or
 * -ENOMEM with a fault that says what is free and who holds the rest. */
int ledger_reserve(struct ledger *ledger, uint64_t bytes, const char *name, int *ret_line,
	struct fault *fault);
void ledger_release(struct ledger *ledger, int line);

/* What is not reserved, whether it is borrowed or not. */
uint64_t ledger_free(struct ledger *ledger);

/* Names the borrower (NULL: there is none any more, and it has returned all). `call` is called by
 * whoever reserves, without the ledger's lock, when ledger_excess is not 0: it returns memory until
 * that is 0 and says true, or false when it takes too long; then the reservation is refused. */
void ledger_set_borrower(
	struct ledger *ledger, const char *name, bool (*call)(void *context), void *context);

/* The borrower's: before it allocates, true when so much is neither reserved nor borrowed; after it
 * has freed; and what it has beyond what it may have. */
bool ledger_borrow(struct ledger *ledger, uint64_t bytes);
void ledger_return(struct ledger *ledger, uint64_t bytes);
uint64_t ledger_excess(struct ledger *ledger);

/* Copies the lines in use, and one of what is borrowed, for status and the plan printed at start;
 * returns how many. */
int ledger_snapshot(struct ledger *ledger, struct ledger_line ret[LEDGER_LINES]);

/* The default budget: the smaller of 4 GiB and a quarter of what the cgroup has left, at least 32
 * MiB. */
uint64_t ledger_default_budget(void);

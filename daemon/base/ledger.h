/* ledger: the one memory budget and who holds what of it.
 *
 * A line is reserved before the memory is allocated and released after it is freed. What does not
 * fit is refused with a sentence; the ledger never lends. Written by the event loop and main; read
 * by status under the same lock. */
#pragma once

#include "base/fault.h"

#include <pthread.h>
#include <stdint.h>

enum { LEDGER_LINES = 128, LEDGER_NAME = 64 };

struct ledger_line {
	char name[LEDGER_NAME]; /* "" when free */
	uint64_t bytes;
};

struct ledger {
	pthread_mutex_t lock;
	uint64_t budget, reserved;
	struct ledger_line line[LEDGER_LINES];
};

void ledger_init(struct ledger *ledger, uint64_t budget_bytes);
void ledger_deinit(struct ledger *ledger);

/* `name` is not empty. 0 and a line number, or -ENOMEM with a fault that says what is free and who
 * holds the rest. */
int ledger_reserve(struct ledger *ledger, uint64_t bytes, const char *name, int *ret_line,
	struct fault *fault);
void ledger_release(struct ledger *ledger, int line);

uint64_t ledger_free(struct ledger *ledger);

/* Copies the lines in use, for status and the plan printed at start; returns how many. */
int ledger_snapshot(struct ledger *ledger, struct ledger_line ret[LEDGER_LINES]);

/* The default budget: the smaller of 4 GiB and a quarter of what the cgroup has left, at least 32
 * MiB. */
uint64_t ledger_default_budget(void);

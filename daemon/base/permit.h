/* permit: a bounded amount of memory that rare, large jobs share instead of each thread having its
 * own.
 *
 * A job that needs large scratch (a progressive image's coefficients, an interlaced PNG, a file
 * larger than the read arena) asks for bytes, waits its turn and gives them back. First come, first
 * served, so a large request is never starved by small ones. A job that holds one permit must not
 * wait on another permit of the same pool. */
#pragma once

#include "base/gauge.h"

#include <pthread.h>
#include <stdint.h>

enum {
	PERMIT_E_TOO_LARGE = 1
}; /* more than the pool ever has: an outcome of this job, not a fault */

struct permit {
	pthread_mutex_t lock;
	pthread_cond_t turn;
	uint64_t total, used, peak;
	uint64_t next_ticket, serving;
	uint64_t largest; /* of what was asked for and could be had */
	struct gauge waits; /* who waits */
};

void permit_init(struct permit *permit, uint64_t total_bytes);
void permit_deinit(struct permit *permit);

/* Waits until `bytes` are free. 0 or PERMIT_E_TOO_LARGE. Any thread that may block. */
int permit_acquire(struct permit *permit, uint64_t bytes);

/* The same without waiting: -EAGAIN when others hold too much, or wait already. */
int permit_try(struct permit *permit, uint64_t bytes);

void permit_release(struct permit *permit, uint64_t bytes);

struct permit_stats {
	uint64_t wait_ns; /* of all who waited or wait, together */
	uint64_t largest; /* bytes of the largest request, what never fits aside */
};
void permit_stats_read(struct permit *permit, struct permit_stats *ret);

/* permit: a bounded amount of memory that rare, large jobs share, so that not every thread needs
 * its own.
 *
 * A job that needs large scratch (a progressive image's coefficients, an interlaced PNG, a file
 * larger than the read arena) asks for bytes, waits for its turn and returns them. Requests are
 * served in the order in which they came, so small ones never starve a large one. A job that holds
 * a permit must not wait for another permit of the same pool. */
#pragma once

#include "base/gauge.h"

#include <pthread.h>
#include <stdint.h>

/* An outcome: the job asks for more than the whole pool. */
enum { PERMIT_E_TOO_LARGE = 1 };

struct permit {
	pthread_mutex_t lock;
	pthread_cond_t turn;
	uint64_t total, used, peak;
	uint64_t next_ticket, serving;
	uint64_t largest; /* bytes of the largest request that was granted or noted */
	struct gauge waits; /* how many threads wait */
};

void permit_init(struct permit *permit, uint64_t total_bytes);
void permit_deinit(struct permit *permit);

/* Waits until `bytes` are free. 0 or PERMIT_E_TOO_LARGE. Any thread that may block. */
int permit_acquire(struct permit *permit, uint64_t bytes);

/* The same without waiting: -EAGAIN where too little is free, or other threads wait already. */
int permit_try(struct permit *permit, uint64_t bytes);

void permit_release(struct permit *permit, uint64_t bytes);

/* Notes a request that could not be made, because the pool will never have that much. */
void permit_note(struct permit *permit, uint64_t bytes);

struct permit_stats {
	uint64_t wait_ns; /* the sum over all threads that have waited or still wait */
	uint64_t largest; /* bytes of the largest request that was granted or noted */
};
void permit_stats_read(struct permit *permit, struct permit_stats *ret);

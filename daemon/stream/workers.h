/* pool: the workers, and the queue of samples that wait for one.
 *
 * One queue for all streams, keyed by urgency (how many rows the consumer still has ahead of
 * this one) and by turn: whoever waits goes first, and nobody is passed for ever. Turns are given
 * out by worker time (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM 1996): of several
 * streams that wait alike each gets the same time of the workers, however many rows it has queued
 * and however dear they are. Jobs are embedded in their owner; the queue's room is reserved when a
 * stream opens, so pushing never allocates.
 *
 * workers_push: any thread, never blocks. The job's function runs on a worker. */
#pragma once

#include "base/fault.h"
#include "decode/decode.h"
#include "stream/row.h"

#include <stdatomic.h>
#include <stdint.h>

struct workers;

/* One that shares the workers: a stream. Outlives its jobs; the pool's own. */
struct workers_share {
	uint64_t turn_ns; /* when its next job's turn is, on the pool's clock of work done */
	_Atomic uint64_t cost_ns; /* of a job, as seen lately; relaxed */
};

void workers_share_init(struct workers_share *share);
/* One of its jobs took so much of a worker's time. Any thread. */
void workers_share_cost(struct workers_share *share, uint64_t ns);

struct workers_job {
	struct workers_share *share;
	uint64_t urgency;
	void (*run)(struct workers_job *job, struct row_maker *maker);
	uint64_t turn_ns, arrival; /* the pool's own */
};

/* Makers have the numbers 0 .. threads - 1. */
int workers_new(unsigned threads, const struct decode_limits *limits, uint32_t max_image_size,
	struct workers **ret, struct fault *fault);

/* Ends the workers after the jobs that are queued. */
void workers_free(struct workers *pool);

/* Makes room for `jobs` more (or, negative, fewer) queued at once. 0 or -ENOMEM. */
int workers_reserve(struct workers *pool, int jobs);

void workers_push(struct workers *pool, struct workers_job *job);

/* For a job's function that can use several jobs: the most urgent one, if it has the same function
 * and no worker that waits could have it instead; else NULL. Never blocks. */
struct workers_job *workers_more(struct workers *pool, const struct workers_job *like);

unsigned workers_threads(const struct workers *pool);

struct workers_stats {
	uint64_t idle_ns; /* workers' waiting for jobs, all together */
	uint64_t queued; /* jobs waiting now */
};
void workers_stats_read(struct workers *pool, struct workers_stats *ret);

/* CPU time of the workers; a system call for each. */
uint64_t workers_cpu_ns(const struct workers *pool);

/* How long workers that could run waited for a processor, all together; false where the kernel does
 * not say. Reads a small file for each: for once a second. */
bool workers_delay_ns(const struct workers *pool, uint64_t *ret);

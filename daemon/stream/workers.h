/* workers: the worker threads, and the queue of samples that wait for one.
 *
 * All streams have one queue. It is ordered by urgency (how many rows the trainer still has ahead
 * of this one) and by turn, so that trainers that wait are served first and no job is passed for
 * ever. Turns are given out by worker time (start-time fair queueing: Goyal, Vin and Cheng, SIGCOMM
 * 1996): streams that are equally urgent get the same share of the workers' time, however many rows
 * each has queued and however much work a row takes. Jobs are embedded in their owner, and room in
 * the queue is reserved when a stream opens, so pushing never allocates.
 *
 * workers_push: any thread, never blocks. The job's function runs on a worker. */
#pragma once

#include "base/fault.h"
#include "base/host/numa.h"
#include "decode/decode.h"
#include "stream/row.h"

#include <stdatomic.h>
#include <stdint.h>

struct workers;

/* A stream's share of the workers. Outlives its jobs; its fields belong to the workers. */
struct workers_share {
	uint64_t turn_ns; /* when its next job has its turn, on the clock of work done */
	_Atomic uint64_t cost_ns; /* of a job, lately; relaxed */
};

void workers_share_init(struct workers_share *share);
/* Tells how much of a worker's time one of the share's jobs took. Any thread. */
void workers_share_cost(struct workers_share *share, uint64_t ns);

struct workers_job {
	struct workers_share *share;
	uint64_t urgency;
	void (*run)(struct workers_job *job, struct row_maker *maker);
	uint64_t turn_ns, arrival; /* set by workers_push */
};

/* Makers have the numbers 0 .. threads - 1. */
int workers_new(unsigned threads, const struct decode_limits *limits, uint32_t max_side,
	struct workers **ret, struct fault *fault);

/* Binds the workers to nodes (numa_share), unless there are fewer workers than nodes: one of those
 * may run anywhere. Returns how many are bound. */
unsigned workers_place(struct workers *workers, const struct numa *numa);
/* How many workers belong on a node. */
unsigned workers_placed(const struct workers *workers, const struct numa *numa, unsigned node);

/* Ends the workers after the jobs that are queued; takes NULL. */
void workers_free(struct workers *workers);

/* Makes room for `jobs` more (or, negative, fewer) queued at once. 0 or -ENOMEM. */
int workers_reserve(struct workers *workers, int jobs);

void workers_push(struct workers *workers, struct workers_job *job);

/* For a job's function that can work on several jobs at a time: takes the most urgent job, if it
 * has the same function as `like` and every idle worker has a job to take; else NULL. Never blocks.
 */
struct workers_job *workers_more(struct workers *workers, const struct workers_job *like);

unsigned workers_threads(const struct workers *workers);

struct workers_stats {
	uint64_t idle_ns; /* how long workers waited for jobs, all together */
	uint64_t queued; /* jobs waiting now */
};
void workers_stats_read(struct workers *workers, struct workers_stats *ret);

/* CPU time of all workers. Makes a system call for each. */
uint64_t workers_cpu_ns(const struct workers *workers);

/* How long workers that could run waited for a processor, all together; false where the kernel does
 * not report it. Reads a small file for each worker, so call it about once a second. */
bool workers_delay_ns(const struct workers *workers, uint64_t *ret);

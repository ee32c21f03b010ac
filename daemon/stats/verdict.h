/* verdict: what holds the job up, in one sentence, and the evidence for it.
 *
 * Pure: the same numbers give the same verdict. Whatever is no number, negative, or more than there
 * can be counts as what is next to it.
 *
 * How it is found. Where complete batches lie there more of the time than trainers wait, the
 * trainer is slow; else penstock is, and one of its stages must be busy whenever it may produce at
 * all (while every slot is full it may not, so that time is left out). Either the workers hardly
 * ever wait for samples, or all processors are busy, or others keep them from us (threads that
 * could run wait for a processor): decode. Or something waits for memory: workers for that of large
 * images, reads for buffers while few are under way, or there are fewer slots than were asked for.
 * Else storage is asked while workers wait: read. Being short of processors also makes workers wait
 * for samples, so that is looked at before storage. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VERDICT_TEXT = 256 };

enum verdict_kind {
	VERDICT_UNKNOWN, /* not measured yet */
	VERDICT_NONE, /* no trainer, or none that is given anything more */
	VERDICT_WAITING, /* a group waits for trainers */
	VERDICT_TRAINER,
	VERDICT_DECODE, /* processors */
	VERDICT_READ, /* storage */
	VERDICT_MEMORY, /* the budget */
	VERDICT_HELD, /* a trainer keeps its batches */
	VERDICT_KINDS
};
const char *verdict_kind_name(enum verdict_kind kind); /* "unknown", "none", "waiting", ... */

/* Over one window of time; seconds, unless it says otherwise. */
struct verdict_input {
	double seconds;
	/* Of this stream. */
	double trainer_wait_s; /* some trainer had given everything back and waited for a batch */
	double complete_s; /* no trainer waited, and one had a batch that it had not come to yet, or
			      every slot was full */
	double slots_full_s; /* every slot was complete or held: nothing could be produced */
	uint64_t images;
	bool opening; /* its source is indexed, or its memory waited for */
	bool started; /* its batches are given out */
	unsigned trainers, present, wait_for; /* its own; there, of those that it begins with */
	unsigned ended; /* of its own, those that were given all that they asked for */
	uint32_t slots, slots_wanted;
	bool slots_limited; /* there are fewer because of stream_memory */
	int held_pid; /* of the trainer that holds most */
	uint64_t held_most;
	double held_quiet_s; /* since that one gave back a batch */
	double held_usual_s; /* the longest that it had taken before, ever */
	/* Of the daemon. */
	unsigned threads, cpus;
	double workers_idle_s; /* all workers together, waiting for samples */
	double permit_wait_s; /* waiting for the memory of large images */
	double workers_cpu_s, cpu_s; /* CPU time of the workers; of the whole process */
	double delay_s; /* workers that could run waited for a processor, all together; negative:
			   the kernel does not say */
	double read_delay_s; /* the same of the threads that read */
	unsigned read_threads;
	double throttled_s; /* by a cgroup's quota */
	double read_busy_s; /* a read or more was under way */
	double read_depth_s; /* reads under way, times time */
	double buffers_full_s; /* a read had to wait for a buffer */
	double read_bytes;
	double read_best; /* bytes a second: the best second in which reads were always under way */
	/* Bytes: what there is, and what would do for all slots, for each worker's largest image,
	 * for enough reads at a time. 0: no budget would. */
	uint64_t budget, budget_slots, budget_images, budget_buffers;
};

struct verdict {
	enum verdict_kind kind;
	char sentence[VERDICT_TEXT];
	double share; /* of the window, in which the job was held up by that */
	/* The evidence: shares of the window, 0 to 1. */
	double trainer_wait, slots_full;
	double workers_idle, permit_wait; /* of all workers' time */
	double cpu_busy; /* of all processors, by penstockd */
	double cpu_stolen; /* of all processors: what workers could have used and did not get */
	double read_busy, buffers_full;
	double read_bytes_per_s, read_bytes_per_s_best;
	double reads_under_way; /* mean, while there are any */
	double more_cpus; /* that would feed the trainer; negative: not known, or no help */
	int pid; /* of who holds batches; 0: nobody to name */
};

void verdict_find(const struct verdict_input *input, struct verdict *ret);

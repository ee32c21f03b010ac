/* verdict: what slows a stream down, in one short sentence; the remedy; and the evidence.
 *
 * A map of this folder:
 *   verdict.[ch]    this file
 *   histogram.[ch]  how often something took how long
 *
 * Pure: the same numbers give the same verdict. An input that is not a number, is negative, or is
 * larger than possible counts as the nearest possible value.
 *
 * How the verdict is found. If complete batches are available for more of the time than trainers
 * wait, the trainer is slow. Otherwise penstock is slow, and one of its stages must be busy
 * whenever penstock can produce at all (it cannot while every slot is full, so that time does not
 * count):
 *
 *   decode  The workers hardly ever wait for samples, or all processors are busy, or other programs
 *           use them (threads that could run wait for a processor).
 *   memory  Workers wait for the memory of large images, or reads wait for buffers while few of
 *           them are in progress, or there are fewer slots than the stream wants.
 *   read    Workers wait while reads are in progress. A lack of processors also makes workers wait
 *           for samples, so decode is checked before this. If the samples are in remote storage,
 *           the sentence names it, and says how it answers. A server that does not answer is named
 *           before anything else that could slow a stream down. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VERDICT_TEXT = 256 };

enum verdict_kind {
	VERDICT_UNKNOWN, /* not measured yet */
	VERDICT_NONE, /* no trainer, or none that receives another batch */
	VERDICT_WAITING, /* a group waits for trainers */
	VERDICT_TRAINER,
	VERDICT_DECODE, /* processors */
	VERDICT_READ, /* storage */
	VERDICT_MEMORY, /* the budget */
	VERDICT_HELD, /* a trainer keeps its batches */
	VERDICT_KINDS
};
const char *verdict_kind_name(enum verdict_kind kind); /* "unknown", "none", "waiting", ... */

/* What a daemon requested from remote storage in the window. */
struct verdict_remote {
	const char *store; /* of the stream's samples: "S3"; NULL: they are in local files */
	const char *waiting; /* "waiting for https://host: ..."; NULL or "": servers answer */
	double connections; /* with a request, on average */
	unsigned limit; /* connections that are allowed; 0: not known */
	double requests, slowdowns; /* sent; answered with 429 or 503 */
	double first_byte_p99_s; /* 0: no byte came */
	double throttled_s; /* the limit of bandwidth held transfers back */
};

/* What happened in one window of time. Times are in seconds. */
struct verdict_input {
	double seconds; /* the length of the window */

	/* Of this stream. */
	double trainer_wait_s; /* a trainer had returned everything and waited for a batch */
	/* No trainer waited, and one had a batch that it had not yet used, or every slot was
	 * full. */
	double complete_s;
	double slots_full_s; /* every slot was complete or held: nothing could be produced */
	uint64_t images;
	bool opening; /* its dataset is being indexed, or it waits for memory */
	bool started; /* its trainers receive batches */
	unsigned trainers; /* of the stream */
	unsigned present, wait_for; /* trainers that have joined, and that it waits for at first */
	unsigned ended; /* trainers that have received all batches they asked for */
	uint32_t slots, slots_wanted;
	bool slots_limited; /* there are fewer because of stream_memory */
	bool fast; /* decode: fast is set */
	int held_pid; /* the trainer that holds most batches */
	uint64_t held_most; /* how many it holds */
	double held_quiet_s; /* since it returned a batch */
	double held_usual_s; /* the longest time that it had taken for that before */

	/* Of the daemon. Times of several threads are added up. */
	unsigned threads, cpus;
	double workers_idle_s; /* workers waited for samples */
	double permit_wait_s; /* workers waited for the memory of large images */
	double workers_cpu_s, cpu_s; /* CPU time of the workers; of the whole process */
	double delay_s; /* workers waited for a processor; negative: not known */
	double read_delay_s; /* reading threads waited for a processor */
	unsigned read_threads;
	double cpus_idle_s; /* processors that it may use did nothing; negative: not known */
	double throttled_s; /* the cgroup's quota held the daemon back */
	double read_busy_s; /* at least one read was in progress */
	double read_depth_s; /* reads in progress, times time */
	double buffers_full_s; /* a read had to wait for a buffer */
	double read_bytes;
	double read_best; /* bytes in the best second during which reads were always in progress */
	/* Bytes: the budget, and budgets that would suffice for all slots, for each worker's
	 * largest image, and for enough concurrent reads. 0: no budget would. */
	uint64_t budget, budget_slots, budget_images, budget_buffers;
	struct verdict_remote remote;
};

struct verdict {
	enum verdict_kind kind;
	char sentence[VERDICT_TEXT];
	char remedy
		[VERDICT_TEXT]; /* what would help, without a full stop; "" if nothing is wrong */
	double share; /* of the window during which this slowed the stream down */
	/* The evidence: shares of the window, 0 to 1. */
	double trainer_wait, slots_full;
	double workers_idle, permit_wait; /* of all workers' time */
	double cpu_busy; /* of all processors, by penstockd */
	double cpu_stolen; /* of all processors: time that workers needed and did not get */
	double cpus_idle; /* processors, on average; negative: not known */
	double read_busy, buffers_full;
	double read_bytes_per_s, read_bytes_per_s_best;
	double reads_under_way; /* mean number of reads in progress, while there are any */
	/* How many more would feed the trainer; negative: not known, or no help. */
	double more_cpus, more_connections;
	/* Of remote storage; 0 if nothing was requested. slowdowns: share of the requests. */
	double connections, slowdowns, first_byte_p99_s;
	int pid; /* the trainer that holds batches; 0: none to name */
};

void verdict_find(const struct verdict_input *input, struct verdict *ret);

/* The remedy for VERDICT_DECODE on processors that are all busy. more_cpus: as in struct verdict;
 * negative also where nobody trains, since no rate is then enough. fast: decode: fast is set. */
void verdict_remedy_cores(double more_cpus, bool fast, char ret[VERDICT_TEXT]);

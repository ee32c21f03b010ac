/* plan: how the memory budget is cut up at start. Pure; printed by main before anything is
 * allocated. `penstock plan` asks it, too. */
#pragma once

#include "base/fault.h"

#include <stdint.h>

struct budget {
	uint64_t budget;
	uint64_t process; /* code, libraries, stacks, tables: measured, not allocated through the
			     ledger's holders */
	uint64_t scratch; /* workers' decoders and resamplers */
	uint64_t worker_scratch; /* of each, beside what is fixed */
	uint64_t index; /* pages of indexes kept */
	uint64_t arena; /* read buffers */
	uint64_t large_reads; /* shared by samples too large for the read buffers */
	uint64_t large_images; /* shared by images that need large scratch: progressive, interlaced,
				  files of many megabytes */
	uint64_t streams; /* what is left for batches */
};

/* What a worker takes: `fixed`, and scratch that is better larger. */
struct budget_worker {
	uint64_t fixed, scratch_least, scratch_most;
};

enum { BUDGET_IMAGE_SIZE_MAX = 2048 }; /* rows up to this size fit what a worker has */

/* What a worker of this build takes. */
struct budget_worker budget_worker_needs(void);

/* Workers where nobody says how many: one CPU is the trainer's, but decoding gets at least half of
 * them. */
unsigned budget_threads(void);

/* 0, or -ENOMEM with the least budget that would do. */
int budget_make(uint64_t budget, unsigned threads, const struct budget_worker *worker,
	struct budget *ret, struct fault *fault);

/* The least budget (in steps of 1 MiB) that leaves `streams` bytes for batches. */
uint64_t budget_for(uint64_t streams, unsigned threads, const struct budget_worker *worker);

/* The same for several parts: `streams`, `arena`, `large_reads` and `large_images` of `parts`; 0
 * when no budget makes them that large. */
uint64_t budget_for_parts(
	const struct budget *parts, unsigned threads, const struct budget_worker *worker);

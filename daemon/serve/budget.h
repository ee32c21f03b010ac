/* budget: how the memory budget is divided at start. Pure, except for budget_default. `penstock
 * plan` uses it, too. */
#pragma once

#include "base/fault.h"

#include <stdint.h>

struct budget {
	uint64_t budget;
	uint64_t process; /* code, libraries, stacks, tables: measured, not reserved one by one */
	uint64_t scratch; /* workers' decoders and resamplers */
	uint64_t worker_scratch; /* of each worker, beside the fixed part */
	uint64_t index; /* pages of indexes that are kept */
	uint64_t arena; /* read buffers */
	uint64_t large_reads; /* shared by samples too large for the read buffers */
	/* Shared by images that need large scratch: progressive, interlaced, files of many
	 * megabytes. */
	uint64_t large_images;
	uint64_t streams; /* the rest: batches */
};

/* What a worker needs: `fixed`, and scratch, of which more is better. */
struct budget_worker {
	uint64_t fixed, scratch_least, scratch_most;
};

/* Rows up to this size fit into a worker's own memory; streams with larger ones bring memory. */
enum { BUDGET_IMAGE_SIZE_MAX = 2048 };

/* What a worker of this build needs. */
struct budget_worker budget_worker_needs(void);

/* 0, or -ENOMEM with a sentence that has the least budget that would do. */
int budget_make(uint64_t budget, unsigned threads, const struct budget_worker *worker,
	struct budget *ret, struct fault *fault);

/* `memory: auto` where `available` bytes of memory are left: the smaller of 4 GiB and a quarter of
 * them, but at least what one decoding thread needs. */
uint64_t budget_auto(uint64_t available, const struct budget_worker *worker);

/* The same for this process's cgroup and this build. */
uint64_t budget_default(void);

/* The least budget (in steps of 1 MiB) that leaves `streams` bytes for batches. */
uint64_t budget_for(uint64_t streams, unsigned threads, const struct budget_worker *worker);

/* The same for several parts: `streams`, `arena`, `large_reads` and `large_images` of `parts`. 0 if
 * no budget makes them that large. */
uint64_t budget_for_parts(
	const struct budget *parts, unsigned threads, const struct budget_worker *worker);

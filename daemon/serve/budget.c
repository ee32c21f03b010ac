/* budget: see budget.h. */
#include "serve/budget.h"

#include "base/host/cgroup.h"
#include "base/size.h"
#include "base/util.h"
#include "decode/decode.h"
#include "stream/row.h"

#include <errno.h>
#include <stdbool.h>

#define BUDGET_MIB ((uint64_t)1 << 20)
#define BUDGET_LARGE_MOST (1024 * BUDGET_MIB)
#define BUDGET_AUTO_MOST (4096 * BUDGET_MIB)
#define BUDGET_STREAMS_MIN (4 * BUDGET_MIB) /* two slots of a small stream */

struct budget_worker budget_worker_needs(void)
{
	return (struct budget_worker){
		.fixed = row_maker_bytes(BUDGET_IMAGE_SIZE_MAX, 0),
		.scratch_least = DECODER_SCRATCH_LEAST,
		.scratch_most = DECODER_SCRATCH_MOST,
	};
}

/* Divides the budget. False: it does not leave BUDGET_STREAMS_MIN for batches. */
static bool budget_cut(
	uint64_t budget, unsigned threads, const struct budget_worker *worker, struct budget *ret)
{
	struct budget plan = {.budget = budget};
	/* 8 MiB: resident size of the daemon without a stream and without the other parts, and of
	 * the flight recorder's process (its share is 1.0 MiB, of which 0.2 MiB are private). Each
	 * thread's stack: at most 0.5 MiB. */
	plan.process = 8 * BUDGET_MIB + threads * BUDGET_MIB / 2;
	/* An eighth of the budget, within the bounds where more helps. */
	plan.worker_scratch = UTIL_MIN(
		UTIL_MAX(budget / 8 / threads, worker->scratch_least), worker->scratch_most);
	plan.scratch = threads * (worker->fixed + plan.worker_scratch);
	plan.index = UTIL_MIN(UTIL_MAX(budget / 64, BUDGET_MIB), 16 * BUDGET_MIB);
	/* A sixth of the budget reads ahead. 32 MiB are some 300 average photographs, more than the
	 * rows that a stream has in flight; pinning more only delays the start. Large samples and
	 * images get another sixth, with a higher limit. */
	plan.arena =
		UTIL_MIN(UTIL_MAX(budget / 6, 4 * BUDGET_MIB), 32 * BUDGET_MIB) & ~(BUDGET_MIB - 1);
	uint64_t large = UTIL_MIN(UTIL_MAX(budget / 6, 6 * BUDGET_MIB), BUDGET_LARGE_MOST) &
			 ~(BUDGET_MIB - 1);
	plan.large_reads = large / 3;
	plan.large_images = large - plan.large_reads;
	uint64_t fixed = plan.process + plan.scratch + plan.index + plan.arena + large;
	if (fixed + BUDGET_STREAMS_MIN > budget)
		return false;
	plan.streams = budget - fixed;
	*ret = plan;
	return true;
}

/* Whether a budget makes each part that large. */
static bool budget_gives(uint64_t budget, const struct budget *parts, unsigned threads,
	const struct budget_worker *worker)
{
	struct budget plan = {0};
	return budget_cut(budget, threads, worker, &plan) && plan.streams >= parts->streams &&
	       plan.arena >= parts->arena && plan.large_reads >= parts->large_reads &&
	       plan.large_images >= parts->large_images;
}

uint64_t budget_for_parts(
	const struct budget *parts, unsigned threads, const struct budget_worker *worker)
{
	/* Every part grows with the budget, so bisection finds the answer. The fixed parts and the
	 * shares together are less than the first term of `high`; the last term is the budget at
	 * which the pools for large samples and images have reached their limit. */
	uint64_t most = UTIL_MAX(parts->streams, parts->large_images);
	uint64_t low = 0,
		 high = 2 * (most + threads * (worker->fixed + worker->scratch_most + BUDGET_MIB)) /
				BUDGET_MIB +
			64 + 6 * BUDGET_LARGE_MOST / BUDGET_MIB;
	if (!budget_gives(high * BUDGET_MIB, parts, threads, worker))
		return 0;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (budget_gives(middle * BUDGET_MIB, parts, threads, worker))
			high = middle;
		else
			low = middle + 1;
	}
	return low * BUDGET_MIB;
}

uint64_t budget_for(uint64_t streams, unsigned threads, const struct budget_worker *worker)
{
	const struct budget parts = {.streams = streams};
	return budget_for_parts(&parts, threads, worker);
}

uint64_t budget_auto(uint64_t available, const struct budget_worker *worker)
{
	return UTIL_MAX(UTIL_MIN(available / 4, BUDGET_AUTO_MOST),
		budget_for(BUDGET_STREAMS_MIN, 1, worker));
}

uint64_t budget_default(void)
{
	struct cgroup_memory memory;
	const struct budget_worker worker = budget_worker_needs();
	cgroup_memory_read(&memory);
	return budget_auto(memory.available, &worker);
}

int budget_make(uint64_t budget, unsigned threads, const struct budget_worker *worker,
	struct budget *ret, struct fault *fault)
{
	if (budget_cut(budget, threads, worker, ret))
		return 0;
	char have[16];
	return fault_set(fault, -ENOMEM,
		"memory: %s is too small for %u decoding thread%s: penstockd needs at least %lluM; "
		"raise memory or lower threads",
		size_format(budget, have, sizeof have), threads, threads == 1 ? "" : "s",
		(unsigned long long)(budget_for(BUDGET_STREAMS_MIN, threads, worker) / BUDGET_MIB));
}

/* stall: how long the application's CUDA streams waited for a copy.
 *
 * A pair of events surrounds each wait in the stream. When the device has passed both, stall reads
 * the time between them; no thread waits for that. There are more pairs than batches, because the
 * host may run far ahead of the device; if all pairs are in use, a wait is not measured.
 *
 * Thread: the application's, with the device entered. */
#pragma once

#include "client/cuda/driver.h"

#include <stdbool.h>
#include <stdint.h>

enum { STALL_PAIRS = 64 };

struct stall {
	CUevent before[STALL_PAIRS], after[STALL_PAIRS];
	unsigned first, count; /* pairs in use, oldest first */
	uint64_t total_ns;
};

/* 0, or as driver_fail. On failure the caller calls stall_deinit. */
int stall_init(struct stall *stall, const struct driver *driver);
void stall_deinit(struct stall *stall, const struct driver *driver);

/* Makes `queue` wait for `event`; measures the wait if `measure` and a pair is free. */
CUresult stall_wait(struct stall *stall, const struct driver *driver, CUstream queue, CUevent event,
	bool measure);

/* Adds up the pairs that the device has passed. */
void stall_harvest(struct stall *stall, const struct driver *driver);

/* stall: how long the application's CUDA streams stood waiting for a copy.
 *
 * A pair of events around each wait in the stream; what lies between them is read when the device
 * has come past both, without anybody waiting for that. More pairs than batches, since the host may
 * run far ahead of the device; when all are under way a wait goes unmeasured.
 *
 * Thread: the application's, with the device entered. */
#pragma once

#include "client/cuda/driver.h"

#include <stdbool.h>
#include <stdint.h>

enum { STALL_PAIRS = 64 };

struct stall {
	CUevent before[STALL_PAIRS], after[STALL_PAIRS];
	unsigned first, count; /* pairs under way, oldest first */
	uint64_t total_ns;
};

/* 0, or as of driver_fail. On failure stall_deinit is the caller's. */
int stall_init(struct stall *stall, const struct driver *driver);
void stall_deinit(struct stall *stall, const struct driver *driver);

/* Has `queue` wait for `event`, measured if there is a pair left and `measure`. */
CUresult stall_wait(struct stall *stall, const struct driver *driver, CUstream queue, CUevent event,
	bool measure);

/* Adds up what the device has come past. */
void stall_harvest(struct stall *stall, const struct driver *driver);

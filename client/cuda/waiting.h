/* waiting: how long penstock_cuda_next waited, for the daemon and for the device, and what that
 * means for the trainer.
 *
 * A host that runs ahead of its device waits in penstock_cuda_next for a free buffer. That time is
 * no loss, and only the time for which the daemon had no batch tells that the daemon is slow.
 * Thread: the application's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct waiting {
	uint64_t first_ns, last_ns; /* begin of the first call and end of the last; 0: none yet */
	uint64_t daemon_ns, device_ns;
};

/* A call took from `begun_ns` to `ended_ns`; for `starved_ns` of it the daemon had no batch. */
void waiting_add(
	struct waiting *waiting, uint64_t begun_ns, uint64_t ended_ns, uint64_t starved_ns);

/* Writes the sentence. `batches`: delivered; `stalled_ns`: as in penstock_cuda_counters. */
void waiting_verdict(const struct waiting *waiting, uint64_t batches, uint64_t stalled_ns,
	char *buffer, size_t room);

/* Returns the daemon's statistics with the key "device" added, to be freed by the caller. NULL: no
 * memory. `json` is an object. */
char *waiting_extend(
	const struct waiting *waiting, uint64_t batches, uint64_t stalled_ns, const char *json);

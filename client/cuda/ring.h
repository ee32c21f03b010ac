/* ring: pinned memory that batches are copied through where the device cannot read the daemon's.
 *
 * A chunk is filled by the processor, sent by the device, and filled again when that is done: while
 * one is sent the next is filled. The source has been read when ring_copy returns. Thread: the
 * pump's, with the device entered; made and freed in the one that attaches and detaches too. */
#pragma once

#include "client/cuda/device.h"

enum { RING_CHUNKS = 4, RING_CHUNK_BYTES = 2 << 20 };

struct ring {
	uint8_t *memory; /* NULL: there is none. RING_CHUNKS of RING_CHUNK_BYTES, pinned */
	CUevent sent[RING_CHUNKS]; /* recorded behind the last copy from each */
	unsigned next; /* chunk to be filled */
};

/* 0; -ENOMEM; -EIO. On failure ring_deinit is still the caller's. */
int ring_init(struct ring *ring, const struct device *device);

/* What the device has still to send must be done. Takes a zeroed one. */
void ring_deinit(struct ring *ring, const struct device *device);

/* Has `queue` write `bytes` from pageable memory to the device. Waits for chunks. 0, or as of
 * driver_fail. */
int ring_copy(struct ring *ring, const struct device *device, CUdeviceptr to, const uint8_t *from,
	size_t bytes, CUstream queue);

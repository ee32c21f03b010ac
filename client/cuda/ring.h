/* ring: pinned memory for copying batches if the device cannot read the daemon's memory.
 *
 * The CPU fills a chunk, the device reads it, and the CPU fills it again after that; meanwhile
 * it fills the next chunk. When ring_copy returns, the source has been read. Thread: the pump's,
 * with the device entered; the thread that attaches and detaches makes and frees the ring. */
#pragma once

#include "client/cuda/device.h"

enum { RING_CHUNKS = 4, RING_CHUNK_BYTES = 2 << 20 };

struct ring {
	uint8_t *memory; /* RING_CHUNKS chunks of RING_CHUNK_BYTES, pinned; NULL: no ring */
	CUevent sent[RING_CHUNKS]; /* recorded after the last copy from each chunk */
	unsigned next; /* the next chunk to fill */
};

/* 0; -ENOMEM; -EIO. On failure the caller still calls ring_deinit. */
int ring_init(struct ring *ring, const struct device *device);

/* The device must have finished all copies. Accepts a zeroed ring. */
void ring_deinit(struct ring *ring, const struct device *device);

/* Enqueues in `queue` a copy of `bytes` from pageable memory to the device. Waits for chunks. 0,
 * or as driver_fail. */
int ring_copy(struct ring *ring, const struct device *device, CUdeviceptr to, const uint8_t *from,
	size_t bytes, CUstream queue);

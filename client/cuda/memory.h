/* memory: how the device reads the daemon's memory.
 *
 * Registered: this module maps each extent once more, so that the mapping lasts as long as the
 * device may read it, whatever the stream does. It registers the mapping with the device, as
 * read-only if the device supports that. Most devices do not; then it registers a mapping that this
 * process may write to, which the daemon allows if only this process reads the stream
 * (penstock_options.pin_memory). Nothing here writes to it. The device copies straight from it, so
 * the slot must be kept until the copy is done. An extent is unmapped when a newer one has come
 * (the stream found another daemon) and no copy from it is in progress.
 *
 * Ring: through pinned memory of this process (ring.h). The slot is free when memory_copy returns.
 *
 * A forked child cannot use the device and does not inherit the mappings: otherwise it could write
 * to them, and would keep the pages of daemons that are gone.
 *
 * This module never registers a private mapping for writing: the device would see private pages,
 * not the daemon's.
 *
 * Thread: the pump's, with the device entered; and the one that attaches and detaches, while
 * there is no pump. Any thread may call memory_report. */
#pragma once

#include "client/cuda/device.h"
#include "client/cuda/ring.h"
#include "penstock/cuda.h"

#include <pthread.h>

enum { MEMORY_EXTENTS = 8, MEMORY_WHY_BYTES = 256, MEMORY_NO_EXTENT = -1 };

struct memory_extent {
	const uint8_t *base; /* NULL: not used */
	size_t bytes;
	uint32_t name; /* penstock_batch.extent */
	uint32_t copies; /* copies from it in progress */
};

/* How memory is registered. */
enum memory_way {
	MEMORY_READ_ONLY, /* registered as read-only */
	MEMORY_WRITABLE, /* mapped writable */
	MEMORY_PAGE_TABLES, /* the device uses the CPU's page tables: no registration */
	MEMORY_WAYS,
};

struct memory {
	const struct device *device;
	uint32_t wanted; /* enum penstock_cuda_memory */
	bool writable; /* penstock_stream_writable */
	enum memory_way way;
	struct memory_extent extent[MEMORY_EXTENTS];
	struct ring ring;
	pthread_mutex_t lock; /* guards what follows, which the pump may change */
	uint32_t mode; /* PENSTOCK_CUDA_REGISTERED or _RING */
	uint64_t pinned_bytes;
	char why[MEMORY_WHY_BYTES];
};

/* Where a batch is in memory, from penstock_batch_memory. */
struct memory_source {
	const uint8_t *images;
	size_t bytes; /* bytes to copy */
	const uint8_t *base;
	size_t extent_bytes;
	uint32_t extent;
};

/* Decides, and tries the decision with a page of memory like the daemon's. 0; -ENOTSUP: the
 * options ask for registering, and the device refuses it; -ENOMEM; -EIO. On failure the caller
 * calls memory_deinit. */
int memory_init(struct memory *memory, const struct device *device, uint32_t wanted, bool writable);

/* No copy may be in progress. `memory` is initialized or zeroed. */
void memory_deinit(struct memory *memory);

/* Enqueues in `queue` a copy of the images to the device. 0 and the extent, whose slot must be
 * kept until memory_done; or MEMORY_NO_EXTENT: the source has been read. -ENOTSUP, -ENOMEM,
 * -EIO. */
int memory_copy(struct memory *memory, const struct memory_source *source, CUdeviceptr to,
	CUstream queue, int *ret_extent);

/* Reports that the copy is done; may unmap the extent. MEMORY_NO_EXTENT is allowed. */
void memory_done(struct memory *memory, int extent);

/* Whether copies go through the ring. If so, the pump should begin no copy that would have to
 * wait on the device. The pump's thread. */
bool memory_is_ring(const struct memory *memory);

/* Fills in `memory` and `why`, and adds to pinned_bytes. */
void memory_report(struct memory *memory, struct penstock_cuda_info *info);

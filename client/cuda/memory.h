/* memory: how the device reads the daemon's memory.
 *
 * Registered: each extent is mapped once more, so that it stays for as long as the device may read
 * it whatever the stream does, and the mapping is registered with the device: as one that is only
 * read, or, since most devices refuse that, as one that this process may write to, which the daemon
 * leaves open where the stream is this process's alone (penstock_options.pin_memory). Nothing here
 * writes to it. Copies come straight from it; the slot must be kept until its copy is done. An
 * extent goes when a newer one has come (the stream found another daemon) and no copy from it is
 * under way.
 *
 * Ring: through pinned memory of this process (ring.h); the slot is free when memory_copy returns.
 *
 * A forked child, which cannot use the device, does not inherit the mappings: it would have what
 * can be written to, and keep the pages of daemons that are gone.
 *
 * A private mapping could be registered for writing too and would show the device pages of its own,
 * not the daemon's: never.
 *
 * Thread: the pump's, with the device entered, and that of attaching and detaching while there is
 * no pump; memory_report any. */
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
	uint32_t copies; /* from it, under way */
};

/* How memory is registered. */
enum memory_way {
	MEMORY_READ_ONLY, /* said to be only read */
	MEMORY_WRITABLE, /* mapped so that this process could write to it */
	MEMORY_PAGE_TABLES, /* the device follows the processor's page tables: as it is mapped */
	MEMORY_WAYS,
};

struct memory {
	const struct device *device;
	uint32_t wanted; /* enum penstock_cuda_memory */
	bool writable; /* penstock_stream_writable */
	enum memory_way way;
	struct memory_extent extent[MEMORY_EXTENTS];
	struct ring ring;
	pthread_mutex_t lock; /* of what follows: the pump may change it */
	uint32_t mode; /* PENSTOCK_CUDA_REGISTERED or _RING */
	uint64_t pinned_bytes;
	char why[MEMORY_WHY_BYTES];
};

/* Where a batch lies: what penstock_batch_memory says. */
struct memory_source {
	const uint8_t *images;
	size_t bytes; /* to be copied */
	const uint8_t *base;
	size_t extent_bytes;
	uint32_t extent;
};

/* Decides, and tries the decision with a page of memory such as the daemon's. 0; -ENOTSUP
 * registering was asked for and is refused; -ENOMEM; -EIO. On failure memory_deinit is the
 * caller's. */
int memory_init(struct memory *memory, const struct device *device, uint32_t wanted, bool writable);

/* No copy may be under way. `memory` was initialised, or is zeroed. */
void memory_deinit(struct memory *memory);

/* Has `queue` copy the images to the device. 0 and the extent, whose slot must be kept until
 * memory_done; or MEMORY_NO_EXTENT: the source was read. -ENOTSUP, -ENOMEM, -EIO. */
int memory_copy(struct memory *memory, const struct memory_source *source, CUdeviceptr to,
	CUstream queue, int *ret_extent);

/* The copy is done; may unmap the extent. MEMORY_NO_EXTENT is allowed. */
void memory_done(struct memory *memory, int extent);

/* Whether copies go through the ring: then none should be begun that would have to wait on the
 * device. The pump's thread. */
bool memory_is_ring(const struct memory *memory);

/* Fills in memory, why, and adds to pinned_bytes. */
void memory_report(struct memory *memory, struct penstock_cuda_info *info);

/* unpacking: makes samples out of stored bytes, on the workers, for streams whose datasets have
 * packed samples (dataset/packed.h).
 *
 * A worker decodes several samples at a time, and each needs its bytes until its last view is made.
 * Each worker has a block for them, which the ledger counts; nearly all samples fit. One that does
 * not takes memory under a permit of the pool for large files, or else that of a temporary file
 * (raster.h). The stored bytes, which fetch holds, are given back once the sample is unpacked.
 *
 * Deadlock: nothing here waits. A worker that holds unpacked samples may wait for a permit of the
 * pool for large images, as one that holds read buffers may; nobody ever waits for the pool of
 * large files, which fetch and this module only try.
 *
 * Workers call unpacking_run, _field and _give_back, each with its own number; nothing is shared
 * between them. */
#pragma once

#include "base/fault.h"
#include "dataset/packed.h"
#include "stream/raster.h"

#include <stdbool.h>
#include <stdint.h>

struct unpacking;

/* The memory of one unpacked sample. */
struct unpacked {
	uint8_t *data; /* NULL: none */
	unsigned worker;
	bool inside; /* of the worker's block */
	struct raster beyond; /* otherwise */
};

enum {
	UNPACKING_OWN = 4 << 20, /* a worker's block: 32 samples of 128 KiB */
	UNPACKING_LEAST = 256 << 10,
	UNPACKING_SLACK = 64, /* readable bytes after a sample's, as fetch promises them */
};

/* What a worker's block of `own` bytes and its unpacking take at most, for the ledger. Pure. */
uint64_t unpacking_bytes(size_t own);

/* With `own` 0 the workers have no blocks. 0 or -ENOMEM. */
int unpacking_new(unsigned workers, size_t own, struct unpacking **ret);
/* All samples must have been given back. Takes NULL. */
void unpacking_free(struct unpacking *unpacking);

/* Unpacks a sample of `size` bytes from `stored`, which has packed->stored bytes. 0; an enum
 * fetch_outcome above FETCH_OK with a fault that does not name the sample: it cannot be unpacked;
 * or a negative errno with a fault. Gives `to` memory if 0. */
int unpacking_run(struct unpacking *unpacking, unsigned worker, const struct raster_beyond *beyond,
	const struct packed *packed, uint32_t size, const uint8_t *stored, struct unpacked *to,
	struct fault *fault);

/* The same for a field, which goes where `out` is; `longer`: only its first bytes are wanted. */
int unpacking_field(struct unpacking *unpacking, unsigned worker, const struct packed *packed,
	uint32_t size, bool longer, const uint8_t *stored, void *out, struct fault *fault);

void unpacking_give_back(struct unpacking *unpacking, struct unpacked *unpacked);

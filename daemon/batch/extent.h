/* extent: the shared memory of one stream: a sealed memfd cut into slots. Which slot holds what is
 * the tally's (tally.h).
 *
 * The memory is allocated here and now (never at first touch, where the kernel would kill instead
 * of refusing), mapped by the daemon, then sealed against shrinking, growing, new writable mappings
 * (unless its one reader wants to register it with a device) and further sealing, before the
 * descriptor leaves. */
#pragma once

#include "base/fault.h"
#include "batch/tally.h"
#include "proto/slots.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXTENT_SLOTS_MAX = TALLY_SLOTS_MAX };

struct extent_geometry {
	uint32_t batch_size, height, width, channels;
};

struct extent {
	int fd; /* the sealed memfd */
	uint8_t *memory; /* the daemon's own writable mapping */
	uint64_t bytes, stride;
	uint32_t slots;
	bool huge_pages, locked; /* 2 MiB pages; mlocked */
	struct slots_head layout; /* what every slot's head begins as */
};

/* Bytes of one slot, and of an extent of `slots` of them. Pure. */
uint64_t extent_stride(const struct extent_geometry *geometry);

/* Allocates, maps, seals, all but future writing where it is to be `writable`: a device registers
 * no memory that its process cannot write to. Nothing here, nor in who fills it, may then believe
 * what it reads from there. 0; -ENOMEM when the cgroup or the machine has no room (says how much is
 * left and where the limit is); -errno. */
int extent_init(struct extent *extent, const struct extent_geometry *geometry, uint32_t slots,
	bool writable, struct fault *fault);
void extent_deinit(struct extent *extent);

struct slots_head *extent_head(const struct extent *extent, uint32_t slot);
uint8_t *extent_image(const struct extent *extent, uint32_t slot, uint32_t row);
int64_t *extent_labels(const struct extent *extent, uint32_t slot);
struct slots_record *extent_records(const struct extent *extent, uint32_t slot);

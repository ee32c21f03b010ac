/* extent: the shared memory of one stream: a sealed memfd cut into slots. Which slot holds what is
 * the tally's (tally.h).
 *
 * The memory is allocated here and now (never at first touch, where the kernel would kill instead
 * of refusing), mapped by the daemon, then sealed against shrinking, growing, new writable mappings
 * (unless its one reader wants to register it with a device) and further sealing, before the
 * descriptor leaves. */
#pragma once

#include "base/fault.h"
#include "batch/handout.h"
#include "batch/tally.h"
#include "proto/slots.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXTENT_SLOTS_MAX = TALLY_SLOTS_MAX };

struct extent_geometry {
	uint32_t batch_size, height, width, channels; /* of the largest images */
	uint32_t views; /* rows of a sample */
	enum slots_pixel_type pixel_type;
	enum slots_pixel_layout pixel_layout;
	enum slots_label_type label_type;
	uint32_t label_width;
};

/* Of square RGB images of uint8, as they are, with one label each. */
static inline struct extent_geometry extent_plain(uint32_t batch_size, uint32_t side)
{
	return (struct extent_geometry){.batch_size = batch_size,
		.height = side,
		.width = side,
		.channels = 3,
		.views = 1,
		.pixel_type = SLOTS_U8,
		.pixel_layout = SLOTS_NHWC,
		.label_type = SLOTS_LABEL_I64,
		.label_width = 1};
}

struct extent {
	struct handout loan; /* the sealed memfd, for clients */
	uint8_t *memory; /* the daemon's own writable mapping */
	uint64_t bytes, stride;
	uint32_t slots;
	bool huge_pages, locked; /* 2 MiB pages; mlocked */
	struct slots_head layout; /* of a slot with the largest images */
	struct extent_shape {
		uint32_t height, width;
		uint64_t row_bytes;
	} shape[EXTENT_SLOTS_MAX]; /* of the images in each slot */
};

/* Bytes of one slot. Pure. */
uint64_t extent_stride(const struct extent_geometry *geometry);

/* Allocates, maps, seals, all but future writing where it is to be `writable`: a device registers
 * no memory that its process cannot write to. Nothing here, nor in who fills it, may then believe
 * what it reads from there. 0; -ENOMEM when the cgroup or the machine has no room (says how much is
 * left and where the limit is); -errno. */
int extent_init(struct extent *extent, const struct extent_geometry *geometry, uint32_t slots,
	bool writable, struct fault *fault);
void extent_deinit(struct extent *extent);

/* Before extent_deinit, of one that clients were given, and that nobody writes to any more: it is
 * unmapped. True when one of them still has it, and its memory has not come back with this. Then
 * `ret` is the caller's. */
bool extent_is_kept(struct extent *extent, struct handout *ret);

struct slots_head *extent_head(const struct extent *extent, uint32_t slot);

/* What the head of a slot begins as whose images are height x width, at most what the extent was
 * made for. Its rows lie so from now on. Event loop, before the slot is filled. */
struct slots_head extent_reshape(
	struct extent *extent, uint32_t slot, uint32_t height, uint32_t width);

/* Row `row` of batch_size x views. */
uint8_t *extent_image(const struct extent *extent, uint32_t slot, uint32_t row);
/* Where labels are I64; where they are F32, label_width of a sample. */
int64_t *extent_labels(const struct extent *extent, uint32_t slot);
float *extent_label_values(const struct extent *extent, uint32_t slot);
struct slots_record *extent_records(const struct extent *extent, uint32_t slot);

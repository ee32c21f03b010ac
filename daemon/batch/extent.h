/* extent: the shared memory of one stream: a sealed memfd cut into slots. tally.h knows which slot
 * holds which batch.
 *
 * The memory is allocated at once rather than at first touch, where the kernel would kill the
 * daemon instead of refusing. The daemon maps it, and seals it before the descriptor leaves the
 * process: against shrinking, growing, further sealing, and new writable mappings (unless its one
 * reader wants to register it with a device). */
#pragma once

#include "base/fault.h"
#include "batch/handout.h"
#include "batch/tally.h"
#include "proto/slots.h"

#include <stdbool.h>
#include <stdint.h>

enum { EXTENT_SLOTS_MAX = TALLY_SLOTS_MAX };

struct extent_geometry {
	/* The largest height and the largest width of any image. */
	uint32_t batch_size, height, width, channels;
	/* Pixels of the largest image, where no image has both; 0: height x width. Without
	 * groups. */
	uint64_t row_pixels;
	uint32_t views; /* rows per sample, of all groups */
	/* 0: all views have this height and width. Otherwise each group has its own, and these are
	 * the first group's. */
	uint32_t groups;
	struct extent_group {
		uint32_t views, height, width;
	} group[SLOTS_GROUPS_MAX];
	enum slots_pixel_type pixel_type;
	enum slots_pixel_layout pixel_layout;
	enum slots_label_type label_type;
	uint32_t label_width;
	uint32_t fields; /* beside each sample's images */
	uint32_t field_bytes[SLOTS_FIELDS_MAX]; /* the most that a sample has of each */
};

/* Square RGB images of uint8, NHWC, with one label each. */
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
	struct handout handout; /* the sealed memfd, for clients */
	uint8_t *memory; /* the daemon's writable mapping */
	uint64_t bytes, stride;
	uint32_t slots;
	bool huge_pages, locked; /* 2 MiB pages; mlocked */
	struct slots_head layout; /* of a slot with the largest images */
	uint32_t fields;
	struct slots_field field[SLOTS_FIELDS_MAX]; /* in every slot */
	struct slots_group group[SLOTS_GROUPS_MAX]; /* layout.groups of them, in every slot */
	uint8_t group_of[SLOTS_VIEWS_MAX]; /* the number of a view's group */
	/* The shape of the images in each slot; with groups, of the first group's. */
	struct extent_shape {
		uint32_t height, width;
		uint64_t row_bytes;
	} shape[EXTENT_SLOTS_MAX];
};

/* Bytes of one slot. Pure. */
uint64_t extent_stride(const struct extent_geometry *geometry);

/* Allocates, maps and seals. `writable`: clients may map it for writing, since a device registers
 * only memory that its process can write to. The daemon must then trust nothing that it reads from
 * there. 0; -ENOMEM when the cgroup or the machine has no room (the fault says how much is left and
 * which limit applies); -errno. */
int extent_init(struct extent *extent, const struct extent_geometry *geometry, uint32_t slots,
	bool writable, struct fault *fault);
void extent_deinit(struct extent *extent);

/* Call before extent_deinit, when no worker writes any more: unmaps the memory. True when a client
 * still has it, so that the memory has not been freed by this; then `ret` belongs to the caller. */
bool extent_is_kept(struct extent *extent, struct handout *ret);

struct slots_head *extent_head(const struct extent *extent, uint32_t slot);

/* Sets the size of the images in a slot, at most that which the extent was made for (with groups:
 * exactly the first group's), and returns the head that such a slot begins with. Event loop,
 * before the slot is filled. */
struct slots_head extent_reshape(
	struct extent *extent, uint32_t slot, uint32_t height, uint32_t width);

/* Row `row` of batch_size x views, in the order of the records, and its size. */
uint8_t *extent_image(const struct extent *extent, uint32_t slot, uint32_t row);
struct extent_shape extent_row_shape(const struct extent *extent, uint32_t slot, uint32_t row);
/* The labels, where they are I64; where they are F32, label_width values per sample. */
int64_t *extent_labels(const struct extent *extent, uint32_t slot);
float *extent_label_values(const struct extent *extent, uint32_t slot);
struct slots_record *extent_records(const struct extent *extent, uint32_t slot);

/* Writes a sample's field, at most its max_bytes; the bytes after it become zeros. */
void extent_put_field(const struct extent *extent, uint32_t slot, uint32_t field, uint32_t sample,
	const void *bytes, uint32_t size);

/* Where a sample's field is stored: max_bytes of room. extent_set_field says how many were
 * written. */
uint8_t *extent_field(const struct extent *extent, uint32_t slot, uint32_t field, uint32_t sample);
void extent_set_field(
	const struct extent *extent, uint32_t slot, uint32_t field, uint32_t sample, uint32_t size);

/* slots: the layout of the shared memory that holds batches. Part of the contract (PROTOCOL.md).
 *
 * An extent is one sealed memfd with `slot_count` slots of `slot_stride` bytes each. A slot holds
 * one batch:
 *
 *   slot + 0                      struct slots_head
 *   slot + head.images_offset     images:  batch_size x views rows of row_bytes
 *   slot + head.labels_offset     labels:  batch_size rows of label_width elements of label_type
 *   slot + head.records_offset    records: batch_size x views of struct slots_record
 *
 * The views of a sample are adjacent: view v of sample s is row s x views + v of images and
 * records. height, width and row_bytes are those of the batch. Where the size changes with the
 * epoch, they may be smaller than those with which the stream was opened, and the rows are then
 * closer together.
 *
 * Where the views are divided into groups, each of which has its own size (head.groups above 0),
 * the images of each group have a place of their own:
 *
 *   slot + SLOTS_GROUPS_OFFSET    head.groups x struct slots_group
 *   slot + group.images_offset    images: batch_size x group.views rows of group.row_bytes
 *
 * View v of sample s is then row s x group.views + (v - group.first_view) of its group's images.
 * Its record is where it is without groups. The head's height, width, row_bytes and images_offset
 * are those of the first group.
 *
 * Where samples have fields (head.fields_offset above 0), bytes that come with their images:
 *
 *   slot + head.fields_offset     as many struct slots_field as OPENED has named
 *   slot + field.data_offset      batch_size x max_bytes, rounded up to a multiple of 8
 *   slot + field.lengths_offset   batch_size x uint32_t: how many of these bytes a sample has
 *
 * All offsets are multiples of 64, counted from the start of the slot. A reader takes them from the
 * head and must check them against slot_stride (libpenstock does). Integers have the machine's byte
 * order, since both ends run on the same machine. */
#pragma once

#include <stdint.h>

#define SLOTS_MAGIC 0x53544f4c534e4550u /* "PENSLOTS", little-endian */
enum {
	SLOTS_VERSION = 1,
	SLOTS_ALIGN = 4096,
	SLOTS_VIEWS_MAX = 16,
	SLOTS_GROUPS_MAX = SLOTS_VIEWS_MAX,
	SLOTS_GROUPS_OFFSET = 192, /* the head, rounded up to a multiple of 64 */
	SLOTS_FIELDS_MAX = 16,
	SLOTS_FIELD_STEP = 8,
	SLOTS_LABELS_MAX = 65536, /* elements per row */
};

enum slots_pixel_type {
	SLOTS_U8 = 1,
	SLOTS_F32 = 2, /* normalized */
	SLOTS_F16 = 3,
	SLOTS_BF16 = 4,
	SLOTS_BYTES = 5, /* reserved: compressed images with crop records, to decode on a device */
};

/* Bytes of one value; 0 for an unknown type. */
static inline uint32_t slots_pixel_bytes(uint32_t pixel_type)
{
	static const uint8_t bytes[] = {
		[SLOTS_U8] = 1, [SLOTS_F32] = 4, [SLOTS_F16] = 2, [SLOTS_BF16] = 2};
	return pixel_type < sizeof bytes ? bytes[pixel_type] : 0;
}

enum slots_pixel_layout { SLOTS_NHWC = 1, SLOTS_NCHW = 2 };

enum slots_label_type { SLOTS_LABEL_I64 = 1, SLOTS_LABEL_F32 = 2 };

static inline uint32_t slots_label_bytes(uint32_t label_type)
{
	return label_type == SLOTS_LABEL_I64 ? 8 : label_type == SLOTS_LABEL_F32 ? 4 : 0;
}

enum slots_flag {
	SLOTS_FLIPPED = 1u << 0,
	SLOTS_SUBSTITUTED = 1u << 1, /* the sample is broken; `index` is its substitute */
	SLOTS_PADDED = 1u << 2, /* repeated so that all ranks have the same number of batches */
	SLOTS_INVALID = 1u << 3, /* broken in evaluation: the row is zero and must not be counted */
	SLOTS_FLIPPED_VERTICALLY = 1u << 4,
};

/* How one row was made: enough to make it again. 64 bytes. */
struct slots_record {
	uint64_t index; /* of the sample in the row */
	int64_t label; /* the first label; -1: none */
	/* The part of the source that was resized, in pixels: RandomResizedCrop's box, or otherwise
	 * the whole image. The window of CenterCrop follows from the sizes. The window of
	 * RandomCrop can be drawn again from the stream's seed, the epoch, position and view
	 * (PHILOX_RANDOM_CROP). */
	uint32_t crop_x, crop_y, crop_w, crop_h;
	uint32_t src_w, src_h;
	uint32_t flags; /* enum slots_flag */
	uint32_t view; /* the number of the view of its sample, from 0 */
	uint64_t position; /* in the epoch's global order: part of the key of its random draws */
	uint64_t reserved1;
};

struct slots_head {
	uint64_t magic;
	uint32_t version;
	uint32_t head_bytes; /* sizeof(struct slots_head) of the writer */
	uint64_t serial; /* of the batch in this slot; equals the announcement's */
	uint64_t epoch, batch; /* the batch's name */
	uint64_t position; /* of its first row in the epoch's global order */
	/* Valid samples; below batch_size only in the last batch of an evaluation epoch. */
	uint32_t count;
	uint32_t batch_size; /* the number of samples that fit, of `views` rows each */
	uint32_t height, width, channels;
	uint32_t pixel_type; /* enum slots_pixel_type */
	uint32_t pixel_layout; /* enum slots_pixel_layout */
	uint32_t label_type; /* enum slots_label_type */
	uint32_t label_width; /* elements per sample */
	uint32_t record_bytes; /* sizeof(struct slots_record) of the writer */
	uint64_t row_bytes; /* of one image */
	uint64_t images_offset, labels_offset, records_offset;
	/* CLOCK_MONOTONIC when the last row was written: the daemon then announces the batch. */
	uint64_t ready_ns;
	uint32_t views; /* rows of a sample, of all groups together, 1 .. SLOTS_VIEWS_MAX */
	uint32_t groups; /* of views; 0: all views are alike, and no group is described */
	uint64_t fields_offset; /* 0: samples have no fields */
};

/* Views of one size. The groups' views follow each other: the first group has first_view 0. */
struct slots_group {
	uint32_t first_view, views;
	uint32_t height, width;
	uint64_t row_bytes; /* of one image */
	uint64_t images_offset;
};

struct slots_field {
	uint64_t max_bytes; /* of a sample */
	uint64_t data_offset, lengths_offset;
	uint64_t reserved;
};

/* Bytes from one sample's field to the next one's. */
static inline uint64_t slots_field_stride(uint64_t max_bytes)
{
	return (max_bytes + SLOTS_FIELD_STEP - 1) / SLOTS_FIELD_STEP * SLOTS_FIELD_STEP;
}

_Static_assert(sizeof(struct slots_record) == 64, "record layout is the contract");
_Static_assert(sizeof(struct slots_head) == 144, "head layout is the contract");
_Static_assert(sizeof(struct slots_group) == 32, "group layout is the contract");
_Static_assert(sizeof(struct slots_field) == 32, "field layout is the contract");
#define SLOTS_AT(type, field, offset) \
	_Static_assert(__builtin_offsetof(type, field) == (offset), #field)
SLOTS_AT(struct slots_record, crop_x, 16);
SLOTS_AT(struct slots_record, src_w, 32);
SLOTS_AT(struct slots_record, flags, 40);
SLOTS_AT(struct slots_record, view, 44);
SLOTS_AT(struct slots_record, position, 48);
SLOTS_AT(struct slots_head, serial, 16);
SLOTS_AT(struct slots_head, count, 48);
SLOTS_AT(struct slots_head, row_bytes, 88);
SLOTS_AT(struct slots_head, records_offset, 112);
SLOTS_AT(struct slots_head, ready_ns, 120);
SLOTS_AT(struct slots_head, views, 128);
SLOTS_AT(struct slots_head, groups, 132);
SLOTS_AT(struct slots_head, fields_offset, 136);
SLOTS_AT(struct slots_group, images_offset, 24);
SLOTS_AT(struct slots_field, data_offset, 8);
#undef SLOTS_AT

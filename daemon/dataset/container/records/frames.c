/* frames: see frames.h. */
#include "dataset/container/records/frames.h"

#include "base/util.h"
#include "dataset/container/records/aside.h"
#include "dataset/container/window.h"

#include <errno.h>

enum { BATCH_HEAD = 24, FRAME = 24, VERSION = 1 };

struct frames {
	const struct index_job *job;
	const struct columns *columns;
	bool batch;
	uint32_t count, frames; /* items; frames, of a batch */
	uint64_t offsets, directory, begin; /* where these and the first frame are */
	struct window table, listing;
	struct aside aside;
	/* The frame that is unpacked, and the items in it. */
	uint32_t frame;
	uint64_t first, items;
	uint64_t at, stored, whole, place; /* in the shard; unpacked: bytes, where */
	uint64_t logical; /* the offset of its first item */
	/* The item that is read. */
	uint64_t row;
	struct columns_value value[COLUMNS_MAX];
};

static int damaged(const struct frames *frames, uint64_t at, const char *what, uint64_t row,
	struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: row %llu: %s: the file is damaged; copy it again from where it "
		"came from",
		frames->job->path, (unsigned long long)at, (unsigned long long)row, what);
}

/* Two neighbors of the table of offsets. */
static int offsets_get(struct frames *frames, uint64_t row, uint64_t *ret_begin, uint64_t *ret_end,
	struct fault *fault)
{
	const uint8_t *bytes;
	const uint64_t at = frames->offsets + 4 * row;
	int rc = window_get(&frames->table, at, 8, "the table of offsets", &bytes, fault);
	if (rc < 0)
		return rc;
	*ret_begin = records_u32(bytes);
	*ret_end = records_u32(bytes + 4);
	return *ret_begin <= *ret_end
		       ? 0
		       : damaged(frames, at, "its bytes end before they begin", row, fault);
}

static int frame_unpack(struct frames *frames, uint64_t whole, struct fault *fault)
{
	if (frames->at < frames->begin || frames->at > frames->job->size ||
		frames->stored > frames->job->size - frames->at)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: row %llu: its %llu compressed bytes are not in the file, "
			"which ends at byte %llu: it is damaged or was cut off; copy it again from "
			"where it came from",
			frames->job->path, (unsigned long long)frames->at,
			(unsigned long long)frames->first, (unsigned long long)frames->stored,
			(unsigned long long)frames->job->size);
	aside_clear(&frames->aside);
	return aside_put(&frames->aside, frames->at, frames->stored, whole, "compressed items",
		&frames->place, &frames->whole, fault);
}

/* The frame of one item. */
static int frame_sample(struct frames *frames, uint64_t row, struct fault *fault)
{
	uint64_t end;
	int rc = offsets_get(frames, row, &frames->at, &end, fault);
	if (rc < 0)
		return rc;
	frames->first = row;
	frames->items = 1;
	frames->stored = end - frames->at;
	return frame_unpack(frames, UNPACK_UNKNOWN, fault);
}

/* The next frame of several items, which begins with `row`. */
static int frame_batch(struct frames *frames, uint64_t row, struct fault *fault)
{
	const uint8_t *bytes;
	uint64_t last, end;
	const uint64_t at = frames->directory + (uint64_t)frames->frame * FRAME;
	if (frames->frame++ == frames->frames)
		return damaged(frames, at, "it is in no frame", row, fault);
	int rc = window_get(&frames->listing, at, FRAME, "the list of frames", &bytes, fault);
	if (rc < 0)
		return rc;
	frames->first = records_u32(bytes);
	frames->items = records_u32(bytes + 4);
	frames->at = records_u64(bytes + 8);
	frames->stored = records_u32(bytes + 16);
	const uint64_t whole = records_u32(bytes + 20);
	if (frames->first != row || !frames->items || frames->items > frames->count - row)
		return damaged(frames, at, "its frame begins with another item", row, fault);
	rc = offsets_get(frames, row, &frames->logical, &last, fault);
	if (rc == 0)
		rc = offsets_get(frames, row + frames->items - 1, &last, &end, fault);
	if (rc < 0)
		return rc;
	if (end < frames->logical || end - frames->logical != whole)
		return damaged(frames, at, "its frame has another size than its items", row, fault);
	return frame_unpack(frames, whole, fault);
}

/* Finds out where the leaves of the item are, which is `size` bytes from `inner` of its frame. */
static int leaves_find(
	struct frames *frames, uint64_t row, uint64_t inner, uint64_t size, struct fault *fault)
{
	const struct columns *columns = frames->columns;
	const uint64_t head = 4 * (uint64_t)columns->count;
	const uint8_t *sizes = NULL;
	if (size < head)
		return damaged(frames, frames->at, "its bytes have no sizes of leaves", row, fault);
	int rc = aside_get(
		&frames->aside, frames->place + inner, (size_t)head, "an item", &sizes, fault);
	uint64_t at = head;
	for (uint32_t i = 0; rc == 0 && i < columns->count; i++) {
		const uint32_t bytes = records_u32(sizes + 4 * (size_t)i);
		frames->value[i] = (struct columns_value){.offset = frames->at,
			.size = bytes,
			.packed = {.stored = (uint32_t)frames->stored,
				.inner = (uint32_t)(inner + at),
				.whole = (uint32_t)frames->whole,
				.method = PACKED_ZSTD},
			.aside = frames->place + inner + at};
		at += bytes;
	}
	return rc == 0 && at != size ? damaged(frames, frames->at,
					       "its leaves have another size than it", row, fault)
				     : rc;
}

static int item_load(struct frames *frames, uint64_t row, struct fault *fault)
{
	uint64_t begin = 0, end = 0;
	int rc = 0;
	if (row - frames->first >= frames->items)
		rc = frames->batch ? frame_batch(frames, row, fault)
				   : frame_sample(frames, row, fault);
	if (rc == 0 && frames->batch)
		rc = offsets_get(frames, row, &begin, &end, fault);
	if (rc < 0)
		return rc;
	if (!frames->batch)
		end = frames->whole;
	else if (begin < frames->logical || end - frames->logical > frames->whole)
		return damaged(
			frames, frames->offsets + 4 * row, "it is not in its frame", row, fault);
	frames->row = row;
	return leaves_find(frames, row, begin - frames->logical, end - begin, fault);
}

static int frames_find(void *context, uint64_t row, uint32_t column, struct columns_value *ret,
	struct fault *fault)
{
	struct frames *frames = context;
	int rc = row == frames->row ? 0 : item_load(frames, row, fault);
	*ret = frames->value[column];
	return rc;
}

static int frames_read(void *context, const struct columns_value *value, uint64_t from, size_t size,
	const uint8_t **ret, struct fault *fault)
{
	struct frames *frames = context;
	return aside_get(&frames->aside, value->aside + from, size, "a value", ret, fault);
}

static int head_read(struct frames *frames, struct fault *fault)
{
	const uint8_t *head;
	const size_t size = frames->batch ? BATCH_HEAD : 4;
	int rc = window_get(&frames->table, 0, size, "the header", &head, fault);
	if (rc < 0)
		return rc;
	frames->count = records_u32(frames->batch ? head + 12 : head);
	frames->frames = frames->batch ? records_u32(head + 20) : 0;
	frames->offsets = size;
	frames->directory = size + 4 * ((uint64_t)frames->count + 1);
	frames->begin = frames->directory + (uint64_t)frames->frames * FRAME;
	if (frames->batch && records_u32(head + 8) != VERSION)
		return fault_set(fault, -EINVAL,
			"%s: byte 8: its items are compressed in version %u with flags %u, and "
			"penstock reads version %d without flags: optimize the dataset again with "
			"litdata.optimize",
			frames->job->path, head[8] | head[9] << 8, head[10] | head[11] << 8,
			VERSION);
	if (frames->count && frames->begin <= frames->job->size)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: its header says that it has %u items in %u frames, which its %llu bytes "
		"cannot hold: it is damaged; copy it again from where it came from",
		frames->job->path, frames->count, frames->frames,
		(unsigned long long)frames->job->size);
}

int frames_index(
	const struct index_job *job, const struct columns *columns, bool batch, struct fault *fault)
{
	cleanup(free_ptr) struct frames *frames = calloc(1, sizeof *frames);
	if (!frames)
		return fault_set(fault, -ENOMEM, "no memory to index %s", job->path);
	const struct columns_source source = {
		.context = frames, .find = frames_find, .read = frames_read};
	frames->job = job;
	frames->columns = columns;
	frames->batch = batch;
	frames->row = UINT64_MAX;
	window_init(&frames->table, job->blob, job->path, job->size);
	window_init(&frames->listing, job->blob, job->path, job->size);
	aside_init(&frames->aside, job);
	int rc = head_read(frames, fault);
	if (rc == 0)
		rc = columns_rows(job, columns, &source, frames->count, fault);
	window_deinit(&frames->table);
	window_deinit(&frames->listing);
	aside_deinit(&frames->aside);
	return rc;
}

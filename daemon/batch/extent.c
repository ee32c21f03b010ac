/* extent: see extent.h. Made in the thread that opens a stream. The event loop writes heads, and
 * workers write the rows of FILLING slots. */
#include "batch/extent.h"

#include "base/host/cgroup.h"
#include "base/host/limits.h"
#include "base/size.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

enum { EXTENT_FIELD_ALIGN = 64, EXTENT_HUGE = 2 << 20 };

_Static_assert(
	SLOTS_GROUPS_OFFSET >= sizeof(struct slots_head) &&
		SLOTS_GROUPS_OFFSET + SLOTS_GROUPS_MAX * sizeof(struct slots_group) <= SLOTS_ALIGN,
	"groups are between the head and the images");

static uint64_t extent_row_bytes(
	uint32_t pixel_type, uint32_t height, uint32_t width, uint32_t channels)
{
	return (uint64_t)height * width * channels * slots_pixel_bytes(pixel_type);
}

/* Lays out the table of the fields at `offset`, and the fields after it. Returns where they end. */
static uint64_t extent_lay_fields(const struct extent_geometry *g, uint64_t offset,
	struct slots_field field[SLOTS_FIELDS_MAX])
{
	uint64_t end = offset + g->fields * sizeof *field;
	for (uint32_t i = 0; i < g->fields; i++) {
		uint64_t data = util_align(end, EXTENT_FIELD_ALIGN);
		uint64_t bytes = slots_field_stride(g->field_bytes[i]) * g->batch_size;
		uint64_t lengths = util_align(data + bytes, EXTENT_FIELD_ALIGN);
		field[i] = (struct slots_field){.max_bytes = g->field_bytes[i],
			.data_offset = data,
			.lengths_offset = lengths};
		end = lengths + sizeof(uint32_t) * g->batch_size;
	}
	return end;
}

/* Lays out the images of groups from `images` on; returns where they end. */
static uint64_t extent_lay_groups(const struct extent_geometry *g, uint64_t images,
	struct slots_group group[SLOTS_GROUPS_MAX])
{
	uint32_t view = 0;
	for (uint32_t i = 0; i < g->groups; i++) {
		group[i] = (struct slots_group){.first_view = view,
			.views = g->group[i].views,
			.height = g->group[i].height,
			.width = g->group[i].width,
			.row_bytes = extent_row_bytes(
				g->pixel_type, g->group[i].height, g->group[i].width, g->channels),
			.images_offset = images};
		images += util_align(
			group[i].row_bytes * g->batch_size * group[i].views, EXTENT_FIELD_ALIGN);
		view += g->group[i].views;
	}
	return images;
}

static struct slots_head extent_layout(
	const struct extent_geometry *g, struct slots_group group[SLOTS_GROUPS_MAX])
{
	uint64_t row = extent_row_bytes(g->pixel_type, g->height, g->width, g->channels);
	if (g->row_pixels)
		row = g->row_pixels * g->channels * slots_pixel_bytes(g->pixel_type);
	uint64_t rows = (uint64_t)g->batch_size * g->views;
	uint64_t label = slots_label_bytes(g->label_type) * g->label_width;
	uint64_t images = util_align(sizeof(struct slots_head), SLOTS_ALIGN);
	uint64_t labels = g->groups ? extent_lay_groups(g, images, group)
				    : images + util_align(row * rows, EXTENT_FIELD_ALIGN);
	uint64_t records = labels + util_align(label * g->batch_size, EXTENT_FIELD_ALIGN);
	uint64_t fields = records + sizeof(struct slots_record) * rows;
	return (struct slots_head){
		.magic = SLOTS_MAGIC,
		.version = SLOTS_VERSION,
		.head_bytes = sizeof(struct slots_head),
		.batch_size = g->batch_size,
		.height = g->height,
		.width = g->width,
		.channels = g->channels,
		.pixel_type = g->pixel_type,
		.pixel_layout = g->pixel_layout,
		.label_type = g->label_type,
		.label_width = g->label_width,
		.views = g->views,
		.groups = g->groups,
		.record_bytes = sizeof(struct slots_record),
		.row_bytes = row,
		.images_offset = images,
		.labels_offset = labels,
		.records_offset = records,
		.fields_offset = g->fields ? util_align(fields, EXTENT_FIELD_ALIGN) : 0,
	};
}

uint64_t extent_stride(const struct extent_geometry *geometry)
{
	struct slots_group group[SLOTS_GROUPS_MAX];
	struct slots_head head = extent_layout(geometry, group);
	uint64_t rows = (uint64_t)geometry->batch_size * geometry->views;
	uint64_t end = head.records_offset + sizeof(struct slots_record) * rows;
	struct slots_field field[SLOTS_FIELDS_MAX];
	if (geometry->fields)
		end = extent_lay_fields(geometry, head.fields_offset, field);
	return util_align(end, SLOTS_ALIGN);
}

/* A cgroup does not refuse memory beyond its limit: the kernel kills a process. So this asks for
 * the room first, which leaves a margin. */
static int extent_room(uint64_t bytes, struct fault *fault)
{
	struct cgroup_memory memory;
	cgroup_memory_read(&memory);
	if (bytes <= memory.available)
		return 0;
	char want[16], left[16];
	return fault_set(fault, -ENOMEM,
		"the batches of this stream need %s of shared memory, but only %s is left "
		"(limit: %s); use a smaller batch_size, image_size or prefetch, or give the "
		"machine or container more memory",
		size_format(bytes, want, sizeof want),
		size_format(memory.available, left, sizeof left), memory.source);
}

static int extent_seal(int fd, bool writable)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	if (!writable)
		seals |= F_SEAL_FUTURE_WRITE;
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

/* Makes one memfd of `bytes`, allocated, mapped and sealed; -errno with nothing left behind. */
static int extent_make(struct extent *extent, unsigned flags, uint64_t bytes, bool writable)
{
	int fd = memfd_create("penstock-batches", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	if (fd < 0)
		return -errno;
	int result = 0;
	void *memory = MAP_FAILED;
	if (ftruncate(fd, (off_t)bytes) || fallocate(fd, 0, 0, (off_t)bytes))
		result = -errno;
	if (!result) {
		memory =
			mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
		result = memory == MAP_FAILED ? -errno : extent_seal(fd, writable);
	}
	if (result) {
		if (memory != MAP_FAILED)
			(void)munmap(memory, bytes);
		(void)close(fd);
		return result;
	}
	extent->handout = handout_make(fd, writable);
	extent->memory = memory;
	extent->bytes = bytes;
	return 0;
}

int extent_init(struct extent *extent, const struct extent_geometry *geometry, uint32_t slots,
	bool writable, struct fault *fault)
{
	assert(slots > 0 && slots <= EXTENT_SLOTS_MAX);
	*extent = (struct extent){
		.handout = HANDOUT_NONE, .slots = slots, .stride = extent_stride(geometry)};
	extent->layout = extent_layout(geometry, extent->group);
	for (uint32_t i = 0; i < geometry->groups; i++)
		for (uint32_t view = 0; view < extent->group[i].views; view++)
			extent->group_of[extent->group[i].first_view + view] = (uint8_t)i;
	for (uint32_t i = 0; i < slots && !geometry->row_pixels; i++)
		(void)extent_reshape(extent, i, geometry->height, geometry->width);
	extent->fields = geometry->fields;
	(void)extent_lay_fields(geometry, extent->layout.fields_offset, extent->field);
	uint64_t bytes = extent->stride * slots;
	int result = extent_room(bytes, fault);
	if (result)
		return result;
	/* Huge pages exist only where an administrator reserved them, so this usually fails. A
	 * client that may write may also punch holes, and then a huge page may be gone for good:
	 * touching it would kill the daemon. */
	extent->huge_pages = !writable && extent_make(extent, MFD_HUGETLB | MFD_HUGE_2MB,
						  util_align(bytes, EXTENT_HUGE), writable) == 0;
	if (!extent->huge_pages)
		result = extent_make(extent, 0, bytes, writable);
	if (result == -EINVAL)
		return fault_set(fault, result,
			"this kernel cannot seal shared memory as penstock needs it "
			"(F_SEAL_FUTURE_WRITE): use Linux 5.1 or later");
	if (result)
		return fault_set(fault, result,
			"no shared memory for the batches of this stream (memfd_create, fallocate, "
			"%llu bytes): %s%s",
			(unsigned long long)bytes, strerror(-result), limits_hint(-result));
	for (uint32_t i = 0; i < slots; i++)
		memcpy(extent->memory + extent->stride * i + SLOTS_GROUPS_OFFSET, extent->group,
			geometry->groups * sizeof extent->group[0]);
	for (uint32_t i = 0; i < slots && extent->fields; i++)
		memcpy(extent->memory + extent->stride * i + extent->layout.fields_offset,
			extent->field, extent->fields * sizeof extent->field[0]);
	extent->locked = mlock(extent->memory, extent->bytes) == 0;
	return 0;
}

static void extent_unmap(struct extent *extent)
{
	if (extent->memory)
		(void)munmap(extent->memory, extent->bytes);
	extent->memory = NULL;
}

void extent_deinit(struct extent *extent)
{
	extent_unmap(extent);
	handout_deinit(&extent->handout);
}

bool extent_is_kept(struct extent *extent, struct handout *ret)
{
	extent_unmap(extent);
	handout_end(&extent->handout);
	handout_look();
	if (!handout_is_held(&extent->handout))
		return false;
	*ret = extent->handout;
	extent->handout = HANDOUT_NONE;
	return true;
}

struct slots_head *extent_head(const struct extent *extent, uint32_t slot)
{
	assert(slot < extent->slots);
	return (struct slots_head *)(extent->memory + extent->stride * slot);
}

struct slots_head extent_reshape(
	struct extent *extent, uint32_t slot, uint32_t height, uint32_t width)
{
	struct slots_head head = extent->layout;
	assert(slot < extent->slots && height <= head.height && width <= head.width);
	head.height = height;
	head.width = width;
	head.row_bytes = extent_row_bytes(head.pixel_type, height, width, head.channels);
	assert(head.row_bytes <= extent->layout.row_bytes);
	extent->shape[slot] = (struct extent_shape){height, width, head.row_bytes};
	return head;
}

uint8_t *extent_image(const struct extent *extent, uint32_t slot, uint32_t row)
{
	assert(slot < extent->slots && row < extent->layout.batch_size * extent->layout.views);
	const struct slots_head *layout = &extent->layout;
	uint8_t *memory = extent->memory + extent->stride * slot;
	if (!layout->groups)
		return memory + layout->images_offset + extent->shape[slot].row_bytes * row;
	const uint32_t sample = row / layout->views, view = row % layout->views;
	const struct slots_group *group = &extent->group[extent->group_of[view]];
	const uint64_t at = (uint64_t)sample * group->views + (view - group->first_view);
	return memory + group->images_offset + group->row_bytes * at;
}

struct extent_shape extent_row_shape(const struct extent *extent, uint32_t slot, uint32_t row)
{
	assert(slot < extent->slots);
	if (!extent->layout.groups)
		return extent->shape[slot];
	const struct slots_group *group =
		&extent->group[extent->group_of[row % extent->layout.views]];
	return (struct extent_shape){group->height, group->width, group->row_bytes};
}

static void *extent_labels_of(
	const struct extent *extent, uint32_t slot, enum slots_label_type type)
{
	assert(slot < extent->slots && extent->layout.label_type == type);
	return extent->memory + extent->stride * slot + extent->layout.labels_offset;
}

int64_t *extent_labels(const struct extent *extent, uint32_t slot)
{
	return extent_labels_of(extent, slot, SLOTS_LABEL_I64);
}

float *extent_label_values(const struct extent *extent, uint32_t slot)
{
	return extent_labels_of(extent, slot, SLOTS_LABEL_F32);
}

struct slots_record *extent_records(const struct extent *extent, uint32_t slot)
{
	assert(slot < extent->slots);
	return (struct slots_record *)(extent->memory + extent->stride * slot +
				       extent->layout.records_offset);
}

uint8_t *extent_field(const struct extent *extent, uint32_t slot, uint32_t field, uint32_t sample)
{
	assert(slot < extent->slots && field < extent->fields);
	assert(sample < extent->layout.batch_size);
	const struct slots_field *at = &extent->field[field];
	return extent->memory + extent->stride * slot + at->data_offset +
	       slots_field_stride(at->max_bytes) * sample;
}

void extent_set_field(
	const struct extent *extent, uint32_t slot, uint32_t field, uint32_t sample, uint32_t size)
{
	const struct slots_field *at = &extent->field[field];
	uint8_t *bytes = extent_field(extent, slot, field, sample);
	assert(size <= at->max_bytes);
	memset(bytes + size, 0, slots_field_stride(at->max_bytes) - size);
	uint8_t *lengths = extent->memory + extent->stride * slot + at->lengths_offset;
	memcpy(lengths + sizeof size * sample, &size, sizeof size);
}

void extent_put_field(const struct extent *extent, uint32_t slot, uint32_t field, uint32_t sample,
	const void *bytes, uint32_t size)
{
	if (size)
		memcpy(extent_field(extent, slot, field, sample), bytes, size);
	extent_set_field(extent, slot, field, sample, size);
}

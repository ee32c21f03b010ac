/* lease: see lease.h.
 *
 * Only this file checks the bounds of shared memory: once for an extent, once for each batch. A
 * slot's head is copied before it is checked, so that what was checked is what is used.
 *
 * Thread: that of the stream. Allocates when a stream opens and when an extent comes, never for a
 * batch. */
#include "client/lib/lease.h"

#include "client/lib/error.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct penstock_sample) == sizeof(struct slots_record),
	"the public record is the shared one");
_Static_assert(offsetof(struct penstock_sample, flags) == offsetof(struct slots_record, flags),
	"same layout");
_Static_assert(offsetof(struct penstock_sample, view) == offsetof(struct slots_record, view) &&
		       offsetof(struct penstock_sample, position) ==
			       offsetof(struct slots_record, position),
	"same layout");
_Static_assert((int)PENSTOCK_FLIPPED == (int)SLOTS_FLIPPED &&
		       (int)PENSTOCK_SUBSTITUTED == (int)SLOTS_SUBSTITUTED &&
		       (int)PENSTOCK_PADDED == (int)SLOTS_PADDED &&
		       (int)PENSTOCK_INVALID == (int)SLOTS_INVALID &&
		       (int)PENSTOCK_FLIPPED_VERTICALLY == (int)SLOTS_FLIPPED_VERTICALLY,
	"same bits");
_Static_assert((int)PENSTOCK_LAST == (int)WIRE_BATCH_LAST, "same bit");

int lease_begin(
	struct lease_table *table, const struct wire_opened *opened, const struct opened_tail *tail)
{
	assert(table->waiting == 0 && table->held == 0);
	free(table->queue);
	table->queue = calloc(opened->slots, sizeof *table->queue);
	table->opened = opened;
	table->tail = tail;
	table->group = tail->group;
	table->groups = tail->groups;
	table->started = false;
	table->first = 0;
	table->next_epoch = opened->epoch;
	table->next_batch = opened->batch;
	return table->queue ? 0
			    : error_set(-ENOMEM, "no memory for the announcements of %u batches",
				      opened->slots);
}

static void lease_drop_extent(struct lease_extent *extent)
{
	map_deinit(&extent->map);
	free(extent->slot);
	free(extent->field);
	*extent = (struct lease_extent){0};
}

void lease_deinit(struct lease_table *table)
{
	for (unsigned i = 0; i < WIRE_EXTENTS_MAX; i++)
		lease_drop_extent(&table->extent[i]);
	free(table->queue);
	*table = (struct lease_table){0};
}

/* ---- extents ---- */

static struct lease_extent *lease_find(struct lease_table *table, uint32_t number)
{
	for (unsigned i = 0; i < WIRE_EXTENTS_MAX; i++) {
		struct lease_extent *extent = &table->extent[i];
		if (extent->used && !extent->lost && extent->number == number)
			return extent;
	}
	return NULL;
}

/* -1: none of that name. */
static int lease_index(const struct lease_table *table, uint32_t name)
{
	for (int i = 0; i < WIRE_EXTENTS_MAX; i++) {
		if (table->extent[i].used && table->extent[i].name == name)
			return i;
	}
	return -1;
}

static bool lease_has_lost(const struct lease_table *table)
{
	for (unsigned i = 0; i < WIRE_EXTENTS_MAX; i++) {
		if (table->extent[i].lost)
			return true;
	}
	return false;
}

static struct lease_extent *lease_find_room(struct lease_table *table)
{
	for (unsigned i = 0; i < WIRE_EXTENTS_MAX; i++) {
		if (!table->extent[i].used)
			return &table->extent[i];
	}
	return NULL;
}

static bool lease_extent_fits(const struct wire_extent *message)
{
	uint64_t need;
	return message->slot_count >= 1 && message->slot_count <= WIRE_SLOTS_MAX &&
	       message->slot_stride >= sizeof(struct slots_head) &&
	       message->slot_stride % SLOTS_ALIGN == 0 &&
	       !__builtin_mul_overflow(
		       message->slot_stride, (uint64_t)message->slot_count, &need) &&
	       need <= message->bytes;
}

int lease_add_extent(struct lease_table *table, const struct wire_extent *message, int fd)
{
	struct map map;
	struct lease_extent *extent = lease_find_room(table);
	if (fd < 0)
		return error_set(-EPROTO, "the daemon announced extent %u without its memory",
			message->extent);
	if (!extent && lease_has_lost(table))
		return error_set(-EDEADLK,
			"this trainer still holds batches of %d daemons that have gone, so there "
			"is no room for another daemon's memory: release batches sooner, and open "
			"the stream again with its state",
			WIRE_EXTENTS_MAX);
	if (!extent || lease_find(table, message->extent))
		return error_set(-EPROTO, "the daemon announced extent %u %s", message->extent,
			extent ? "twice" : "beyond the number that a stream may have");
	if (!lease_extent_fits(message))
		return error_set(-EPROTO,
			"the daemon announced extent %u of %u slots of %llu bytes in %llu bytes",
			message->extent, message->slot_count,
			(unsigned long long)message->slot_stride,
			(unsigned long long)message->bytes);
	int result = map_init(&map, fd, message->bytes, table->writable);
	if (result < 0)
		return result;
	const uint32_t fields = table->tail->fields;
	struct lease_slot *slot = calloc(message->slot_count, sizeof *slot);
	struct lease_field *field =
		fields ? calloc((size_t)message->slot_count * fields, sizeof *field) : NULL;
	if (!slot || (fields && !field)) {
		free(slot);
		free(field);
		map_deinit(&map);
		return error_set(
			-ENOMEM, "no memory for the states of %u slots", message->slot_count);
	}
	*extent = (struct lease_extent){.used = true,
		.number = message->extent,
		.name = ++table->last_name,
		.slot_count = message->slot_count,
		.slot_stride = message->slot_stride,
		.map = map,
		.slot = slot,
		.field = field};
	return 0;
}

int lease_withdraw(struct lease_table *table, uint32_t number)
{
	struct lease_extent *extent = lease_find(table, number);
	if (!extent || extent->withdrawn)
		return error_set(-EPROTO,
			"the daemon withdrew extent %u, which it had not announced", number);
	extent->withdrawn = true;
	if (extent->leases == 0)
		lease_drop_extent(extent);
	return 0;
}

/* ---- leases ---- */

static void lease_move(struct lease_table *table, struct lease_extent *extent, uint32_t number,
	enum lease_state to)
{
	struct lease_slot *slot = &extent->slot[number];
	switch (to) {
	case LEASE_WAITING:
		assert(slot->state == LEASE_FREE);
		extent->leases++;
		table->waiting++;
		break;
	case LEASE_HELD:
		assert(slot->state == LEASE_WAITING);
		table->waiting--;
		table->held++;
		break;
	case LEASE_LOST:
		assert(slot->state == LEASE_HELD);
		table->held--;
		break;
	case LEASE_FREE:
		assert(slot->state != LEASE_FREE);
		table->waiting -= slot->state == LEASE_WAITING;
		table->held -= slot->state == LEASE_HELD;
		extent->leases--;
		break;
	}
	slot->state = to;
}

static void lease_lose_extent(struct lease_table *table, struct lease_extent *extent)
{
	for (uint32_t i = 0; i < extent->slot_count; i++) {
		if (extent->slot[i].state == LEASE_WAITING)
			lease_move(table, extent, i, LEASE_FREE);
		else if (extent->slot[i].state == LEASE_HELD)
			lease_move(table, extent, i, LEASE_LOST);
	}
	extent->lost = true;
	if (extent->leases == 0)
		lease_drop_extent(extent);
}

void lease_lose(struct lease_table *table)
{
	for (unsigned i = 0; i < WIRE_EXTENTS_MAX; i++) {
		if (table->extent[i].used && !table->extent[i].lost)
			lease_lose_extent(table, &table->extent[i]);
	}
}

static bool lease_serial_follows(const struct lease_table *table, uint64_t serial)
{
	return !table->started || serial == table->last_serial + 1;
}

/* A daemon that gives a batch twice, or leaves one out, does so under a new serial. */
static void lease_go_on(struct lease_table *table, const struct wire_batch *message)
{
	bool last = message->flags & WIRE_BATCH_LAST;
	table->next_epoch = message->epoch + last;
	table->next_batch = last ? 0 : message->batch + 1;
	table->last_serial = message->serial;
	table->started = true;
}

int lease_announce(struct lease_table *table, const struct wire_batch *message)
{
	struct lease_extent *extent = lease_find(table, message->extent);
	const char *wrong = NULL;
	if (!extent || extent->withdrawn)
		wrong = "in an extent that it has not announced";
	else if (message->slot >= extent->slot_count)
		wrong = "in a slot that the extent does not have";
	else if (extent->slot[message->slot].state != LEASE_FREE)
		wrong = "in a slot that this client still holds";
	else if (table->waiting + table->held >= table->opened->slots)
		wrong = "beyond the number that may be leased at once";
	else if (!lease_serial_follows(table, message->serial))
		wrong = "out of order";
	else if (message->epoch != table->next_epoch || message->batch != table->next_batch)
		wrong = "that is not the next one";
	else if (message->count < 1 || message->count > table->opened->batch_size)
		wrong = "with an impossible number of rows";
	if (wrong)
		return error_set(-EPROTO,
			"the daemon announced a batch %s (batch %llu of epoch %llu, extent %u, "
			"slot %u, serial %llu, %u rows)",
			wrong, (unsigned long long)message->batch,
			(unsigned long long)message->epoch, message->extent, message->slot,
			(unsigned long long)message->serial, message->count);

	extent->slot[message->slot].serial = message->serial;
	table->queue[(table->first + table->waiting) % table->opened->slots] = *message;
	lease_move(table, extent, message->slot, LEASE_WAITING);
	lease_go_on(table, message);
	return 0;
}

static bool lease_head_names(const struct slots_head *head, const struct wire_batch *message)
{
	return head->serial == message->serial && head->epoch == message->epoch &&
	       head->batch == message->batch && head->position == message->position &&
	       head->count == message->count;
}

/* The size may be below the stream's, where it changes with the epoch. */
static bool lease_head_sized(const struct slots_head *head, const struct wire_opened *opened)
{
	return head->height >= 1 && head->height <= opened->height && head->width >= 1 &&
	       head->width <= opened->width &&
	       head->row_bytes == (uint64_t)head->height * head->width * opened->channels *
					  slots_pixel_bytes(opened->pixel_type);
}

static bool lease_head_shaped(
	const struct slots_head *head, const struct wire_opened *opened, uint32_t groups)
{
	return head->batch_size == opened->batch_size && head->views == opened->views &&
	       head->groups == groups && head->channels == opened->channels &&
	       head->pixel_type == opened->pixel_type &&
	       head->pixel_layout == opened->pixel_layout &&
	       head->label_type == opened->label_type && head->label_width == opened->label_width &&
	       head->record_bytes == sizeof(struct slots_record) && lease_head_sized(head, opened);
}

static bool lease_range_fits(uint64_t offset, uint64_t row_bytes, uint64_t rows, uint64_t stride)
{
	uint64_t bytes;
	return offset % 64 == 0 && offset >= sizeof(struct slots_head) && offset <= stride &&
	       !__builtin_mul_overflow(row_bytes, rows, &bytes) && bytes <= stride - offset;
}

static bool lease_head_bounded(const struct slots_head *head, uint64_t stride)
{
	uint64_t rows = (uint64_t)head->batch_size * head->views;
	uint64_t label_bytes = (uint64_t)head->label_width * slots_label_bytes(head->label_type);
	/* With groups, the images are those of the first one (lease_groups_fit). */
	return (head->groups ||
		       lease_range_fits(head->images_offset, head->row_bytes, rows, stride)) &&
	       lease_range_fits(head->labels_offset, label_bytes, head->batch_size, stride) &&
	       lease_range_fits(head->records_offset, head->record_bytes, rows, stride);
}

static bool lease_group_sized(const struct slots_group *is, const struct wire_group *group,
	const struct wire_opened *opened)
{
	return is->views == group->views && is->height == group->height &&
	       is->width == group->width &&
	       is->row_bytes == (uint64_t)group->height * group->width * opened->channels *
					slots_pixel_bytes(opened->pixel_type);
}

/* The groups of a slot: as OPENED said, inside the slot; the first one is the head's. */
static bool lease_groups_fit(const struct lease_table *table, const struct slots_head *head,
	const struct slots_group *groups, uint64_t stride)
{
	uint32_t view = 0;
	for (uint32_t i = 0; i < table->groups; i++) {
		const struct slots_group *group = &groups[i];
		const uint64_t rows = (uint64_t)head->batch_size * group->views;
		if (group->first_view != view ||
			!lease_group_sized(group, &table->group[i], table->opened) ||
			!lease_range_fits(group->images_offset, group->row_bytes, rows, stride))
			return false;
		view += group->views;
	}
	return !table->groups ||
	       (head->height == groups[0].height && head->width == groups[0].width &&
		       head->images_offset == groups[0].images_offset);
}

/* The fields of a slot: as OPENED said, inside the slot. */
static bool lease_fields_fit(const struct lease_table *table, const struct slots_head *head,
	const uint8_t *slot, uint64_t stride, struct lease_field *ret)
{
	const uint32_t fields = table->tail->fields;
	struct slots_field field;
	if (!fields)
		return true;
	if (!lease_range_fits(head->fields_offset, sizeof field, fields, stride))
		return false;
	for (uint32_t i = 0; i < fields; i++) {
		memcpy(&field, slot + head->fields_offset + i * sizeof field, sizeof field);
		if (field.max_bytes != table->tail->field[i].max_bytes ||
			!lease_range_fits(field.data_offset, slots_field_stride(field.max_bytes),
				head->batch_size, stride) ||
			!lease_range_fits(
				field.lengths_offset, sizeof(uint32_t), head->batch_size, stride))
			return false;
		ret[i] = (struct lease_field){field.data_offset, field.lengths_offset};
	}
	return true;
}

/* The daemon changes the serial first and the rest afterwards (PROTOCOL.md, "The life of a lease"),
 * with a release fence between the two. This acquire fence orders everything that the application
 * has read before this load: a process that has read anything of the next batch sees its serial. */
static uint64_t lease_serial(const struct slots_head *head)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&head->serial, __ATOMIC_RELAXED);
}

bool lease_is_intact(const struct slots_head *head, uint64_t serial)
{
	return lease_serial(head) == serial;
}

/* `slot` is what `head` and `groups` were copied from. `ret_field` receives where the fields
 * are. */
static int lease_check_head(const struct lease_table *table, const struct slots_head *head,
	const struct slots_group *groups, const uint8_t *slot, const struct wire_batch *message,
	uint64_t stride, struct lease_field *ret_field)
{
	const struct slots_head *shared = (const struct slots_head *)(const void *)slot;
	const char *wrong = NULL;
	if (head->magic != SLOTS_MAGIC || head->version != SLOTS_VERSION ||
		head->head_bytes < sizeof *head)
		wrong = "its head is not of this version";
	else if (!lease_head_names(head, message))
		wrong = "its head names another batch";
	else if (!lease_head_shaped(head, table->opened, table->groups))
		wrong = "its shape is not that of the stream";
	else if (!lease_head_bounded(head, stride) ||
		 !lease_groups_fit(table, head, groups, stride) ||
		 !lease_fields_fit(table, head, slot, stride, ret_field))
		wrong = "its offsets lead out of the slot";
	if (wrong)
		return error_set(
			lease_serial(shared) > message->serial ? LEASE_E_OVERWRITTEN : -EPROTO,
			"batch %llu of epoch %llu in slot %u of extent %u cannot be used: %s; the "
			"daemon is broken",
			(unsigned long long)message->batch, (unsigned long long)message->epoch,
			message->slot, message->extent, wrong);
	return 0;
}

int lease_give(
	struct lease_table *table, struct penstock_batch *ret_batch, struct wire_batch *ret_message)
{
	assert(table->waiting > 0);
	const struct wire_batch message = table->queue[table->first];
	struct lease_extent *extent = lease_find(table, message.extent);
	assert(extent); /* an extent with leases is never dropped */
	const uint8_t *slot = extent->map.bytes + message.slot * extent->slot_stride;
	struct slots_head head;
	struct slots_group groups[SLOTS_GROUPS_MAX];
	memcpy(&head, slot, sizeof head);
	/* A slot has at least SLOTS_ALIGN bytes. */
	memcpy(groups, slot + SLOTS_GROUPS_OFFSET, sizeof groups);
	struct lease_field *field =
		extent->field ? extent->field + (size_t)message.slot * table->tail->fields : NULL;
	int result =
		lease_check_head(table, &head, groups, slot, &message, extent->slot_stride, field);
	if (result != 0)
		return result;
	for (uint32_t i = 0; i < table->groups; i++)
		extent->slot[message.slot].images_offset[i] = groups[i].images_offset;
	table->first = (table->first + 1) % table->opened->slots;
	lease_move(table, extent, message.slot, LEASE_HELD);
	*ret_message = message;
	const void *labels = slot + head.labels_offset;
	bool whole = head.label_type == SLOTS_LABEL_I64;
	*ret_batch = (struct penstock_batch){
		.images = slot + head.images_offset,
		.labels = whole ? labels : NULL,
		.label_values = whole ? NULL : labels,
		.samples =
			(const struct penstock_sample *)(const void *)(slot + head.records_offset),
		.count = message.count,
		.flags = message.flags & WIRE_BATCH_LAST,
		.epoch = message.epoch,
		.batch = message.batch,
		.image_bytes = (size_t)head.row_bytes,
		.height = head.height,
		.width = head.width,
		.extent = extent->name,
		.slot = message.slot,
		.serial = message.serial,
	};
	return 0;
}

static bool lease_holds(const struct lease_extent *extent, const struct penstock_batch *batch)
{
	if (!batch->images || batch->slot >= extent->slot_count)
		return false;
	const struct lease_slot *slot = &extent->slot[batch->slot];
	return (slot->state == LEASE_HELD || slot->state == LEASE_LOST) &&
	       slot->serial == batch->serial;
}

static const struct lease_extent *lease_extent_of(
	const struct lease_table *table, const struct penstock_batch *batch)
{
	int i = lease_index(table, batch->extent);
	return i < 0 || !lease_holds(&table->extent[i], batch) ? NULL : &table->extent[i];
}

const struct slots_head *lease_head(
	const struct lease_table *table, const struct penstock_batch *batch)
{
	const struct lease_extent *extent = lease_extent_of(table, batch);
	if (!extent)
		return NULL;
	const uint8_t *slot = extent->map.bytes + batch->slot * extent->slot_stride;
	return (const struct slots_head *)(const void *)slot;
}

const void *lease_images(
	const struct lease_table *table, const struct penstock_batch *batch, uint32_t group)
{
	const struct lease_extent *extent = lease_extent_of(table, batch);
	assert(group < table->groups);
	return extent ? extent->map.bytes + batch->slot * extent->slot_stride +
				extent->slot[batch->slot].images_offset[group]
		      : NULL;
}

bool lease_field(const struct lease_table *table, const struct penstock_batch *batch,
	uint32_t field, const uint8_t **ret_data, const uint32_t **ret_lengths)
{
	const struct lease_extent *extent = lease_extent_of(table, batch);
	if (!extent)
		return false;
	const uint8_t *slot = extent->map.bytes + batch->slot * extent->slot_stride;
	const struct lease_field *at =
		&extent->field[(size_t)batch->slot * table->tail->fields + field];
	*ret_data = slot + at->data_offset;
	*ret_lengths = (const uint32_t *)(const void *)(slot + at->lengths_offset);
	return true;
}

const struct map *lease_map(const struct lease_table *table, const struct penstock_batch *batch)
{
	const struct lease_extent *extent = lease_extent_of(table, batch);
	return extent ? &extent->map : NULL;
}

int lease_return(
	struct lease_table *table, const struct penstock_batch *batch, uint32_t *ret_extent)
{
	int i = lease_index(table, batch->extent);
	if (i < 0 || !lease_holds(&table->extent[i], batch))
		return error_set(-EINVAL, "this batch is not held: it was released before, or "
					  "this stream never gave it");
	struct lease_extent *extent = &table->extent[i];
	bool lost = extent->lost;
	*ret_extent = extent->number;
	lease_move(table, extent, batch->slot, LEASE_FREE);
	if ((extent->withdrawn || lost) && extent->leases == 0)
		lease_drop_extent(extent);
	return lost ? LEASE_E_LOST : 0;
}

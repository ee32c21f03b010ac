/* lease: the extents of a stream and which of their slots this client holds.
 *
 * A slot goes FREE -> WAITING (BATCH arrived) -> HELD (given to the application) -> FREE
 * (released); only lease_move() changes its state. WAITING and HELD slots are the leases that the
 * daemon counts. When the daemon has gone or has taken its leases back, WAITING slots become FREE,
 * and HELD slots become LOST until the application releases them: the memory stays mapped, but a
 * living daemon may write to it.
 *
 * The daemon numbers its extents anew on each connection. The application's batches name extents by
 * a number of this table's own, which is never used twice. */
#pragma once

#include "client/lib/map.h"
#include "penstock/penstock.h"
#include "proto/opened_tail.h"
#include "proto/slots.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum lease_state {
	LEASE_FREE = 0, /* the daemon's: must not be read */
	LEASE_WAITING, /* announced; the application has not asked for it yet */
	LEASE_HELD, /* the application reads it */
	LEASE_LOST, /* the application reads it, and no daemon knows of it */
};

/* Outcomes. */
enum {
	LEASE_E_LOST = 1, /* the batch returned was LOST: no daemon must be told */
	LEASE_E_OVERWRITTEN = 2, /* the slot holds another batch than was announced */
};

struct lease_slot {
	enum lease_state state;
	uint64_t serial;
	/* Where the images of each group are in a HELD slot: checked when it was leased. */
	uint64_t images_offset[SLOTS_GROUPS_MAX];
};

struct lease_extent {
	bool used, withdrawn;
	bool lost; /* of a connection that is over: the daemon's number means nothing any more */
	uint32_t number; /* the daemon's */
	uint32_t name; /* this table's own */
	uint32_t slot_count, leases;
	uint64_t slot_stride;
	struct map map;
	struct lease_slot *slot; /* slot_count */
	/* Where the fields of HELD slots are, as it was checked: slot_count x tail->fields; NULL:
	 * there are none. */
	struct lease_field {
		uint64_t data_offset, lengths_offset;
	} * field;
};

struct lease_table {
	const struct wire_opened *opened; /* geometry and number of slots */
	const struct opened_tail *tail;
	const struct wire_group *group; /* the tail's */
	uint32_t groups;
	/* Extents may lack the seal against writing: the application asked for that. */
	bool writable;
	struct lease_extent extent[WIRE_EXTENTS_MAX];
	uint32_t waiting, held;
	uint32_t last_name;
	uint64_t last_serial;
	uint64_t next_epoch, next_batch; /* of the batch that is announced next */
	bool started; /* last_serial is known */
	struct wire_batch *queue; /* a ring of opened->slots announcements: those that wait */
	uint32_t first;
};

/* A stream was opened, for the first time (with a zeroed table) or again (after lease_lose).
 * `opened` and its tail were checked and must outlive the table. 0 or -ENOMEM. */
int lease_begin(struct lease_table *table, const struct wire_opened *opened,
	const struct opened_tail *tail);

/* The daemon has ended all leases, or is gone. Only what the application holds stays mapped. */
void lease_lose(struct lease_table *table);

/* Unmaps everything. Takes a zeroed table. */
void lease_deinit(struct lease_table *table);

/* EXTENT: checks and maps it. The descriptor stays the caller's. 0, -EPROTO, -ENOMEM. */
int lease_add_extent(struct lease_table *table, const struct wire_extent *message, int fd);

/* WITHDRAWN: unmaps the extent now, or with its last lease. 0, -EPROTO. */
int lease_withdraw(struct lease_table *table, uint32_t number);

/* BATCH: checks it and keeps it until lease_give. 0, -EPROTO. */
int lease_announce(struct lease_table *table, const struct wire_batch *message);

/* Gives the oldest announcement to the application; there must be one. Checks the slot's head.
 * `ret_message` is the announcement. 0; -EPROTO; LEASE_E_OVERWRITTEN with a sentence, and the
 * announcement stays. */
int lease_give(struct lease_table *table, struct penstock_batch *ret_batch,
	struct wire_batch *ret_message);

/* The head, in shared memory, of a batch that the application holds; NULL: it does not hold it. */
const struct slots_head *lease_head(
	const struct lease_table *table, const struct penstock_batch *batch);

/* Where the images of a group begin in the memory of such a batch; NULL: it is not held. The stream
 * must have the group. */
const void *lease_images(
	const struct lease_table *table, const struct penstock_batch *batch, uint32_t group);

/* Where a field of such a batch is stored: the bytes of its samples, and their lengths. False: the
 * batch is not held. The stream must have the field. */
bool lease_field(const struct lease_table *table, const struct penstock_batch *batch,
	uint32_t field, const uint8_t **ret_data, const uint32_t **ret_lengths);

/* The mapping of such a batch; NULL when it is not held. */
const struct map *lease_map(const struct lease_table *table, const struct penstock_batch *batch);

/* Whether the slot still holds the batch of this serial, ordered after everything that was read of
 * it. */
bool lease_is_intact(const struct slots_head *head, uint64_t serial);

/* The application returns a batch. 0, and the daemon's number of the extent; LEASE_E_LOST; -EINVAL
 * when the batch is not held. */
int lease_return(
	struct lease_table *table, const struct penstock_batch *batch, uint32_t *ret_extent);

/* lease: the extents of a stream and which of their slots this client holds.
 *
 * A slot goes FREE -> WAITING (BATCH arrived) -> HELD (given to the application) -> FREE
 * (released); lease_move() is the only door. WAITING and HELD together are the leases that the
 * daemon counts. */
#pragma once

#include "client/lib/map.h"
#include "penstock/penstock.h"
#include "proto/slots.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum lease_state {
	LEASE_FREE = 0, /* the daemon's: not to be read */
	LEASE_WAITING, /* announced; the application has not asked for it yet */
	LEASE_HELD, /* the application reads it */
};

struct lease_slot {
	enum lease_state state;
	uint64_t serial;
};

struct lease_extent {
	bool used, withdrawn;
	uint32_t number, slot_count, leases;
	uint64_t slot_stride;
	struct map map;
	struct lease_slot *slot; /* slot_count */
};

struct lease_table {
	const struct wire_opened *opened; /* geometry and number of slots */
	struct lease_extent extent[WIRE_EXTENTS_MAX];
	uint32_t waiting, held;
	uint64_t last_serial;
	bool started; /* last_serial is one */
	struct wire_batch *queue; /* ring of opened->slots announcements that wait */
	uint32_t first;
};

/* `opened` was checked and outlives the table. 0 or -ENOMEM. */
int lease_init(struct lease_table *table, const struct wire_opened *opened);

/* Unmaps everything. Takes a zeroed table. */
void lease_deinit(struct lease_table *table);

/* EXTENT: checks, maps. The descriptor stays the caller's. 0, -EPROTO, -ENOMEM. */
int lease_add_extent(struct lease_table *table, const struct wire_extent *message, int fd);

/* WITHDRAWN: unmaps now, or with the last lease in it. 0, -EPROTO. */
int lease_withdraw(struct lease_table *table, uint32_t number);

/* BATCH: checks, and keeps it until lease_give. 0, -EPROTO. */
int lease_announce(struct lease_table *table, const struct wire_batch *message);

/* Gives the oldest announcement to the application; there must be one. Checks the slot's head.
 * `ret_message` is the announcement. 0, -EPROTO. */
int lease_give(struct lease_table *table, struct penstock_batch *ret_batch,
	struct wire_batch *ret_message);

/* The head of a batch that the application holds, in shared memory; NULL when it holds no such. */
const struct slots_head *lease_head(
	const struct lease_table *table, const struct penstock_batch *batch);

/* Takes a batch back from the application. 0; -EINVAL when it is not held. */
int lease_return(struct lease_table *table, const struct penstock_batch *batch);

/* opened_tail: what follows OPENED in its message: the groups of views, the fields and the cuts of
 * a stream that has them (wire.h). Both ends use it. Pure functions; any thread. */
#pragma once

#include "proto/slots.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct opened_tail {
	uint32_t groups, fields, cuts;
	struct wire_group group[SLOTS_GROUPS_MAX];
	struct wire_field field[SLOTS_FIELDS_MAX];
	struct wire_cut cut[WIRE_CUTS_MAX];
};

enum {
	OPENED_TAIL_BYTES = sizeof(struct wire_opened_tail) +
			    SLOTS_GROUPS_MAX * sizeof(struct wire_group) +
			    SLOTS_FIELDS_MAX * sizeof(struct wire_field) +
			    WIRE_CUTS_MAX * sizeof(struct wire_cut)
};

/* Writes the tail; returns its bytes. 0: the stream has none of these, and no tail is sent. */
size_t opened_tail_write(const struct opened_tail *tail, uint8_t bytes[OPENED_TAIL_BYTES]);

/* Reads `size` bytes; 0 bytes are a tail without anything. False, with nothing written: they are
 * not a tail with counts that are allowed, of exactly the size that these give, in which each name
 * ends within its bytes and each field has bytes. The caller compares the rest with OPENED. */
bool opened_tail_read(const uint8_t *bytes, size_t size, struct opened_tail *ret);

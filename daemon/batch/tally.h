/* tally: which slot holds which batch, and which readers have yet to give it back.
 *
 * A map of this folder:
 *   tally.[ch]    the state of each slot
 *   extent.[ch]   the shared memory of one stream, cut into slots
 *   handout.[ch]  memory that clients have been given, and whether they still have it
 *
 * The states of a slot. Only the functions below change them (event loop only):
 *
 *     FREE ──► FILLING ──► READY ──► LEASED ──► FREE
 *                 │          └────────────────► FREE    (no reader is left that wants it)
 *                 └───────────────────────────► FREE    (complete, but no reader wants it)
 *
 * FREE     no thread or reader uses it
 * FILLING  workers write rows; no reader knows of it
 * READY    complete, not yet leased to any reader
 * LEASED   leased to at least one reader, and at least one has yet to give it back
 *
 * Batches are numbered by `serial`, without gaps. A reader is leased every batch in order,
 * beginning with the one at which it joined. A slot becomes FREE when all its readers have given it
 * back or left. Invariants: a slot that a reader holds is LEASED; a batch that a reader still waits
 * for is in a slot or has not been assigned; `owed` counts the readers that hold the slot's batch
 * or have yet to be leased it, and is never 0 in a complete slot.
 *
 * Pure: no memory, no messages, no clock. tests/model checks all of this exhaustively, over all
 * orders of events of a small world. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TALLY_SLOTS_MAX = 64 };

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_LEASED };

/* Embedded in a client's membership; zeroed before tally_join. */
struct tally_reader {
	struct tally_reader *next_reader;
	uint64_t next; /* serial of the batch that it is leased next */
	uint64_t end; /* serial after the last batch that it wants; UINT64_MAX: no end */
	uint64_t held; /* bit per slot that is leased to it */
};

struct tally {
	uint32_t slots;
	enum slot_state state[TALLY_SLOTS_MAX];
	uint64_t serial[TALLY_SLOTS_MAX]; /* of the batch in a slot that is not FREE */
	uint32_t owed[TALLY_SLOTS_MAX]; /* from READY on: readers that have yet to give it back */
	uint64_t next_serial; /* of the next batch to be assigned */
	struct tally_reader *readers;
};

const char *slot_state_name(enum slot_state state);

/* 1 to TALLY_SLOTS_MAX slots, all FREE; the first batch has serial 0. */
void tally_init(struct tally *tally, uint32_t slots);

/* Gives a FREE slot the next serial, FREE -> FILLING, and returns the slot; -1 when none is FREE.
 */
int tally_assign(struct tally *tally);

/* Call when the slot's last row is written. True: FILLING -> READY. False: none of the present
 * readers wants the batch, so the slot is FREE again, and a reader that joins later cannot have the
 * batch. */
bool tally_filled(struct tally *tally, uint32_t slot);

/* The oldest serial from which on every batch is in a slot or has not been assigned: a reader that
 * begins there misses none. */
uint64_t tally_first(const struct tally *tally);

/* Adds a reader of the batches from `serial`, which is at least tally_first, to before `end`.
 * Several readers that come together may join in any order, as long as no slot is filled in
 * between. */
void tally_join(struct tally *tally, struct tally_reader *reader, uint64_t serial, uint64_t end);

/* The slot with the reader's next batch, if that is complete; else -1. */
int tally_due(const struct tally *tally, const struct tally_reader *reader);

/* Leases `slot`, as tally_due named it, to the reader. */
void tally_lease(struct tally *tally, struct tally_reader *reader, uint32_t slot);

/* Whether the reader holds `slot` with the batch `serial` in it. Takes any numbers. */
bool tally_holds(const struct tally *tally, const struct tally_reader *reader, uint32_t slot,
	uint64_t serial);

/* Takes back a slot that the reader holds. True when the slot is FREE now. */
bool tally_release(struct tally *tally, struct tally_reader *reader, uint32_t slot);

/* Takes back all that the reader holds and all that it was still owed, and removes it. Returns the
 * slots that became FREE, a bit each. */
uint64_t tally_leave(struct tally *tally, struct tally_reader *reader);

/* Whether this reader holds up another one: every slot is complete; the oldest waits for this
 * reader but not for the other one; and the other one wants more and has at most one batch left to
 * read (a trainer that keeps each batch until it has the next one holds one while it waits). If two
 * readers keep the oldest slot, both hold the other one up. */
bool tally_blocks(const struct tally *tally, const struct tally_reader *reader);

/* How many slots are in `state`. */
uint32_t tally_count(const struct tally *tally, enum slot_state state);

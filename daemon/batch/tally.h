/* tally: which slot holds which batch, and who has yet to give it back.
 *
 * Life of a slot, which only the functions below change (event loop only):
 *
 *     FREE ──► FILLING ──► READY ──► LEASED ──► FREE
 *                 │          └────────────────► FREE    (nobody is left who wants it)
 *                 └───────────────────────────► FREE    (complete, but nobody wants it)
 *
 * FREE     nobody reads or writes it
 * FILLING  workers write rows; no reader knows of it
 * READY    complete, not yet leased to anybody
 * LEASED   leased to at least one reader and not yet given back by all that it is owed to
 *
 * Batches are numbered by `serial`, without gaps. Every reader is leased every batch from the one
 * on at which it joined, in order; a slot becomes FREE when each of them has given it back or left.
 * What always holds: a slot that is held by a reader is LEASED; a batch that a reader still waits
 * for is in a slot or has not been assigned; `owed` is the number of readers that have yet to be
 * leased the slot's batch or hold it, and never 0 in a complete slot.
 *
 * Pure: no memory, no messages, no clock. tests/model checks all of it exhaustively, over all
 * orders of events of a small world. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { TALLY_SLOTS_MAX = 64 };

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_LEASED };

struct tally_reader { /* embedded in whatever reads; zeroed before tally_join */
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
	uint64_t next_serial; /* of the batch that is assigned next */
	struct tally_reader *readers;
};

const char *slot_state_name(enum slot_state state);

/* 1 to TALLY_SLOTS_MAX slots, all FREE; the first batch has serial 0. */
void tally_init(struct tally *tally, uint32_t slots);

/* Gives a FREE slot the next serial, FREE -> FILLING; -1 when there is none. */
int tally_assign(struct tally *tally);

/* The slot's last row is written. True: FILLING -> READY. False: nobody who is there wants it, so
 * it is FREE again (and its batch gone for whoever joins later). */
bool tally_filled(struct tally *tally, uint32_t slot);

/* The oldest serial from which on every batch is still in a slot or to come: whoever begins there
 * misses nothing from there on. */
uint64_t tally_first(const struct tally *tally);

/* A reader of the batches from `serial`, which is at least tally_first, to before `end`. Several
 * that come together may join in any order, as long as nothing is filled between. */
void tally_join(struct tally *tally, struct tally_reader *reader, uint64_t serial, uint64_t end);

/* The slot with the reader's next batch, when it is complete; -1. */
int tally_due(const struct tally *tally, const struct tally_reader *reader);

/* Leases `slot`, as tally_due named it, to the reader. */
void tally_lease(struct tally *tally, struct tally_reader *reader, uint32_t slot);

/* Whether the reader holds `slot`, with the batch `serial` in it. Any numbers may be asked for. */
bool tally_holds(const struct tally *tally, const struct tally_reader *reader, uint32_t slot,
	uint64_t serial);

/* Takes back what the reader holds. True when the slot is FREE now. */
bool tally_release(struct tally *tally, struct tally_reader *reader, uint32_t slot);

/* Takes back all that the reader holds and all that it was still owed, and forgets it. The slots
 * that became FREE, a bit each. */
uint64_t tally_leave(struct tally *tally, struct tally_reader *reader);

/* Whether the reader holds back another: every slot is complete, the oldest waits for this reader
 * but not for that one, which wants more and has at most one left to read (who keeps a batch until
 * it has the next holds one while it waits). Two that keep the oldest both do. */
bool tally_blocks(const struct tally *tally, const struct tally_reader *reader);

/* How many slots are in `state`. */
uint32_t tally_count(const struct tally *tally, enum slot_state state);

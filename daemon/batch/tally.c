/* tally: see tally.h. Event loop only. A step that the header does not allow fails an assertion. */
#include "batch/tally.h"

#include <assert.h>
#include <stddef.h>

/* Next states allowed from each state, as a bit mask. */
static const unsigned tally_next[] = {
	[SLOT_FREE] = 1u << SLOT_FILLING,
	[SLOT_FILLING] = 1u << SLOT_READY | 1u << SLOT_FREE,
	[SLOT_READY] = 1u << SLOT_LEASED | 1u << SLOT_FREE,
	[SLOT_LEASED] = 1u << SLOT_FREE,
};

const char *slot_state_name(enum slot_state state)
{
	static const char *const names[] = {"free", "filling", "ready", "leased"};
	return names[state];
}

/* The only place where a slot changes state. */
static void tally_move(struct tally *tally, uint32_t slot, enum slot_state to)
{
	assert(tally_next[tally->state[slot]] & 1u << to);
	tally->state[slot] = to;
}

/* Whether the reader has yet to be leased the batch. */
static bool tally_wants(const struct tally_reader *reader, uint64_t serial)
{
	return serial >= reader->next && serial < reader->end;
}

/* Whether a complete slot waits for the reader: to be leased to it, or to be given back by it. */
static bool tally_waits(const struct tally *tally, const struct tally_reader *reader, uint32_t slot)
{
	return tally_wants(reader, tally->serial[slot]) || reader->held & 1ull << slot;
}

static bool tally_complete(const struct tally *tally, uint32_t slot)
{
	return tally->state[slot] >= SLOT_READY;
}

/* True when that was the last reader. */
static bool tally_give_back(struct tally *tally, uint32_t slot)
{
	assert(tally->owed[slot] > 0);
	if (--tally->owed[slot] > 0)
		return false;
	tally_move(tally, slot, SLOT_FREE);
	return true;
}

void tally_init(struct tally *tally, uint32_t slots)
{
	assert(slots > 0 && slots <= TALLY_SLOTS_MAX);
	*tally = (struct tally){.slots = slots};
}

int tally_assign(struct tally *tally)
{
	for (uint32_t slot = 0; slot < tally->slots; slot++) {
		if (tally->state[slot] != SLOT_FREE)
			continue;
		tally_move(tally, slot, SLOT_FILLING);
		tally->serial[slot] = tally->next_serial++;
		return (int)slot;
	}
	return -1;
}

bool tally_filled(struct tally *tally, uint32_t slot)
{
	assert(slot < tally->slots && tally->state[slot] == SLOT_FILLING);
	uint32_t owed = 0;
	for (const struct tally_reader *r = tally->readers; r; r = r->next_reader)
		owed += tally_wants(r, tally->serial[slot]);
	tally->owed[slot] = owed;
	tally_move(tally, slot, owed ? SLOT_READY : SLOT_FREE);
	return owed > 0;
}

static int tally_find(const struct tally *tally, uint64_t serial)
{
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		if (tally->state[slot] != SLOT_FREE && tally->serial[slot] == serial)
			return (int)slot;
	return -1;
}

uint64_t tally_first(const struct tally *tally)
{
	uint64_t first = tally->next_serial;
	while (first > 0 && tally_find(tally, first - 1) >= 0)
		first--;
	return first;
}

void tally_join(struct tally *tally, struct tally_reader *reader, uint64_t serial, uint64_t end)
{
	assert(!reader->held && serial >= tally_first(tally));
	reader->next = serial;
	reader->end = end;
	reader->next_reader = tally->readers;
	tally->readers = reader;
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		if (tally_complete(tally, slot))
			tally->owed[slot] += tally_wants(reader, tally->serial[slot]);
}

int tally_due(const struct tally *tally, const struct tally_reader *reader)
{
	int slot = reader->next < reader->end ? tally_find(tally, reader->next) : -1;
	return slot >= 0 && tally_complete(tally, (uint32_t)slot) ? slot : -1;
}

void tally_lease(struct tally *tally, struct tally_reader *reader, uint32_t slot)
{
	assert((int)slot == tally_due(tally, reader));
	if (tally->state[slot] == SLOT_READY)
		tally_move(tally, slot, SLOT_LEASED);
	reader->held |= 1ull << slot;
	reader->next++;
}

bool tally_holds(const struct tally *tally, const struct tally_reader *reader, uint32_t slot,
	uint64_t serial)
{
	return slot < tally->slots && reader->held & 1ull << slot && tally->serial[slot] == serial;
}

bool tally_release(struct tally *tally, struct tally_reader *reader, uint32_t slot)
{
	assert(slot < tally->slots && reader->held & 1ull << slot);
	reader->held &= ~(1ull << slot);
	return tally_give_back(tally, slot);
}

static void tally_unlink(struct tally *tally, const struct tally_reader *reader)
{
	struct tally_reader **place = &tally->readers;
	while (*place != reader) {
		assert(*place);
		place = &(*place)->next_reader;
	}
	*place = reader->next_reader;
}

uint64_t tally_leave(struct tally *tally, struct tally_reader *reader)
{
	uint64_t freed = 0;
	tally_unlink(tally, reader);
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		if (tally_complete(tally, slot) && tally_waits(tally, reader, slot) &&
			tally_give_back(tally, slot))
			freed |= 1ull << slot;
	*reader = (struct tally_reader){0};
	return freed;
}

/* How many of the slots wait for the reader; all are complete. */
static uint32_t tally_waiting(const struct tally *tally, const struct tally_reader *reader)
{
	uint32_t waiting = 0;
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		waiting += tally_waits(tally, reader, slot);
	return waiting;
}

bool tally_blocks(const struct tally *tally, const struct tally_reader *reader)
{
	uint32_t oldest = 0;
	bool starves = false;
	for (uint32_t slot = 0; slot < tally->slots; slot++) {
		if (!tally_complete(tally, slot))
			return false;
		if (tally->serial[slot] < tally->serial[oldest])
			oldest = slot;
	}
	for (const struct tally_reader *r = tally->readers; r; r = r->next_reader)
		starves |= r->next < r->end && !tally_waits(tally, r, oldest) &&
			   tally_waiting(tally, r) <= 1;
	return starves && tally_waits(tally, reader, oldest);
}

uint32_t tally_count(const struct tally *tally, enum slot_state state)
{
	uint32_t count = 0;
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		count += tally->state[slot] == state;
	return count;
}

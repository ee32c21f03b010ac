/* state: see state.h. */
#include "model/state.h"

#include <string.h>

enum {
	STATE_SERIAL_BITS = 4,
	STATE_SERIAL_NONE = 15,
	STATE_VALUES = (3 + WORLD_SLOTS) * WORLD_READERS + WORLD_SLOTS + 1
};

/* ---- bits ---- */

struct bits {
	uint64_t word;
	uint32_t used;
	bool lost; /* something did not fit */
};

static void bits_put(struct bits *bits, uint32_t count, uint64_t value)
{
	bits->lost |= value >> count != 0 || bits->used + count > 64;
	bits->word |= value << (bits->used & 63);
	bits->used += count;
}

static uint64_t bits_get(struct bits *bits, uint32_t count)
{
	uint64_t value = bits->word >> bits->used & ((1ull << count) - 1);
	bits->used += count;
	return value;
}

/* ---- serials ---- */

struct serials { /* those referred to, sorted, with the numbers they get */
	uint64_t value[STATE_VALUES], number[STATE_VALUES];
	uint32_t count;
};

static void serials_add(struct serials *serials, uint64_t value)
{
	uint32_t at = serials->count;
	while (at > 0 && serials->value[at - 1] >= value)
		at--;
	if (at < serials->count && serials->value[at] == value)
		return;
	memmove(&serials->value[at + 1], &serials->value[at],
		(serials->count - at) * sizeof serials->value[0]);
	serials->value[at] = value;
	serials->count++;
}

static uint64_t serials_number(const struct serials *serials, uint64_t value)
{
	for (uint32_t i = 0; i < serials->count; i++)
		if (serials->value[i] == value)
			return serials->number[i];
	return STATE_SERIAL_NONE + 1; /* does not fit */
}

/* Gaps are shortened up to `limit`; from there on distances count. */
static void serials_shorten(struct serials *serials, uint64_t limit)
{
	uint64_t number = 0;
	for (uint32_t i = 0; i < serials->count; i++) {
		uint64_t gap = i ? serials->value[i] - serials->value[i - 1] : 0;
		number += serials->value[i] <= limit && gap > 2 ? 2 : gap;
		serials->number[i] = number;
	}
}

/* A reader's own serial: what its daemon gives it next, or what it needs next. */
static uint64_t state_next(const struct reader *r)
{
	return r->attached ? r->tally.next : r->expected;
}

static bool state_has_next(const struct reader *r)
{
	return r->attached || r->phase == READER_LOST ||
	       (r->phase == READER_PENDING && !r->stateless);
}

static bool state_has_end(const struct reader *r)
{
	return r->attached && r->tally.end != UINT64_MAX;
}

static void state_collect(const struct world *world, struct serials *serials)
{
	*serials = (struct serials){0};
	for (uint32_t i = 0; i < world->config->readers; i++) {
		const struct reader *r = &world->reader[i];
		for (uint64_t k = 0; state_has_next(r) && k <= r->left; k++)
			serials_add(serials, state_next(r) + k);
		if (state_has_end(r))
			serials_add(serials, r->tally.end);
	}
	if (world->phase != GROUP_LIVE) {
		serials_shorten(serials, 0);
		return;
	}
	serials_add(serials, world->tally.next_serial);
	for (uint32_t slot = 0; slot < world->tally.slots; slot++)
		if (world->tally.state[slot] != SLOT_FREE)
			serials_add(serials, world->tally.serial[slot]);
	serials_shorten(serials, world->tally.next_serial);
}

/* ---- encoding ---- */

static uint64_t encode_group(
	const struct world *world, const struct serials *serials, bool *ret_lost)
{
	const struct tally *tally = &world->tally;
	struct bits bits = {0};
	bits_put(&bits, 2, world->phase);
	bits_put(&bits, 1, world->started);
	bits_put(&bits, 1, world->draining);
	bits_put(&bits, 1, world->told_end);
	if (world->phase == GROUP_LIVE) {
		bits_put(&bits, STATE_SERIAL_BITS, serials_number(serials, tally->next_serial));
		for (uint32_t slot = 0; slot < tally->slots; slot++) {
			bool used = tally->state[slot] != SLOT_FREE;
			bits_put(&bits, 2, tally->state[slot]);
			bits_put(&bits, STATE_SERIAL_BITS,
				used ? serials_number(serials, tally->serial[slot]) : 0);
			bits_put(
				&bits, 2, tally->state[slot] >= SLOT_READY ? tally->owed[slot] : 0);
		}
	}
	*ret_lost |= bits.lost;
	return bits.word;
}

/* BATCH under way and waiting are one row of slots, since they follow each other. */
static void encode_lists(struct bits *bits, const struct reader *r)
{
	uint8_t slot[2 * WORLD_SLOTS] = {0};
	memcpy(slot, r->waiting.slot, r->waiting.count);
	memcpy(slot + r->waiting.count, r->flight.slot, r->flight.count);
	bits_put(bits, 3, r->waiting.count);
	bits_put(bits, 3, r->flight.count);
	bits_put(bits, 3, r->releases.count);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		bits_put(bits, 2, slot[i]);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		bits_put(bits, 2, i < r->releases.count ? r->releases.slot[i] : 0);
}

static uint64_t encode_reader(const struct reader *r, const struct serials *serials, bool *ret_lost)
{
	struct bits bits = {0};
	uint64_t end = r->phase == READER_PENDING
			       ? r->tally.end == UINT64_MAX ? STATE_SERIAL_NONE : 0
		       : state_has_end(r) ? serials_number(serials, r->tally.end)
					  : STATE_SERIAL_NONE;
	if (r->phase == READER_OUT)
		return 0;
	bits_put(&bits, 3, r->phase);
	bits_put(&bits, 1, r->attached);
	bits_put(&bits, 1, r->ended);
	bits_put(&bits, 1, r->closing);
	bits_put(&bits, 1, r->stateless || r->told);
	bits_put(&bits, 2, r->tail);
	bits_put(&bits, STATE_SERIAL_BITS,
		state_has_next(r) ? serials_number(serials, state_next(r)) : 0);
	bits_put(&bits, STATE_SERIAL_BITS, end);
	bits_put(&bits, WORLD_SLOTS, r->held);
	bits_put(&bits, WORLD_SLOTS, r->phase == READER_LOST ? r->left : r->tally.held);
	bits_put(&bits, WORLD_SLOTS, r->stale);
	bits_put(&bits, WORLD_SLOTS, r->torn);
	encode_lists(&bits, r);
	*ret_lost |= bits.lost;
	return bits.word;
}

/* Readers in descending order of their words. */
static void state_sort(struct state *state, uint32_t readers, uint8_t order[static WORLD_READERS])
{
	uint8_t from[WORLD_READERS] = {0, 1, 2};
	for (uint32_t i = 1; i < readers && i < WORLD_READERS; i++)
		for (uint32_t k = i; k > 0 && state->word[k] < state->word[k + 1]; k--) {
			uint64_t word = state->word[k];
			uint8_t reader = from[k - 1];
			state->word[k] = state->word[k + 1];
			state->word[k + 1] = word;
			from[k - 1] = from[k];
			from[k] = reader;
		}
	for (uint32_t i = 0; i < WORLD_READERS; i++)
		order[from[i]] = (uint8_t)i;
}

static void state_forget_passed(struct world *world)
{
	if (world->phase != GROUP_LIVE)
		return;
	uint64_t first = tally_first(&world->tally);
	for (uint32_t i = 0; i < world->config->readers; i++) {
		struct reader *r = &world->reader[i];
		if (r->phase == READER_LOST && r->expected + r->left < first)
			*r = (struct reader){0};
	}
}

bool state_encode(
	struct world *world, struct state *ret_state, uint8_t ret_order[static WORLD_READERS])
{
	struct serials serials;
	bool lost = false;
	state_forget_passed(world);
	state_collect(world, &serials);
	*ret_state = (struct state){.word[0] = encode_group(world, &serials, &lost)};
	for (uint32_t i = 0; i < world->config->readers; i++)
		ret_state->word[1 + i] = encode_reader(&world->reader[i], &serials, &lost);
	state_sort(ret_state, world->config->readers, ret_order);
	return !lost;
}

/* ---- decoding ---- */

static void decode_group(uint64_t word, struct world *world)
{
	struct bits bits = {.word = word};
	struct tally *tally = &world->tally;
	tally->slots = world->config->slots;
	tally->next_serial = 0;
	world->phase = (enum group_phase)bits_get(&bits, 2);
	world->started = bits_get(&bits, 1);
	world->draining = bits_get(&bits, 1);
	world->told_end = bits_get(&bits, 1);
	if (world->phase == GROUP_LIVE)
		tally->next_serial = bits_get(&bits, STATE_SERIAL_BITS);
	for (uint32_t slot = 0; slot < tally->slots; slot++) {
		bool live = world->phase == GROUP_LIVE;
		tally->state[slot] = live ? (enum slot_state)bits_get(&bits, 2) : SLOT_FREE;
		tally->serial[slot] = live ? bits_get(&bits, STATE_SERIAL_BITS) : 0;
		tally->owed[slot] = live ? (uint32_t)bits_get(&bits, 2) : 0;
	}
}

static void decode_lists(struct bits *bits, struct reader *r)
{
	uint8_t slot[2 * WORLD_SLOTS] = {0};
	r->waiting.count = (uint32_t)bits_get(bits, 3);
	r->flight.count = (uint32_t)bits_get(bits, 3);
	r->releases.count = (uint32_t)bits_get(bits, 3);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		slot[i] = (uint8_t)bits_get(bits, 2);
	memcpy(r->waiting.slot, slot, r->waiting.count);
	memcpy(r->flight.slot, slot + r->waiting.count, r->flight.count);
	for (uint32_t i = 0; i < WORLD_SLOTS; i++)
		r->releases.slot[i] = (uint8_t)bits_get(bits, 2);
}

static uint64_t decode_end(const struct reader *r, uint64_t end)
{
	if (end == STATE_SERIAL_NONE)
		return UINT64_MAX;
	return r->phase == READER_PENDING ? WORLD_FEW : end;
}

static void decode_reader(uint64_t word, struct reader *r)
{
	struct bits bits = {.word = word};
	*r = (struct reader){0};
	if (!word)
		return;
	r->phase = (enum reader_phase)bits_get(&bits, 3);
	r->attached = bits_get(&bits, 1);
	r->ended = bits_get(&bits, 1);
	r->closing = bits_get(&bits, 1);
	bool flag = bits_get(&bits, 1);
	r->stateless = flag && r->phase == READER_PENDING;
	r->told = flag && r->phase != READER_PENDING;
	r->tail = (enum tail)bits_get(&bits, 2);
	uint64_t next = bits_get(&bits, STATE_SERIAL_BITS);
	r->tally.end = decode_end(r, bits_get(&bits, STATE_SERIAL_BITS));
	r->held = (uint8_t)bits_get(&bits, WORLD_SLOTS);
	uint64_t mask = bits_get(&bits, WORLD_SLOTS);
	r->stale = (uint8_t)bits_get(&bits, WORLD_SLOTS);
	r->torn = (uint8_t)bits_get(&bits, WORLD_SLOTS);
	decode_lists(&bits, r);
	r->tally.next = r->attached ? next : 0;
	r->tally.held = r->attached ? mask : 0;
	r->left = r->phase == READER_LOST ? (uint32_t)mask : 0;
	/* world_check has seen that these agree */
	r->expected = r->attached ? next - r->waiting.count - r->flight.count : next;
}

void state_decode(const struct state *state, const struct config *config, struct world *ret_world)
{
	ret_world->config = config;
	ret_world->violated = NULL;
	decode_group(state->word[0], ret_world);
	for (uint32_t i = 0; i < config->readers; i++)
		decode_reader(state->word[1 + i], &ret_world->reader[i]);
	world_link(ret_world);
}

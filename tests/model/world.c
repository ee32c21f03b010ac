/* world: see world.h. The functions named daemon_ do what serve/session/group.c does, those
 * named client_ what libpenstock does; the rest is bookkeeping. */
#include "model/world_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void world_fail(struct world *world, const char *what, const char *format, ...)
{
	if (world->violated)
		return;
	va_list args;
	va_start(args, format);
	world->violated = what;
	(void)vsnprintf(world->detail, sizeof world->detail, format, args);
	va_end(args);
}

/* ---- small helpers ---- */

void list_push(struct list *list, uint32_t slot)
{
	list->slot[list->count++] = (uint8_t)slot;
}

static uint32_t list_pop(struct list *list)
{
	uint32_t slot = list->slot[0];
	list->count--;
	memmove(list->slot, list->slot + 1, list->count);
	return slot;
}

uint32_t list_mask(const struct list *list)
{
	uint32_t mask = 0;
	for (uint32_t i = 0; i < list->count; i++)
		mask |= 1u << list->slot[i];
	return mask;
}

uint32_t reader_reads(const struct reader *r)
{
	return list_mask(&r->flight) | list_mask(&r->waiting) | r->held;
}

bool reader_detached(const struct reader *r)
{
	return r->phase == READER_ON && !r->attached;
}

uint32_t world_members(const struct world *world)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < world->config->readers; i++)
		n += world->reader[i].attached;
	return n;
}

static void reader_clear(struct reader *r)
{
	*r = (struct reader){0};
}

void world_link(struct world *world)
{
	world->tally.readers = NULL;
	for (uint32_t i = world->config->readers; i-- > 0;) {
		struct reader *r = &world->reader[i];
		r->tally.next_reader = r->attached ? world->tally.readers : NULL;
		if (r->attached)
			world->tally.readers = &r->tally;
	}
}

void world_copy(struct world *copy, const struct world *world)
{
	*copy = *world;
	world_link(copy);
}

/* Clears the client's side and the messages to it. */
static void reader_end_client(struct reader *r)
{
	r->flight.count = r->waiting.count = 0;
	r->tail = TAIL_NONE;
	r->held = r->stale = r->torn = 0;
	r->told = false;
	r->expected = 0;
}

void world_init(struct world *world, const struct config *config)
{
	*world = (struct world){.config = config};
}

/* ---- the producer ---- */

/* A slot's head, or its pixels, are no longer those of the batch that readers know. */
static void world_overwrite(struct world *world, uint32_t slot, bool head, bool pixels)
{
	for (uint32_t i = 0; i < world->config->readers; i++) {
		struct reader *r = &world->reader[i];
		uint32_t bit = reader_reads(r) & 1u << slot;
		r->stale |= (uint8_t)(head ? bit : 0);
		r->torn |= (uint8_t)(pixels ? bit : 0);
	}
}

/* Whether any reader wants the next batch to be assigned. */
static bool daemon_wanted(const struct world *world)
{
	bool wanted = false;
	for (const struct tally_reader *t = world->tally.readers; t; t = t->next_reader)
		wanted |= world->tally.next_serial < t->end;
	return wanted && !world->draining;
}

/* One slot's head is written, then workers begin with its rows. */
bool daemon_assign(struct world *world)
{
	int slot = daemon_wanted(world) ? tally_assign(&world->tally) : -1;
	if (slot < 0)
		return false;
	world_overwrite(world, (uint32_t)slot, !world->config->flaw_head_late, true);
	return true;
}

static void daemon_pump(struct world *world)
{
	while (world->config->eager && daemon_assign(world))
		;
}

/* ---- the event loop ---- */

uint32_t reader_in_socket(const struct reader *r)
{
	return r->flight.count + (r->tail != TAIL_NONE);
}

static void daemon_announce(struct world *world, struct reader *r, uint32_t slot)
{
	uint64_t sent = r->expected + r->waiting.count + r->flight.count;
	if (world->tally.serial[slot] != sent)
		world_fail(world, "sequence", "batch %llu is announced where %llu is next",
			(unsigned long long)world->tally.serial[slot], (unsigned long long)sent);
	if (reader_reads(r) & 1u << slot)
		world_fail(world, "announce", "slot %u is announced to a client that has it", slot);
	else
		list_push(&r->flight, slot);
	tally_lease(&world->tally, &r->tally, slot);
	world->leased |= (uint32_t)(world->tally.serial[slot] >= world->fresh) << slot;
}

bool daemon_over(const struct reader *r)
{
	return r->tally.next == r->tally.end;
}

static bool daemon_may_send(const struct world *world, const struct reader *r)
{
	return r->attached && r->phase == READER_ON && !r->ended &&
	       reader_in_socket(r) < world->config->room;
}

static void daemon_serve(struct world *world, struct reader *r)
{
	int slot;
	while (!world->violated && daemon_may_send(world, r) &&
		(slot = tally_due(&world->tally, &r->tally)) >= 0)
		daemon_announce(world, r, (uint32_t)slot);
	if (daemon_may_send(world, r) && daemon_over(r)) {
		r->tail = TAIL_END;
		r->ended = true;
	}
}

void daemon_turn(struct world *world)
{
	if (world->phase != GROUP_LIVE || world->told_end)
		return;
	world->started |= world_members(world) >= world->config->wait_for;
	for (uint32_t i = 0; world->started && i < world->config->readers; i++)
		daemon_serve(world, &world->reader[i]);
}

static bool daemon_turn_pending(const struct world *world)
{
	if (world->phase != GROUP_LIVE || !world->started || world->told_end)
		return false;
	for (uint32_t i = 0; i < world->config->readers; i++) {
		const struct reader *r = &world->reader[i];
		if (daemon_may_send(world, r) &&
			(tally_due(&world->tally, &r->tally) >= 0 || daemon_over(r)))
			return true;
	}
	return false;
}

void daemon_filled(struct world *world, uint32_t slot)
{
	if (world->config->flaw_head_late)
		world_overwrite(world, slot, true, false);
	(void)tally_filled(&world->tally, slot);
	daemon_pump(world);
	daemon_turn(world);
}

bool daemon_may_tell_end(const struct world *world)
{
	return world->phase == GROUP_LIVE && world->draining && !world->told_end &&
	       tally_count(&world->tally, SLOT_FILLING) == 0;
}

/* The daemon was asked to end, and no slot is being filled any more: all batches are announced. */
void daemon_tell_end(struct world *world)
{
	world->told_end = true;
	for (uint32_t i = 0; i < world->config->readers; i++) {
		struct reader *r = &world->reader[i];
		bool full = reader_in_socket(r) >= world->config->room;
		if (!r->attached || r->phase != READER_ON || r->ended)
			continue;
		r->tail = full ? TAIL_HANGUP : TAIL_END;
		r->ended = true;
	}
}

/* The stream is freed whole, with what workers still write. */
static void daemon_free_stream(struct world *world)
{
	world->phase = GROUP_NONE;
	world->started = world->draining = world->told_end = false;
	for (uint32_t slot = 0; slot < world->tally.slots; slot++)
		world->tally.state[slot] = SLOT_FREE;
	world->tally.next_serial = 0;
}

/* No reader is left. */
static void daemon_end_group(struct world *world)
{
	const struct tally *tally = &world->tally;
	if (tally_count(tally, SLOT_READY) + tally_count(tally, SLOT_LEASED) > 0)
		world_fail(world, "lost-slot", "nobody reads, but a complete slot is not free");
	daemon_free_stream(world);
}

static void daemon_leave(struct world *world, struct reader *r)
{
	uint64_t before = 0, after = 0;
	for (uint32_t slot = 0; slot < world->tally.slots; slot++)
		before |= (uint64_t)(world->tally.state[slot] == SLOT_FREE) << slot;
	uint64_t freed = tally_leave(&world->tally, &r->tally);
	for (uint32_t slot = 0; slot < world->tally.slots; slot++)
		after |= (uint64_t)(world->tally.state[slot] == SLOT_FREE) << slot;
	if (freed != (before ^ after))
		world_fail(world, "freed", "leaving freed other slots than it says");
	r->attached = r->ended = r->closing = false;
	r->releases.count = 0;
}

/* Removes a member that has gone, or has to go. */
void daemon_drop(struct world *world, struct reader *r)
{
	daemon_leave(world, r);
	if (r->phase == READER_GONE)
		reader_clear(r);
	if (world_members(world) == 0) {
		daemon_end_group(world);
		return;
	}
	daemon_pump(world);
	daemon_turn(world);
}

void daemon_reads(struct world *world, struct reader *r)
{
	if (r->releases.count == 0) {
		daemon_drop(world, r); /* CLOSE */
		return;
	}
	uint32_t slot = list_pop(&r->releases);
	if (!tally_holds(&world->tally, &r->tally, slot, world->tally.serial[slot])) {
		world_fail(world, "refused",
			"the release of slot %u counts as a breach of protocol", slot);
		return;
	}
	bool freed = tally_release(&world->tally, &r->tally, slot);
	if (freed != (world->tally.state[slot] == SLOT_FREE))
		world_fail(world, "freed", "releasing slot %u says otherwise than it did", slot);
	daemon_pump(world);
	daemon_turn(world);
}

/* Its leases end with the ERROR; where the socket is full, with the connection. */
void daemon_detach(struct world *world, struct reader *r)
{
	bool full = reader_in_socket(r) >= world->config->room;
	if (!world->config->flaw_silent)
		r->tail = full ? TAIL_HANGUP : TAIL_DETACHED;
	daemon_drop(world, r);
	r->expected = 0;
}

/* ---- joining ---- */

static void daemon_attach(struct world *world, struct reader *r, uint64_t serial, uint64_t end)
{
	reader_clear(r);
	r->phase = READER_ON;
	r->attached = true;
	r->expected = serial;
	(void)tally_join(&world->tally, &r->tally, serial, end);
}

static void daemon_join(struct world *world, struct reader *r, uint64_t serial, uint64_t end)
{
	if (serial < tally_first(&world->tally)) { /* -ESTALE */
		reader_clear(r);
		return;
	}
	daemon_attach(world, r, serial, end);
	daemon_pump(world);
	daemon_turn(world);
}

/* The first batch that a waiting reader needs. */
static uint64_t daemon_first_needed(const struct world *world)
{
	uint64_t first = WORLD_ENDLESS;
	for (uint32_t i = 0; i < world->config->readers; i++) {
		const struct reader *r = &world->reader[i];
		bool needs = r->phase == READER_PENDING && !r->stateless;
		if (needs && (first == WORLD_ENDLESS ||
				     (r->expected < first) != world->config->flaw_newest))
			first = r->expected;
	}
	return first;
}

/* A stream begins with the batch that is needed first, which gets serial 0. A reader that needs an
 * earlier one, and did not come in time, will be refused. */
static void daemon_begin_stream(struct world *world)
{
	uint64_t first = daemon_first_needed(world);
	tally_init(&world->tally, world->config->slots);
	world->phase = GROUP_LIVE;
	for (uint32_t i = 0; i < world->config->readers && first != WORLD_ENDLESS; i++) {
		struct reader *r = &world->reader[i];
		if (r->phase != READER_LOST && (r->phase != READER_PENDING || r->stateless))
			continue;
		if (r->phase == READER_PENDING && r->expected < first)
			world_fail(world, "passed",
				"the group begins after a batch that one who "
				"came in time needs");
		if (r->expected < first)
			reader_clear(r);
		else
			r->expected -= first;
	}
}

static void daemon_begin(struct world *world)
{
	daemon_begin_stream(world);
	for (uint32_t i = 0; i < world->config->readers; i++) {
		struct reader *r = &world->reader[i];
		if (r->phase != READER_PENDING)
			continue;
		uint64_t serial = r->stateless ? tally_first(&world->tally) : r->expected;
		if (serial < tally_first(&world->tally))
			world_fail(world, "passed", "batch %llu is gone before anybody had it",
				(unsigned long long)serial);
		else
			daemon_attach(world, r, serial, r->tally.end);
		daemon_pump(world);
	}
	daemon_turn(world);
}

static void reader_pend(struct world *world, struct reader *r, bool stateless, uint64_t serial)
{
	uint64_t end = r->tally.end;
	reader_clear(r);
	r->phase = READER_PENDING;
	r->stateless = stateless;
	r->expected = serial;
	r->tally.end = end;
	if (world->phase == GROUP_NONE)
		world->phase = GROUP_GATHER;
}

static void reader_join(struct world *world, struct reader *r, uint32_t ahead, bool few)
{
	if (world->phase == GROUP_LIVE) {
		uint64_t serial = tally_first(&world->tally) + ahead;
		daemon_join(world, r, serial, few ? serial + WORLD_FEW : WORLD_ENDLESS);
		return;
	}
	r->tally.end = few ? WORLD_FEW : WORLD_ENDLESS;
	reader_pend(world, r, ahead == 0 || few, ahead);
}

static void reader_back(struct world *world, struct reader *r)
{
	if (world->phase == GROUP_LIVE)
		daemon_join(world, r, r->expected, WORLD_ENDLESS);
	else {
		r->tally.end = WORLD_ENDLESS;
		reader_pend(world, r, false, r->expected);
	}
}

/* ---- ends of daemon and stream ---- */

/* A client may still use the batches that it has of a daemon that has gone, or of a stream that
 * failed: no thread writes there any more. Then it comes back for the next batch that it needs. */
static void reader_lose(struct reader *r)
{
	uint32_t left = r->waiting.count + r->flight.count;
	uint64_t expected = r->expected;
	bool lost = (r->phase == READER_ON && r->attached && r->tally.end == WORLD_ENDLESS) ||
		    (r->phase == READER_PENDING && !r->stateless);
	bool was_lost = r->phase == READER_LOST;
	if (was_lost)
		return;
	reader_clear(r);
	if (!lost)
		return;
	r->phase = READER_LOST;
	r->expected = expected;
	r->left = left;
}

static void world_lose(struct world *world)
{
	for (uint32_t i = 0; i < world->config->readers; i++)
		reader_lose(&world->reader[i]);
	world->tally.readers = NULL;
}

static void daemon_dies(struct world *world)
{
	world_lose(world);
	daemon_free_stream(world);
}

static void daemon_fails(struct world *world)
{
	struct reader copy[WORLD_READERS];
	memcpy(copy, world->reader, sizeof copy);
	for (uint32_t i = 0; i < world->config->readers; i++)
		if (world->reader[i].attached)
			daemon_leave(world, &world->reader[i]);
	daemon_end_group(world);
	memcpy(world->reader, copy, sizeof copy);
	world_lose(world);
}

/* ---- the client and its application ---- */

void client_reads(struct world *world, struct reader *r)
{
	if (r->flight.count == 0) { /* END, ERROR or the hang-up */
		r->told |= r->tail != TAIL_END;
		r->tail = TAIL_NONE;
		return;
	}
	uint32_t slot = list_pop(&r->flight);
	if ((list_mask(&r->waiting) | r->held) & 1u << slot)
		world_fail(world, "announce", "the client is told of slot %u, which it still has",
			slot);
	else
		list_push(&r->waiting, slot);
}

/* The head in the slot is not that of the announcement. This may happen only to a detached client,
 * which must find the reason in its socket, or the daemon would seem broken. */
static void client_finds_stale(struct world *world, struct reader *r, uint32_t slot)
{
	bool why = r->told || r->tail == TAIL_DETACHED || r->tail == TAIL_HANGUP;
	if (r->attached || !why)
		world_fail(world, "untold", "slot %u has another batch and nothing says why", slot);
	r->told = true;
	r->tail = TAIL_NONE;
	uint32_t gone = list_mask(&r->flight) | list_mask(&r->waiting);
	r->flight.count = r->waiting.count = 0;
	r->stale &= (uint8_t)~gone;
	r->torn &= (uint8_t)~gone;
}

void client_gives(struct world *world, struct reader *r)
{
	uint32_t slot = r->waiting.slot[0];
	if (r->stale & 1u << slot) {
		client_finds_stale(world, r, slot);
		return;
	}
	(void)list_pop(&r->waiting);
	if (r->attached && world->tally.serial[slot] != r->expected)
		world_fail(world, "sequence",
			"the application is given batch %llu where %llu is "
			"next",
			(unsigned long long)world->tally.serial[slot],
			(unsigned long long)r->expected);
	r->held |= (uint8_t)(1u << slot);
	r->expected += r->attached;
}

/* The application has read the batch; the client compares the head before it reports success. */
void client_releases(struct world *world, struct reader *r, uint32_t slot)
{
	uint8_t bit = (uint8_t)(1u << slot);
	if (r->stale & bit && r->attached)
		world_fail(world, "overwritten", "slot %u was overwritten under its reader", slot);
	if (!(r->stale & bit) && r->torn & bit)
		world_fail(
			world, "torn", "what was read in slot %u was overwritten, unnoticed", slot);
	r->held &= (uint8_t)~bit;
	r->stale &= (uint8_t)~bit;
	r->torn &= (uint8_t)~bit;
	if (r->attached) /* else it is passed over */
		list_push(&r->releases, slot);
}

/* A group that no reader waits for any more does not begin. */
static void daemon_forgets(struct world *world)
{
	bool awaited = false;
	for (uint32_t i = 0; i < world->config->readers; i++)
		awaited |= world->reader[i].phase == READER_PENDING;
	if (world->phase != GROUP_LIVE && !awaited)
		world->phase = GROUP_NONE;
}

static void client_ends(struct world *world, struct reader *r, bool closing)
{
	if (!r->attached) {
		reader_clear(r);
		daemon_forgets(world);
		return;
	}
	reader_end_client(r);
	r->phase = READER_GONE;
	r->closing = closing;
}

/* ---- what may happen ---- */

struct event_list {
	struct event *event;
	uint32_t count;
};

static void event_add(struct event_list *list, uint32_t kind, uint32_t reader, uint32_t argument)
{
	list->event[list->count++] =
		(struct event){(uint8_t)kind, (uint8_t)reader, (uint8_t)argument};
}

static void events_of_group(const struct world *world, struct event_list *list)
{
	const struct config *config = world->config;
	const struct tally *tally = &world->tally;
	if (world->phase == GROUP_GATHER)
		event_add(list, EVENT_BEGIN, 0, 0);
	if (config->dies && world->phase != GROUP_NONE)
		event_add(list, EVENT_DEATH, 0, 0);
	if (world->phase != GROUP_LIVE)
		return;
	if (!config->eager && daemon_wanted(world) && tally_count(tally, SLOT_FREE))
		event_add(list, EVENT_ASSIGN, 0, 0);
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		if (tally->state[slot] == SLOT_FILLING)
			event_add(list, EVENT_FILLED, 0, slot);
	if (daemon_turn_pending(world))
		event_add(list, EVENT_TURN, 0, 0);
	if (config->drains && !world->draining)
		event_add(list, EVENT_DRAIN, 0, 0);
	if (daemon_may_tell_end(world))
		event_add(list, EVENT_TELL_END, 0, 0);
	if (config->dies)
		event_add(list, EVENT_FAIL, 0, 0);
}

static void events_of_joining(const struct world *world, uint32_t i, struct event_list *list)
{
	uint64_t window = 0;
	event_add(list, EVENT_JOIN, i, 0);
	if (world->config->ends)
		event_add(list, EVENT_JOIN_FEW, i, 0);
	if (world->config->ahead && world->phase == GROUP_LIVE)
		window = world->tally.next_serial - tally_first(&world->tally);
	for (uint64_t ahead = 1; ahead <= window + world->config->ahead; ahead++)
		event_add(list, EVENT_JOIN_AT, i, (uint32_t)ahead);
}

static void events_of_running(const struct world *world, uint32_t i, struct event_list *list)
{
	const struct reader *r = &world->reader[i];
	if (reader_in_socket(r))
		event_add(list, EVENT_READ, i, 0);
	if (r->waiting.count)
		event_add(list, EVENT_NEXT, i, 0);
	for (uint32_t slot = 0; slot < world->config->slots; slot++)
		if (r->held & 1u << slot)
			event_add(list, EVENT_RELEASE, i, slot);
	event_add(list, EVENT_CLOSE, i, 0);
	if (r->attached)
		event_add(list, EVENT_KILL, i, 0);
}

bool daemon_may_detach(const struct world *world, const struct reader *r)
{
	return world->config->detach && world->started && !world->draining && r->attached &&
	       r->phase == READER_ON && tally_blocks(&world->tally, &r->tally);
}

static void events_of_reader(const struct world *world, uint32_t i, struct event_list *list)
{
	const struct reader *r = &world->reader[i];
	if (r->phase == READER_OUT && !world->draining)
		events_of_joining(world, i, list);
	if (r->phase == READER_LOST && !world->draining)
		event_add(list, EVENT_BACK, i, 0);
	if (r->phase == READER_LOST || r->phase == READER_PENDING)
		event_add(list, EVENT_KILL, i, 0);
	if (r->phase == READER_LOST && r->left)
		event_add(list, EVENT_TAKE_LEFT, i, 0);
	if (r->phase == READER_ON)
		events_of_running(world, i, list);
	if (r->attached && (r->releases.count || r->closing))
		event_add(list, EVENT_DAEMON_READS, i, 0);
	if (r->phase == READER_GONE)
		event_add(list, EVENT_DAEMON_NOTICES, i, 0);
	if (daemon_may_detach(world, r))
		event_add(list, EVENT_DETACH, i, 0);
}

uint32_t world_events(const struct world *world, struct event ret_events[static WORLD_EVENTS])
{
	struct event_list list = {.event = ret_events};
	events_of_group(world, &list);
	for (uint32_t i = 0; i < world->config->readers; i++)
		events_of_reader(world, i, &list);
	return list.count;
}

static void world_apply_group(struct world *world, struct event event)
{
	switch (event.kind) {
	case EVENT_BEGIN:
		daemon_begin(world);
		break;
	case EVENT_ASSIGN:
		(void)daemon_assign(world);
		break;
	case EVENT_FILLED:
		daemon_filled(world, event.argument);
		break;
	case EVENT_TURN:
		daemon_turn(world);
		break;
	case EVENT_DRAIN:
		world->draining = true;
		break;
	case EVENT_TELL_END:
		daemon_tell_end(world);
		break;
	case EVENT_FAIL:
		daemon_fails(world);
		break;
	default:
		daemon_dies(world);
		break;
	}
}

static void world_apply_reader(struct world *world, struct reader *r, struct event event)
{
	switch (event.kind) {
	case EVENT_READ:
		client_reads(world, r);
		break;
	case EVENT_NEXT:
		client_gives(world, r);
		break;
	case EVENT_RELEASE:
		client_releases(world, r, event.argument);
		break;
	case EVENT_CLOSE:
	case EVENT_KILL:
		client_ends(world, r, event.kind == EVENT_CLOSE);
		break;
	case EVENT_TAKE_LEFT:
		r->expected++;
		r->left--;
		break;
	case EVENT_DAEMON_READS:
		daemon_reads(world, r);
		break;
	case EVENT_DAEMON_NOTICES:
		daemon_drop(world, r);
		break;
	default:
		daemon_detach(world, r);
		break;
	}
}

void world_apply(struct world *world, struct event event)
{
	struct reader *r = &world->reader[event.reader];
	if (event.kind < EVENT_JOIN)
		world_apply_group(world, event);
	else if (event.kind == EVENT_BACK)
		reader_back(world, r);
	else if (event.kind <= EVENT_JOIN_FEW)
		reader_join(world, r, event.argument, event.kind == EVENT_JOIN_FEW);
	else
		world_apply_reader(world, r, event);
}

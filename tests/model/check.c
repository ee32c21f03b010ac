/* check: the conditions of every state of a world, and that from every state all readers that
 * continue are served. */
#include "model/world_impl.h"

/* ---- conditions ---- */

static void check_owed(struct world *world, uint32_t slot)
{
	const struct tally *tally = &world->tally;
	uint64_t serial = tally->serial[slot];
	uint32_t owed = 0, holders = 0;
	for (uint32_t i = 0; i < world->config->readers; i++) {
		const struct reader *r = &world->reader[i];
		bool holds = r->tally.held & 1ull << slot;
		bool wants = r->tally.next <= serial && serial < r->tally.end;
		holders += r->attached && holds;
		owed += r->attached && (holds || wants);
	}
	if (tally->owed[slot] != owed)
		world_fail(world, "owed", "slot %u is owed by %u readers, the tally says %u", slot,
			owed, tally->owed[slot]);
	if (owed == 0)
		world_fail(world, "lost-slot", "slot %u is kept, and nobody wants it", slot);
	if (holders && tally->state[slot] != SLOT_LEASED)
		world_fail(world, "overwritten", "slot %u is held, and not leased", slot);
}

static void check_slot(struct world *world, uint32_t slot)
{
	const struct tally *tally = &world->tally;
	if (tally->state[slot] == SLOT_FREE)
		return;
	if (tally->serial[slot] >= tally->next_serial)
		world_fail(world, "serial", "slot %u has a serial that was not assigned", slot);
	for (uint32_t other = 0; other < slot; other++)
		if (tally->state[other] != SLOT_FREE && tally->serial[other] == tally->serial[slot])
			world_fail(world, "serial", "slots %u and %u have the same serial", other,
				slot);
	if (tally->state[slot] >= SLOT_READY)
		check_owed(world, slot);
}

/* Where the reader's next batches are: in slots, or not assigned yet. */
static void check_next(struct world *world, uint32_t i)
{
	const struct reader *r = &world->reader[i];
	const struct tally *tally = &world->tally;
	for (uint64_t s = r->tally.next; s < tally->next_serial && s < r->tally.end; s++) {
		bool there = false;
		for (uint32_t slot = 0; slot < tally->slots; slot++)
			there |= tally->state[slot] != SLOT_FREE && tally->serial[slot] == s;
		if (!there)
			world_fail(world, "gone", "reader %u waits for batch %llu, which has gone",
				i, (unsigned long long)s);
	}
}

/* The daemon's account of a member's leases agrees with what the member has and is under way. */
static void check_leases(struct world *world, uint32_t i)
{
	const struct reader *r = &world->reader[i];
	uint32_t reads = reader_reads(r), back = list_mask(&r->releases);
	if ((reads | back) & ~r->tally.held || reads & back)
		world_fail(world, "overwritten",
			"reader %u has or gives back slots that the daemon does not count as its",
			i);
	if (r->phase == READER_ON && r->tally.held != (reads | back))
		world_fail(world, "lost-slot", "reader %u is thought to hold what it has not", i);
	for (uint32_t slot = 0; slot < world->tally.slots; slot++)
		if (reads & 1u << slot && world->tally.state[slot] != SLOT_LEASED)
			world_fail(world, "overwritten",
				"slot %u is %s while reader %u may read it", slot,
				slot_state_name(world->tally.state[slot]), i);
	if (!world->started && reads)
		world_fail(world, "early", "a batch was announced before all were there");
}

/* What the application is given next, what waits for it, what is under way and what the daemon
 * sends next follow each other. */
static void check_sequence(struct world *world, uint32_t i)
{
	const struct reader *r = &world->reader[i];
	uint64_t serial = r->expected;
	for (uint32_t k = 0; k < r->waiting.count + r->flight.count; k++, serial++) {
		uint32_t slot = k < r->waiting.count ? r->waiting.slot[k]
						     : r->flight.slot[k - r->waiting.count];
		if (world->tally.serial[slot] != serial)
			world_fail(world, "sequence",
				"reader %u has slot %u with batch %llu where %llu is next", i, slot,
				(unsigned long long)world->tally.serial[slot],
				(unsigned long long)serial);
	}
	if (r->tally.next != serial)
		world_fail(world, "sequence", "reader %u is sent batch %llu next, and needs %llu",
			i, (unsigned long long)r->tally.next, (unsigned long long)serial);
}

static void check_list(struct world *world)
{
	uint32_t listed = 0, there = 0;
	for (const struct tally_reader *t = world->tally.readers; t; t = t->next_reader) {
		listed++;
		for (uint32_t i = 0; i < world->config->readers; i++)
			there += t == &world->reader[i].tally && world->reader[i].attached;
	}
	if (listed != there || there != world_members(world))
		world_fail(world, "list", "the tally knows %u of %u readers, and %u others", there,
			world_members(world), listed - there);
}

void world_check(struct world *world)
{
	if (world->violated || world->phase != GROUP_LIVE)
		return;
	check_list(world);
	for (uint32_t slot = 0; slot < world->tally.slots; slot++)
		check_slot(world, slot);
	for (uint32_t i = 0; i < world->config->readers; i++) {
		if (!world->reader[i].attached)
			continue;
		check_leases(world, i);
		check_next(world, i);
		if (world->reader[i].phase == READER_ON)
			check_sequence(world, i);
	}
}

/* ---- progress ---- */

/* A run in which all readers that are not stopped continue. */
struct fair {
	struct world world;
	uint32_t stopped; /* bit per reader */
	bool keeps; /* readers keep a batch until they have the next one */
	bool looks; /* call world_check after every step, to find the first fault */
	bool aims[WORLD_READERS];
	uint64_t goal[WORLD_READERS]; /* the serial that each reader with an aim must reach */
	bool slots; /* all slots must be leased again */
};

static void fair_look(struct fair *fair)
{
	if (fair->looks)
		world_check(&fair->world);
}

static void fair_client(struct fair *fair, struct reader *r)
{
	struct world *world = &fair->world;
	while (reader_in_socket(r))
		client_reads(world, r);
	while (r->waiting.count && !world->violated)
		client_gives(world, r);
	for (uint32_t slot = 0; slot < world->config->slots; slot++) {
		bool newest = r->attached && world->tally.serial[slot] + 1 == r->expected;
		if (r->held & 1u << slot && !(fair->keeps && newest && !r->ended))
			client_releases(world, r, slot);
	}
}

static void fair_reader(struct fair *fair, uint32_t i)
{
	struct world *world = &fair->world;
	struct reader *r = &world->reader[i];
	bool stopped = fair->stopped & 1u << i;
	if (r->phase == READER_ON && !stopped)
		fair_client(fair, r);
	fair_look(fair);
	while (r->attached && r->releases.count && !world->violated) {
		daemon_reads(world, r);
		fair_look(fair);
	}
	if (r->phase == READER_GONE)
		daemon_drop(world, r);
	else if (stopped && daemon_may_detach(world, r))
		daemon_detach(world, r);
	fair_look(fair);
}

static void fair_round(struct fair *fair)
{
	struct world *world = &fair->world;
	while (daemon_assign(world))
		;
	fair_look(fair);
	for (uint32_t slot = world->tally.slots; slot-- > 0;)
		if (world->tally.state[slot] == SLOT_FILLING) {
			daemon_filled(world, slot);
			fair_look(fair);
		}
	daemon_turn(world);
	if (daemon_may_tell_end(world))
		daemon_tell_end(world);
	for (uint32_t i = 0; i < world->config->readers; i++)
		fair_reader(fair, i);
	daemon_turn(world);
}

/* Sets what must be reached from here. */
static void fair_aim(struct fair *fair)
{
	struct world *world = &fair->world;
	for (uint32_t i = 0; i < world->config->readers; i++) {
		const struct reader *r = &world->reader[i];
		if (!r->attached || r->phase != READER_ON || fair->stopped & 1u << i)
			continue;
		uint64_t goal = r->expected + world->tally.slots + 1;
		if (world->draining)
			goal = r->tally.next;
		fair->aims[i] = true;
		fair->goal[i] = goal < r->tally.end ? goal : r->tally.end;
		fair->slots |= r->tally.end == WORLD_ENDLESS && !world->draining && !fair->stopped;
	}
	world->leased = 0;
	world->fresh = world->tally.next_serial;
}

static bool fair_reached(const struct fair *fair, uint32_t i)
{
	const struct world *world = &fair->world;
	const struct reader *r = &world->reader[i];
	bool over = r->attached && (daemon_over(r) || world->draining);
	return r->expected >= fair->goal[i] && (!over || (r->ended && r->tail == TAIL_NONE));
}

static bool fair_done(const struct fair *fair)
{
	bool done = !fair->slots || fair->world.leased == (1u << fair->world.tally.slots) - 1;
	for (uint32_t i = 0; i < fair->world.config->readers; i++)
		done &= !fair->aims[i] || fair_reached(fair, i);
	return done;
}

static void fair_complain(const struct fair *fair, struct world *world)
{
	if (fair->world.violated) {
		world_fail(world, fair->world.violated, "when all go on: %s", fair->world.detail);
		return;
	}
	for (uint32_t i = 0; i < world->config->readers; i++)
		if (fair->aims[i] && !fair_reached(fair, i))
			world_fail(world, "progress",
				"all go on (stopped: mask %x, %s), but reader %u comes to batch "
				"%llu, not to %llu",
				fair->stopped,
				fair->keeps ? "each keeps its last batch" : "all is given back", i,
				(unsigned long long)fair->world.reader[i].expected,
				(unsigned long long)fair->goal[i]);
	world_fail(world, "lost-slot", "all go on, but only slots %#x are leased again",
		fair->world.leased);
}

/* False when something is wrong, or no reader makes progress. */
static bool fair_run(struct fair *fair, const struct world *from)
{
	world_copy(&fair->world, from);
	fair_aim(fair);
	for (uint32_t round = 0; round < 4 * from->config->slots + 8; round++) {
		fair_round(fair);
		if (fair->world.violated)
			return false;
		if (fair_done(fair))
			return true;
	}
	return false;
}

static void check_fair(struct world *world, uint32_t stopped, bool keeps)
{
	struct fair fair = {.stopped = stopped, .keeps = keeps};
	if (fair_run(&fair, world))
		return;
	struct fair again = {.stopped = stopped, .keeps = keeps, .looks = true};
	(void)fair_run(&again, world);
	fair_complain(&again, world);
}

static void check_leaver(struct world *world, struct reader *r)
{
	daemon_drop(world, r);
	world_check(world);
}

static void check_leaving(struct world *world)
{
	struct world copy;
	world_copy(&copy, world);
	for (uint32_t i = 0; i < world->config->readers; i++)
		if (copy.reader[i].attached)
			check_leaver(&copy, &copy.reader[i]);
	if (copy.violated)
		world_fail(world, copy.violated, "when all leave: %s", copy.detail);
}

void world_progress(struct world *world)
{
	if (world->violated || world->phase != GROUP_LIVE)
		return;
	uint32_t running = 0;
	for (uint32_t i = 0; i < world->config->readers; i++)
		running |=
			(uint32_t)(world->reader[i].attached && world->reader[i].phase == READER_ON)
			<< i;
	for (uint32_t stopped = 0; world->started && stopped < running; stopped++) {
		if (stopped & ~running || (stopped && !world->config->detach))
			continue;
		check_fair(world, stopped, false);
		if (world->config->slots > 1)
			check_fair(world, stopped, true);
	}
	check_leaving(world);
}

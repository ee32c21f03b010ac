/* world: a small world around the daemon's tally, one event at a time.
 *
 * A map of this folder:
 *   world.[ch]     the readers and slots of a world, which events may happen next, and their effect
 *   world_impl.h   declarations that world.c, check.c and words.c share
 *   check.c        the conditions that hold in every state
 *   words.c        events and worlds as text
 *   state.[ch]     a world as a few machine words, the same for all worlds that behave the same
 *   search.[ch]    breadth first through all orders of events, with a shortest path to a fault
 *   slots.c        the worlds that are searched, and the command
 *   flaws/         flaws that are put into copies of the tally: each must be found
 *
 * The tally is the daemon's code (daemon/batch/tally.c). Around it, as small as possible: a
 * producer, the event loop as serve/session/group.c runs it (a turn is one step: what a client
 * could see in the middle of it, it also sees by reading its socket later), and readers with the
 * messages to and from them, their lease table (client/lib/lease.h) and an application that reads.
 *
 * Left out because they add no behavior: the rows of a batch (only the last one counts), OPEN and
 * OPENED (an application that waits for the answer does nothing else), SIGSTOP as an event (a
 * stopped reader is one that never has a turn; world_progress checks that the others go on). */
#pragma once

#include "batch/tally.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_SLOTS = 4, WORLD_READERS = 3, WORLD_EVENTS = 64, WORLD_TEXT = 200 };
enum { WORLD_FEW = 2 }; /* batches that EVENT_JOIN_FEW wants */

struct config {
	const char *name;
	uint32_t slots, readers;
	uint32_t wait_for; /* members that the first batch waits for */
	uint32_t room; /* messages that a client's socket takes */
	uint32_t ahead; /* how many batches a reader with a state may be ahead of the others */
	bool detach; /* laggard: detach */
	bool dies; /* the daemon may be killed, and the stream may fail */
	bool drains; /* the daemon may be asked to end */
	bool ends; /* a reader that joins may want only two batches */
	bool eager; /* FREE slots are assigned in the same turn, not some time later */
	/* Flaws of this world, for the tests of the search. */
	bool flaw_head_late; /* a slot's serial changes after its pixels */
	bool flaw_silent; /* a laggard is not told */
	bool flaw_newest; /* a group begins with the batch that is needed last */
};

struct list { /* of slots, oldest first */
	uint32_t count;
	uint8_t slot[WORLD_SLOTS];
};

enum reader_phase {
	READER_OUT, /* not there */
	READER_PENDING, /* waits for the group to begin */
	READER_ON, /* runs; attached or detached */
	READER_LOST, /* runs, but its daemon is gone */
	READER_GONE, /* closed or killed; the daemon has not noticed */
};

/* What follows the batches that are in the socket. */
enum tail { TAIL_NONE, TAIL_END, TAIL_DETACHED, TAIL_HANGUP };

struct reader {
	enum reader_phase phase;
	/* the daemon's */
	struct tally_reader tally;
	bool attached; /* in the tally */
	bool ended; /* END was sent */
	/* on its way */
	struct list flight; /* BATCH */
	enum tail tail;
	struct list releases; /* RELEASE */
	bool closing; /* CLOSE */
	/* the client's */
	struct list waiting; /* read, not yet given to the application */
	uint8_t held; /* bit per slot: given to the application, which reads */
	uint8_t stale; /* bit per slot under way, waiting or held: its head has another serial now
			*/
	uint8_t torn; /* likewise: some of its pixels are another batch's */
	bool told; /* that it is detached */
	bool stateless; /* PENDING: begins wherever the group does */
	uint64_t expected; /* serial that the application must be given next */
	uint32_t left; /* LOST: batches that it has and may still take */
};

enum group_phase {
	GROUP_NONE,
	GROUP_GATHER, /* a reader waits for it to begin */
	GROUP_LIVE,
};

struct world {
	const struct config *config;
	enum group_phase phase;
	bool started;
	bool draining, told_end; /* asked to end; has said so to all members */
	struct tally tally;
	struct reader reader[WORLD_READERS];
	uint32_t leased; /* bit per slot: leased since it was last cleared with serial `fresh` or
			    later */
	uint64_t fresh;
	const char *violated; /* the first thing found wrong, NULL when nothing is */
	char detail[WORLD_TEXT];
};

enum event_kind {
	EVENT_BEGIN,
	EVENT_ASSIGN,
	EVENT_FILLED, /* argument: slot */
	EVENT_TURN,
	EVENT_DRAIN,
	EVENT_TELL_END,
	EVENT_FAIL,
	EVENT_DEATH,
	EVENT_JOIN, /* without a state */
	EVENT_JOIN_AT, /* argument: how far from the first serial */
	EVENT_JOIN_FEW, /* without a state, for two batches */
	EVENT_BACK,
	EVENT_TAKE_LEFT,
	EVENT_READ,
	EVENT_NEXT,
	EVENT_RELEASE, /* argument: slot */
	EVENT_CLOSE,
	EVENT_KILL,
	EVENT_DAEMON_READS,
	EVENT_DAEMON_NOTICES,
	EVENT_DETACH,
	EVENT_KINDS,
};

struct event {
	uint8_t kind, reader, argument;
};

/* No reader, no group. */
void world_init(struct world *world, const struct config *config);

/* Makes the tally's list from the attached readers; their order does not matter. */
void world_link(struct world *world);

/* The events that may happen next. Returns how many. */
uint32_t world_events(const struct world *world, struct event ret_events[static WORLD_EVENTS]);

/* Lets one of them happen. Sets `violated` when a step itself goes wrong. */
void world_apply(struct world *world, struct event event);

/* What must hold between any two events. */
void world_check(struct world *world);

/* Checks that from here on every living reader that goes on is given batches and each slot is used
 * again (where laggards are detached, also when any others stop for ever), and that all slots are
 * FREE when all readers have left. Changes only `violated` of the world. */
void world_progress(struct world *world);

/* One line each: an event, and a world, in words. Readers are named by a letter. */
void world_describe_event(struct event event, char name, char *buffer, size_t room);
void world_describe(const struct world *world, const char names[static WORLD_READERS], char *buffer,
	size_t room);

/* words: events and worlds as text. */
#include "model/world_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void text_add(char *buffer, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void text_add(char *buffer, size_t room, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list args;
	va_start(args, format);
	(void)vsnprintf(buffer + used, room - used, format, args);
	va_end(args);
}

void world_describe_event(struct event event, char name, char *buffer, size_t room)
{
	static const char *const words[] = {
		[EVENT_BEGIN] = "the stream begins, who waits is admitted",
		[EVENT_ASSIGN] = "a free slot is given the next batch",
		[EVENT_FILLED] = "the last row is written, slot",
		[EVENT_TURN] = "the event loop turns",
		[EVENT_DRAIN] = "the daemon is asked to end",
		[EVENT_TELL_END] = "it says so to all members",
		[EVENT_FAIL] = "the stream fails",
		[EVENT_DEATH] = "the daemon is killed",
		[EVENT_JOIN] = "joins",
		[EVENT_JOIN_AT] = "joins with a state, batches after the first:",
		[EVENT_JOIN_FEW] = "joins for two batches",
		[EVENT_BACK] = "comes back",
		[EVENT_TAKE_LEFT] = "is given a batch that it had",
		[EVENT_READ] = "reads a message",
		[EVENT_NEXT] = "is given a batch",
		[EVENT_RELEASE] = "has read and releases slot",
		[EVENT_CLOSE] = "closes",
		[EVENT_KILL] = "is killed",
		[EVENT_DAEMON_READS] = "'s message is read by the daemon",
		[EVENT_DAEMON_NOTICES] = "'s hang-up is noticed",
		[EVENT_DETACH] = "is detached",
	};
	bool number = event.kind == EVENT_FILLED || event.kind == EVENT_JOIN_AT ||
		      event.kind == EVENT_RELEASE;
	const char *text = words[event.kind];
	buffer[0] = 0;
	if (event.kind >= EVENT_JOIN)
		text_add(buffer, room, "%c%s", name, text[0] == '\'' ? "" : " ");
	text_add(buffer, room, "%s", text);
	if (number)
		text_add(buffer, room, " %u", event.argument);
}

static void text_list(char *buffer, size_t room, const char *what, const struct list *list)
{
	if (!list->count)
		return;
	text_add(buffer, room, " %s", what);
	for (uint32_t i = 0; i < list->count; i++)
		text_add(buffer, room, "%s%u", i ? "," : " ", list->slot[i]);
}

static void text_mask(char *buffer, size_t room, const char *what, uint32_t mask)
{
	struct list list = {0};
	for (uint32_t slot = 0; slot < WORLD_SLOTS; slot++)
		if (mask & 1u << slot)
			list_push(&list, slot);
	text_list(buffer, room, what, &list);
}

static void text_reader(char *buffer, size_t room, const struct reader *r, char name)
{
	static const char *const phases[] = {"out", "pending", "on", "lost", "gone"};
	static const char *const tails[] = {
		"", ", END under way", ", ERROR under way", ", hung up"};
	if (r->phase == READER_OUT)
		return;
	text_add(buffer, room, "; %c %s", name, reader_detached(r) ? "detached" : phases[r->phase]);
	if (r->attached)
		text_add(buffer, room, " next %llu", (unsigned long long)r->tally.next);
	if (r->phase == READER_LOST)
		text_add(buffer, room, " needs %llu", (unsigned long long)r->expected);
	text_list(buffer, room, "BATCH", &r->flight);
	text_list(buffer, room, "waiting", &r->waiting);
	text_mask(buffer, room, "reads", r->held);
	text_list(buffer, room, "RELEASE", &r->releases);
	text_mask(buffer, room, "torn", r->torn);
	text_add(buffer, room, "%s%s", r->closing ? " CLOSE" : "", tails[r->tail]);
}

void world_describe(const struct world *world, const char names[static WORLD_READERS], char *buffer,
	size_t room)
{
	static const char *const phases[] = {"no group", "gathering", "live"};
	const struct tally *tally = &world->tally;
	buffer[0] = 0;
	text_add(buffer, room, "%s%s%s", phases[world->phase],
		world->phase == GROUP_LIVE && !world->started ? ", not started" : "",
		world->told_end   ? ", told the end"
		: world->draining ? ", draining"
				  : "");
	for (uint32_t slot = 0; slot < tally->slots && world->phase == GROUP_LIVE; slot++) {
		text_add(buffer, room, "; %u %s", slot, slot_state_name(tally->state[slot]));
		if (tally->state[slot] != SLOT_FREE)
			text_add(buffer, room, " %llu owed %u",
				(unsigned long long)tally->serial[slot],
				tally->state[slot] >= SLOT_READY ? tally->owed[slot] : 0);
	}
	for (uint32_t i = 0; i < world->config->readers; i++)
		text_reader(buffer, room, &world->reader[i], names[i]);
}

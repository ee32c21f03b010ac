/* drain: the end of the daemon, as SIGTERM, WIRE_STOP or the idle limit begins it. A stream ends at
 * a batch: what is being filled is still announced, then its trainers are told. A stream that is
 * still being opened ends at once. */
#include "serve/state.h"

#include "base/clock.h"
#include "serve/session/session.h"

#include <errno.h>

enum { DRAIN_LIMIT_S = 5 };

static const char drain_sentence[] =
	"penstockd was asked to end; open the stream again with the state to go on with the next "
	"batch";

void drain_begin(struct server *server)
{
	if (server->draining)
		return;
	server->draining = true;
	supervisor_stopping();
	server->drain_since_ns = clock_ns();
	loop_stop_listening(&server->loop, server->socket);
	list_each (group, &server->groups, struct group, node)
		if (group->stream)
			stream_drain(group->stream);
}

/* Clients without a stream (which asked for the end, or for the status) do not delay the end. */
static bool drain_has_trainers(const struct server *server)
{
	list_each (client, &server->clients, struct client, node)
		if (!list_is_empty(&client->members))
			return true;
	return false;
}

/* Whether none of the group's slots is being filled any more. */
static bool drain_group(struct group *group)
{
	struct stream_stats stats;
	if (group->closing)
		return true;
	if (!group->begun) {
		group_refuse(group, -ESHUTDOWN, drain_sentence);
		if (group->stream)
			stream_cancel(group->stream);
		return true;
	}
	/* The stream may have been opened after drain_begin, in the same turn of the loop. */
	stream_drain(group->stream);
	stream_stats(group->stream, &stats);
	if (stats.slots_filling)
		return false;
	if (!group->told_end) {
		group->told_end = true;
		list_each (m, &group->members, struct member, of_group)
			group_say_over(m, -ESHUTDOWN, drain_sentence);
	}
	return true;
}

void drain_turn(struct server *server)
{
	bool quiet = true;
	lists_task_refuse(server, -ESHUTDOWN, drain_sentence);
	list_each (group, &server->groups, struct group, node)
		quiet &= drain_group(group);
	bool late = clock_ns() - server->drain_since_ns > DRAIN_LIMIT_S * STATE_SECOND_NS;
	if ((quiet && !drain_has_trainers(server)) || late)
		server->stop = true;
}

/* group: one stream and the trainers that read it.
 *
 * A member that hangs up returns every batch that it holds, and gives up those that it would have
 * been given. When the last member has left, the stream is cancelled, and freed as soon as no row
 * is in flight (sweep.c).
 *
 * A rank of a split group is a group of one member; struct job ties the ranks together. */
#define LOG_TOPIC LOG_STREAM
#include "serve/session/session.h"

#include "base/log.h"
#include "serve/state.h"

#include <stdlib.h>

/* The last rank of a job takes the job along. */
static void group_leave_job(struct group *group)
{
	struct job *job = group->job;
	group->job = NULL;
	if (!job || --job->groups)
		return;
	list_remove(&group->server->jobs, &job->node);
	free(job);
}

/* A peer that was charged with a stream is charged with its memory until that has come back. */
void group_shut(struct group *group)
{
	struct peer_book *peers = &group->server->peers;
	struct peer *peer = group->peer;
	if (!group->closing && peer) {
		group->peer = peer_charge(peers, &peer->name, PEER_KEPT);
		peer_discharge(peers, peer, PEER_STREAMS);
	}
	group->closing = true;
	group_leave_job(group);
}

void group_say_over(struct member *member, int code, const char *text)
{
	if (!member->ended)
		client_error(member->client, member->answered ? 0 : member->request, member->stream,
			code, text);
}

/* It is shut first, which keeps group_leave from serving those that are still there. */
void group_refuse(struct group *group, int code, const char *text)
{
	struct member *m;
	group_shut(group);
	while ((m = list_first(&group->members, struct member, of_group))) {
		group_say_over(m, code, text);
		group_leave(m);
	}
}

static void group_abandon(struct group *group)
{
	group_shut(group);
	if (group->opening)
		open_task_abandon(group->opening);
	group->opening = NULL;
	if (group->stream)
		stream_cancel(group->stream);
}

void group_leave(struct member *member)
{
	struct group *group = member->group;
	list_remove(&member->client->members, &member->of_client);
	list_remove(&group->members, &member->of_group);
	if (member->answered)
		stream_leave(group->stream, &member->reader);
	free(member);
	if (list_is_empty(&group->members)) {
		group_abandon(group);
	} else if (group->begun && !group->closing) {
		stream_pump(group->stream);
		group_turn(group);
	}
}

void group_bury(struct server *server)
{
	bool again = true;
	while (again) {
		again = false;
		/* Leaving may close others: look at the whole list once more. */
		list_each (client, &server->clients, struct client, node) {
			struct member *m;
			while (client->dead &&
				(m = list_first(&client->members, struct member, of_client))) {
				group_leave(m);
				again = true;
			}
		}
	}
}

void group_turn(struct group *group)
{
	int code;
	const char *text;
	if (group->closing || group->told_end || !group->begun)
		return;
	account_turn(group);
	stream_collect(group->stream);
	(void)renew_task_take(group);
	(void)quarantine_task_take(group);
	if (stream_failed(group->stream, &code, &text)) {
		char call[SPEC_CALL];
		if (log_limit_may(&group->server->log_limits, LOG_LIMIT_OPENING))
			log_error("%s ends: %s", spec_call(&group->spec, call, sizeof call), text);
		group_refuse(group, code, text);
		stream_cancel(group->stream);
		return;
	}
	if (!group->started)
		group->started = session_group_present(group) >= group->spec.wait_for;
	if (group->started)
		list_each (m, &group->members, struct member, of_group)
			lease_give(m);
	account_turn(group);
}

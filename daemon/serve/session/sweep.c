/* sweep: what is due once a second, and what is due at the end of a turn of the loop. */
#define LOG_TOPIC LOG_STREAM
#include "serve/session/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "serve/session/handouts.h"
#include "serve/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* How long a stream waits, before it is opened, for memory that is about to return. */
#define SWEEP_OPEN_WAIT_NS 2000000000ull

/* ---- once a second ---- */

/* The member's leases end with the message: see PROTOCOL.md, "The life of a lease". */
static void sweep_detach(struct member *m)
{
	struct group *group = m->group;
	const struct tally *tally = stream_tally(group->stream);
	struct fault fault;
	uint32_t oldest = 0;
	for (uint32_t slot = 0; slot < tally->slots; slot++)
		if (tally->serial[slot] < tally->serial[oldest])
			oldest = slot;
	const struct stream_batch *batch = stream_batch(group->stream, oldest);
	(void)fault_set(&fault, -ECANCELED,
		"this trainer was detached from group %s: it kept batch %" PRIu64
		" of epoch %" PRIu64 " for more than %u s while others waited for the next; "
		"release batches sooner, raise laggard_timeout_s, or set laggard to block",
		group->name, batch->batch, batch->epoch, group->spec.laggard_timeout_s);
	log_write(LOG_WARNING, LOG_TRAINER, "trainer %d: %s", m->client->pid, fault.text);
	client_error(m->client, 0, m->stream, -ECANCELED, fault.text);
	group_leave(m);
}

/* Notes which members hold others up, and since when; detaches them where the group asks for it. */
static void sweep_laggards(struct group *group)
{
	const struct tally *tally = stream_tally(group->stream);
	uint64_t now = clock_ns(), limit = group->spec.laggard_timeout_s * STATE_SECOND_NS;
	struct member *late = NULL;
	list_each (m, &group->members, struct member, of_group) {
		if (!m->answered || !group->started || !tally_blocks(tally, &m->reader))
			m->blocks_since_ns = 0;
		else if (!m->blocks_since_ns)
			m->blocks_since_ns = now;
		else if (now - m->blocks_since_ns >= limit)
			late = m;
	}
	/* One at a time: with it gone, the others may not be late any more. */
	if (late && group->spec.laggard == SPEC_LAGGARD_DETACH)
		sweep_detach(late);
}

/* Reports what its entry points met: once a second, and before its stream is freed. */
static void sweep_remark(struct group *group)
{
	char notice[FAULT_TEXT];
	if (!group->stream || !stream_remark(group->stream, notice, sizeof notice))
		return;
	group->server->entry_points_lost = true;
	recorder_notice(group->server, notice);
}

static void sweep_group_second(struct group *group)
{
	if (group->closing || group->told_end || !group->stream)
		return;
	if (!group->begun) {
		join_begin(group);
		return;
	}
	account_tick(group);
	(void)renew_task_take(group); /* after a pause */
	sweep_laggards(group);
}

void sweep_second(struct server *server)
{
	list_each (group, &server->groups, struct group, node) {
		sweep_group_second(group);
		sweep_remark(group);
	}
}

/* ---- clients ---- */

void sweep_clients(struct server *server)
{
	bool served = false;
	group_bury(server);
	list_each_removable (client, &server->clients, struct client, node) {
		if (!client->dead)
			continue;
		lists_task_leave(client);
		path_task_leave(client);
		list_remove(&server->clients, &client->node);
		server->client_count--;
		peer_discharge(&server->peers, client->peer, PEER_CLIENTS);
		served |= client->record.number != 0;
		free(client);
	}
	/* A client that only asks does not keep an idle daemon alive: one that looks for its own
	 * daemon again and again would keep this one, and its socket, for ever. */
	if (served)
		server->used_ns = clock_ns();
	if (!server->client_count && !server->idle_since_ns)
		server->idle_since_ns = server->used_ns;
	else if (server->client_count)
		server->idle_since_ns = 0;
}

/* ---- groups ---- */

/* Whether memory is on its way back: of streams that end, or of openings whose members have
 * left. */
static bool sweep_memory_returns(const struct server *server)
{
	list_each (group, &server->groups, struct group, node)
		if (group->closing && group->stream)
			return true;
	list_each (opening, &server->tasks.openings, struct opening, node)
		if (!opening->group)
			return true;
	return !list_is_empty(&server->tasks.closings) || handouts_returns(server);
}

static bool sweep_waits(const struct group *group)
{
	return !group->closing && !group->stream && !group->opening;
}

/* Whether another group opens the same source, or came earlier and will. One opens at a time, in
 * the order in which they came: the others then find its index. */
static bool sweep_source_opens(const struct group *group)
{
	list_each (g, &group->server->groups, struct group, node)
		if ((g->opening || (sweep_waits(g) && g->came_ns < group->came_ns)) &&
			strcmp(g->spec.source, group->spec.source) == 0)
			return true;
	return false;
}

/* Begins to open streams. A stream that follows another, as when a trainer closes one and opens it
 * again, waits for the memory that returns; otherwise it would be refused, or get fewer slots. It
 * does not wait for long, since what it waits for may hang in some other storage. */
static void sweep_open(struct server *server)
{
	bool returns = sweep_memory_returns(server);
	list_each (group, &server->groups, struct group, node) {
		struct fault fault;
		if (!sweep_waits(group) || sweep_source_opens(group) ||
			(returns && clock_ns() - group->came_ns < SWEEP_OPEN_WAIT_NS))
			continue;
		int result = open_task_start(group, &fault);
		if (result)
			group_refuse(group, result, fault.text);
	}
}

static void sweep_free(struct group *group)
{
	struct server *server = group->server;
	if (group->stream)
		close_task_start(server, group->stream, group->peer);
	else
		peer_discharge(&server->peers, group->peer, PEER_KEPT);
	sampling_lists_close(&server->lists, &group->lists);
	free(group);
}

/* Whether threads still use its stream: to name samples, or to make its index anew. All must be
 * asked: each looks for itself. */
static bool sweep_is_read_for(struct group *group)
{
	bool named = path_task_collect(group), renewed = renew_task_take(group);
	return quarantine_task_take(group) || named || renewed;
}

void sweep_groups(struct server *server)
{
	list_each_removable (group, &server->groups, struct group, node) {
		if (!group->closing || !list_is_empty(&group->members) ||
			(group->stream && !stream_idle(group->stream)) || sweep_is_read_for(group))
			continue;
		sweep_remark(group);
		totals_retire(group);
		list_remove(&server->groups, &group->node);
		sweep_free(group);
	}
	sweep_open(server);
}

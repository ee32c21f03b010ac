/* group: one stream and the trainers attached to it.
 *
 * Every member is announced every batch from the one on at which it joined, in order of serial, as
 * soon as it is READY and the member's socket takes it; the tally knows who has yet to give a slot
 * back, and with the last one it is filled again. A member that hangs up gives back all it holds
 * and all it would have been given. When the last member has gone the stream is cancelled, and
 * freed as soon as no row is in flight.
 *
 * A rank of a split group is a group of one member here; what ties it to the other ranks is struct
 * job (join.c). */
#define LOG_TOPIC LOG_STREAM
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_WAITS_S = 30 }; /* of each of the two histograms that waits_ms is from */

struct member *group_find_member(const struct client *client, uint32_t stream)
{
	for (struct member *m = client->members; m; m = m->next_of_client)
		if (m->stream == stream)
			return m;
	return NULL;
}

unsigned group_size(const struct group *group)
{
	unsigned n = 0;
	for (const struct member *m = group->members; m; m = m->next_of_group)
		n++;
	return n;
}

/* ---- leaving ---- */

/* The last rank of a job takes it along. */
static void group_leave_job(struct group *group)
{
	struct job *job = group->job;
	group->job = NULL;
	if (!job || --job->groups)
		return;
	struct job **place = &group->server->jobs;
	while (*place != job)
		place = &(*place)->next;
	*place = job->next;
	free(job);
}

/* What it held as a stream it holds until its memory has come back. */
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

/* It is shut first, which keeps group_leave from serving those who are still there. */
void group_refuse(struct group *group, int code, const char *text)
{
	group_shut(group);
	while (group->members) {
		struct member *m = group->members;
		group_say_over(m, code, text);
		group_leave(m);
	}
}

void group_released(struct member *member, uint32_t slot)
{
	struct group *group = member->group;
	uint64_t now = clock_ns();
	stream_release(group->stream, &member->reader, slot);
	histogram_add(&group->server->held, now - member->announced_ns[slot]);
	if (!member->reader.held)
		member->empty_since_ns = now;
	member->blocks_since_ns = 0;
	stream_pump(group->stream);
	group_turn(group);
}

static void group_unlink(struct member *member)
{
	struct member **place = &member->client->members;
	while (*place != member)
		place = &(*place)->next_of_client;
	*place = member->next_of_client;
	place = &member->group->members;
	while (*place != member)
		place = &(*place)->next_of_group;
	*place = member->next_of_group;
}

static void group_abandon(struct group *group)
{
	group_shut(group);
	if (group->opening) {
		atomic_store_explicit(&group->opening->cancel, true, memory_order_relaxed);
		group->opening->group = NULL;
		group->opening = NULL;
	}
	if (group->stream)
		stream_cancel(group->stream);
}

void group_leave(struct member *member)
{
	struct group *group = member->group;
	group_unlink(member);
	if (member->answered)
		stream_leave(group->stream, &member->reader);
	free(member);
	if (!group->members) {
		group_abandon(group);
	} else if (group->begun && !group->closing) {
		stream_pump(group->stream);
		group_turn(group);
	}
}

/* ---- announcing ---- */

/* For what nobody asked for: a full socket is no fault of the client's, it goes on when there is
 * room. False when the message has not gone. */
static bool group_send(struct member *m, struct wire_head *head, size_t bytes)
{
	int result = conn_send(m->client->fd, true, head, bytes, NULL, 0, -1);
	if (result == -EAGAIN)
		client_want_write(m->client, true);
	else if (result)
		client_lost(m->client, result);
	return result == 0;
}

/* The batch in `slot` has gone to it. */
static void group_note_wait(struct member *m, uint32_t slot)
{
	uint64_t now = clock_ns();
	m->announced_ns[slot] = now;
	if (!m->empty_since_ns)
		return;
	histogram_add(&m->group->server->waits, now - m->empty_since_ns);
	histogram_add(&m->group->waits[0], now - m->empty_since_ns);
	m->empty_since_ns = 0;
}

static bool group_announce(struct member *m, uint32_t slot)
{
	struct group *group = m->group;
	const struct stream_batch *batch = stream_batch(group->stream, slot);
	struct wire_batch message = {
		.head = {.type = WIRE_BATCH, .stream = m->stream},
		.extent = group->extent_number,
		.slot = slot,
		.serial = batch->serial,
		.epoch = batch->epoch,
		.batch = batch->batch,
		.position = batch->position,
		.count = batch->count,
		.flags = batch->last ? WIRE_BATCH_LAST : 0,
	};
	if (!group_send(m, &message.head, sizeof message))
		return false;
	group_note_wait(m, slot);
	stream_lease(group->stream, &m->reader, slot);
	m->given++;
	m->epoch = batch->epoch;
	m->batch = batch->batch;
	recorder_announced(m);
	return true;
}

static void group_serve(struct member *m)
{
	struct group *group = m->group;
	const struct tally *tally = stream_tally(group->stream);
	int slot;
	while (!m->client->dead && (slot = tally_due(tally, &m->reader)) >= 0)
		if (!group_announce(m, (uint32_t)slot))
			return;
	if (m->ended || m->client->dead || m->reader.next != m->reader.end)
		return;
	struct wire_end message = {.head = {.type = WIRE_END, .stream = m->stream},
		.epochs = m->epochs,
		.batches = m->given};
	m->ended = group_send(m, &message.head, sizeof message);
}

unsigned group_present(const struct group *group)
{
	unsigned ranks = 0;
	if (!group->job)
		return group_size(group);
	for (const struct group *g = group->server->groups; g; g = g->next)
		ranks += g->job == group->job && g->members && g->members->answered;
	return ranks;
}

void group_turn(struct group *group)
{
	int code;
	const char *text;
	if (group->closing || group->told_end || !group->begun)
		return;
	account_turn(group);
	stream_collect(group->stream);
	(void)quarantine_take(group);
	if (stream_failed(group->stream, &code, &text)) {
		char call[SPEC_CALL];
		if (log_limit_may(group->server, LOG_LIMIT_OPENING))
			log_error("%s ends: %s", spec_call(&group->spec, call, sizeof call), text);
		group_refuse(group, code, text);
		stream_cancel(group->stream);
		return;
	}
	if (!group->started)
		group->started = group_present(group) >= group->spec.wait_for;
	for (struct member *m = group->members; m && group->started; m = m->next_of_group)
		group_serve(m);
	account_turn(group);
}

/* ---- once a second, and the end ---- */

/* Its leases end with the message: see PROTOCOL.md, "The life of a lease". */
static void group_detach(struct member *m)
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

/* Notes who holds back others, and for how long; detaches them where the group wants that. */
static void group_watch_laggards(struct group *group)
{
	const struct tally *tally = stream_tally(group->stream);
	uint64_t now = clock_ns(), limit = group->spec.laggard_timeout_s * 1000000000ull;
	struct member *late = NULL;
	for (struct member *m = group->members; m; m = m->next_of_group) {
		if (!m->answered || !group->started || !tally_blocks(tally, &m->reader))
			m->blocks_since_ns = 0;
		else if (!m->blocks_since_ns)
			m->blocks_since_ns = now;
		else if (now - m->blocks_since_ns >= limit)
			late = m;
	}
	/* One at a time: with it gone, the others may not be late any more. */
	if (late && group->spec.laggard == SPEC_LAGGARD_DETACH)
		group_detach(late);
}

void group_tick(struct group *group)
{
	if (group->closing || group->told_end || !group->stream)
		return;
	if (!group->begun) {
		join_begin(group);
		return;
	}
	account_tick(group);
	if (group->ticks % GROUP_WAITS_S == 0) {
		group->waits[1] = group->waits[0];
		group->waits[0] = (struct histogram){0};
	}
	group_watch_laggards(group);
}

/* True while memory is on its way back: of streams that end, or openings that nobody waits for. */
static bool group_memory_returns(const struct server *server)
{
	uint32_t wanted = 0;
	for (const struct group *g = server->groups; g; g = g->next) {
		if (g->closing && g->stream)
			return true;
		wanted += g->opening != NULL;
	}
	return server->openings > wanted || server->closings || handouts_returns(server);
}

static bool group_waits(const struct group *group)
{
	return !group->closing && !group->stream && !group->opening;
}

/* One at a time opens a source, in the order in which they came: the others find its index built.
 */
static bool group_source_opens(const struct group *group)
{
	for (const struct group *g = group->server->groups; g; g = g->next)
		if ((g->opening || (group_waits(g) && g->account_ns < group->account_ns)) &&
			strcmp(g->spec.source, group->spec.source) == 0)
			return true;
	return false;
}

/* Begins to open streams. One that follows another, as when a trainer closes and opens again, waits
 * for the memory that returns, or it would be refused or get fewer slots; but not for long, since
 * what it waits for may hang in some other storage. */
static void group_open(struct server *server)
{
	bool returns = group_memory_returns(server);
	for (struct group *g = server->groups; g; g = g->next) {
		struct fault fault;
		if (!group_waits(g) || group_source_opens(g) ||
			(returns && clock_ns() - g->account_ns < SERVE_OPEN_WAIT_NS))
			continue;
		int result = open_task_start(server, g, &g->spec, &fault);
		if (result)
			group_refuse(g, result, fault.text);
	}
}

static void group_free(struct group *group)
{
	struct server *server = group->server;
	if (group->stream)
		close_task_take(server, group->stream, group->peer);
	else
		peer_discharge(&server->peers, group->peer, PEER_KEPT);
	sampling_lists_close(&server->lists, &group->lists);
	free(group);
}

void group_remark(struct group *group)
{
	char notice[FAULT_TEXT];
	if (!group->stream || !stream_remark(group->stream, notice, sizeof notice))
		return;
	group->server->entry_points_lost = true;
	server_notice(group->server, notice);
}

/* Whether threads still use its stream to name samples. Each looks for itself. */
static bool group_is_read_for(struct group *group)
{
	bool named = path_task_collect(group);
	return quarantine_take(group) || named;
}

void group_sweep(struct server *server)
{
	for (struct group **place = &server->groups; *place;) {
		struct group *group = *place;
		if (!group->closing || group->members ||
			(group->stream && !stream_idle(group->stream)) ||
			group_is_read_for(group)) {
			place = &group->next;
			continue;
		}
		group_remark(group);
		totals_retire(group);
		*place = group->next;
		group_free(group);
	}
	group_open(server);
}

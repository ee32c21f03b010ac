/* lease: a batch is announced to a trainer (WIRE_BATCH), and the trainer returns it (WIRE_RELEASE).
 * PROTOCOL.md, "The life of a lease".
 *
 * Every member is announced every batch from the one on at which it joined, in order of serial, as
 * soon as the batch is READY and the member's socket takes the message. The tally (batch/tally.h)
 * knows which members have yet to return a slot. When the last one has returned it, the slot is
 * filled again. */
#define LOG_TOPIC LOG_STREAM
#include "serve/session/session.h"

#include "base/clock.h"
#include "serve/state.h"

#include <errno.h>

/* For messages that no client asked for: a full socket is not the client's fault, and the rest
 * follows when it has room. False: the message was not sent. */
static bool lease_send(struct member *m, struct wire_head *head, size_t bytes)
{
	int result = conn_send(m->client->fd, true, head, bytes, NULL, 0, -1);
	if (result == -EAGAIN)
		client_want_write(m->client, true);
	else if (result)
		client_lost(m->client, result);
	return result == 0;
}

/* Counts how long the member waited for the batch in `slot`, which it has just been sent. */
static void lease_count_wait(struct member *m, uint32_t slot)
{
	uint64_t now = clock_ns();
	m->announced_ns[slot] = now;
	if (!m->empty_since_ns)
		return;
	histogram_add(&m->group->server->account.waits, now - m->empty_since_ns);
	histogram_add(&m->group->account.waits[0], now - m->empty_since_ns);
	m->empty_since_ns = 0;
}

static bool lease_announce(struct member *m, uint32_t slot)
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
	if (!lease_send(m, &message.head, sizeof message))
		return false;
	lease_count_wait(m, slot);
	stream_lease(group->stream, &m->reader, slot);
	m->given++;
	m->epoch = batch->epoch;
	m->batch = batch->batch;
	recorder_announced(m);
	return true;
}

void lease_give(struct member *m)
{
	const struct tally *tally = stream_tally(m->group->stream);
	int slot;
	while (!m->client->dead && (slot = tally_due(tally, &m->reader)) >= 0)
		if (!lease_announce(m, (uint32_t)slot))
			return;
	if (m->ended || m->client->dead || m->reader.next != m->reader.end)
		return;
	struct wire_end message = {.head = {.type = WIRE_END, .stream = m->stream},
		.epochs = m->epochs,
		.batches = m->given};
	m->ended = lease_send(m, &message.head, sizeof message);
}

void lease_return(struct member *m, uint32_t slot)
{
	struct group *group = m->group;
	uint64_t now = clock_ns();
	stream_release(group->stream, &m->reader, slot);
	histogram_add(&group->server->account.held, now - m->announced_ns[slot]);
	if (!m->reader.held)
		m->empty_since_ns = now;
	m->blocks_since_ns = 0;
	stream_pump(group->stream);
}

/* group: one stream and the trainers attached to it.
 *
 * Every member is announced every batch, in order of serial, as soon as it is READY and the
 * member's socket takes it; `pending` counts who has yet to give a slot back, and with the last one
 * it becomes FREE and is filled again. A member that hangs up gives back all it holds and all it
 * would have been given. Members that come late begin with the oldest batch from which on
 * everything is still there. When the last member has gone the stream is cancelled, and freed as
 * soon as no row is in flight. */
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group *group_find(struct server *server, const char *name)
{
	for (struct group *g = server->groups; g; g = g->next)
		if (!g->closing && strcmp(g->name, name) == 0)
			return g;
	return NULL;
}

struct member *group_find_member(const struct client *client, uint32_t stream)
{
	for (struct member *m = client->members; m; m = m->next_of_client)
		if (m->stream == stream)
			return m;
	return NULL;
}

static unsigned group_size(const struct group *group)
{
	unsigned n = 0;
	for (const struct member *m = group->members; m; m = m->next_of_group)
		n++;
	return n;
}

/* ---- time accounts: how long somebody waited, how long everything was full ---- */

static bool group_waiting(const struct group *group)
{
	for (const struct member *m = group->members; m; m = m->next_of_group)
		if (m->answered && !m->ended && !m->held)
			return group->started;
	return false;
}

static bool group_full(const struct group *group)
{
	const struct extent *extent = stream_extent(group->stream);
	for (uint32_t slot = 0; slot < extent->slots; slot++)
		if (extent->state[slot] < SLOT_READY)
			return false;
	return true;
}

static void group_account(struct group *group)
{
	uint64_t now = clock_ns();
	if (group->was_waiting)
		group->trainer_wait_ns += now - group->account_ns;
	if (group->was_full)
		group->slots_full_ns += now - group->account_ns;
	group->account_ns = now;
	group->was_waiting = group_waiting(group);
	group->was_full = group_full(group);
}

/* ---- joining ---- */

/* The oldest batch from which on every later one is still in a slot: nothing is skipped for whoever
 * begins there. Where all batches are over and released, the end. */
static uint64_t group_first_serial(const struct group *group)
{
	const struct extent *extent = stream_extent(group->stream);
	uint64_t newest = 0, first;
	bool any = false;
	for (uint32_t slot = 0; slot < extent->slots; slot++) {
		if (extent->state[slot] == SLOT_FREE)
			continue;
		uint64_t serial = stream_batch(group->stream, slot)->serial;
		newest = any ? UTIL_MAX(newest, serial) : serial;
		any = true;
	}
	if (!any)
		return stream_ended(group->stream, &first) ? first : 0;
	for (first = newest; first > 0; first--) {
		bool there = false;
		for (uint32_t slot = 0; slot < extent->slots; slot++)
			there |= extent->state[slot] != SLOT_FREE &&
				 stream_batch(group->stream, slot)->serial == first - 1;
		if (!there)
			break;
	}
	return first;
}

static void group_send_opened(struct member *m, uint64_t epoch, uint64_t batch, uint64_t position)
{
	const struct stream *stream = m->group->stream;
	const struct stream_spec *spec = stream_spec(stream);
	const struct dataset *dataset = stream_dataset(stream);
	const struct extent *extent = stream_extent(stream);
	struct wire_opened opened = {
		.head = {.type = WIRE_OPENED, .request = m->request, .stream = m->stream},
		.samples = dataset_count(dataset),
		.epoch_samples = stream_epoch_samples(stream),
		.batches = stream_batches(stream),
		.fingerprint = dataset_fingerprint(dataset),
		.order = stream_order_hash(stream),
		.transform = stream_transform_hash(stream),
		.seed = spec->seed,
		.epoch = epoch,
		.batch = batch,
		.position = position,
		.batch_size = spec->batch_size,
		.height = spec->image_size,
		.width = spec->image_size,
		.channels = extent->layout.channels,
		.pixel_type = extent->layout.pixel_type,
		.pixel_layout = extent->layout.pixel_layout,
		.label_type = extent->layout.label_type,
		.label_width = extent->layout.label_width,
		.rank = 0,
		.world_size = 1,
		.classes = dataset_classes(dataset),
		.shuffle = spec->shuffle,
		.train = spec->train,
		.slots = extent->slots,
	};
	struct wire_extent announce = {
		.head = {.type = WIRE_EXTENT, .stream = m->stream},
		.extent = m->group->extent_number,
		.slot_count = extent->slots,
		.slot_stride = extent->stride,
		.bytes = extent->bytes,
	};
	client_send(m->client, &opened.head, sizeof opened, NULL, 0, -1);
	client_send(m->client, &announce.head, sizeof announce, NULL, 0, extent->fd);
	m->answered = true;
}

/* The stream is open: the member takes its place and is answered. */
static void group_admit(struct member *m)
{
	struct group *group = m->group;
	const struct extent *extent = stream_extent(group->stream);
	m->next_serial = group_first_serial(group);
	uint64_t epoch, batch, position;
	stream_start(group->stream, &epoch, &batch, &position);
	for (uint32_t slot = 0; slot < extent->slots; slot++) {
		const struct stream_batch *b = stream_batch(group->stream, slot);
		if (extent->state[slot] == SLOT_FREE || b->serial < m->next_serial)
			continue;
		group->pending[slot] += extent->state[slot] >= SLOT_READY;
		if (b->serial == m->next_serial) {
			epoch = b->epoch;
			batch = b->batch;
			position = b->position;
		}
	}
	m->epoch = epoch;
	m->batch = batch;
	group_send_opened(m, epoch, batch, position);
}

static struct member *group_attach(
	struct client *client, struct group *group, const struct wire_head *head)
{
	struct member *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	*m = (struct member){
		.client = client, .group = group, .stream = head->stream, .request = head->request};
	m->next_of_client = client->members;
	client->members = m;
	m->next_of_group = group->members;
	group->members = m;
	return m;
}

/* Its stream is opened by group_begin, at the end of the turn. */
static struct group *group_new(
	struct server *server, const char *name, const struct stream_spec *spec)
{
	struct group *group = calloc(1, sizeof *group);
	if (!group)
		return NULL;
	group->server = server;
	group->spec = *spec;
	(void)snprintf(group->name, sizeof group->name, "%s", name);
	group->account_ns = clock_ns();
	group->next = server->groups;
	server->groups = group;
	return group;
}

/* A client without a group is alone: its group's name cannot be said by anybody else. */
static void group_name(const struct client *client, uint32_t stream, const struct stream_spec *spec,
	char *buffer, size_t room)
{
	if (spec->group[0])
		(void)snprintf(buffer, room, "%s", spec->group);
	else if (spec->name[0])
		(void)snprintf(buffer, room, "stream:%s", spec->name);
	else
		(void)snprintf(buffer, room, "\n%d/%u/%llu", client->pid, stream,
			(unsigned long long)client->since_ns);
}

/* Why a trainer that brings this state cannot join; NULL when it can: all of a group bring the same
 * one, before any batch has gone back. */
static const char *group_state_late(const struct group *group, const struct spec_state *state)
{
	const struct spec_state *ours = &group->spec.state;
	if (!state->given)
		return NULL;
	if (!ours->given || ours->epoch != state->epoch || ours->position != state->position ||
		ours->fingerprint != state->fingerprint || ours->order != state->order ||
		ours->seed != state->seed)
		return "the group was begun with another state, or with none: give all its "
		       "trainers the same one";
	if (group->stream && group_first_serial(group) > 0)
		return "the group has gone on from this state already: open the stream without a "
		       "state to join where it is now";
	return NULL;
}

void group_join(struct client *client, const struct wire_head *head, const struct stream_spec *spec)
{
	struct server *server = client->server;
	char name[2 * SPEC_NAME];
	struct fault fault;
	const char *what;
	group_name(client, head->stream, spec, name, sizeof name);
	struct group *group = group_find(server, name);
	if (group && !spec_same(&group->spec, spec, &what)) {
		(void)fault_set(&fault, -EBUSY,
			"group %s already reads a stream with another %s: give all its trainers "
			"the same options, or another group",
			name, what);
		client_error(client, head->request, head->stream, -EBUSY, fault.text);
		return;
	}
	if (group && (what = group_state_late(group, &spec->state))) {
		client_error(client, head->request, head->stream, -EBUSY, what);
		return;
	}
	if (!group)
		group = group_new(server, name, spec);
	struct member *m = group ? group_attach(client, group, head) : NULL;
	if (!m) {
		if (group && !group->members)
			group->closing = true;
		client_error(client, head->request, head->stream, -ENOMEM,
			"no memory for another trainer");
		return;
	}
	if (group->stream) {
		group_admit(m);
		group_turn(group);
	}
}

static void group_log_opened(const struct group *group)
{
	const struct stream *stream = group->stream;
	const struct extent *extent = stream_extent(stream);
	const struct dataset *dataset = stream_dataset(stream);
	char why[256] = "";
	int direct = fetch_wants_direct(group->server->fetch, dataset, why, sizeof why);
	log_info("stream of %s: %llu samples, %llu batches of %u an epoch, %u slots of %llu "
		 "KiB%s%s; reads %s (%s)%s%s",
		group->spec.source, (unsigned long long)dataset_count(dataset),
		(unsigned long long)stream_batches(stream), group->spec.batch_size, extent->slots,
		(unsigned long long)(extent->stride >> 10),
		extent->huge_pages ? ", 2 MiB pages" : "",
		extent->locked ? ", locked in memory" : "",
		direct ? "with O_DIRECT" : "through the page cache", why,
		stream_notice(stream)[0] ? "; note: " : "", stream_notice(stream));
	if (dataset_notice(dataset)[0])
		log_warning("%s", dataset_notice(dataset));
}

/* `closing` comes first: it keeps group_leave from serving those who are still there. */
void group_refuse(struct group *group, int code, const char *text)
{
	group->closing = true;
	while (group->members) {
		struct member *m = group->members;
		client_error(m->client, m->answered ? 0 : m->request, m->stream, code, text);
		group_leave(m);
	}
}

void group_opened(struct opening *opening)
{
	struct group *group = opening->group;
	if (!group) {
		stream_free(opening->stream);
		return;
	}
	group->opening = NULL;
	if (opening->result) {
		log_info("cannot open %s: %s", opening->spec.source, opening->fault.text);
		group_refuse(group, opening->result, opening->fault.text);
		return;
	}
	group->stream = opening->stream;
	group->extent_number = ++group->server->next_extent;
	group_log_opened(group);
	stream_pump(group->stream);
	for (struct member *m = group->members; m; m = m->next_of_group)
		group_admit(m);
	group_turn(group);
}

/* ---- leaving ---- */

static void group_give_back(struct group *group, uint32_t slot)
{
	assert(group->pending[slot] > 0);
	if (--group->pending[slot] == 0)
		stream_release(group->stream, slot);
}

void group_released(struct member *member, uint32_t slot)
{
	member->held &= ~(1ull << slot);
	group_give_back(member->group, slot);
	stream_pump(member->group->stream);
	group_turn(member->group);
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
	group->closing = true;
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
	if (group->stream && member->answered) {
		const struct extent *extent = stream_extent(group->stream);
		for (uint32_t slot = 0; slot < extent->slots; slot++) {
			bool waiting =
				extent->state[slot] >= SLOT_READY &&
				stream_batch(group->stream, slot)->serial >= member->next_serial;
			if (waiting || (member->held & 1ull << slot))
				group_give_back(group, slot);
		}
	}
	free(member);
	if (!group->members) {
		group_abandon(group);
	} else if (group->stream && !group->closing) {
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
		client_close(m->client, "hung up");
	return result == 0;
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
	if (stream_extent(group->stream)->state[slot] == SLOT_READY)
		stream_lease(group->stream, slot);
	m->held |= 1ull << slot;
	m->next_serial++;
	m->given++;
	m->epoch = batch->epoch;
	m->batch = batch->batch;
	return true;
}

static void group_serve(struct member *m)
{
	struct group *group = m->group;
	int slot;
	while (!m->client->dead && (slot = stream_slot_of(group->stream, m->next_serial)) >= 0)
		if (!group_announce(m, (uint32_t)slot))
			return;
	uint64_t end;
	if (!m->ended && !m->client->dead && stream_ended(group->stream, &end) &&
		m->next_serial == end) {
		struct wire_end message = {.head = {.type = WIRE_END, .stream = m->stream},
			.epochs = group->spec.epochs,
			.batches = end};
		m->ended = group_send(m, &message.head, sizeof message);
	}
}

/* Slots that became READY are owed to every member. */
static void group_collect(struct group *group)
{
	const struct extent *extent = stream_extent(group->stream);
	enum slot_state before[EXTENT_SLOTS_MAX];
	memcpy(before, extent->state, sizeof before);
	if (!stream_collect(group->stream))
		return;
	unsigned members = group_size(group);
	for (uint32_t slot = 0; slot < extent->slots; slot++)
		if (before[slot] == SLOT_FILLING && extent->state[slot] == SLOT_READY)
			group->pending[slot] = members;
}

void group_turn(struct group *group)
{
	int code;
	const char *text;
	if (group->closing || group->told_end || !group->stream)
		return;
	group_account(group);
	group_collect(group);
	quarantine_take(group);
	if (stream_failed(group->stream, &code, &text)) {
		log_error("stream of %s ends: %s", group->spec.source, text);
		group_refuse(group, code, text);
		stream_cancel(group->stream);
		return;
	}
	if (!group->started)
		group->started = group_size(group) >= group->spec.wait_for;
	for (struct member *m = group->members; m && group->started; m = m->next_of_group)
		group_serve(m);
	group_account(group);
}

/* ---- once a second, and the end ---- */

void group_tick(struct group *group)
{
	if (group->closing || !group->stream)
		return;
	struct stream_stats stats;
	struct pool_stats pool;
	group_account(group);
	stream_stats(group->stream, &stats);
	pool_stats_read(group->server->pool, &pool);
	group->window[group->ticks++ % SERVE_WINDOW] = (struct group_sample){
		.trainer_wait_s = (double)(group->trainer_wait_ns - group->last_wait_ns) * 1e-9,
		.slots_full_s = (double)(group->slots_full_ns - group->last_full_ns) * 1e-9,
		.workers_idle_s = (double)(pool.idle_ns - group->last_idle_ns) * 1e-9,
		.decode_cpu_s =
			(double)(stats.decode_ns + stats.pixel_ns - group->last_cpu_ns) * 1e-9,
		.images = stats.images - group->last_images,
	};
	group->last_wait_ns = group->trainer_wait_ns;
	group->last_full_ns = group->slots_full_ns;
	group->last_idle_ns = pool.idle_ns;
	group->last_cpu_ns = stats.decode_ns + stats.pixel_ns;
	group->last_images = stats.images;
}

void group_verdict(struct group *group, char *buffer, size_t room)
{
	struct verdict_input in = {.threads = pool_threads(group->server->pool),
		.cpus = cpu_available(),
		.trainers = group_size(group)};
	/* The first second holds the opening. */
	uint64_t have = UTIL_MIN(group->ticks > 1 ? group->ticks - 1 : 0, (uint64_t)SERVE_WINDOW);
	for (uint64_t i = 0; i < have; i++) {
		const struct group_sample *s =
			&group->window[(group->ticks - 1 - i) % SERVE_WINDOW];
		in.trainer_wait_s += s->trainer_wait_s;
		in.slots_full_s += s->slots_full_s;
		in.workers_idle_s += s->workers_idle_s;
		in.decode_cpu_s += s->decode_cpu_s;
		in.images += s->images;
	}
	in.seconds = (double)have;
	in.slots = group->stream ? stream_extent(group->stream)->slots : 0;
	for (const struct member *m = group->members; m; m = m->next_of_group) {
		uint64_t held = (uint64_t)__builtin_popcountll(m->held);
		if (held >= in.held_most) {
			in.held_most = held;
			in.held_pid = m->client->pid;
		}
	}
	(void)verdict_write(&in, buffer, room);
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
	return server->openings > wanted;
}

/* Begins to open streams. One that follows another, as when a trainer closes and opens again, waits
 * for the memory that returns, or it would be refused or get fewer slots; but not for long, since
 * what it waits for may hang in some other storage. */
static void group_begin(struct server *server)
{
	bool returns = group_memory_returns(server);
	for (struct group *g = server->groups; g; g = g->next) {
		struct fault fault;
		if (g->closing || g->stream || g->opening ||
			(returns && clock_ns() - g->account_ns < SERVE_OPEN_WAIT_NS))
			continue;
		int result = opener_start(server, g, &g->spec, &fault);
		if (result)
			group_refuse(g, result, fault.text);
	}
}

void group_sweep(struct server *server)
{
	for (struct group **place = &server->groups; *place;) {
		struct group *group = *place;
		if (!group->closing || group->members ||
			(group->stream && !stream_idle(group->stream))) {
			place = &group->next;
			continue;
		}
		quarantine_take(group);
		stream_free(group->stream);
		*place = group->next;
		free(group);
	}
	group_begin(server);
}

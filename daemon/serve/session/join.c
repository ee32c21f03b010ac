/* join: which group a client joins, and where its stream begins.
 *
 * A stream that a client opens belongs to a group: one of the client's own, the group that it
 * names, or the group of the configuration's stream. All members of a group agree on what makes the
 * batches, and on where the first one is; they may differ in how far they read.
 *
 *   share: all     one struct group; a member begins with the oldest batch that is still there with
 *                  all after it or, if it comes back, with the batch that it needs next
 *   share: split   a struct group for each rank, tied together by struct job: same definition, each
 *                  rank once, all from one state
 *
 * Members that come back after the daemon was restarted may be at different batches. Their group
 * waits a moment for all of them, then begins with the batch that is needed first; each member gets
 * no batch that it had already. */
#define LOG_TOPIC LOG_STREAM
#include "serve/session/session.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "proto/opened_tail.h"
#include "serve/state.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a shared group waits for members that come back: by default, and where `wait_for` says
 * how many they are. */
enum { JOIN_COME_BACK_S = 2, JOIN_COME_BACK_MOST_S = 60 };

/* ---- names ---- */

/* A client without a group is alone: no other client can give the name of its group. */
static void join_name(const struct client *client, uint32_t stream, const struct stream_spec *spec,
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

static bool join_alone(const char *name)
{
	return name[0] == '\n';
}

/* ---- who may ---- */

static bool join_same_origin(const struct spec_state *a, const struct spec_state *b)
{
	if (!a->given || !b->given)
		return a->given == b->given;
	return a->epoch == b->epoch && a->position == b->position &&
	       a->fingerprint == b->fingerprint && a->order == b->order && a->seed == b->seed &&
	       buckets_cuts_equal(&a->cuts, &b->cuts);
}

static void join_say_origin(const struct spec_state *state, char *buffer, size_t room)
{
	if (state->given)
		(void)snprintf(buffer, room, "at epoch %" PRIu64 ", position %" PRIu64,
			state->epoch, state->position);
	else
		(void)snprintf(buffer, room, "without a state");
}

/* All members of a group bring the same state, before any batch was returned. */
static int join_check_state(
	const struct group *group, const struct stream_spec *spec, struct fault *fault)
{
	if (!spec->state.given || spec->reconnect)
		return 0;
	if (!join_same_origin(&group->spec.state, &spec->state))
		return fault_set(fault, -EBUSY,
			"group %s was begun with another state, or with none: give all its "
			"trainers the same one",
			group->name);
	if (group->begun && tally_first(stream_tally(group->stream)) > 0)
		return fault_set(fault, -EBUSY,
			"group %s has gone on from this state already: open the stream without a "
			"state to join where it is now",
			group->name);
	return 0;
}

static int join_check_rank(
	const struct server *server, const struct job *job, uint32_t rank, struct fault *fault)
{
	list_each (g, &server->groups, struct group, node)
		if (g->job == job && g->spec.rank == rank && !list_is_empty(&g->members))
			return fault_set(fault, -EBUSY,
				"rank %" PRIu32 " of group %s is taken by trainer %d: give every "
				"trainer of the group a rank of its own, or, if that trainer "
				"belongs to another job, give each job a name of its own "
				"(torchrun's --rdzv-id, or PENSTOCK_JOB)",
				rank, job->name,
				list_first(&g->members, struct member, of_group)->client->pid);
	return 0;
}

/* Whether a rank that comes back is between two global batches of the job. */
static bool join_on_grid(const struct job *job, const struct stream_spec *spec)
{
	const struct spec_state *ours = &job->origin, *its = &spec->state;
	uint64_t global = (uint64_t)spec->batch_size * spec->world_size;
	uint64_t start = its->epoch == ours->epoch ? ours->position : 0;
	uint64_t apart = start > its->position ? start - its->position : its->position - start;
	/* No batch of the job is known before the epoch in which the first rank came back. */
	return its->epoch < ours->epoch || apart % global == 0;
}

/* Ranks begin together. Ranks that come back may be at different batches, but of one job. Which
 * state is good is not known until a rank was answered. */
static int join_check_origin(
	const struct job *job, const struct stream_spec *spec, struct fault *fault)
{
	const struct spec_state *ours = &job->origin, *its = &spec->state;
	char here[80], there[80];
	if (!job->begun ||
		(spec->reconnect ? join_on_grid(job, spec) : join_same_origin(ours, its)))
		return 0;
	join_say_origin(its, here, sizeof here);
	join_say_origin(ours, there, sizeof there);
	return fault_set(fault, -EBUSY,
		"rank %" PRIu32 " begins %s, but group %s was begun %s: start all ranks from one "
		"state",
		spec->rank, here, job->name, there);
}

/* Each rank opens the source, and a file of labels, by itself. A file that was replaced meanwhile
 * would silently give the ranks different samples or labels. */
static int join_check_dataset(const struct group *group, struct fault *fault)
{
	const struct job *job = group->job;
	if (!job || !job->begun || stream_was(group->stream, job->fingerprint))
		return 0;
	return fault_set(fault, -EBUSY,
		"rank %" PRIu32
		" of group %s finds other samples or labels in %.400s than the ranks "
		"that began before it: a file of them was replaced meanwhile; start all ranks "
		"again together",
		group->spec.rank, group->name, group->spec.source);
}

static int join_check_job(const struct server *server, const struct job *job,
	const struct stream_spec *spec, struct fault *fault)
{
	uint32_t rank = spec->rank;
	int result = join_check_rank(server, job, rank, fault);
	if (!result)
		result = join_check_origin(job, spec, fault);
	if (!result && job->seen[rank / 64] >> rank % 64 & 1 && !spec->reconnect)
		result = fault_set(fault, -EBUSY,
			"rank %" PRIu32 " of group %s was here before and left, while other ranks "
			"are still attached: start all ranks again together",
			rank, job->name);
	return result;
}

/* The group that the client would join: NULL when it begins one. */
static int join_find(struct server *server, const char *name, const struct stream_spec *spec,
	struct group **ret, struct job **ret_job, struct fault *fault)
{
	const char *what;
	*ret = NULL;
	*ret_job = NULL;
	list_each (g, &server->groups, struct group, node) {
		if (g->closing || strcmp(g->name, name) != 0)
			continue;
		if (!spec_same(&g->spec, spec, &what))
			return fault_set(fault, -EBUSY,
				"group %s already reads a stream with another %s: give all its "
				"trainers the same options, or another group",
				name, what);
		*ret_job = g->job;
		if (!g->job)
			*ret = g;
	}
	if (*ret_job)
		return join_check_job(server, *ret_job, spec, fault);
	return *ret ? join_check_state(*ret, spec, fault) : 0;
}

/* ---- joining ---- */

/* A job that is restarted at once must not meet its own dead members, whose hang-ups may not have
 * been read yet. */
static void join_bury(struct server *server, const char *name)
{
	list_each (g, &server->groups, struct group, node) {
		if (strcmp(g->name, name) != 0)
			continue;
		list_each (m, &g->members, struct member, of_group) {
			struct pollfd fds[2] = {{.fd = m->client->fd, .events = POLLRDHUP},
				{.fd = m->client->pidfd, .events = POLLIN}};
			if (poll(fds, 2, 0) > 0)
				client_close(m->client, client_hung_up);
		}
	}
	group_bury(server);
}

static struct job *join_new_job(
	struct server *server, const char *name, const struct stream_spec *spec)
{
	size_t words = (spec->world_size + 63) / 64;
	struct job *job = calloc(1, sizeof *job + words * sizeof *job->seen);
	if (!job)
		return NULL;
	(void)snprintf(
		job->name, sizeof job->name, "%s", join_alone(name) ? "of one trainer" : name);
	list_prepend(&server->jobs, &job->node);
	return job;
}

/* sweep_groups opens its stream at the end of the turn. */
static struct group *join_new_group(
	struct server *server, const char *name, const struct stream_spec *spec, struct job *job)
{
	struct group *group = calloc(1, sizeof *group);
	if (group)
		group->numa_node = -1; /* until its stream is opened */
	if (group && spec->share == SPEC_SHARE_SPLIT && !job)
		job = join_new_job(server, name, spec);
	if (!group || (spec->share == SPEC_SHARE_SPLIT && !job)) {
		free(group);
		return NULL;
	}
	group->server = server;
	group->spec = *spec;
	(void)snprintf(group->name, sizeof group->name, "%s", name);
	group->came_ns = group->account.at_ns = clock_ns();
	group->job = job;
	if (job)
		job->groups++;
	list_prepend(&server->groups, &group->node);
	return group;
}

static struct member *join_attach(struct client *client, struct group *group,
	const struct wire_head *head, const struct stream_spec *spec)
{
	struct member *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	*m = (struct member){.client = client,
		.group = group,
		.stream = head->stream,
		.number = ++group->server->members,
		.request = head->request,
		.state = spec->state,
		.epochs = spec->epochs,
		.reconnect = spec->reconnect};
	list_prepend(&client->members, &m->of_client);
	list_prepend(&group->members, &m->of_group);
	return m;
}

/* A new stream makes the daemon hold the stream, a thread that opens it and, when it has ended, its
 * memory. */
static int join_may_begin(const struct client *client, struct fault *fault)
{
	static const enum peer_kind kinds[] = {PEER_STREAMS, PEER_OPENINGS, PEER_KEPT};
	int result = 0;
	for (size_t i = 0; i < UTIL_COUNT(kinds) && !result; i++)
		result = peer_may(&client->server->peers, &client->name, kinds[i], fault);
	return result;
}

/* ---- where it begins ---- */

/* A trainer that continues goes on with the fingerprint that it knows, and all ranks of a job have
 * one, though images may have been rewritten in between: the samples are the same. */
static uint64_t join_fingerprint(const struct member *m)
{
	const struct group *group = m->group;
	if (m->state.given)
		return m->state.fingerprint;
	return group->job && group->job->begun ? group->job->fingerprint
					       : stream_fingerprint(group->stream);
}

/* The names end within their bytes: both ends limit them so. */
static void join_describe(const struct stream_spec *spec, struct opened_tail *tail)
{
	tail->groups = spec->views.groups;
	for (uint32_t i = 0; i < spec->views.groups; i++) {
		const struct pixel_size size = spec_group_size(spec, i);
		tail->group[i] = (struct wire_group){.views = spec_group_views(spec, i),
			.height = size.height,
			.width = size.width};
		memcpy(tail->group[i].name, spec->views.group[i].name, sizeof tail->group[i].name);
	}
	tail->fields = spec->fields.count;
	for (uint32_t i = 0; i < spec->fields.count; i++) {
		const struct field *field = &spec->fields.at[i];
		tail->field[i].max_bytes = field->max;
		memcpy(tail->field[i].name, field->name, sizeof field->name);
	}
}

/* How the epoch of a member's first batch is cut. */
static void join_describe_cuts(
	const struct stream *stream, uint64_t epoch, struct opened_tail *tail)
{
	const struct course *course = stream_course(stream);
	const struct buckets_cuts whole = {.count = 1, .at = {{0, order_global(&course->epoch)}}};
	const struct buckets_cuts *cuts = epoch == course->start_epoch ? &course->cuts : &whole;
	if (!course->epoch.buckets)
		return;
	tail->cuts = cuts->count;
	for (uint32_t i = 0; i < cuts->count; i++)
		tail->cut[i] = (struct wire_cut){cuts->at[i].position, cuts->at[i].global};
}

static void join_send_opened(struct member *m)
{
	const struct stream *stream = m->group->stream;
	const struct stream_spec *spec = stream_spec(stream);
	const struct dataset *dataset = stream_dataset(stream);
	const struct extent *extent = stream_extent(stream);
	struct course_batch first = course_batch(stream_course(stream), m->reader.next, spec->rank);
	m->epoch = first.epoch;
	m->batch = first.batch;
	struct wire_opened opened = {
		.head = {.type = WIRE_OPENED, .request = m->request, .stream = m->stream},
		.samples = stream_samples(stream),
		.epoch_samples = stream_epoch_samples(stream),
		.batches = stream_batches(stream),
		.fingerprint = join_fingerprint(m),
		.order = stream_order_hash(stream),
		.transform = stream_transform_hash(stream),
		.seed = spec->seed,
		.epoch = first.epoch,
		.batch = first.batch,
		.position = first.origin,
		.batch_size = spec->batch_size,
		.height = spec->image_size.height,
		.width = spec->image_size.width,
		.channels = extent->layout.channels,
		.pixel_type = extent->layout.pixel_type,
		.pixel_layout = extent->layout.pixel_layout,
		.label_type = extent->layout.label_type,
		.label_width = extent->layout.label_width,
		.views = extent->layout.views,
		.salt = spec_salt(spec),
		.rank = spec->rank,
		.world_size = spec->world_size,
		.classes = dataset_classes(dataset),
		.shuffle = spec->shuffle != SHUFFLE_NONE,
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
	struct opened_tail tail = {.groups = 0};
	uint8_t bytes[OPENED_TAIL_BYTES];
	join_describe(spec, &tail);
	join_describe_cuts(stream, first.epoch, &tail);
	const size_t tail_bytes = opened_tail_write(&tail, bytes);
	client_send(m->client, &opened.head, sizeof opened, bytes, tail_bytes, -1);
	client_send(m->client, &announce.head, sizeof announce, NULL, 0, extent->handout.give);
}

/* Whether the group's batches up to the state's place are those that the state says. A state that
 * was refused (stream_fits) does not get here. */
static bool join_agrees(const struct course *course, const struct spec_state *state)
{
	struct course later;
	bool full;
	return course_resume(&course->epoch, state->epoch, state->position, &state->cuts, &later,
		       &full) &&
	       course_agrees(course, &later);
}

/* The batch that a member begins with. */
static int join_serial(const struct member *m, uint64_t *ret_serial, struct fault *fault)
{
	const struct stream *stream = m->group->stream;
	uint64_t first = tally_first(stream_tally(stream));
	if (!m->state.given) {
		*ret_serial = first;
		return 0;
	}
	const struct course *course = stream_course(stream);
	if (join_agrees(course, &m->state) &&
		course_serial(course, m->state.epoch, m->state.position, ret_serial) &&
		*ret_serial >= first)
		return 0;
	struct course_batch oldest = course_batch(course, first, 0);
	return fault_set(fault, -ESTALE,
		"this trainer needs the batch at epoch %" PRIu64 ", position %" PRIu64
		", which its group has passed or never gives (its oldest is at epoch %" PRIu64
		", position %" PRIu64 "): start all its trainers again from one state",
		m->state.epoch, m->state.position, oldest.epoch, oldest.origin);
}

/* False: the member's state is of another dataset, seed or order; it was refused and is gone. */
static bool join_fits(struct member *m)
{
	struct fault fault;
	char note[FAULT_TEXT];
	if (!m->state.given)
		return true;
	int result = stream_fits(m->group->stream, &m->state, note, sizeof note, &fault);
	if (result) {
		client_error(m->client, m->request, m->stream, result, fault.text);
		group_leave(m);
		return false;
	}
	if (note[0] && log_limit_may(&m->group->server->log_limits, LOG_LIMIT_OPENING))
		log_write(LOG_INFO, LOG_TRAINER, "trainer %d: %s", m->client->pid, note);
	return true;
}

/* A rank is answered: all ranks begin where the first one began. */
static void join_mark_rank(const struct group *group)
{
	struct job *job = group->job;
	const struct stream_spec *spec = &group->spec;
	if (!job->begun) {
		job->origin = spec->state;
		job->fingerprint = stream_fingerprint(group->stream);
	}
	job->begun = true;
	job->seen[spec->rank / 64] |= 1ull << spec->rank % 64;
}

/* The member joins and is answered. False: it was refused and is gone. */
static bool join_admit(struct member *m)
{
	struct group *group = m->group;
	struct fault fault;
	uint64_t serial;
	int result = join_serial(m, &serial, &fault);
	if (!result && group->job)
		result = join_check_origin(group->job, &group->spec, &fault);
	if (!result)
		result = join_check_dataset(group, &fault);
	if (result) {
		client_error(m->client, m->request, m->stream, result, fault.text);
		group_leave(m);
		return false;
	}
	uint64_t end = UTIL_MAX(course_end(stream_course(group->stream), m->epochs), serial);
	stream_join(group->stream, &m->reader, serial, end);
	m->answered = true;
	if (group->job)
		join_mark_rank(group);
	/* Recorded before it is answered: a client to which the answer cannot be sent is closed,
	 * and its leaving is recorded. One that is gone already was never recorded. */
	if (!m->client->dead)
		recorder_attach(m);
	join_send_opened(m);
	stream_pump(group->stream);
	return true;
}

/* Other ranks may have waited for a member that came. */
static void join_turn(struct group *group)
{
	struct server *server = group->server;
	const struct job *job = group->job;
	group_turn(group);
	list_each (g, &server->groups, struct group, node)
		if (job && g->job == job && !g->started)
			group_turn(g);
}

static void join_place(struct member *m)
{
	struct group *group = m->group;
	if (!join_fits(m))
		return;
	if (!group->begun)
		join_begin(group);
	else if (join_admit(m))
		join_turn(group);
}

/* Makes the client a member: of the group that exists, or of one that begins with it. */
static struct member *join_enter(struct client *client, const struct wire_head *head,
	const struct stream_spec *spec, struct sampling_lists *lists)
{
	struct server *server = client->server;
	char name[SESSION_NAME];
	struct fault fault;
	struct group *group;
	struct job *job;
	join_name(client, head->stream, spec, name, sizeof name);
	join_bury(server, name);
	int result = join_find(server, name, spec, &group, &job, &fault);
	if (!result && !group)
		result = join_may_begin(client, &fault);
	if (result) {
		client_error(client, head->request, head->stream, result, fault.text);
		return NULL;
	}
	if (!group && (group = join_new_group(server, name, spec, job))) {
		group->peer = peer_charge(&server->peers, &client->name, PEER_STREAMS);
		group->lists = *lists;
		*lists = (struct sampling_lists){0};
	}
	struct member *m = group ? join_attach(client, group, head, spec) : NULL;
	if (!m) {
		if (group && list_is_empty(&group->members))
			group_shut(group);
		client_error(client, head->request, head->stream, -ENOMEM,
			"no memory for another trainer");
	}
	return m;
}

void join_open(struct client *client, const struct wire_head *head, const struct stream_spec *spec,
	struct sampling_lists *lists)
{
	struct member *m = join_enter(client, head, spec, lists);
	/* The group that it joins has its own. */
	sampling_lists_close(&client->server->lists, lists);
	if (m && m->group->stream)
		join_place(m);
}

/* ---- the stream is open ---- */

static void join_log_opened(const struct group *group)
{
	const struct stream *stream = group->stream;
	const struct extent *extent = stream_extent(stream);
	const struct dataset *dataset = stream_dataset(stream);
	char why[256] = "", rank[64] = "", call[SPEC_CALL];
	if (!log_limit_may(&group->server->log_limits, LOG_LIMIT_OPENING))
		return;
	int direct = fetch_wants_direct(group->server->fetch, dataset, why, sizeof why);
	if (group->job)
		(void)snprintf(rank, sizeof rank, " for rank %u of %u", group->spec.rank,
			group->spec.world_size);
	const unsigned long long samples = stream_samples(stream), batches = stream_batches(stream);
	log_info("%s%s: %llu sample%s, %llu batch%s of %u an epoch, %u slots of %llu "
		 "KiB%s%s; reads %s (%s)%s%s",
		spec_call(&group->spec, call, sizeof call), rank, samples, samples == 1 ? "" : "s",
		batches, batches == 1 ? "" : "es", group->spec.batch_size, extent->slots,
		(unsigned long long)(extent->stride >> 10),
		extent->huge_pages ? ", 2 MiB pages" : "",
		extent->locked ? ", locked in memory" : "",
		direct ? "with O_DIRECT" : "through the page cache", why,
		stream_notice(stream)[0] ? "; note: " : "", stream_notice(stream));
	const struct concat *parts = stream_samples_of(stream);
	for (uint32_t i = 0; i < parts->count; i++)
		if (dataset_notice(parts->dataset[i])[0])
			log_warning("%s", dataset_notice(parts->dataset[i]));
	const char *text;
	for (uint32_t i = 0; (text = stream_warning(stream, i)); i++)
		log_warning("%s", text);
}

/* Members whose state is of another dataset, seed or order are refused. */
static void join_check_states(struct group *group)
{
	list_each_removable (m, &group->members, struct member, of_group)
		(void)join_fits(m);
}

/* All its members have left. */
static void join_drop(const struct opening *opening)
{
	struct server *server = opening->server;
	const struct peer *peer = opening->peer;
	if (opening->stream)
		close_task_start(server, opening->stream,
			peer ? peer_charge(&server->peers, &peer->name, PEER_KEPT) : NULL);
}

void join_opened(struct opening *opening)
{
	struct group *group = opening->group;
	if (!group) {
		join_drop(opening);
		return;
	}
	group->opening = NULL;
	if (opening->result) {
		char call[SPEC_CALL];
		if (log_limit_may(&group->server->log_limits, LOG_LIMIT_OPENING))
			log_info("cannot open %s: %s", spec_call(&opening->spec, call, sizeof call),
				opening->fault.text);
		group_refuse(group, opening->result, opening->fault.text);
		return;
	}
	group->stream = opening->stream;
	group->opened_ns = clock_ns();
	group->extent_number = ++group->server->next_extent;
	join_log_opened(group);
	join_check_states(group);
	join_begin(group);
}

static bool join_comes_back(const struct group *group)
{
	bool any = false;
	list_each (m, &group->members, struct member, of_group)
		any |= m->reconnect;
	return any;
}

/* Whether to wait for more members to come back: for two seconds or, where wait_for says how many
 * they were, until all are there or are not to be expected any more. */
static bool join_holds(const struct group *group)
{
	uint64_t wait_for = group->spec.wait_for;
	uint64_t limit_s = wait_for > 1 ? JOIN_COME_BACK_MOST_S : JOIN_COME_BACK_S;
	if (group->job || join_alone(group->name) || !join_comes_back(group))
		return false;
	return (wait_for == 1 || session_group_size(group) < wait_for) &&
	       clock_ns() - group->opened_ns < limit_s * 1000000000ull;
}

static bool join_before(const struct spec_state *a, const struct spec_state *b)
{
	return a->epoch != b->epoch ? a->epoch < b->epoch : a->position < b->position;
}

/* The member that was not answered and needs the oldest batch; one without a state takes any. */
static struct member *join_oldest(const struct group *group)
{
	struct member *oldest = NULL;
	list_each (m, &group->members, struct member, of_group)
		if (!m->answered &&
			(!oldest || (m->state.given &&
					    (!oldest->state.given ||
						    join_before(&m->state, &oldest->state)))))
			oldest = m;
	return oldest;
}

void join_begin(struct group *group)
{
	if (group->closing || join_holds(group))
		return;
	struct member *m = join_oldest(group);
	stream_begin(group->stream, &m->state);
	/* Members that come back were past the first batch, for which all waited. */
	group->started = join_comes_back(group);
	/* The member that needs the oldest batch comes first: what the members that have joined
	 * need is then kept for the others too. Nothing is collected meanwhile, though a member
	 * may be refused and leave. */
	for (; m; m = join_oldest(group))
		(void)join_admit(m);
	group->begun = true;
	if (!group->closing)
		join_turn(group);
}

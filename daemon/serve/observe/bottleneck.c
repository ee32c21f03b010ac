/* bottleneck: what holds a stream up: adds up the seconds of its window, and has stats/verdict.h
 * find the verdict. */
#include "serve/observe/observe.h"

#include "base/clock.h"
#include "base/util.h"
#include "remote/url.h"
#include "serve/session/session.h"
#include "serve/state.h"

#include <stdio.h>
#include <string.h>

enum { BOTTLENECK_READS = 8 }; /* in flight at once, for which a budget should have buffers */

static void bottleneck_add(struct verdict_input *in, const struct account_group_second *s)
{
	const struct account_second *d = &s->daemon;
	in->seconds += d->seconds;
	in->trainer_wait_s += s->trainer_wait_s;
	in->complete_s += s->complete_s;
	in->slots_full_s += s->slots_full_s;
	in->images += s->images;
	in->workers_idle_s += d->workers_idle_s;
	in->permit_wait_s += d->permit_wait_s;
	in->workers_cpu_s += d->workers_cpu_s;
	in->cpu_s += d->cpu_s;
	/* If the kernel gave no figure for one second, the sum is not known. */
	in->delay_s = in->delay_s < 0 || d->delay_s < 0 ? -1 : in->delay_s + d->delay_s;
	in->cpus_idle_s =
		in->cpus_idle_s < 0 || d->cpus_idle_s < 0 ? -1 : in->cpus_idle_s + d->cpus_idle_s;
	in->throttled_s += d->throttled_s;
	in->read_delay_s += d->read_delay_s;
	in->read_busy_s += d->read_busy_s;
	in->read_depth_s += d->read_depth_s;
	in->buffers_full_s += d->buffers_full_s;
	in->read_bytes += (double)d->read_bytes;
}

/* The trainer that holds most; of two, the one that has returned nothing for longer. */
static void bottleneck_holder(const struct group *group, struct verdict_input *in)
{
	const struct member *holder = NULL;
	list_each (m, &group->members, struct member, of_group)
		if (!holder || session_held(m) > session_held(holder) ||
			(session_held(m) == session_held(holder) &&
				m->account.released_ns < holder->account.released_ns))
			holder = m;
	if (!holder || !holder->reader.held)
		return;
	in->held_pid = holder->client->pid;
	in->held_most = session_held(holder);
	in->held_quiet_s = account_s(clock_ns(), holder->account.released_ns);
	in->held_usual_s = (double)holder->account.longest_ns * 1e-9;
}

/* The budgets that would end a shortage. */
static void bottleneck_budgets(const struct group *group, uint64_t reads, struct verdict_input *in)
{
	const struct server *server = group->server;
	const struct budget_worker worker = budget_worker_needs();
	uint64_t limit = server->config->stream_memory, large = server->account.largest;
	const struct dataset *dataset = stream_dataset(group->stream);
	uint64_t wanted = stream_bytes(&group->spec, dataset, in->threads, in->slots_wanted),
		 have = stream_bytes(&group->spec, dataset, in->threads, in->slots);
	uint64_t mean = reads ? (uint64_t)(in->read_bytes / (double)reads) : 0;
	bool apart = mean > server->memory.arena / 4;
	uint64_t at_once = in->remote.store && in->remote.requests > 0
				   ? UTIL_MAX(in->remote.limit, BOTTLENECK_READS + 0u)
				   : BOTTLENECK_READS;
	const struct budget slots = {.streams = server->memory.streams + wanted - have},
			    images = {.large_images = large * in->threads},
			    buffers = {.arena = apart ? 0 : at_once * mean * 5 / 4,
				    .large_reads = apart ? at_once * mean : 0};
	in->budget = server->memory.budget;
	in->slots_limited = limit && wanted > limit;
	in->budget_slots =
		in->slots_limited ? wanted : budget_for_parts(&slots, in->threads, &worker);
	in->budget_images = budget_for_parts(&images, in->threads, &worker);
	in->budget_buffers = budget_for_parts(&buffers, in->threads, &worker);
}

/* The kind of storage that a URL names, for the verdict; NULL: a path. */
static const char *bottleneck_store_of(const char *source)
{
	static const struct {
		const char *scheme, *name;
	} stores[] = {{"s3:", "S3"}, {"gs:", "GCS"}, {"hf:", "Hugging Face"}};
	if (!remote_is_url(source))
		return NULL;
	for (size_t i = 0; i < UTIL_COUNT(stores); i++)
		if (strncmp(source, stores[i].scheme, 3) == 0)
			return stores[i].name;
	return "HTTP";
}

/* Of several sources, the first that is remote. */
static const char *bottleneck_store(const struct stream_spec *spec)
{
	const struct sampling_sources *sources = &spec->sampling.sources;
	const char *store = bottleneck_store_of(spec->source);
	for (uint32_t i = 0; !store && i < sources->count; i++)
		store = bottleneck_store_of(sampling_source(sources, i));
	return store;
}

void bottleneck_find(const struct group *group, struct verdict *ret)
{
	const struct server *server = group->server;
	struct verdict_input in = {
		.threads = workers_threads(server->workers),
		.cpus = server->account.cpus,
		.read_best = server->account.read_best,
		.read_threads = server->account.last.read_threads,
		.trainers = session_group_size(group),
		.present = session_group_present(group),
		.wait_for = group->spec.wait_for,
		.fast = group->spec.decode == SPEC_DECODE_FAST,
		.opening = !group->stream,
		.started = group->started,
	};
	uint64_t have = account_have(group), reads = 0;
	account_requested(&server->account, have, &in.remote);
	in.remote.store = bottleneck_store(&group->spec);
	list_each (m, &group->members, struct member, of_group)
		in.ended += m->ended;
	for (uint64_t i = 0; i < have; i++) {
		bottleneck_add(&in, account_ago(group, i));
		reads += account_ago(group, i)->daemon.reads;
	}
	if (group->stream) {
		in.slots = stream_tally(group->stream)->slots;
		in.slots_wanted = group->spec.prefetch;
		bottleneck_holder(group, &in);
		bottleneck_budgets(group, reads, &in);
	}
	verdict_find(&in, ret);
}

static bool bottleneck_says(const struct verdict *verdict)
{
	return verdict->kind != VERDICT_NONE && verdict->kind != VERDICT_UNKNOWN;
}

/* Of two whose trainers wait as much, the one that came first, which is looked at last; but not one
 * that has nothing to say. */
static bool bottleneck_is_worse(const struct verdict *one, const struct verdict *worst)
{
	if (one->trainer_wait != worst->trainer_wait)
		return one->trainer_wait > worst->trainer_wait;
	return bottleneck_says(one) || !bottleneck_says(worst);
}

/* The stream whose trainers wait most. */
static const struct group *bottleneck_worst(
	const struct server *server, struct verdict *ret, unsigned *ret_groups)
{
	const struct group *worst = NULL;
	unsigned groups = 0;
	list_each (g, &server->groups, struct group, node) {
		struct verdict one;
		if (g->closing)
			continue;
		groups++;
		bottleneck_find(g, &one);
		if (worst && !bottleneck_is_worse(&one, ret))
			continue;
		worst = g;
		*ret = one;
	}
	*ret_groups = groups;
	return worst;
}

void bottleneck_server(
	const struct server *server, char *buffer, size_t room, char ret_remedy[VERDICT_TEXT])
{
	struct verdict verdict;
	unsigned groups;
	const struct group *worst = bottleneck_worst(server, &verdict, &groups);
	char name[2 * SPEC_NAME];
	(void)snprintf(ret_remedy, VERDICT_TEXT, "%s", worst ? verdict.remedy : "");
	if (worst)
		differs_name(worst, name, sizeof name);
	if (!worst)
		(void)snprintf(buffer, room, "no trainer");
	else if (groups > 1)
		(void)snprintf(buffer, room, "%s: %s", name, verdict.sentence);
	else
		(void)snprintf(buffer, room, "%s", verdict.sentence);
}

/* account: see account.h. Counters are read once a second and what they grew by is kept; a verdict
 * adds up the seconds of its window. */
#include "base/clock.h"
#include "base/host/cgroup.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "serve/serve_impl.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Reads count as always under way from this share of a second on. */
#define ACCOUNT_ALWAYS 0.95
/* A quota is asked for only where threads wait for processors: it takes a dozen files. */
#define ACCOUNT_DELAYED 0.1

/* ---- who waits ---- */

static unsigned account_held(const struct member *m)
{
	return (unsigned)__builtin_popcountll(m->reader.held);
}

static bool account_reads(const struct member *m)
{
	return m->group->started && m->answered && !m->ended;
}

static void account_member_turn(struct member *m, uint64_t now)
{
	struct account_member *account = &m->account;
	uint64_t held = m->reader.held;
	if (account->was_waiting)
		account->wait_ns += now - m->group->account_ns;
	account->was_waiting = account_reads(m) && !held;
	if (account->seen & ~held)
		account->longest_ns = UTIL_MAX(account->longest_ns, now - account->released_ns);
	if ((account->seen & ~held) || (held && !account->seen))
		account->released_ns = now;
	account->seen = held;
}

static bool account_full(const struct group *group)
{
	const struct tally *tally = stream_tally(group->stream);
	return tally_count(tally, SLOT_FREE) + tally_count(tally, SLOT_FILLING) == 0;
}

void account_turn(struct group *group)
{
	struct account_group *account = &group->account;
	uint64_t now = clock_ns();
	bool waiting = false, behind = false;
	if (group->was_waiting)
		group->trainer_wait_ns += now - group->account_ns;
	if (group->was_full)
		group->slots_full_ns += now - group->account_ns;
	if (account->was_complete)
		account->complete_ns += now - group->account_ns;
	for (struct member *m = group->members; m; m = m->next_of_group) {
		account_member_turn(m, now);
		waiting |= m->account.was_waiting;
		behind |= account_reads(m) && account_held(m) > 1;
	}
	group->account_ns = now;
	group->was_waiting = waiting;
	group->was_full = account_full(group);
	account->was_complete = !waiting && (behind || group->was_full);
}

/* ---- once a second ---- */

static uint64_t account_process_cpu_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void account_count(struct server *server, struct account_counters *ret)
{
	struct fetch_stats fetch;
	struct workers_stats pool;
	struct permit_stats permit;
	fetch_stats_read(server->fetch, &fetch);
	workers_stats_read(server->pool, &pool);
	permit_stats_read(&server->large_images, &permit);
	*ret = (struct account_counters){
		.at_ns = clock_ns(),
		.idle_ns = pool.idle_ns,
		.permit_ns = permit.wait_ns,
		.workers_cpu_ns = workers_cpu_ns(server->pool),
		.cpu_ns = account_process_cpu_ns(),
		.busy_ns = fetch.busy_ns,
		.depth_ns = fetch.asked_ns,
		.short_ns = fetch.short_ns,
		.bytes = fetch.bytes,
		.reads = fetch.reads,
	};
	ret->delay_known = workers_delay_ns(server->pool, &ret->delay_ns);
	ret->read_delay_known =
		fetch_delay_ns(server->fetch, &ret->read_delay_ns, &ret->read_threads);
	server->account.largest = permit.largest;
}

/* Seconds from one count to the next. What is added up from several places can shrink. */
static double account_s(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) * 1e-9 : 0;
}

void account_between(const struct account_counters *last, const struct account_counters *now,
	struct account_second *ret)
{
	bool delay = last->delay_known && now->delay_known;
	bool read_delay = last->read_delay_known && now->read_delay_known;
	bool throttled = last->throttled_known && now->throttled_known;
	*ret = (struct account_second){
		.seconds = account_s(now->at_ns, last->at_ns),
		.workers_idle_s = account_s(now->idle_ns, last->idle_ns),
		.permit_wait_s = account_s(now->permit_ns, last->permit_ns),
		.workers_cpu_s = account_s(now->workers_cpu_ns, last->workers_cpu_ns),
		.cpu_s = account_s(now->cpu_ns, last->cpu_ns),
		.delay_s = delay ? account_s(now->delay_ns, last->delay_ns) : -1,
		.read_delay_s = read_delay ? account_s(now->read_delay_ns, last->read_delay_ns) : 0,
		.throttled_s =
			throttled ? account_s(now->throttled_us * 1000, last->throttled_us * 1000)
				  : 0,
		.read_busy_s = account_s(now->busy_ns, last->busy_ns),
		.read_depth_s = account_s(now->depth_ns, last->depth_ns),
		.buffers_full_s = account_s(now->short_ns, last->short_ns),
		.read_bytes = now->bytes - last->bytes,
		.reads = now->reads - last->reads,
	};
}

static void account_throttled(const struct account_counters *last, struct account_counters *now)
{
	if (account_s(now->delay_ns, last->delay_ns) < ACCOUNT_DELAYED)
		return;
	now->throttled_us = cgroup_throttled_us();
	now->throttled_known = true;
}

void account_server_tick(struct server *server)
{
	struct account_server *account = &server->account;
	struct account_counters now, last = account->last;
	if (!last.at_ns)
		last.at_ns = server->started_ns;
	account_count(server, &now);
	account_throttled(&last, &now);
	account_between(&last, &now, &account->second);
	account->last = now;
	account->cpus = cpu_available();
	const struct account_second *second = &account->second;
	if (second->seconds > 0.5 && second->read_busy_s > ACCOUNT_ALWAYS * second->seconds)
		account->read_best =
			UTIL_MAX(account->read_best, (double)second->read_bytes / second->seconds);
}

static void account_member_tick(struct member *m, double seconds)
{
	struct account_member *account = &m->account;
	double waited = account_s(account->wait_ns, account->last_wait_ns);
	account->window[account->ticks++ % ACCOUNT_WINDOW] =
		seconds > 0 ? UTIL_MIN(waited / seconds, 1.0) : 0;
	account->last_wait_ns = account->wait_ns;
}

void account_tick(struct group *group)
{
	struct account_group *account = &group->account;
	const struct account_second *second = &group->server->account.second;
	struct stream_stats stats;
	account_turn(group);
	stream_stats(group->stream, &stats);
	account->window[account->ticks++ % ACCOUNT_WINDOW] = (struct account_group_second){
		.daemon = *second,
		.trainer_wait_s = account_s(group->trainer_wait_ns, account->last_wait_ns),
		.complete_s = account_s(account->complete_ns, account->last_complete_ns),
		.slots_full_s = account_s(group->slots_full_ns, account->last_full_ns),
		.images = stats.images - account->last_images,
	};
	account->last_wait_ns = group->trainer_wait_ns;
	account->last_complete_ns = account->complete_ns;
	account->last_full_ns = group->slots_full_ns;
	account->last_images = stats.images;
	/* Before its first batch nothing is measured. */
	if (!group->started)
		account->ticks = 0;
	group->ticks++;
	for (struct member *m = group->members; m; m = m->next_of_group)
		account_member_tick(m, second->seconds);
}

/* ---- what follows ---- */

/* Samples in the window; the first second holds the opening. */
static uint64_t account_have(const struct group *group)
{
	uint64_t ticks = group->account.ticks;
	return UTIL_MIN(ticks > 1 ? ticks - 1 : 0, (uint64_t)ACCOUNT_WINDOW);
}

static const struct account_group_second *account_second(const struct group *group, uint64_t ago)
{
	return &group->account.window[(group->account.ticks - 1 - ago) % ACCOUNT_WINDOW];
}

double account_rate(const struct group *group)
{
	uint64_t have = account_have(group), images = 0;
	double seconds = 0;
	for (uint64_t i = 0; i < have; i++) {
		images += account_second(group, i)->images;
		seconds += account_second(group, i)->daemon.seconds;
	}
	return seconds > 0 ? (double)images / seconds : 0;
}

static void account_add(struct verdict_input *in, const struct account_group_second *s)
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
	/* One second without the kernel's word is enough to go without. */
	in->delay_s = in->delay_s < 0 || d->delay_s < 0 ? -1 : in->delay_s + d->delay_s;
	in->throttled_s += d->throttled_s;
	in->read_delay_s += d->read_delay_s;
	in->read_busy_s += d->read_busy_s;
	in->read_depth_s += d->read_depth_s;
	in->buffers_full_s += d->buffers_full_s;
	in->read_bytes += (double)d->read_bytes;
}

/* Who holds most; of two, the one that has given nothing back for longer. */
static void account_holder(const struct group *group, struct verdict_input *in)
{
	const struct member *holder = NULL;
	for (const struct member *m = group->members; m; m = m->next_of_group)
		if (!holder || account_held(m) > account_held(holder) ||
			(account_held(m) == account_held(holder) &&
				m->account.released_ns < holder->account.released_ns))
			holder = m;
	if (!holder || !holder->reader.held)
		return;
	in->held_pid = holder->client->pid;
	in->held_most = account_held(holder);
	in->held_quiet_s = account_s(clock_ns(), holder->account.released_ns);
	in->held_usual_s = (double)holder->account.longest_ns * 1e-9;
}

enum { ACCOUNT_READS = 8 }; /* at a time, that a budget should have buffers for */

/* The budgets that would end a shortage. */
static void account_budgets(const struct group *group, uint64_t reads, struct verdict_input *in)
{
	const struct server *server = group->server;
	const struct budget_worker worker = budget_worker_needs();
	uint64_t limit = server->config->stream_memory, large = server->account.largest;
	const struct dataset *dataset = stream_dataset(group->stream);
	uint64_t wanted = stream_bytes(&group->spec, dataset, in->threads, in->slots_wanted),
		 have = stream_bytes(&group->spec, dataset, in->threads, in->slots);
	uint64_t mean = reads ? (uint64_t)(in->read_bytes / (double)reads) : 0;
	bool apart = mean > server->plan.arena / 4;
	const struct budget slots = {.streams = server->plan.streams + wanted - have},
			    images = {.large_images = large * in->threads},
			    buffers = {.arena = apart ? 0 : ACCOUNT_READS * mean * 5 / 4,
				    .large_reads = apart ? ACCOUNT_READS * mean : 0};
	in->budget = server->plan.budget;
	in->slots_limited = limit && wanted > limit;
	in->budget_slots =
		in->slots_limited ? wanted : budget_for_parts(&slots, in->threads, &worker);
	in->budget_images = budget_for_parts(&images, in->threads, &worker);
	in->budget_buffers = budget_for_parts(&buffers, in->threads, &worker);
}

void account_bottleneck(const struct group *group, struct verdict *ret)
{
	const struct server *server = group->server;
	struct verdict_input in = {
		.threads = workers_threads(server->pool),
		.cpus = server->account.cpus,
		.read_best = server->account.read_best,
		.read_threads = server->account.last.read_threads,
		.trainers = group_size(group),
		.present = group_present(group),
		.wait_for = group->spec.wait_for,
		.opening = !group->stream,
		.started = group->started,
	};
	uint64_t have = account_have(group), reads = 0;
	for (const struct member *m = group->members; m; m = m->next_of_group)
		in.ended += m->ended;
	for (uint64_t i = 0; i < have; i++) {
		account_add(&in, account_second(group, i));
		reads += account_second(group, i)->daemon.reads;
	}
	if (group->stream) {
		in.slots = stream_tally(group->stream)->slots;
		in.slots_wanted = group->spec.prefetch;
		account_holder(group, &in);
		account_budgets(group, reads, &in);
	}
	verdict_find(&in, ret);
}

void account_verdict(const struct group *group, char *buffer, size_t room)
{
	struct verdict verdict;
	account_bottleneck(group, &verdict);
	(void)snprintf(buffer, room, "%s", verdict.sentence);
}

static bool account_says(const struct verdict *verdict)
{
	return verdict->kind != VERDICT_NONE && verdict->kind != VERDICT_UNKNOWN;
}

/* Of two that wait alike, the one that came first, which is looked at last; but not for one that
 * has nothing to say. */
static bool account_is_worse(const struct verdict *one, const struct verdict *worst)
{
	if (one->trainer_wait != worst->trainer_wait)
		return one->trainer_wait > worst->trainer_wait;
	return account_says(one) || !account_says(worst);
}

/* The stream whose trainers wait most, of those that are there. */
static const struct group *account_worst(
	const struct server *server, struct verdict *ret, unsigned *ret_groups)
{
	const struct group *worst = NULL;
	unsigned groups = 0;
	for (const struct group *g = server->groups; g; g = g->next) {
		struct verdict one;
		if (g->closing)
			continue;
		groups++;
		account_bottleneck(g, &one);
		if (worst && !account_is_worse(&one, ret))
			continue;
		worst = g;
		*ret = one;
	}
	*ret_groups = groups;
	return worst;
}

void account_server_verdict(const struct server *server, char *buffer, size_t room)
{
	struct verdict verdict;
	unsigned groups;
	const struct group *worst = account_worst(server, &verdict, &groups);
	const struct stream_spec *spec = worst ? &worst->spec : NULL;
	if (!worst)
		(void)snprintf(buffer, room, "no trainer");
	else if (groups > 1 && spec->share == SPEC_SHARE_SPLIT)
		(void)snprintf(
			buffer, room, "%s rank %u: %s", spec->name, spec->rank, verdict.sentence);
	else if (groups > 1 && spec->name[0])
		(void)snprintf(buffer, room, "%s: %s", spec->name, verdict.sentence);
	else
		(void)snprintf(buffer, room, "%s", verdict.sentence);
}

double account_member_waits(const struct member *m)
{
	const struct account_member *account = &m->account;
	uint64_t have = UTIL_MIN(account->ticks, (uint64_t)ACCOUNT_WINDOW);
	double sum = 0;
	for (uint64_t i = 0; i < have; i++)
		sum += account->window[i];
	return have ? sum / (double)have : 0;
}

double account_member_waited(const struct member *m)
{
	const struct account_member *account = &m->account;
	return account->ticks ? account->window[(account->ticks - 1) % ACCOUNT_WINDOW] : 0;
}

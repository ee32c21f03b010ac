/* account: see account.h. Counters are read once a second, and what they grew by is kept. */
#include "serve/observe/account.h"

#include "base/clock.h"
#include "base/host/cgroup.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "remote/client/client.h"
#include "remote/remote.h"
#include "serve/session/session.h"
#include "serve/state.h"
#include "stats/verdict.h"

#include <string.h>
#include <time.h>

/* From this share of a second on, reads count as always in flight. */
#define ACCOUNT_ALWAYS 0.95
/* A quota is read only where threads wait for processors: that takes a dozen files. */
#define ACCOUNT_DELAYED 0.1

enum { ACCOUNT_WAITS_S = 30 }; /* of each of a group's two histograms of waits */

/* ---- who waits ---- */

static bool account_reads(const struct member *m)
{
	return m->group->started && m->answered && !m->ended;
}

static void account_member_turn(struct member *m, uint64_t now)
{
	struct account_member *account = &m->account;
	uint64_t held = m->reader.held;
	if (account->was_waiting)
		account->wait_ns += now - m->group->account.at_ns;
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
	if (account->was_waiting)
		account->trainer_wait_ns += now - account->at_ns;
	if (account->was_full)
		account->slots_full_ns += now - account->at_ns;
	if (account->was_complete)
		account->complete_ns += now - account->at_ns;
	list_each (m, &group->members, struct member, of_group) {
		account_member_turn(m, now);
		waiting |= m->account.was_waiting;
		behind |= account_reads(m) && session_held(m) > 1;
	}
	account->at_ns = now;
	account->was_waiting = waiting;
	account->was_full = account_full(group);
	account->was_complete = !waiting && (behind || account->was_full);
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
	workers_stats_read(server->workers, &pool);
	permit_stats_read(&server->large_images, &permit);
	*ret = (struct account_counters){
		.at_ns = clock_ns(),
		.idle_ns = pool.idle_ns,
		.permit_ns = permit.wait_ns,
		.workers_cpu_ns = workers_cpu_ns(server->workers),
		.cpu_ns = account_process_cpu_ns(),
		.busy_ns = fetch.busy_ns,
		.depth_ns = fetch.asked_ns,
		.short_ns = fetch.short_ns,
		.bytes = fetch.bytes,
		.reads = fetch.reads,
	};
	ret->delay_known = workers_delay_ns(server->workers, &ret->delay_ns);
	ret->read_delay_known =
		fetch_delay_ns(server->fetch, &ret->read_delay_ns, &ret->read_threads);
	ret->cpus_idle_known = cpu_idle_ns(&ret->cpus_idle_ns);
	server->account.largest = permit.largest;
}

/* A count that is added up from several places can shrink. */
double account_s(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) * 1e-9 : 0;
}

void account_between(const struct account_counters *last, const struct account_counters *now,
	struct account_second *ret)
{
	bool delay = last->delay_known && now->delay_known;
	bool read_delay = last->read_delay_known && now->read_delay_known;
	bool throttled = last->throttled_known && now->throttled_known;
	bool idle = last->cpus_idle_known && now->cpus_idle_known;
	*ret = (struct account_second){
		.seconds = account_s(now->at_ns, last->at_ns),
		.workers_idle_s = account_s(now->idle_ns, last->idle_ns),
		.permit_wait_s = account_s(now->permit_ns, last->permit_ns),
		.workers_cpu_s = account_s(now->workers_cpu_ns, last->workers_cpu_ns),
		.cpu_s = account_s(now->cpu_ns, last->cpu_ns),
		.delay_s = delay ? account_s(now->delay_ns, last->delay_ns) : -1,
		.cpus_idle_s = idle ? account_s(now->cpus_idle_ns, last->cpus_idle_ns) : -1,
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

/* Nothing is counted before the first URL. */
static void account_remote_tick(struct account_server *account)
{
	struct remote_stats stats;
	remote_stats_read(&stats);
	_Static_assert(sizeof account->waiting >= sizeof stats.waiting, "the whole sentence");
	memcpy(account->waiting, stats.waiting, sizeof stats.waiting);
	if (!stats.started)
		return;
	account->remote[account->remote_ticks++ % UTIL_COUNT(account->remote)] =
		(struct account_remote){
			.requests = stats.requests,
			.slowdowns = stats.retried[CLIENT_RETRY_SLOWDOWN],
			.throttled_ns = stats.throttled_ns,
			.connections = (unsigned)stats.connections,
			.limit = (unsigned)stats.connections_limit,
			.first_byte = stats.first_byte,
		};
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
	account_remote_tick(account);
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
		.trainer_wait_s = account_s(account->trainer_wait_ns, account->last_wait_ns),
		.complete_s = account_s(account->complete_ns, account->last_complete_ns),
		.slots_full_s = account_s(account->slots_full_ns, account->last_full_ns),
		.images = stats.images - account->last_images,
	};
	account->last_wait_ns = account->trainer_wait_ns;
	account->last_complete_ns = account->complete_ns;
	account->last_full_ns = account->slots_full_ns;
	account->last_images = stats.images;
	/* Nothing is measured before the first batch. */
	if (!group->started)
		account->ticks = 0;
	if (++account->seconds % ACCOUNT_WAITS_S == 0) {
		account->waits[1] = account->waits[0];
		account->waits[0] = (struct histogram){0};
	}
	list_each (m, &group->members, struct member, of_group)
		account_member_tick(m, second->seconds);
}

/* ---- the window ---- */

/* The first second contains the opening, and does not count. */
uint64_t account_have(const struct group *group)
{
	uint64_t ticks = group->account.ticks;
	return UTIL_MIN(ticks > 1 ? ticks - 1 : 0, (uint64_t)ACCOUNT_WINDOW);
}

const struct account_group_second *account_ago(const struct group *group, uint64_t ago)
{
	return &group->account.window[(group->account.ticks - 1 - ago) % ACCOUNT_WINDOW];
}

double account_rate(const struct group *group)
{
	uint64_t have = account_have(group), images = 0;
	double seconds = 0;
	for (uint64_t i = 0; i < have; i++) {
		images += account_ago(group, i)->images;
		seconds += account_ago(group, i)->daemon.seconds;
	}
	return seconds > 0 ? (double)images / seconds : 0;
}

void account_requested(
	const struct account_server *account, uint64_t seconds, struct verdict_remote *ret)
{
	static const struct account_remote none;
	const uint64_t room = UTIL_COUNT(account->remote), ticks = account->remote_ticks;
	*ret = (struct verdict_remote){.waiting = account->waiting};
	uint64_t have = UTIL_MIN(UTIL_MIN(seconds, ticks), room - 1);
	if (!have)
		return;
	const struct account_remote *now = &account->remote[(ticks - 1) % room];
	const struct account_remote *before =
		ticks > have ? &account->remote[(ticks - 1 - have) % room] : &none;
	const struct histogram first = histogram_since(&now->first_byte, &before->first_byte);
	for (uint64_t i = 0; i < have; i++)
		ret->connections += account->remote[(ticks - 1 - i) % room].connections;
	ret->connections /= (double)have;
	ret->limit = now->limit;
	ret->requests = (double)(now->requests - before->requests);
	ret->slowdowns = (double)(now->slowdowns - before->slowdowns);
	ret->throttled_s = account_s(now->throttled_ns, before->throttled_ns);
	ret->first_byte_p99_s = histogram_quantile_ns(&first, 0.99) * 1e-9;
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

/* account: where a group's time goes: how long somebody waited, how long everything was full, and
 * the sentence that follows from it. */
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/util.h"

static bool account_waiting(const struct group *group)
{
	for (const struct member *m = group->members; m; m = m->next_of_group)
		if (m->answered && !m->ended && !m->reader.held)
			return group->started;
	return false;
}

static bool account_full(const struct group *group)
{
	const struct tally *tally = stream_tally(group->stream);
	return tally_count(tally, SLOT_FREE) + tally_count(tally, SLOT_FILLING) == 0;
}

void account_turn(struct group *group)
{
	uint64_t now = clock_ns();
	if (group->was_waiting)
		group->trainer_wait_ns += now - group->account_ns;
	if (group->was_full)
		group->slots_full_ns += now - group->account_ns;
	group->account_ns = now;
	group->was_waiting = account_waiting(group);
	group->was_full = account_full(group);
}

void account_tick(struct group *group)
{
	struct stream_stats stats;
	struct pool_stats pool;
	account_turn(group);
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

/* Samples in the window; the first second holds the opening. */
static uint64_t account_have(const struct group *group)
{
	return UTIL_MIN(group->ticks > 1 ? group->ticks - 1 : 0, (uint64_t)SERVE_WINDOW);
}

double account_rate(const struct group *group)
{
	uint64_t have = account_have(group), images = 0;
	for (uint64_t i = 0; i < have; i++)
		images += group->window[(group->ticks - 1 - i) % SERVE_WINDOW].images;
	return have ? (double)images / (double)have : 0;
}

void account_verdict(struct group *group, char *buffer, size_t room)
{
	struct verdict_input in = {.threads = pool_threads(group->server->pool),
		.cpus = cpu_available(),
		.trainers = group_size(group)};
	uint64_t have = account_have(group);
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
	in.slots = group->stream ? stream_tally(group->stream)->slots : 0;
	for (const struct member *m = group->members; m; m = m->next_of_group) {
		uint64_t held = (uint64_t)__builtin_popcountll(m->reader.held);
		if (held >= in.held_most) {
			in.held_most = held;
			in.held_pid = m->client->pid;
		}
	}
	(void)verdict_write(&in, buffer, room);
}

/* totals: what all streams counted since the daemon's start. A stream takes its counters along when
 * it is freed, and to a program that reads the metrics a counter that goes down looks like a
 * restart. So the counters are added up here first. */
#include "serve/observe/observe.h"

#include "serve/session/session.h"
#include "serve/state.h"

static void totals_add_each(uint64_t *to, const uint64_t *from, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		to[i] += from[i];
}

static void totals_add(struct totals *to, struct group *group)
{
	struct stream_stats stats;
	to->trainer_wait_ns += group->account.trainer_wait_ns;
	to->slots_full_ns += group->account.slots_full_ns;
	if (!group->stream)
		return;
	stream_stats(group->stream, &stats);
	to->streams.batches += stats.batches;
	to->streams.images += stats.images;
	to->streams.decode_ns += stats.decode_ns;
	to->streams.pixel_ns += stats.pixel_ns;
	to->streams.entry_points_used += stats.entry_points_used;
	to->streams.entry_points_made += stats.entry_points_made;
	to->streams.entry_points_dropped += stats.entry_points_dropped;
	totals_add_each(to->streams.stage_ns, stats.stage_ns, DECODE_STAGES);
	totals_add_each(to->streams.broken, stats.broken, STREAM_REASONS);
	totals_add_each(to->streams.fallbacks, stats.fallbacks, STEPBACKS);
}

void totals_retire(struct group *group)
{
	totals_add(&group->server->retired, group);
}

void totals_read(const struct server *server, struct totals *ret)
{
	struct totals all = server->retired;
	list_each (g, &server->groups, struct group, node)
		totals_add(&all, g);
	*ret = all;
}

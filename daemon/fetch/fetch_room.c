/* fetch_room: buffers come back, and the lanes whose reads wait for them are woken. */
#include "fetch/fetch_internal.h"

#include <sys/mman.h>

static void room_wake(struct fetch *fetch)
{
	/* Relaxed: the arena's `wanted` comes between a lane's wish and this. */
	for (unsigned i = 0; i < fetch->lane_count; i++)
		if (atomic_exchange_explicit(
			    &fetch->lanes[i]->wants_room, false, memory_order_relaxed))
			fetch_kick(fetch->lanes[i]);
}

static void room_wake_all(struct fetch *fetch)
{
	for (unsigned i = 0; i < fetch->lane_count; i++)
		fetch_kick(fetch->lanes[i]);
}

void fetch_give_back(struct fetch *fetch, uint8_t *buffer, uint64_t large)
{
	bool room = false;
	if (large) {
		(void)munmap(buffer, large);
		permit_release(fetch->options.large, large);
		/* Relaxed: the engine also tries again by itself (FETCH_RETRY_NS); this only makes
		 * it sooner. */
		if (atomic_exchange_explicit(&fetch->large_wanted, false, memory_order_relaxed))
			room_wake_all(fetch);
	} else {
		room = arena_drop(&fetch->arena, buffer);
	}
	/* Its reader holds less now: it may have room where others still hold the buffer. */
	if (room || arena_wanted(&fetch->arena))
		room_wake(fetch);
}

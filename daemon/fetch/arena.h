/* arena: the bounded read buffers of the fetch stage.
 *
 * One page-aligned mapping, taken at start and never grown: what is in it is what reading may cost.
 * A buffer is a run of 4 KiB pages, found by next-fit over a bitmap; buffers live about as long as
 * each other and go in about the order in which they came, so next-fit keeps the free space in one
 * piece. A buffer may be shared by the samples that one merged read brought in: it counts its
 * holders and goes back when the last one lets go.
 *
 * Taken by the fetch engine, given back by any thread. Never blocks: who finds it full is told when
 * to look again. */
#pragma once

#include "base/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_PAGE = 4096, ARENA_SLACK = 64, ARENA_LEAST = 1 << 20 };

struct arena_run; /* of each page: how long the buffer is that begins there, and how many hold it */

struct arena {
	uint8_t *base;
	size_t pages;
	void *mapping;
	size_t mapping_bytes;
	struct arena_run *runs;
	pthread_mutex_t lock; /* of all below */
	uint64_t *map; /* bit set: page taken */
	size_t cursor; /* where the next search begins */
	bool wanted; /* the engine waits for pages */
	_Atomic uint64_t used, peak; /* bytes; written under the lock, read relaxed by status */
};

/* Maps `bytes`, rounded up to pages, at least ARENA_LEAST. 0 or -ENOMEM with a fault. */
int arena_init(struct arena *arena, uint64_t bytes, struct fault *fault);

/* Every buffer must be back. Takes a zeroed arena. */
void arena_deinit(struct arena *arena);

uint64_t arena_bytes(const struct arena *arena);

/* What a buffer for `bytes` of data takes: the slack and the rounding to pages included. */
static inline uint64_t arena_cost(uint64_t bytes)
{
	return (bytes + ARENA_SLACK + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
}

/* A buffer for `bytes` of data, held once, followed by at least ARENA_SLACK readable bytes. NULL
 * when no run is long enough; with `wait` the next arena_drop that frees pages then says so. */
uint8_t *arena_take(struct arena *arena, uint64_t bytes, bool wait);

/* The next arena_drop that frees pages says so, as after an arena_take that failed. */
void arena_want(struct arena *arena);

/* Makes a buffer that its taker alone holds one of `holders`, at least 1. Before it is handed on.
 */
void arena_share(struct arena *arena, uint8_t *buffer, uint32_t holders);

/* Lets go of a buffer, from any thread. True when pages became free that the engine waits for: wake
 * it. */
bool arena_drop(struct arena *arena, uint8_t *buffer);

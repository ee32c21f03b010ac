/* arena: the bounded read buffers.
 *
 * One page-aligned mapping, made at start, that never grows: its size bounds the memory for
 * reading. A buffer is a run of 4 KiB pages, found by next-fit over a bitmap. Buffers live about
 * equally long and are freed in about the order in which they were taken, so next-fit keeps the
 * free space in one piece. Samples that were read together share one buffer: it counts its holders
 * and is free when the last one drops it.
 *
 * The engine takes buffers; any thread drops them. Never blocks: a caller that finds the arena full
 * is told later when to try again. */
#pragma once

#include "base/fault.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_PAGE = 4096, ARENA_SLACK = 64, ARENA_LEAST = 1 << 20 };

struct arena_run; /* per page: the length and the holders of the buffer that begins there */

struct arena {
	uint8_t *base;
	size_t pages;
	void *mapping;
	size_t mapping_bytes;
	struct arena_run *runs;
	_Atomic bool wanted; /* the engine waits for pages */
	pthread_mutex_t lock; /* guards everything below */
	uint64_t *map; /* bit set: page taken */
	size_t cursor; /* where the next search begins */
	_Atomic uint64_t used, peak; /* bytes; written under the lock, read relaxed for status */
};

/* Maps `bytes`, rounded up to pages, at least ARENA_LEAST. 0 or -ENOMEM with a fault. */
int arena_init(struct arena *arena, uint64_t bytes, struct fault *fault);

/* All buffers must have been dropped. Accepts a zeroed arena. */
void arena_deinit(struct arena *arena);

uint64_t arena_bytes(const struct arena *arena);

/* The memory that a buffer for `bytes` of data takes: with the slack, rounded up to pages. */
static inline uint64_t arena_cost(uint64_t bytes)
{
	return (bytes + ARENA_SLACK + ARENA_PAGE - 1) / ARENA_PAGE * ARENA_PAGE;
}

/* Takes a buffer for `bytes` of data with one holder, followed by at least ARENA_SLACK readable
 * bytes. NULL if no free run is long enough; with `wait`, the next arena_drop that frees pages
 * returns true. */
uint8_t *arena_take(struct arena *arena, uint64_t bytes, bool wait);

/* Makes the next arena_drop that frees pages return true, as after an arena_take that failed.
 * Ordered as all of the engine's seq_cst operations are. */
void arena_want(struct arena *arena);

/* Whether the engine waits for pages, and was not told yet: it has to be woken then, too, when a
 * reader holds less than before and no pages became free. */
bool arena_wanted(struct arena *arena);

/* Sets the number of holders, at least 1, of a buffer that so far has one holder. Called before the
 * buffer is handed to others. */
void arena_share(struct arena *arena, uint8_t *buffer, uint32_t holders);

/* Drops one holder of a buffer. Any thread. True if pages became free that the engine waits for:
 * wake it. */
bool arena_drop(struct arena *arena, uint8_t *buffer);

/* fetch_plan: what the parts of the planner share; nobody else includes it. Its door is in
 * fetch_internal.h.
 *
 *   fetch_plan.c        what is to be asked next: the lists, the window, the pools
 *   fetch_plan_read.c   a request of the window becomes a read
 *   fetch_plan_done.c   what came of reads and openings
 *
 * In the engines' threads, with fetch->lock held. */
#pragma once

#include "fetch/fetch_internal.h"

/* What became of a request that was to be read. */
enum plan_step {
	PLAN_READ, /* a read has begun */
	PLAN_SKIP, /* not this one now; those behind it may go */
	PLAN_STOP, /* nobody may go: buffers or reads are used up */
	PLAN_GONE, /* the item finished without a read */
	PLAN_LARGE, /* a large sample has to wait for its permit; smaller ones may go */
};

/* A dataset's entry; NULL: nothing of it was read lately. */
struct fetch_mode *fetch_plan_known(struct fetch *fetch, const struct dataset *dataset);
/* The same; makes one where there is none. */
struct fetch_mode *fetch_plan_mode(struct fetch *fetch, const struct dataset *dataset);

/* The meter follows what the planner knows. */
void fetch_plan_meter(struct fetch *fetch);

/* Begins the read of a READY request and of those that join it. Large samples get their permits in
 * order: behind one that waits, no other asks. */
enum plan_step fetch_plan_read(
	struct fetch *fetch, struct fetch_request *request, bool large_waits);

/* The buffer of a read that nobody holds. `large`: the bytes of one of its own; 0: it is the
 * arena's. */
void fetch_plan_give_back(struct fetch *fetch, uint8_t *buffer, uint64_t large);

/* fetch_plan: what the parts of the planner share. fetch_internal.h declares what others call.
 *
 *   fetch_plan.c        what is asked next: the window, the inbox, the pools
 *   fetch_lists.c       ops that are ready to be asked, items that are finished
 *   fetch_mode.c        how each dataset is read
 *   fetch_plan_read.c   makes a read of a request in the window
 *   fetch_plan_done.c   takes the results of reads and openings
 *
 * Runs on the engines' threads, with lane->lock held. */
#pragma once

#include "fetch/fetch_internal.h"

/* The result of fetch_plan_read. */
enum plan_step {
	PLAN_READ, /* a read has begun */
	PLAN_SKIP, /* not this one now; the requests after it may continue */
	PLAN_STOP, /* no request may continue: buffers or reads are used up */
	PLAN_GONE, /* the item finished without a read */
	PLAN_LARGE, /* a large sample must wait for its permit; smaller ones may continue */
};

/* A dataset's entry, which fetch_plan_mode makes; NULL: nothing of it was read lately. */
struct fetch_mode *fetch_plan_known(struct lane *lane, const struct dataset *dataset);

/* Begins the read of a READY request and of the requests that join it. Large samples get their
 * permits in order: if `large_waits`, another one waits for its permit, so this one does not
 * ask. */
enum plan_step fetch_plan_read(struct lane *lane, struct fetch_request *request, bool large_waits);

/* fetch_lookup: the window of items whose places are looked up ahead of their reads.
 *
 * A request carries an item from the queue to its read: first its record's page, in a folder then
 * its name's, each read through the engine where the cache lacks it. The window keeps the queue's
 * order, so that reads begin in it and neighbours can be merged. The planner's lock is held by all
 * callers. */
#pragma once

#include "fetch/fetch_internal.h"

/* Fills the window from the queue; a more urgent item takes the place of the last one that is
 * READY. */
void fetch_lookup_fill(struct fetch *fetch);

/* Takes a request that does not wait a step further. True: it is READY. False: it waits, or has to
 * be tried again, or its item finished with an error and the request is gone; it must not be
 * touched. */
bool fetch_lookup_advance(struct fetch *fetch, struct fetch_request *request);

/* A page's op is done: those who waited go on. */
void fetch_lookup_loaded(struct fetch *fetch, struct page *page);

/* Out of the window; the item is the caller's. */
struct fetch_item *fetch_lookup_remove(struct fetch *fetch, struct fetch_request *request);

/* Finishes the item, without a read; the request is gone. */
void fetch_lookup_finish(struct fetch *fetch, struct fetch_request *request, int result);

/* The planner's, for both: appends to what is ready. */
void fetch_plan_ready(struct fetch *fetch, struct fetch_op *op);

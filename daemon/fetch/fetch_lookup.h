/* fetch_lookup: the window: finds the places of items in the index ahead of their reads.
 *
 * A request carries an item from the queue to its read: first it needs its record's page, in a
 * folder then its name's page. The engine reads each page that is not cached. The window keeps the
 * queue's order, so that reads begin in that order and neighbors can be merged. All callers hold
 * the planner's lock. */
#pragma once

#include "fetch/fetch_internal.h"

/* Fills the window from the queue. A more urgent item replaces the last one that is READY. */
void fetch_lookup_fill(struct lane *lane);

/* Advances a request that does not wait for a page. True: it is READY. False: it waits, or must be
 * tried again, or its item has finished with an error; in the last case the request is freed, so
 * the caller must not use it. */
bool fetch_lookup_advance(struct lane *lane, struct fetch_request *request);

/* A page's op is done: the requests that waited for it continue. */
void fetch_lookup_loaded(struct lane *lane, struct page *page);

/* Removes a request from the window; the item is then the caller's. */
struct fetch_item *fetch_lookup_remove(struct lane *lane, struct fetch_request *request);

/* Finishes the item without a read and frees the request. */
void fetch_lookup_finish(struct lane *lane, struct fetch_request *request, int result);

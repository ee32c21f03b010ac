/* fetch_queue: samples that wait. Of one reader the most urgent first, equals in the order in which
 * they came; readers take turns.
 *
 * Each reader has a pairing heap (Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1986) threaded
 * through the items themselves: pushing is one comparison and allocates nothing, which is what
 * fetch_submit promises. Turns are given out by bytes (start-time fair queueing: Goyal, Vin and
 * Cheng, SIGCOMM 1996; a sample counts as much as the average one of its dataset), and an urgency
 * of n lets so many samples of others pass too. So of readers that wait alike each gets the same
 * bytes of storage, however many items it has queued; with one reader, turns change nothing.
 *
 * No locks: the planner's caller holds them. */
#pragma once

#include "fetch/fetch.h"

#include <stdbool.h>

struct fetch_queue {
	struct fetch_reader *readers; /* that have items here */
	uint64_t turn; /* of the item taken last */
};

/* An item that was never in the queue. */
void fetch_queue_push(struct fetch_queue *queue, struct fetch_item *item);
/* One that was, back to its old place. */
void fetch_queue_return(struct fetch_queue *queue, struct fetch_item *item);

/* The reader whose turn it is, of those for which `may` (NULL: all) is true. NULL: none. */
struct fetch_reader *fetch_queue_next(const struct fetch_queue *queue,
	bool (*may)(const struct fetch_reader *reader, const void *context), const void *context);

/* A reader's most urgent item, taken out; it is in `readers`. */
struct fetch_item *fetch_queue_pop(struct fetch_queue *queue, struct fetch_reader *reader);

/* True when `a` is to be served before `b`. */
bool fetch_item_before(const struct fetch_item *a, const struct fetch_item *b);

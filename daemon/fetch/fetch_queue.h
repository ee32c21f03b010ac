/* fetch_queue: items that wait. Each reader's items are taken by urgency, equally urgent ones in
 * order of submission; readers take turns.
 *
 * Each reader has a pairing heap (Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1986) threaded
 * through the items themselves: pushing is one comparison and allocates nothing, which is what
 * fetch_submit promises. Turns are given out by bytes (start-time fair queueing: Goyal, Vin and
 * Cheng, SIGCOMM 1996; a sample counts as the average one of its dataset), and with an urgency of
 * n, a reader lets n samples of others pass too. So readers that wait with the same urgency get the
 * same bytes of storage, however many items each has queued; with one reader, turns change nothing.
 *
 * Each lane has a queue of its own, with a part of each reader's items. An item counts as many
 * there as there are lanes, so that urgency means the same.
 *
 * No locks: the callers hold the planner's lock. */
#pragma once

#include "fetch/fetch.h"

#include <stdbool.h>

struct fetch_queue {
	unsigned lane, lanes; /* its number, and how many there are */
	struct fetch_reader *readers; /* the readers with queued items */
	uint64_t turn; /* of the item taken last */
};

static inline struct fetch_place *fetch_queue_place(
	const struct fetch_queue *queue, struct fetch_reader *reader)
{
	return &reader->places[queue->lane];
}

/* Adds a new item. */
void fetch_queue_push(struct fetch_queue *queue, struct fetch_item *item);
/* Returns an item that was taken to its old place. */
void fetch_queue_return(struct fetch_queue *queue, struct fetch_item *item);

/* The reader whose turn it is, among those for which `may` (NULL: all) is true. NULL: none. */
struct fetch_reader *fetch_queue_next(const struct fetch_queue *queue,
	bool (*may)(const struct fetch_reader *reader, const void *context), const void *context);

/* Takes out the most urgent item of a reader that is in `readers`. */
struct fetch_item *fetch_queue_pop(struct fetch_queue *queue, struct fetch_reader *reader);

/* True if `a` is served before `b`. */
bool fetch_item_before(const struct fetch_item *a, const struct fetch_item *b);

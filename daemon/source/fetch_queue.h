/* fetch_queue: samples that wait, the most urgent first, equals in the order in which they came.
 *
 * A pairing heap (Fredman, Sedgewick, Sleator, Tarjan, Algorithmica 1986) threaded through the
 * items themselves: pushing is one comparison and allocates nothing, which is what fetch_submit
 * promises. No locks: the planner's caller holds them. */
#pragma once

#include "source/fetch.h"

#include <stdbool.h>

struct fetch_queue {
	struct fetch_item *root;
	uint64_t sequence; /* of the next new item */
	uint64_t count;
};

/* An item that was never in the queue. */
void fetch_queue_push(struct fetch_queue *queue, struct fetch_item *item);
/* One that was, back to its old place. */
void fetch_queue_return(struct fetch_queue *queue, struct fetch_item *item);
/* The most urgent, taken out; NULL when empty. */
struct fetch_item *fetch_queue_pop(struct fetch_queue *queue);
/* True when `a` is to be served before `b`. */
bool fetch_item_before(const struct fetch_item *a, const struct fetch_item *b);

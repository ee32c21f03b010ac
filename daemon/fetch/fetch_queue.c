/* fetch_queue: see fetch_queue.h. Siblings are linked through item->next. */
#include "fetch/fetch_queue.h"

#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_internal.h"

/* An item lets as many later ones pass as its urgency says, but at most this many: the urgency is
 * that of the time of submission, and no item may be passed for ever. */
enum { QUEUE_URGENCY = 1 << 20 };

static uint64_t queue_passes(const struct fetch_item *item)
{
	return UTIL_MIN(item->urgency, (uint64_t)QUEUE_URGENCY);
}

static uint64_t queue_key(const struct fetch_item *item)
{
	return fetch_state_const(item)->sequence + queue_passes(item);
}

bool fetch_item_before(const struct fetch_item *a, const struct fetch_item *b)
{
	bool same = a->reader == b->reader;
	uint64_t first = same ? queue_key(a) : fetch_state_const(a)->turn;
	uint64_t second = same ? queue_key(b) : fetch_state_const(b)->turn;
	return first != second ? first < second : a->urgency < b->urgency;
}

/* The cost of an item in bytes: the average of its dataset, because its own size is not known
 * before its turn. */
static uint64_t queue_cost(const struct fetch_item *item)
{
	uint64_t samples = dataset_count(item->dataset);
	return samples ? dataset_bytes(item->dataset) / samples + 1 : 1;
}

/* The turn of a reader's first item. */
static uint64_t queue_turn(const struct fetch_place *place)
{
	return place->turn + queue_passes(place->root) * queue_cost(place->root);
}

/* Melds two heaps; either may be empty. */
static struct fetch_item *queue_meld(struct fetch_item *a, struct fetch_item *b)
{
	if (!a || !b)
		return a ? a : b;
	if (fetch_item_before(b, a)) {
		struct fetch_item *swap = a;
		a = b;
		b = swap;
	}
	b->next = fetch_state(a)->child;
	fetch_state(a)->child = b;
	return a;
}

/* Inserts an item into its reader's heap. A reader that had no items here does not get back the
 * turns that others had meanwhile. */
static void queue_insert(struct fetch_queue *queue, struct fetch_item *item)
{
	struct fetch_place *place = fetch_queue_place(queue, item->reader);
	item->next = NULL;
	fetch_state(item)->child = NULL;
	if (!place->root) {
		place->turn = UTIL_MAX(place->turn, queue->turn);
		place->next = queue->readers;
		queue->readers = item->reader;
	}
	place->root = queue_meld(place->root, item);
}

void fetch_queue_return(struct fetch_queue *queue, struct fetch_item *item)
{
	struct fetch_place *place = fetch_queue_place(queue, item->reader);
	uint64_t cost = queue_cost(item) * queue->lanes;
	place->turn -= UTIL_MIN(cost, place->turn);
	queue_insert(queue, item);
}

void fetch_queue_push(struct fetch_queue *queue, struct fetch_item *item)
{
	struct fetch_place *place = fetch_queue_place(queue, item->reader);
	fetch_state(item)->sequence = place->sequence;
	place->sequence += queue->lanes;
	queue_insert(queue, item);
}

struct fetch_reader *fetch_queue_next(const struct fetch_queue *queue,
	bool (*may)(const struct fetch_reader *reader, const void *context), const void *context)
{
	struct fetch_reader *first = NULL, *reader = queue->readers;
	uint64_t least = 0;
	for (; reader; reader = fetch_queue_place(queue, reader)->next) {
		uint64_t turn = queue_turn(fetch_queue_place(queue, reader));
		if ((first && turn >= least) || (may && !may(reader, context)))
			continue;
		first = reader;
		least = turn;
	}
	return first;
}

/* Melds a list of siblings: in pairs from the left, then the pairs from the right. The pairs are
 * collected on a stack linked by `next`, so that there is no recursion. */
static struct fetch_item *queue_meld_siblings(struct fetch_item *first)
{
	struct fetch_item *pairs = NULL;
	while (first) {
		struct fetch_item *second = first->next, *rest = second ? second->next : NULL;
		first->next = NULL;
		if (second)
			second->next = NULL;
		struct fetch_item *pair = queue_meld(first, second);
		pair->next = pairs;
		pairs = pair;
		first = rest;
	}
	struct fetch_item *root = NULL;
	while (pairs) {
		struct fetch_item *rest = pairs->next;
		pairs->next = NULL;
		root = queue_meld(root, pairs);
		pairs = rest;
	}
	return root;
}

struct fetch_item *fetch_queue_pop(struct fetch_queue *queue, struct fetch_reader *reader)
{
	struct fetch_place *place = fetch_queue_place(queue, reader);
	struct fetch_item *top = place->root;
	fetch_state(top)->turn = queue_turn(place);
	queue->turn = UTIL_MAX(queue->turn, place->turn);
	place->turn += queue_cost(top) * queue->lanes;
	place->root = queue_meld_siblings(fetch_state(top)->child);
	fetch_state(top)->child = NULL;
	top->next = NULL;
	if (!place->root) {
		struct fetch_reader **at = &queue->readers;
		while (*at != reader)
			at = &fetch_queue_place(queue, *at)->next;
		*at = place->next;
	}
	return top;
}

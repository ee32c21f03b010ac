/* fetch_queue: see fetch_queue.h. Siblings are linked through item->next. */
#include "source/fetch_queue.h"

#include "base/util.h"
#include "source/fetch_internal.h"

/* An item lets pass as many later ones as its urgency says, at most so many: the urgency is that of
 * the moment when it came, and nobody may be passed for ever. */
enum { QUEUE_URGENCY = 1 << 20 };

static uint64_t queue_key(const struct fetch_item *item)
{
	return fetch_state_const(item)->sequence + UTIL_MIN(item->urgency, (uint64_t)QUEUE_URGENCY);
}

bool fetch_item_before(const struct fetch_item *a, const struct fetch_item *b)
{
	uint64_t first = queue_key(a), second = queue_key(b);
	return first != second ? first < second : a->urgency < b->urgency;
}

/* Two heaps to one; either may be empty. */
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

void fetch_queue_return(struct fetch_queue *queue, struct fetch_item *item)
{
	item->next = NULL;
	fetch_state(item)->child = NULL;
	queue->root = queue_meld(queue->root, item);
	queue->count++;
}

void fetch_queue_push(struct fetch_queue *queue, struct fetch_item *item)
{
	fetch_state(item)->sequence = queue->sequence++;
	fetch_queue_return(queue, item);
}

/* Melds a row of siblings: in pairs from the left, then the pairs from the right. The pairs are
 * collected on a stack that runs through `next`, so that no recursion depends on the length. */
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

struct fetch_item *fetch_queue_pop(struct fetch_queue *queue)
{
	struct fetch_item *top = queue->root;
	if (!top)
		return NULL;
	queue->root = queue_meld_siblings(fetch_state(top)->child);
	fetch_state(top)->child = NULL;
	top->next = NULL;
	queue->count--;
	return top;
}

/* fetch_lists: ops that are ready to be asked, and items that are finished. Runs with the planner's
 * lock. */
#include "fetch/fetch_plan.h"

#include "base/clock.h"

void fetch_plan_ready(struct fetch *fetch, struct fetch_op *op)
{
	list_append(&fetch->ready, &op->node);
}

void fetch_plan_finish(struct fetch *fetch, struct fetch_item *item, int result)
{
	item->result = result;
	item->next = NULL;
	*fetch->finished_tail = item;
	fetch->finished_tail = &item->next;
}

void fetch_plan_meter(struct fetch *fetch)
{
	struct fetch_meter *meter = &fetch->meter;
	if (meter->asked.value == fetch->asked &&
		meter->short_of_room.value == fetch->short_of_room)
		return; /* only planners change it, and they hold fetch->lock */
	pthread_mutex_lock(&meter->lock);
	uint64_t now = clock_ns();
	gauge_set(&meter->asked, fetch->asked, now);
	gauge_set(&meter->short_of_room, fetch->short_of_room, now);
	pthread_mutex_unlock(&meter->lock);
}

/* If every op takes a thread, a dataset whose storage hangs must leave some threads to others. A
 * ring takes any number of ops, and remote storage needs no thread. */
static bool plan_may_ask(struct fetch *fetch, const struct fetch_op *op)
{
	if (fetch->ops->reads || op->remote)
		return true;
	const struct fetch_mode *mode = fetch_plan_mode(fetch, op->dataset);
	return quota_allows(mode->asked, fetch->asked - fetch->asked_far, fetch->reads_bound, 1);
}

static struct fetch_op *plan_next(struct fetch *fetch)
{
	list_each (op, &fetch->ready, struct fetch_op, node)
		if (plan_may_ask(fetch, op))
			return op;
	return NULL;
}

bool fetch_plan_more(struct fetch *fetch)
{
	return plan_next(fetch) != NULL;
}

struct fetch_op *fetch_plan_next(struct fetch *fetch)
{
	struct fetch_op *op = plan_next(fetch);
	if (!op)
		return NULL;
	list_remove(&fetch->ready, &op->node);
	fetch->asked++;
	if (op->remote)
		fetch->asked_far++;
	else
		fetch_plan_mode(fetch, op->dataset)->asked++;
	fetch_plan_meter(fetch);
	return op;
}

struct fetch_item *fetch_plan_finished(struct fetch *fetch)
{
	struct fetch_item *items = fetch->finished;
	fetch->finished = NULL;
	fetch->finished_tail = &fetch->finished;
	return items;
}

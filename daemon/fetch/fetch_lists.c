/* fetch_lists: ops that are ready to be asked, and items that are finished. Runs with the planner's
 * lock. */
#include "fetch/fetch_plan.h"

#include "base/clock.h"

void fetch_plan_ready(struct lane *lane, struct fetch_op *op)
{
	list_append(&lane->ready, &op->node);
}

void fetch_plan_finish(struct lane *lane, struct fetch_item *item, int result)
{
	item->result = result;
	item->next = NULL;
	*lane->finished_tail = item;
	lane->finished_tail = &item->next;
}

void fetch_plan_meter(struct lane *lane)
{
	struct fetch_meter *meter = &lane->fetch->meter;
	if (lane->metered == lane->asked && lane->metered_short == lane->short_of_room)
		return;
	pthread_mutex_lock(&meter->lock);
	uint64_t now = clock_ns();
	gauge_set(&meter->asked, meter->asked.value - lane->metered + lane->asked, now);
	gauge_set(&meter->short_of_room,
		meter->short_of_room.value - lane->metered_short + lane->short_of_room, now);
	pthread_mutex_unlock(&meter->lock);
	lane->metered = lane->asked;
	lane->metered_short = lane->short_of_room;
}

/* If every op takes a thread, a dataset whose storage hangs must leave some threads to others. A
 * ring takes any number of ops, and remote storage needs no thread. */
static bool plan_may_ask(struct lane *lane, const struct fetch_op *op)
{
	if (lane->ops->reads || op->remote)
		return true;
	const struct fetch_mode *mode = fetch_plan_mode(lane, op->dataset);
	return quota_allows(mode->asked, lane->asked - lane->asked_far, lane->reads_bound, 1);
}

static struct fetch_op *plan_next(struct lane *lane)
{
	list_each (op, &lane->ready, struct fetch_op, node)
		if (plan_may_ask(lane, op))
			return op;
	return NULL;
}

bool fetch_plan_more(struct lane *lane)
{
	return plan_next(lane) != NULL;
}

struct fetch_op *fetch_plan_next(struct lane *lane)
{
	struct fetch_op *op = plan_next(lane);
	if (!op)
		return NULL;
	list_remove(&lane->ready, &op->node);
	lane->asked++;
	if (op->remote)
		lane->asked_far++;
	else
		fetch_plan_mode(lane, op->dataset)->asked++;
	return op;
}

struct fetch_item *fetch_plan_finished(struct lane *lane)
{
	struct fetch_item *items = lane->finished;
	lane->finished = NULL;
	lane->finished_tail = &lane->finished;
	return items;
}

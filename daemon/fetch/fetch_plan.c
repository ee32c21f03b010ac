/* fetch_plan: which reads begin next. See fetch_internal.h for the states and fetch_plan.h for the
 * parts; all of this runs in the engines' threads, under the planner's lock. */
#include "fetch/fetch_plan.h"

#include "base/clock.h"
#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_lookup.h"
#include "fetch/fetch_share.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/* --- how a dataset is read --- */

struct fetch_mode *fetch_plan_known(struct fetch *fetch, const struct dataset *dataset)
{
	for (unsigned i = 0; i < FETCH_MODES; i++)
		if (fetch->modes[i].dataset == dataset)
			return &fetch->modes[i];
	return NULL;
}

struct fetch_mode *fetch_plan_mode(struct fetch *fetch, const struct dataset *dataset)
{
	struct fetch_mode *mode = fetch_plan_known(fetch, dataset);
	if (mode)
		return mode;
	char why[256];
	/* With more datasets than entries, one loses its counts, and others get less than they
	 * might. */
	mode = &fetch->modes[fetch->modes_next++ % FETCH_MODES];
	*mode = (struct fetch_mode){
		.dataset = dataset,
		.direct = fetch_wants_direct(fetch, dataset, why, sizeof why),
	};
	return mode;
}

/* --- lists --- */

void fetch_plan_ready(struct fetch *fetch, struct fetch_op *op)
{
	op->next = NULL;
	*fetch->ready_tail = op;
	fetch->ready_tail = &op->next;
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

/* Where threads are what ops take, those that hang must leave some. A ring takes any number. */
static bool plan_may_ask(struct fetch *fetch, const struct fetch_op *op)
{
	if (fetch->ops->reads)
		return true;
	const struct fetch_mode *mode = fetch_plan_mode(fetch, op->dataset);
	return quota_allows(mode->asked, fetch->asked, fetch->reads_bound, 1);
}

/* The link to the next op to be asked; what it links is NULL where there is none. */
static struct fetch_op **plan_next(struct fetch *fetch)
{
	struct fetch_op **at = &fetch->ready;
	while (*at && !plan_may_ask(fetch, *at))
		at = &(*at)->next;
	return at;
}

bool fetch_plan_more(struct fetch *fetch)
{
	return *plan_next(fetch) != NULL;
}

struct fetch_op *fetch_plan_next(struct fetch *fetch)
{
	struct fetch_op **at = plan_next(fetch), *op = *at;
	if (!op)
		return NULL;
	*at = op->next;
	if (!*at)
		fetch->ready_tail = at;
	op->next = NULL;
	fetch->asked++;
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

bool fetch_plan_quiet(const struct fetch *fetch)
{
	return !fetch->queue.readers && !fetch->window && !fetch->ready && !fetch->finished &&
	       fetch->asked == 0;
}

bool fetch_plan_direct(struct fetch *fetch, const struct dataset *dataset)
{
	return fetch_plan_mode(fetch, dataset)->direct;
}

/* --- the window --- */

/* From the window's beginning: reads begin in the queue's order, except that nobody waits behind an
 * index page, a shard being opened, or a large sample without its permit. */
static void plan_window(struct fetch *fetch)
{
	bool large_waits = false;
	fetch->pass++;
	struct fetch_request *request = fetch->window;
	while (request) {
		struct fetch_request *before = request->before, *after = request->after;
		enum plan_step step = PLAN_SKIP;
		if (!request->waiting && fetch_lookup_advance(fetch, request))
			step = fetch_plan_read(fetch, request, large_waits);
		if (step == PLAN_STOP)
			return;
		/* Others than fetch take permits too and do not say when they give them back: look
		 * again soon. */
		if (step == PLAN_LARGE)
			large_waits = fetch->retry = true;
		/* A read may have taken its neighbours along: go on behind what lies before. */
		bool stays = step == PLAN_SKIP || step == PLAN_LARGE;
		request = stays ? after : before ? before->after : fetch->window;
	}
}

static void plan_drain(struct fetch *fetch)
{
	struct fetch_inbox *inbox = &fetch->inbox;
	pthread_mutex_lock(&inbox->lock);
	struct fetch_item *items = inbox->items;
	inbox->items = NULL;
	inbox->tail = &inbox->items;
	pthread_mutex_unlock(&inbox->lock);
	while (items) {
		struct fetch_item *next = items->next;
		if (fetch->stopping || !fetch_share_hit(fetch, items))
			fetch_queue_push(&fetch->queue, items);
		items = next;
	}
}

/* Drops what is kept of a dataset. False: something of it is in flight, and first has to come back.
 */
static bool plan_forget(struct fetch *fetch, const struct dataset *dataset)
{
	bool files = files_forget(&fetch->files, dataset);
	bool pages = pages_forget(&fetch->pages, dataset);
	if (!files || !pages)
		return false;
	struct fetch_mode *mode = fetch_plan_known(fetch, dataset);
	if (mode)
		*mode = (struct fetch_mode){0};
	return true;
}

/* For those who wait in fetch_forget, none for another: the storage of one may hang. Done here, by
 * the engine, because a ring's files may only be changed by the ring's thread. */
static void plan_forget_all(struct fetch *fetch)
{
	for (struct fetch_forgotten **place = &fetch->forgotten; *place;) {
		struct fetch_forgotten *one = *place;
		if (!plan_forget(fetch, one->dataset)) {
			place = &one->next;
			continue;
		}
		*place = one->next;
		one->done = true;
		pthread_cond_broadcast(&fetch->settled);
	}
}

void fetch_plan(struct fetch *fetch)
{
	fetch->retry = fetch->short_of_room = false;
	plan_forget_all(fetch);
	if (fetch->stopping) {
		fetch_plan_cancel(fetch, NULL);
		return;
	}
	plan_drain(fetch);
	/* Begun reads make room in the window, which may hold what can be merged with the next. */
	uint64_t before;
	do {
		fetch_lookup_fill(fetch);
		before = atomic_load_explicit(&fetch->counters.reads, memory_order_relaxed);
		plan_window(fetch);
	} while (before != atomic_load_explicit(&fetch->counters.reads, memory_order_relaxed) &&
		 fetch->queue.readers && fetch->read_free);
	fetch_plan_meter(fetch);
}

void fetch_plan_cancel(struct fetch *fetch, const struct fetch_reader *reader)
{
	plan_drain(fetch);
	fetch_share_cancel(fetch, reader);
	for (struct fetch_request *request = fetch->window, *after; request; request = after) {
		after = request->after;
		if (!reader || request->item->reader == reader)
			fetch_lookup_finish(fetch, request, -ECANCELED);
	}
	struct fetch_reader *next = fetch->queue.readers;
	while (next) {
		struct fetch_reader *one = next;
		next = one->next;
		while (one->root && (!reader || one == reader))
			fetch_plan_finish(fetch, fetch_queue_pop(&fetch->queue, one), -ECANCELED);
	}
}

/* --- pools --- */

static int plan_files_init(struct fetch *fetch)
{
	struct rlimit limit;
	uint64_t nofile = getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 1024 : limit.rlim_cur;
	unsigned bound = files_bound(nofile);
	fetch->files_own_bound = bound;
	return files_init(&fetch->files, bound, NULL, NULL);
}

int fetch_plan_init(struct fetch *fetch, unsigned reads, struct fault *fault)
{
	fetch->ready_tail = &fetch->ready;
	fetch->finished_tail = &fetch->finished;
	fetch->requests = calloc(FETCH_WINDOW, sizeof *fetch->requests);
	fetch->reads = calloc(reads, sizeof *fetch->reads);
	fetch->reads_bound = reads;
	fetch->reads_used = 0;
	if (!fetch->requests || !fetch->reads || plan_files_init(fetch) < 0 ||
		pages_init(&fetch->pages, fetch->options.index_bytes) < 0) {
		fetch_plan_deinit(fetch);
		return fault_set(
			fault, -ENOMEM, "no memory for the tables of the reader: lower memory:");
	}
	/* Each request loads or pins one page; three quarters of the pages stay free to be
	 * replaced. */
	unsigned most = fetch->pages.count / 4;
	fetch->window_bound =
		UTIL_MAX((unsigned)FETCH_WINDOW_LEAST, UTIL_MIN(most, (unsigned)FETCH_WINDOW));
	for (unsigned i = FETCH_WINDOW; i-- > 0;) {
		fetch->requests[i].next = fetch->request_free;
		fetch->request_free = &fetch->requests[i];
	}
	for (unsigned i = reads; i-- > 0;) {
		fetch->reads[i].next = fetch->read_free;
		fetch->read_free = &fetch->reads[i];
	}
	return 0;
}

void fetch_plan_deinit(struct fetch *fetch)
{
	files_deinit(&fetch->files);
	pages_deinit(&fetch->pages);
	free(fetch->requests);
	free(fetch->reads);
	fetch->requests = fetch->request_free = NULL;
	fetch->reads = fetch->read_free = NULL;
}

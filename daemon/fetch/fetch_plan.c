/* fetch_plan: decides which reads begin next. fetch_internal.h describes the states, fetch_plan.h
 * the parts. Runs on the engines' threads, with the planner's lock. */
#include "fetch/fetch_plan.h"

#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/fetch_lookup.h"
#include "fetch/fetch_share.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

/* --- the window --- */

bool fetch_plan_quiet(const struct fetch *fetch)
{
	return !fetch->queue.readers && !fetch->window && list_is_empty(&fetch->ready) &&
	       !fetch->finished && fetch->asked == 0;
}

/* Begins reads from the start of the window, in the queue's order, except that no request waits for
 * another one's index page, shard being opened, or permit of a large sample. */
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
		/* Other stages take permits too, and nothing announces that they give them back:
		 * try again soon. */
		if (step == PLAN_LARGE)
			large_waits = fetch->retry = true;
		/* The read may have removed neighbors too: continue after the last request that is
		 * still there. */
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

/* Drops what is kept about a dataset. False: something of it is in flight and must come back
 * first. */
static bool plan_forget(struct fetch *fetch, const struct dataset *dataset)
{
	fetch_far_forget(fetch, dataset);
	bool files = files_forget(&fetch->files, dataset);
	bool pages = pages_forget(&fetch->pages, dataset);
	if (!files || !pages)
		return false;
	struct fetch_mode *mode = fetch_plan_known(fetch, dataset);
	if (mode)
		*mode = (struct fetch_mode){0};
	return true;
}

/* Serves each caller of fetch_forget independently, because the storage of one dataset may hang.
 * The engine does it, because only the ring's thread may change the ring's files. */
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
	/* Reads that begin make room in the window for items that can be merged with the next
	 * read. */
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
	fetch_far_cancel(fetch, reader);
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
	fetch->finished_tail = &fetch->finished;
	fetch->requests = calloc(FETCH_WINDOW, sizeof *fetch->requests);
	unsigned far = (unsigned)quota_total(FAR_READS);
	fetch->reads = calloc(reads + far, sizeof *fetch->reads);
	fetch->reads_bound = reads;
	fetch->reads_used = 0;
	fetch->far_bound = far;
	if (!fetch->requests || !fetch->reads || plan_files_init(fetch) < 0 ||
		pages_init(&fetch->pages, fetch->options.index_bytes) < 0) {
		fetch_plan_deinit(fetch);
		return fault_set(
			fault, -ENOMEM, "no memory for the tables of the reader: lower memory:");
	}
	/* Each request loads or pins one page; three quarters of the pages can be replaced at any
	 * time. */
	unsigned most = fetch->pages.count / 4;
	fetch->window_bound =
		UTIL_MAX((unsigned)FETCH_WINDOW_LEAST, UTIL_MIN(most, (unsigned)FETCH_WINDOW));
	for (unsigned i = FETCH_WINDOW; i-- > 0;) {
		fetch->requests[i].next = fetch->request_free;
		fetch->request_free = &fetch->requests[i];
	}
	for (unsigned i = reads + far; i-- > 0;) {
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

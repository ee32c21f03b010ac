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

bool fetch_plan_quiet(const struct lane *lane)
{
	return !lane->queue.readers && !lane->window && list_is_empty(&lane->ready) &&
	       !lane->finished && lane->asked == 0;
}

/* Begins reads from the start of the window, in the queue's order, except that no request waits for
 * another one's index page, shard being opened, or permit of a large sample. */
static void plan_window(struct lane *lane)
{
	bool large_waits = false;
	lane->pass++;
	struct fetch_request *request = lane->window;
	while (request) {
		struct fetch_request *before = request->before, *after = request->after;
		enum plan_step step = PLAN_SKIP;
		if (!request->waiting && fetch_lookup_advance(lane, request))
			step = fetch_plan_read(lane, request, large_waits);
		if (step == PLAN_STOP)
			return;
		/* Other stages take permits too, and nothing announces that they give them back:
		 * try again soon. */
		if (step == PLAN_LARGE)
			large_waits = lane->retry = true;
		/* The read may have removed neighbors too: continue after the last request that is
		 * still there. */
		bool stays = step == PLAN_SKIP || step == PLAN_LARGE;
		request = stays ? after : before ? before->after : lane->window;
	}
}

static void plan_drain(struct lane *lane)
{
	struct fetch_inbox *inbox = &lane->inbox;
	pthread_mutex_lock(&inbox->lock);
	struct fetch_item *items = inbox->items;
	inbox->items = NULL;
	inbox->tail = &inbox->items;
	pthread_mutex_unlock(&inbox->lock);
	while (items) {
		struct fetch_item *next = items->next;
		if (lane->stopping || !fetch_share_hit(lane, items))
			fetch_queue_push(&lane->queue, items);
		items = next;
	}
}

/* Drops what is kept about a dataset. False: something of it is in flight and must come back
 * first. */
static bool plan_forget(struct lane *lane, const struct dataset *dataset)
{
	fetch_far_forget(lane, dataset);
	bool files = files_forget(&lane->files, dataset);
	bool pages = pages_forget(&lane->pages, dataset);
	if (!files || !pages)
		return false;
	struct fetch_mode *mode = fetch_plan_known(lane, dataset);
	if (mode)
		*mode = (struct fetch_mode){0};
	return true;
}

/* Serves each caller of fetch_forget independently, because the storage of one dataset may hang.
 * The engine does it, because only the ring's thread may change the ring's files. */
static void plan_forget_all(struct lane *lane)
{
	for (struct fetch_forgotten **place = &lane->forgotten; *place;) {
		struct fetch_forgotten *one = *place;
		if (!plan_forget(lane, one->dataset)) {
			place = &one->next;
			continue;
		}
		*place = one->next;
		one->done = true;
		pthread_cond_broadcast(&lane->settled);
	}
}

void fetch_plan(struct lane *lane)
{
	lane->retry = lane->short_of_room = false;
	plan_forget_all(lane);
	if (lane->stopping) {
		fetch_plan_cancel(lane, NULL);
		return;
	}
	plan_drain(lane);
	/* Reads that begin make room in the window for items that can be merged with the next
	 * read. */
	uint64_t before;
	do {
		fetch_lookup_fill(lane);
		before = atomic_load_explicit(&lane->counters.reads, memory_order_relaxed);
		plan_window(lane);
	} while (before != atomic_load_explicit(&lane->counters.reads, memory_order_relaxed) &&
		 lane->queue.readers && lane->read_free);
}

void fetch_plan_cancel(struct lane *lane, const struct fetch_reader *reader)
{
	plan_drain(lane);
	fetch_share_cancel(lane, reader);
	fetch_far_cancel(lane, reader);
	for (struct fetch_request *request = lane->window, *after; request; request = after) {
		after = request->after;
		if (!reader || request->item->reader == reader)
			fetch_lookup_finish(lane, request, -ECANCELED);
	}
	struct fetch_reader *next = lane->queue.readers;
	while (next) {
		struct fetch_reader *one = next;
		const struct fetch_place *place = fetch_queue_place(&lane->queue, one);
		next = place->next;
		while (place->root && (!reader || one == reader))
			fetch_plan_finish(lane, fetch_queue_pop(&lane->queue, one), -ECANCELED);
	}
}

/* --- pools --- */

static int plan_files_init(struct lane *lane)
{
	struct rlimit limit;
	uint64_t nofile = getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 1024 : limit.rlim_cur;
	unsigned bound = files_bound(nofile / lane->queue.lanes);
	lane->files_own_bound = bound;
	return files_init(&lane->files, bound, NULL, NULL);
}

int fetch_plan_init(struct lane *lane, unsigned reads, struct fault *fault)
{
	lane->finished_tail = &lane->finished;
	lane->requests = calloc(FETCH_WINDOW, sizeof *lane->requests);
	unsigned share = lane->fetch->options.far_reads / lane->queue.lanes;
	unsigned far = (unsigned)quota_total(UTIL_MAX(share, (unsigned)FAR_READS));
	lane->reads = calloc(reads + far, sizeof *lane->reads);
	lane->reads_bound = reads;
	lane->reads_used = 0;
	lane->far_bound = far;
	if (!lane->requests || !lane->reads || plan_files_init(lane) < 0 ||
		pages_init(&lane->pages, lane->fetch->options.index_bytes / lane->queue.lanes) <
			0) {
		fetch_plan_deinit(lane);
		return fault_set(
			fault, -ENOMEM, "no memory for the tables of the reader: lower memory:");
	}
	/* Each request loads or pins one page; three quarters of the pages can be replaced at any
	 * time. */
	unsigned most = lane->pages.count / 4;
	lane->window_bound =
		UTIL_MAX((unsigned)FETCH_WINDOW_LEAST, UTIL_MIN(most, (unsigned)FETCH_WINDOW));
	for (unsigned i = FETCH_WINDOW; i-- > 0;) {
		lane->requests[i].next = lane->request_free;
		lane->request_free = &lane->requests[i];
	}
	for (unsigned i = reads + far; i-- > 0;) {
		lane->reads[i].next = lane->read_free;
		lane->read_free = &lane->reads[i];
	}
	return 0;
}

void fetch_plan_deinit(struct lane *lane)
{
	files_deinit(&lane->files);
	pages_deinit(&lane->pages);
	free(lane->requests);
	free(lane->reads);
	lane->requests = lane->request_free = NULL;
	lane->reads = lane->read_free = NULL;
}

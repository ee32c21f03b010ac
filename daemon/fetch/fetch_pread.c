/* fetch_pread: the engine for machines on which io_uring is forbidden. It has one thread per read
 * in flight. Each thread plans, takes one op, asks the kernel with openat and pread until the op is
 * done, and hands it back. A thread that leaves work behind wakes one other thread, so only the
 * threads run for which there is work, and a few serve a warm page cache. */
#include "base/host/limits.h"
#include "base/util.h"
#include "fetch/fetch_share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PREAD_STACK = 128 << 10 };

static int pread_ask(const struct fetch_op *op)
{
	ssize_t answer;
	if (op->stage == FETCH_OP_OPEN)
		answer = openat(op->directory, op->path, fetch_op_flags(op));
	else
		answer =
			pread(op->fd, op->buffer + op->got, op->ask, (off_t)(op->offset + op->got));
	return answer < 0 ? -errno : (int)answer;
}

/* False: remote storage was asked, and fetch_far_next will return the op. */
static bool pread_perform(struct fetch *fetch, struct fetch_op *op)
{
	while (fetch_op_next(op)) {
		if (op->remote && !op->cached && fetch_far_ask(fetch, op))
			return false;
		fetch_op_answer(op, pread_ask(op));
	}
	if (fetch_op_owns(op))
		(void)close(op->fd);
	fetch_share_keep(fetch, op);
	return true;
}

/* One turn: delivers what has finished and performs one op, or sleeps. False: there will be no
 * more. */
static bool pread_turn(struct fetch *fetch)
{
	fetch_plan(fetch);
	struct fetch_op *op = fetch_far_next(fetch);
	if (!op)
		op = fetch_plan_next(fetch);
	struct fetch_item *finished = fetch_plan_finished(fetch);
	bool more = fetch_plan_more(fetch) || fetch_far_more(fetch), retry = fetch->retry;
	bool over = fetch->stopping && !finished && fetch_plan_quiet(fetch);
	pthread_mutex_unlock(&fetch->lock);
	/* A thread that begins to read cannot also plan again soon. */
	if (more || over || (op && retry))
		fetch_kick(fetch);
	fetch_deliver(fetch, finished);
	bool done = op && pread_perform(fetch, op);
	if (!op && !finished && !over)
		fetch_sleep(&fetch->inbox, retry);
	pthread_mutex_lock(&fetch->lock);
	if (done)
		fetch_plan_done(fetch, op);
	return !over;
}

static void *pread_run(void *context)
{
	struct fetch *fetch = context;
	fetch_thread_note(fetch);
	pthread_mutex_lock(&fetch->lock);
	while (pread_turn(fetch))
		;
	pthread_mutex_unlock(&fetch->lock);
	return NULL;
}

static void pread_join(struct fetch *fetch)
{
	fetch_threads_join(fetch);
}

static int pread_start(struct fetch *fetch, struct fault *fault)
{
	/* More threads than one reader may use at once: see quota.h. */
	unsigned wanted = (unsigned)quota_total(fetch->options.pread_threads);
	for (unsigned i = 0; i < wanted; i++) {
		int rc = fetch_thread_start(fetch, PREAD_STACK, pread_run);
		if (rc == 0)
			continue;
		/* Reading with fewer threads is better than not reading at all. */
		if (i > 0)
			break;
		return fault_set(fault, rc, "the threads for reading cannot be started: %s%s",
			strerror(-rc), limits_thread_hint(-rc));
	}
	pthread_mutex_lock(&fetch->lock);
	fetch->reads_bound = fetch->thread_count;
	pthread_mutex_unlock(&fetch->lock);
	(void)snprintf(fetch->describe, sizeof fetch->describe, "pread (%u threads)",
		UTIL_MIN(fetch->thread_count, fetch->options.pread_threads));
	return 0;
}

const struct fetch_engine_ops fetch_pread = {.start = pread_start, .join = pread_join};

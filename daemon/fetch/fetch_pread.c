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
static bool pread_perform(struct lane *lane, struct fetch_op *op)
{
	while (fetch_op_next(op)) {
		if (op->remote && !op->cached && fetch_far_ask(lane, op))
			return false;
		fetch_op_answer(op, pread_ask(op));
	}
	if (fetch_op_owns(op))
		(void)close(op->fd);
	fetch_share_keep(lane, op);
	return true;
}

/* One turn: delivers what has finished and performs one op, or sleeps. False: there will be no
 * more. */
static bool pread_turn(struct lane *lane)
{
	fetch_plan(lane);
	struct fetch_op *op = fetch_far_next(lane);
	if (!op)
		op = fetch_plan_next(lane);
	struct fetch_item *finished = fetch_plan_finished(lane);
	fetch_plan_meter(lane);
	bool more = fetch_plan_more(lane) || fetch_far_more(lane), retry = lane->retry;
	bool over = lane->stopping && !finished && fetch_plan_quiet(lane);
	pthread_mutex_unlock(&lane->lock);
	/* A thread that begins to read cannot also plan again soon. */
	if (more || over || (op && retry))
		fetch_kick(lane);
	fetch_deliver(lane, finished);
	bool done = op && pread_perform(lane, op);
	if (!op && !finished && !over)
		fetch_sleep(&lane->inbox, retry);
	pthread_mutex_lock(&lane->lock);
	if (done) {
		fetch_plan_done(lane, op);
		fetch_plan_meter(lane);
	}
	return !over;
}

static void *pread_run(void *context)
{
	struct lane *lane = context;
	fetch_thread_note(lane);
	pthread_mutex_lock(&lane->lock);
	while (pread_turn(lane))
		;
	pthread_mutex_unlock(&lane->lock);
	return NULL;
}

static void pread_join(struct lane *lane)
{
	fetch_threads_join(lane);
}

static int pread_start(struct lane *lane, struct fault *fault)
{
	/* More threads than one reader may use at once: see base/quota.h. */
	unsigned wanted = (unsigned)quota_total(lane->fetch->options.pread_threads);
	for (unsigned i = 0; i < wanted; i++) {
		int rc = fetch_thread_start(lane, PREAD_STACK, pread_run);
		if (rc == 0)
			continue;
		/* Reading with fewer threads is better than not reading at all. */
		if (i > 0)
			break;
		return fault_set(fault, rc, "the threads for reading cannot be started: %s%s",
			strerror(-rc), limits_thread_hint(-rc));
	}
	pthread_mutex_lock(&lane->lock);
	lane->reads_bound = lane->thread_count;
	pthread_mutex_unlock(&lane->lock);
	(void)snprintf(lane->describe, sizeof lane->describe, "pread (%u threads)",
		UTIL_MIN(lane->thread_count, lane->fetch->options.pread_threads));
	return 0;
}

const struct fetch_engine_ops fetch_pread = {.start = pread_start, .join = pread_join};

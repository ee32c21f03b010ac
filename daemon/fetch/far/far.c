/* far: see far.h. */
#include "fetch/far/far.h"

#include "base/util.h"
#include "dataset/dataset.h"
#include "fetch/far/openers.h"
#include "fetch/fetch_internal.h"
#include "remote/object.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct far_job {
	struct list_node node; /* in far.jobs */
	struct lane *lane;
	struct fetch_op *op;
	struct far_job *next; /* in far.answers */
	struct opening *opening; /* guarded by the lock of openers */
	struct remote_object *object; /* opened by this job, which gives it back */
	struct remote_read read;
	int result;
	struct fault fault;
	/* guarded by far.lock */
	bool asked, canceled;
	struct opening_what what; /* it opens; its texts are in `text` */
	char text[];
};

static _Atomic(const char *) far_pretended;

void fetch_far_pretend(const char *prefix)
{
	atomic_store_explicit(&far_pretended, prefix, memory_order_release);
}

bool fetch_far_is(const struct dataset *dataset, uint32_t shard)
{
	const char *path = dataset_shard_path(dataset, shard);
	const char *prefix = atomic_load_explicit(&far_pretended, memory_order_acquire);
	/* The paths of local shards are absolute. */
	return path[0] != '/' || (prefix && strncmp(path, prefix, strlen(prefix)) == 0);
}

void fetch_far_init(struct lane *lane)
{
	pthread_mutex_init(&lane->far.lock, NULL);
}

void fetch_far_deinit(struct lane *lane)
{
	openers_free(lane->far.openers);
	/* After this, the thread that gave the last answer uses the lane no more. */
	pthread_mutex_lock(&lane->inbox.lock);
	pthread_mutex_unlock(&lane->inbox.lock);
	pthread_mutex_destroy(&lane->far.lock);
}

/* --- jobs --- */

int fetch_far_new(struct lane *lane, struct fetch_op *op, const struct opening_what *what)
{
	struct far *far = &lane->far;
	const size_t bytes = what ? strlen(what->url) + 1 : 0;
	const size_t more = what && what->etag ? strlen(what->etag) + 1 : 0;
	if (what && !far->openers && !(far->openers = openers_new()))
		return -ENOMEM;
	struct far_job *job = calloc(1, sizeof *job + bytes + more);
	if (!job)
		return -ENOMEM;
	job->lane = lane;
	job->op = op;
	if (what) {
		job->what.size = what->size;
		job->what.url = memcpy(job->text, what->url, bytes);
		if (more)
			job->what.etag = memcpy(job->text + bytes, what->etag, more);
	}
	op->job = job;
	list_append(&far->jobs, &job->node);
	return 0;
}

static void far_give_back(struct far_job *job)
{
	if (job->object)
		remote_object_unref(job->object);
	job->object = NULL;
}

void fetch_far_again(struct fetch_op *op)
{
	struct far_job *job = op->job;
	if (!job)
		return;
	far_give_back(job);
	job->fault.text[0] = 0;
	op->object = NULL;
}

void fetch_far_end(struct fetch_op *op)
{
	struct far_job *job = op->job;
	if (!job)
		return;
	far_give_back(job);
	list_remove(&job->lane->far.jobs, &job->node);
	free(job);
	op->job = NULL;
}

struct remote_object *fetch_far_take(struct fetch_op *op)
{
	struct remote_object *object = op->job->object;
	op->job->object = NULL;
	return object;
}

const struct fault *fetch_far_fault(const struct fetch_op *op)
{
	return op->job ? &op->job->fault : NULL;
}

/* --- questions --- */

/* Any thread; takes no lock but the inbox's. The planner's lock, under which a job is freed, comes
 * after fetch_far_next has seen the answer. The lane may end as soon as its last answer is seen:
 * the inbox's lock is held over both, for fetch_far_deinit to wait for. */
static void far_answer(struct far_job *job)
{
	struct lane *lane = job->lane;
	struct far *far = &lane->far;
	pthread_mutex_lock(&lane->inbox.lock);
	struct far_job *first = atomic_load_explicit(&far->answers, memory_order_relaxed);
	do {
		job->next = first;
		/* Release: with fetch_far_next, which reads the job. */
	} while (!atomic_compare_exchange_weak_explicit(
		&far->answers, &first, job, memory_order_release, memory_order_relaxed));
	fetch_inbox_kick(&lane->inbox);
	pthread_mutex_unlock(&lane->inbox.lock);
}

static void far_opened(
	void *context, int result, struct remote_object *object, const struct fault *fault)
{
	struct far_job *job = context;
	job->result = result;
	job->object = object;
	job->fault = *fault;
	far_answer(job);
}

static void far_read(struct remote_read *read)
{
	struct far_job *job = (struct far_job *)((char *)read - offsetof(struct far_job, read));
	job->result = read->result;
	far_answer(job);
}

static void far_begin_open(struct far_job *job)
{
	int rc = openers_ask(job->lane->far.openers, job->op->dataset, &job->what, far_opened, job,
		&job->opening);
	if (rc == 0)
		return;
	job->result = fault_set(&job->fault, rc, "%s cannot be opened: %s", job->what.url,
		rc == -ENOMEM ? "no memory" : "no thread can be started for it");
	far_answer(job);
}

static void far_begin_read(struct far_job *job)
{
	const struct fetch_op *op = job->op;
	job->read = (struct remote_read){
		.object = op->object,
		.buffer = op->buffer,
		.offset = op->offset,
		.size = op->need,
		.done = far_read,
	};
	remote_object_begin(&job->read);
}

static bool far_local(struct fetch_op *op)
{
	int fd;
	if (op->stage != FETCH_OP_READ || op->uncached || op->need == 0 ||
		!remote_object_local(op->object, op->offset, op->need, &fd))
		return false;
	op->fd = fd;
	op->length = op->need;
	op->cached = true;
	return true;
}

bool fetch_far_ask(struct lane *lane, struct fetch_op *op)
{
	struct far_job *job = op->job;
	if (far_local(op))
		return false;
	/* The lock keeps a cancellation from coming before its question. */
	pthread_mutex_lock(&lane->far.lock);
	/* What is answered here was not asked, so there is nothing to cancel. */
	job->asked = !job->canceled && (op->stage == FETCH_OP_OPEN || op->need > 0);
	if (job->canceled) {
		job->result = -ECANCELED;
		far_answer(job);
	} else if (op->stage == FETCH_OP_OPEN) {
		far_begin_open(job);
	} else if (op->need == 0) {
		job->result = 0;
		far_answer(job);
	} else {
		far_begin_read(job);
	}
	pthread_mutex_unlock(&lane->far.lock);
	return true;
}

/* --- answers --- */

/* With far.lock: the next job, whose answer is no longer under way. */
static struct far_job *far_take(struct far *far)
{
	/* Acquire: with far_answer. */
	struct far_job *latest =
		atomic_exchange_explicit(&far->answers, NULL, memory_order_acquire);
	struct list_node *before = far->answered.last;
	for (; latest; latest = latest->next)
		list_insert(&far->answered, before, &latest->op->node);
	struct fetch_op *op = list_take(&far->answered, struct fetch_op, node);
	if (!op)
		return NULL;
	op->job->asked = false;
	return op->job;
}

bool fetch_far_more(struct lane *lane)
{
	struct far *far = &lane->far;
	pthread_mutex_lock(&far->lock);
	bool some = atomic_load_explicit(&far->answers, memory_order_relaxed) ||
		    !list_is_empty(&far->answered);
	pthread_mutex_unlock(&far->lock);
	return some;
}

struct fetch_op *fetch_far_next(struct lane *lane)
{
	pthread_mutex_lock(&lane->far.lock);
	struct far_job *job = far_take(&lane->far);
	pthread_mutex_unlock(&lane->far.lock);
	if (!job)
		return NULL;
	struct fetch_op *op = job->op;
	if (job->result < 0 && op->stage == FETCH_OP_READ)
		job->fault = job->read.fault;
	if (job->result == 0 && op->stage == FETCH_OP_OPEN)
		op->object = job->object;
	fetch_op_answer_far(op, job->result, &job->fault);
	return op;
}

/* --- cancellation --- */

static void far_cancel(struct far_job *job)
{
	struct far *far = &job->lane->far;
	pthread_mutex_lock(&far->lock);
	bool asked = job->asked && !job->canceled;
	job->canceled = true;
	if (asked && job->op->stage == FETCH_OP_READ) {
		remote_object_cancel(&job->read);
	} else if (asked && openers_cancel(far->openers, &job->opening)) {
		job->result = -ECANCELED;
		far_answer(job);
	}
	pthread_mutex_unlock(&far->lock);
}

/* Whether only `reader` waits for the job. A follower of another reader is asked for again: its
 * leader, which is canceled, must not wait for storage. */
static bool far_serves(const struct far_job *job, const struct fetch_reader *reader)
{
	if (!reader)
		return true;
	if (job->op->kind != FETCH_OP_RANGE && job->op->kind != FETCH_OP_FILE)
		return false;
	const struct fetch_read *read = (const struct fetch_read *)(const void *)job->op;
	for (const struct fetch_item *item = read->items; item; item = item->next)
		if (item->reader != reader)
			return false;
	return true;
}

void fetch_far_cancel(struct lane *lane, const struct fetch_reader *reader)
{
	list_each (job, &lane->far.jobs, struct far_job, node)
		if (far_serves(job, reader))
			far_cancel(job);
}

void fetch_far_forget(struct lane *lane, const struct dataset *dataset)
{
	list_each (job, &lane->far.jobs, struct far_job, node)
		if (job->op->dataset == dataset)
			far_cancel(job);
}

/* workers: see workers.h. The queue is a binary heap under one mutex. At the few thousand samples a
 * second that decoding allows, the lock is held for well under a thousandth of the time. */
#include "stream/workers.h"

#include "base/clock.h"
#include "base/gauge.h"
#include "base/host/cpu.h"
#include "base/host/limits.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WORKERS_THREADS_MAX = 1024, WORKERS_STACK = 512 << 10, WORKERS_URGENCY = 1 << 20 };

/* The assumed cost of a row until some were measured. */
#define WORKERS_COST_NS ((uint64_t)500000)
/* How much other work may pass a job for each row that its trainer still has ahead. Without a
 * limit, a job whose trainer begins to wait after the job was queued would be passed for ever. */
#define WORKERS_PASS_NS WORKERS_COST_NS

/* How long a worker may compute before another thread that computes has its turn. The kernel's
 * usual turns are as long for all threads, and then one that wakes up, as the event loop and a
 * trainer do for each batch, may have to wait for the end of a worker's turn: milliseconds, where
 * all processors are busy. A thread whose turns are shorter takes over at once (Linux 6.12). */
#define WORKERS_SLICE_NS ((uint64_t)20000000)

struct workers_worker {
	pthread_t thread;
	_Atomic pid_t tid; /* relaxed; 0 until it runs */
	struct workers *workers;
	struct row_maker maker;
};

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t work, settled;
	struct workers_job **heap; /* [0] is the most urgent */
	size_t count, room, reserved;
	uint64_t arrivals;
	struct gauge idle; /* workers that wait for jobs */
	uint64_t turn_ns; /* the latest turn of any job taken so far */
	unsigned threads, started;
	unsigned set_up; /* threads that have done what the confined daemon may not do */
	bool stopping;
	struct workers_worker *worker;
};

void workers_share_init(struct workers_share *share)
{
	share->turn_ns = 0;
	atomic_store_explicit(&share->cost_ns, WORKERS_COST_NS, memory_order_relaxed);
}

/* A moving mean over about sixteen jobs. Of two costs reported at once one may be lost. */
void workers_share_cost(struct workers_share *share, uint64_t ns)
{
	uint64_t cost = atomic_load_explicit(&share->cost_ns, memory_order_relaxed);
	cost = cost - cost / 16 + ns / 16;
	atomic_store_explicit(
		&share->cost_ns, UTIL_MAX(cost, (uint64_t)1000), memory_order_relaxed);
}

static uint64_t workers_key(const struct workers_job *job)
{
	return job->turn_ns + UTIL_MIN(job->urgency, (uint64_t)WORKERS_URGENCY) * WORKERS_PASS_NS;
}

static bool workers_before(const struct workers_job *a, const struct workers_job *b)
{
	uint64_t first = workers_key(a), second = workers_key(b);
	if (first != second)
		return first < second;
	return a->urgency != b->urgency ? a->urgency < b->urgency : a->arrival < b->arrival;
}

/* A share that had no jobs for a while does not save up that time. */
static void workers_give_turn(struct workers *workers, struct workers_job *job)
{
	struct workers_share *share = job->share;
	job->arrival = workers->arrivals++;
	job->turn_ns = UTIL_MAX(workers->turn_ns, share->turn_ns);
	share->turn_ns = job->turn_ns + atomic_load_explicit(&share->cost_ns, memory_order_relaxed);
}

static void workers_sift_up(struct workers *workers, size_t i)
{
	struct workers_job *job = workers->heap[i];
	for (size_t parent; i > 0 && workers_before(job, workers->heap[parent = (i - 1) / 2]);
		i = parent)
		workers->heap[i] = workers->heap[parent];
	workers->heap[i] = job;
}

static void workers_sift_down(struct workers *workers, size_t i)
{
	struct workers_job *job = workers->heap[i];
	for (size_t child; (child = 2 * i + 1) < workers->count; i = child) {
		if (child + 1 < workers->count &&
			workers_before(workers->heap[child + 1], workers->heap[child]))
			child++;
		if (!workers_before(workers->heap[child], job))
			break;
		workers->heap[i] = workers->heap[child];
	}
	workers->heap[i] = job;
}

static struct workers_job *workers_take(struct workers *workers)
{
	struct workers_job *job = workers->heap[0];
	workers->turn_ns = UTIL_MAX(workers->turn_ns, job->turn_ns);
	workers->heap[0] = workers->heap[--workers->count];
	if (workers->count)
		workers_sift_down(workers, 0);
	return job;
}

static void *workers_main(void *argument)
{
	struct workers_worker *worker = argument;
	struct workers *workers = worker->workers;
	(void)pthread_setname_np(pthread_self(), "penstock-work");
	/* By number, since gettid() needs glibc 2.30. */
	atomic_store_explicit(&worker->tid, (pid_t)syscall(SYS_gettid), memory_order_relaxed);
	(void)cpu_lengthen_slice(WORKERS_SLICE_NS);
	pthread_mutex_lock(&workers->lock);
	workers->set_up++;
	pthread_cond_signal(&workers->settled);
	for (;;) {
		if (!workers->count && !workers->stopping) {
			gauge_set(&workers->idle, workers->idle.value + 1, clock_ns());
			while (!workers->count && !workers->stopping)
				pthread_cond_wait(&workers->work, &workers->lock);
			gauge_set(&workers->idle, workers->idle.value - 1, clock_ns());
		}
		if (!workers->count)
			break;
		struct workers_job *job = workers_take(workers);
		pthread_mutex_unlock(&workers->lock);
		job->run(job, &worker->maker);
		pthread_mutex_lock(&workers->lock);
	}
	pthread_mutex_unlock(&workers->lock);
	return NULL;
}

/* Workers block all signals, since the event loop takes them. */
static int workers_start_thread(struct workers_worker *worker)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, WORKERS_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int result = pthread_create(&worker->thread, &attr, workers_main, worker);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -result;
}

int workers_new(unsigned threads, const struct decode_limits *limits, uint32_t max_side,
	struct workers **ret, struct fault *fault)
{
	if (threads < 1 || threads > WORKERS_THREADS_MAX)
		return fault_set(fault, -EINVAL, "threads: expected 1 to %d, got %u",
			WORKERS_THREADS_MAX, threads);
	struct workers *workers = calloc(1, sizeof *workers);
	if (workers)
		workers->worker = calloc(threads, sizeof *workers->worker);
	if (!workers || !workers->worker) {
		free(workers);
		return fault_set(fault, -ENOMEM, "no memory for %u workers", threads);
	}
	pthread_mutex_init(&workers->lock, NULL);
	pthread_cond_init(&workers->work, NULL);
	pthread_cond_init(&workers->settled, NULL);
	int result = 0;
	for (workers->threads = 0; workers->threads < threads && !result; workers->threads++) {
		struct workers_worker *worker = &workers->worker[workers->threads];
		worker->workers = workers;
		result = row_maker_init(&worker->maker, limits, max_side, fault);
		worker->maker.number = workers->threads;
	}
	for (; workers->started < threads && !result; workers->started++) {
		result = workers_start_thread(&workers->worker[workers->started]);
		if (result) {
			(void)fault_set(fault, result, "cannot start worker %u of %u: %s%s",
				workers->started + 1, threads, strerror(-result),
				limits_thread_hint(-result));
			break;
		}
	}
	if (result) {
		workers_free(workers);
		return result;
	}
	pthread_mutex_lock(&workers->lock);
	while (workers->set_up < threads)
		pthread_cond_wait(&workers->settled, &workers->lock);
	pthread_mutex_unlock(&workers->lock);
	*ret = workers;
	return 0;
}

unsigned workers_place(struct workers *workers, const struct numa *numa)
{
	unsigned bound = 0;
	for (unsigned i = 0; numa->count <= workers->started && i < workers->started; i++)
		bound += numa_bind(numa, numa_share(numa, i, workers->started),
				 workers->worker[i].thread) == 0;
	return bound;
}

unsigned workers_placed(const struct workers *workers, const struct numa *numa, unsigned node)
{
	unsigned threads = 0;
	for (unsigned i = 0; numa->count <= workers->started && i < workers->started; i++)
		threads += numa_share(numa, i, workers->started) == node;
	return threads;
}

void workers_free(struct workers *workers)
{
	if (!workers)
		return;
	pthread_mutex_lock(&workers->lock);
	workers->stopping = true;
	pthread_cond_broadcast(&workers->work);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->started; i++)
		pthread_join(workers->worker[i].thread, NULL);
	for (unsigned i = 0; i < workers->threads; i++)
		row_maker_deinit(&workers->worker[i].maker);
	pthread_cond_destroy(&workers->work);
	pthread_cond_destroy(&workers->settled);
	pthread_mutex_destroy(&workers->lock);
	free(workers->heap);
	free(workers->worker);
	free(workers);
}

int workers_reserve(struct workers *workers, int jobs)
{
	int result = 0;
	pthread_mutex_lock(&workers->lock);
	size_t reserved = (size_t)((int64_t)workers->reserved + jobs);
	if (reserved > workers->room) {
		struct workers_job **heap = realloc(workers->heap, reserved * sizeof *heap);
		if (heap) {
			workers->heap = heap;
			workers->room = reserved;
		} else {
			result = -ENOMEM;
		}
	}
	if (!result)
		workers->reserved = reserved;
	pthread_mutex_unlock(&workers->lock);
	return result;
}

void workers_push(struct workers *workers, struct workers_job *job)
{
	pthread_mutex_lock(&workers->lock);
	assert(workers->count < workers->reserved);
	workers_give_turn(workers, job);
	workers->heap[workers->count] = job;
	workers_sift_up(workers, workers->count++);
	pthread_cond_signal(&workers->work);
	pthread_mutex_unlock(&workers->lock);
}

struct workers_job *workers_more(struct workers *workers, const struct workers_job *like)
{
	struct workers_job *job = NULL;
	pthread_mutex_lock(&workers->lock);
	if (workers->count > workers->idle.value && workers->heap[0]->run == like->run)
		job = workers_take(workers);
	pthread_mutex_unlock(&workers->lock);
	return job;
}

unsigned workers_threads(const struct workers *workers)
{
	return workers->threads;
}

void workers_stats_read(struct workers *workers, struct workers_stats *ret)
{
	pthread_mutex_lock(&workers->lock);
	ret->idle_ns = gauge_at(&workers->idle, clock_ns()).sum_ns;
	ret->queued = workers->count;
	pthread_mutex_unlock(&workers->lock);
}

uint64_t workers_cpu_ns(const struct workers *workers)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < workers->started; i++) {
		clockid_t clock;
		struct timespec used;
		if (pthread_getcpuclockid(workers->worker[i].thread, &clock) == 0 &&
			clock_gettime(clock, &used) == 0)
			sum += (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
	}
	return sum;
}

bool workers_delay_ns(const struct workers *workers, uint64_t *ret)
{
	uint64_t sum = 0, delay;
	for (unsigned i = 0; i < workers->started; i++) {
		pid_t tid = atomic_load_explicit(&workers->worker[i].tid, memory_order_relaxed);
		if (tid && !cpu_delay_ns(tid, &delay))
			return false;
		sum += tid ? delay : 0;
	}
	*ret = sum;
	return true;
}

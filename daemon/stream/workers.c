/* pool: see pool.h. A binary heap under one mutex: at the few thousand samples a second that
 * decoding allows, the lock is held for well under a thousandth of the time. */
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

/* What a row costs until some were seen. */
#define WORKERS_COST_NS ((uint64_t)500000)
/* How much work a job lets pass for each row that its consumer still has ahead. Without an end to
 * it, a job whose consumer begins to wait after it was queued would be passed for ever. */
#define WORKERS_PASS_NS WORKERS_COST_NS

struct workers_worker {
	pthread_t thread;
	_Atomic pid_t tid; /* relaxed; 0 until it runs */
	struct workers *pool;
	struct row_maker maker;
};

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct workers_job **heap; /* [0] is the most urgent */
	size_t count, room, reserved;
	uint64_t arrivals;
	struct gauge idle; /* workers that wait for jobs */
	uint64_t turn_ns; /* the latest turn of a job that was taken */
	unsigned threads, started;
	bool stopping;
	struct workers_worker *worker;
};

void workers_share_init(struct workers_share *share)
{
	share->turn_ns = 0;
	atomic_store_explicit(&share->cost_ns, WORKERS_COST_NS, memory_order_relaxed);
}

/* A mean over some sixteen jobs; of two that come at once one may be lost. */
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

/* A share that had nothing to do has no claim to the time that went by. */
static void workers_give_turn(struct workers *pool, struct workers_job *job)
{
	struct workers_share *share = job->share;
	job->arrival = pool->arrivals++;
	job->turn_ns = UTIL_MAX(pool->turn_ns, share->turn_ns);
	share->turn_ns = job->turn_ns + atomic_load_explicit(&share->cost_ns, memory_order_relaxed);
}

static void workers_sift_up(struct workers *pool, size_t i)
{
	struct workers_job *job = pool->heap[i];
	for (size_t parent; i > 0 && workers_before(job, pool->heap[parent = (i - 1) / 2]);
		i = parent)
		pool->heap[i] = pool->heap[parent];
	pool->heap[i] = job;
}

static void workers_sift_down(struct workers *pool, size_t i)
{
	struct workers_job *job = pool->heap[i];
	for (size_t child; (child = 2 * i + 1) < pool->count; i = child) {
		if (child + 1 < pool->count &&
			workers_before(pool->heap[child + 1], pool->heap[child]))
			child++;
		if (!workers_before(pool->heap[child], job))
			break;
		pool->heap[i] = pool->heap[child];
	}
	pool->heap[i] = job;
}

static struct workers_job *workers_take(struct workers *pool)
{
	struct workers_job *job = pool->heap[0];
	pool->turn_ns = UTIL_MAX(pool->turn_ns, job->turn_ns);
	pool->heap[0] = pool->heap[--pool->count];
	if (pool->count)
		workers_sift_down(pool, 0);
	return job;
}

static void *workers_main(void *argument)
{
	struct workers_worker *worker = argument;
	struct workers *pool = worker->pool;
	(void)pthread_setname_np(pthread_self(), "penstock-work");
	/* By number: gettid() came with glibc 2.30. */
	atomic_store_explicit(&worker->tid, (pid_t)syscall(SYS_gettid), memory_order_relaxed);
	pthread_mutex_lock(&pool->lock);
	for (;;) {
		if (!pool->count && !pool->stopping) {
			gauge_set(&pool->idle, pool->idle.value + 1, clock_ns());
			while (!pool->count && !pool->stopping)
				pthread_cond_wait(&pool->work, &pool->lock);
			gauge_set(&pool->idle, pool->idle.value - 1, clock_ns());
		}
		if (!pool->count)
			break;
		struct workers_job *job = workers_take(pool);
		pthread_mutex_unlock(&pool->lock);
		job->run(job, &worker->maker);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* Signals are the event loop's: workers block them all. */
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

int workers_new(unsigned threads, const struct decode_limits *limits, uint32_t max_image_size,
	struct workers **ret, struct fault *fault)
{
	if (threads < 1 || threads > WORKERS_THREADS_MAX)
		return fault_set(fault, -EINVAL, "threads: expected 1 to %d, got %u",
			WORKERS_THREADS_MAX, threads);
	struct workers *pool = calloc(1, sizeof *pool);
	if (pool)
		pool->worker = calloc(threads, sizeof *pool->worker);
	if (!pool || !pool->worker) {
		free(pool);
		return fault_set(fault, -ENOMEM, "no memory for %u workers", threads);
	}
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	int result = 0;
	for (pool->threads = 0; pool->threads < threads && !result; pool->threads++) {
		struct workers_worker *worker = &pool->worker[pool->threads];
		worker->pool = pool;
		result = row_maker_init(&worker->maker, limits, max_image_size, fault);
		worker->maker.number = pool->threads;
	}
	for (; pool->started < threads && !result; pool->started++) {
		result = workers_start_thread(&pool->worker[pool->started]);
		if (result) {
			(void)fault_set(fault, result, "cannot start worker %u of %u: %s%s",
				pool->started + 1, threads, strerror(-result),
				limits_thread_hint(-result));
			break;
		}
	}
	if (result) {
		workers_free(pool);
		return result;
	}
	*ret = pool;
	return 0;
}

void workers_free(struct workers *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stopping = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->started; i++)
		pthread_join(pool->worker[i].thread, NULL);
	for (unsigned i = 0; i < pool->threads; i++)
		row_maker_deinit(&pool->worker[i].maker);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool->heap);
	free(pool->worker);
	free(pool);
}

int workers_reserve(struct workers *pool, int jobs)
{
	int result = 0;
	pthread_mutex_lock(&pool->lock);
	size_t reserved = (size_t)((int64_t)pool->reserved + jobs);
	if (reserved > pool->room) {
		struct workers_job **heap = realloc(pool->heap, reserved * sizeof *heap);
		if (heap) {
			pool->heap = heap;
			pool->room = reserved;
		} else {
			result = -ENOMEM;
		}
	}
	if (!result)
		pool->reserved = reserved;
	pthread_mutex_unlock(&pool->lock);
	return result;
}

void workers_push(struct workers *pool, struct workers_job *job)
{
	pthread_mutex_lock(&pool->lock);
	assert(pool->count < pool->reserved);
	workers_give_turn(pool, job);
	pool->heap[pool->count] = job;
	workers_sift_up(pool, pool->count++);
	pthread_cond_signal(&pool->work);
	pthread_mutex_unlock(&pool->lock);
}

struct workers_job *workers_more(struct workers *pool, const struct workers_job *like)
{
	struct workers_job *job = NULL;
	pthread_mutex_lock(&pool->lock);
	if (pool->count > pool->idle.value && pool->heap[0]->run == like->run)
		job = workers_take(pool);
	pthread_mutex_unlock(&pool->lock);
	return job;
}

unsigned workers_threads(const struct workers *pool)
{
	return pool->threads;
}

void workers_stats_read(struct workers *pool, struct workers_stats *ret)
{
	pthread_mutex_lock(&pool->lock);
	ret->idle_ns = gauge_at(&pool->idle, clock_ns()).sum_ns;
	ret->queued = pool->count;
	pthread_mutex_unlock(&pool->lock);
}

uint64_t workers_cpu_ns(const struct workers *pool)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < pool->started; i++) {
		clockid_t clock;
		struct timespec used;
		if (pthread_getcpuclockid(pool->worker[i].thread, &clock) == 0 &&
			clock_gettime(clock, &used) == 0)
			sum += (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
	}
	return sum;
}

bool workers_delay_ns(const struct workers *pool, uint64_t *ret)
{
	uint64_t sum = 0, delay;
	for (unsigned i = 0; i < pool->started; i++) {
		pid_t tid = atomic_load_explicit(&pool->worker[i].tid, memory_order_relaxed);
		if (tid && !cpu_delay_ns(tid, &delay))
			return false;
		sum += tid ? delay : 0;
	}
	*ret = sum;
	return true;
}

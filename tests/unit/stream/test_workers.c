/* workers: the most urgent job runs first, arrival breaks ties, and every job runs once, whichever
 * thread pushes it. */
#include "stream/workers.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { JOBS = 2000, PUSHERS = 4 };

struct job {
	struct workers_job job;
	int number;
	atomic_int runs;
};

static struct workers_share alone;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int ran[JOBS];
static atomic_int ran_count;

static void note(struct workers_job *job, struct row_maker *maker)
{
	struct job *self = (struct job *)job;
	assert_non_null(maker->decoder);
	ran[atomic_fetch_add(&ran_count, 1)] = self->number;
	atomic_fetch_add(&self->runs, 1);
}

static void wait_at_gate(struct workers_job *job, struct row_maker *maker)
{
	(void)job;
	(void)maker;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static struct workers *make(unsigned threads)
{
	struct decode_limits limits = decode_limits_default();
	struct workers *workers = NULL;
	struct fault fault;
	workers_share_init(&alone);
	assert_int_equal(workers_new(threads, &limits, 224, &workers, &fault), 0);
	assert_int_equal(workers_threads(workers), threads);
	return workers;
}

/* One worker that is held while the test fills the queue with at most `jobs` jobs. */
static struct workers *make_held(int jobs)
{
	static struct job first;
	struct workers *workers = make(1);
	struct workers_stats stats;
	first = (struct job){.job = {.share = &alone, .run = wait_at_gate}};
	assert_int_equal(workers_reserve(workers, jobs + 1), 0);
	pthread_mutex_lock(&gate);
	workers_push(workers, &first.job);
	do
		workers_stats_read(workers, &stats);
	while (stats.queued);
	atomic_store(&ran_count, 0);
	return workers;
}

/* Lets the worker run all that is queued. */
static void release(struct workers *workers)
{
	pthread_mutex_unlock(&gate);
	workers_free(workers);
}

static void urgent_jobs_run_first_and_none_is_passed_for_ever(void **state)
{
	(void)state;
	struct workers *workers = make_held(JOBS);
	static struct job job[JOBS];
	srand(1);
	for (int i = 0; i < JOBS; i++) {
		job[i] = (struct job){.job = {.share = &alone,
					      .run = note,
					      .urgency = (uint64_t)(rand() % 7) * 256},
			.number = i};
		workers_push(workers, &job[i].job);
	}
	release(workers);
	assert_int_equal(atomic_load(&ran_count), JOBS);
	for (int i = 1; i < JOBS; i++) {
		const struct job *a = &job[ran[i - 1]], *b = &job[ran[i]];
		/* Urgency is worth a number of places in the queue, not all of them. */
		uint64_t earlier = (uint64_t)a->number + a->job.urgency,
			 later = (uint64_t)b->number + b->job.urgency;
		assert_true(
			earlier < later || (earlier == later && a->job.urgency < b->job.urgency));
	}
}

/* Runs the jobs of two shares on one worker after all were queued. Returns how many of the first
 * `first` jobs that ran belong to share 0. */
static int run_two(uint64_t cost0, uint64_t cost1, uint64_t urgency1, int first)
{
	struct workers_share share[2];
	struct workers *workers = make_held(JOBS);
	static struct job job[JOBS];
	for (int i = 0; i < 2; i++) {
		workers_share_init(&share[i]);
		for (int n = 0; n < 200; n++)
			workers_share_cost(&share[i], i ? cost1 : cost0);
	}
	/* The first share has queued all of its jobs before the second one begins. */
	for (int i = 0; i < JOBS; i++) {
		int second = i >= JOBS / 2;
		job[i] = (struct job){.job = {.share = &share[second],
					      .run = note,
					      .urgency = second ? urgency1 : 0},
			.number = i};
		workers_push(workers, &job[i].job);
	}
	release(workers);
	int mine = 0;
	for (int i = 0; i < first; i++)
		mine += ran[i] < JOBS / 2;
	return mine;
}

static void streams_that_wait_alike_get_the_same_time(void **state)
{
	(void)state;
	assert_in_range(run_two(1000000, 1000000, 0, 200), 98, 102);
	/* Rows that cost three times as much come a third as often. */
	assert_in_range(run_two(3000000, 1000000, 0, 200), 47, 53);
	assert_in_range(run_two(1000000, 3000000, 0, 200), 147, 153);
	/* A stream with 256 rows ahead lets the work of 256 rows pass, and then has its turn. */
	assert_int_equal(run_two(500000, 500000, 256, 250), 250);
	assert_in_range(run_two(500000, 500000, 256, 456), 352, 360);
}

static struct workers *shared;

static void *push(void *argument)
{
	struct job *job = argument;
	for (int i = 0; i < JOBS / PUSHERS; i++)
		workers_push(shared, &job[i].job);
	return NULL;
}

static void every_job_runs_once(void **state)
{
	(void)state;
	static struct job job[JOBS];
	pthread_t thread[PUSHERS];
	shared = make(3);
	assert_int_equal(workers_reserve(shared, JOBS), 0);
	atomic_store(&ran_count, 0);
	for (int i = 0; i < JOBS; i++)
		job[i] = (struct job){
			.job = {.share = &alone, .run = note, .urgency = (uint64_t)i % 3},
			.number = i};
	for (int i = 0; i < PUSHERS; i++)
		pthread_create(&thread[i], NULL, push, &job[i * (JOBS / PUSHERS)]);
	for (int i = 0; i < PUSHERS; i++)
		pthread_join(thread[i], NULL);
	workers_free(shared);
	for (int i = 0; i < JOBS; i++)
		assert_int_equal(atomic_load(&job[i].runs), 1);
}

static void impossible_numbers_of_threads_are_refused(void **state)
{
	(void)state;
	struct decode_limits limits = decode_limits_default();
	struct workers *workers = NULL;
	struct fault fault;
	assert_int_equal(workers_new(0, &limits, 224, &workers, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "threads: expected 1 to"));
	assert_int_equal(workers_new(100000, &limits, 224, &workers, &fault), -EINVAL);
	assert_null(workers);
	workers_free(NULL);
}

/* A job that asks for more jobs, and those that it got. */
struct asker {
	struct workers_job job;
	struct workers *workers;
	struct workers_job *got[4];
	size_t count;
};

static void ask(struct workers_job *job, struct row_maker *maker)
{
	struct asker *asker = (struct asker *)job;
	(void)maker;
	while (asker->count < 4 && (asker->got[asker->count] = workers_more(asker->workers, job)))
		asker->count++;
}

static void a_job_takes_more_of_its_kind(void **state)
{
	(void)state;
	struct workers *workers = make_held(5);
	struct asker asker[4] = {0};
	struct job other = {.job = {.share = &alone, .run = note, .urgency = 768}, .number = 7};
	/* Takes those that are more urgent than the job of the other kind, in their order. */
	static const uint64_t urgency[] = {1024, 0, 512, 256};
	for (int i = 0; i < 4; i++) {
		asker[i] =
			(struct asker){.job = {.share = &alone, .run = ask, .urgency = urgency[i]},
				.workers = workers};
		workers_push(workers, &asker[i].job);
	}
	workers_push(workers, &other.job);
	release(workers);
	assert_int_equal(asker[1].count, 2);
	assert_ptr_equal(asker[1].got[0], &asker[3].job);
	assert_ptr_equal(asker[1].got[1], &asker[2].job);
	assert_int_equal(atomic_load(&ran_count), 1);
	assert_int_equal(asker[0].count, 0);
}

/* Idle time counts while a worker still waits. */
static void idle_workers_count_while_they_wait(void **state)
{
	(void)state;
	struct workers *workers = make(3);
	struct workers_stats before, after;
	uint64_t delay_ns;
	do {
		workers_stats_read(workers, &before);
		(void)usleep(1000);
		workers_stats_read(workers, &after);
	} while (after.idle_ns - before.idle_ns < 3 * 1000000); /* until all three do */
	assert_true(workers_cpu_ns(workers) < (uint64_t)3600 * 1000000000);
	if (workers_delay_ns(workers, &delay_ns)) /* as far as the kernel says */
		assert_true(delay_ns < (uint64_t)3600 * 1000000000);
	workers_free(workers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urgent_jobs_run_first_and_none_is_passed_for_ever),
		cmocka_unit_test(streams_that_wait_alike_get_the_same_time),
		cmocka_unit_test(every_job_runs_once),
		cmocka_unit_test(impossible_numbers_of_threads_are_refused),
		cmocka_unit_test(a_job_takes_more_of_its_kind),
		cmocka_unit_test(idle_workers_count_while_they_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* pool: the most urgent job first, arrival breaks ties, every job once, from many threads. */
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

/* Holds the only worker until the queue is filled. */
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
	struct workers *pool = NULL;
	struct fault fault;
	workers_share_init(&alone);
	assert_int_equal(workers_new(threads, &limits, 224, &pool, &fault), 0);
	assert_int_equal(workers_threads(pool), threads);
	return pool;
}

static void whoever_waits_goes_first_and_nobody_is_passed_for_ever(void **state)
{
	(void)state;
	struct workers *pool = make(1);
	struct job first = {.job = {.share = &alone, .run = wait_at_gate}};
	static struct job job[JOBS];
	assert_int_equal(workers_reserve(pool, JOBS + 1), 0);
	pthread_mutex_lock(&gate);
	workers_push(pool, &first.job);
	struct workers_stats stats;
	do
		workers_stats_read(pool, &stats);
	while (stats.queued);
	srand(1);
	atomic_store(&ran_count, 0);
	for (int i = 0; i < JOBS; i++) {
		job[i] = (struct job){.job = {.share = &alone,
					      .run = note,
					      .urgency = (uint64_t)(rand() % 7) * 256},
			.number = i};
		workers_push(pool, &job[i].job);
	}
	pthread_mutex_unlock(&gate);
	workers_free(pool);
	assert_int_equal(atomic_load(&ran_count), JOBS);
	for (int i = 1; i < JOBS; i++) {
		const struct job *a = &job[ran[i - 1]], *b = &job[ran[i]];
		/* Urgency is worth so many places in the queue, not all of them. */
		uint64_t earlier = (uint64_t)a->number + a->job.urgency,
			 later = (uint64_t)b->number + b->job.urgency;
		assert_true(
			earlier < later || (earlier == later && a->job.urgency < b->job.urgency));
	}
}

/* Runs two shares' jobs on one worker, all queued before: how many of the first `first` that ran
 * were of share 0. */
static int run_two(uint64_t cost0, uint64_t cost1, uint64_t urgency1, int first)
{
	struct workers_share share[2];
	struct workers *pool = make(1);
	struct job gate_job = {.job = {.share = &alone, .run = wait_at_gate}};
	static struct job job[JOBS];
	assert_int_equal(workers_reserve(pool, JOBS + 1), 0);
	pthread_mutex_lock(&gate);
	workers_push(pool, &gate_job.job);
	struct workers_stats stats;
	do
		workers_stats_read(pool, &stats);
	while (stats.queued);
	for (int i = 0; i < 2; i++) {
		workers_share_init(&share[i]);
		for (int n = 0; n < 200; n++)
			workers_share_cost(&share[i], i ? cost1 : cost0);
	}
	atomic_store(&ran_count, 0);
	/* The first share has queued all of its jobs before the second one begins. */
	for (int i = 0; i < JOBS; i++) {
		int second = i >= JOBS / 2;
		job[i] = (struct job){.job = {.share = &share[second],
					      .run = note,
					      .urgency = second ? urgency1 : 0},
			.number = i};
		workers_push(pool, &job[i].job);
	}
	pthread_mutex_unlock(&gate);
	workers_free(pool);
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
	/* Who has 256 rows ahead lets the work of as many pass, and then has its turn. */
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
	struct workers *pool = NULL;
	struct fault fault;
	assert_int_equal(workers_new(0, &limits, 224, &pool, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "threads: expected 1 to"));
	assert_int_equal(workers_new(100000, &limits, 224, &pool, &fault), -EINVAL);
	assert_null(pool);
	workers_free(NULL);
}

/* What a job's function asked for besides its own job. */
struct asker {
	struct workers_job job;
	struct workers *pool;
	struct workers_job *got[4];
	size_t count;
};

static void ask(struct workers_job *job, struct row_maker *maker)
{
	struct asker *asker = (struct asker *)job;
	(void)maker;
	while (asker->count < 4 && (asker->got[asker->count] = workers_more(asker->pool, job)))
		asker->count++;
}

static void a_job_takes_more_of_its_kind(void **state)
{
	(void)state;
	struct workers *pool = make(1);
	struct job gate_job = {.job = {.share = &alone, .run = wait_at_gate}};
	struct asker asker[4] = {0};
	struct job other = {.job = {.share = &alone, .run = note, .urgency = 768}, .number = 7};
	assert_int_equal(workers_reserve(pool, 6), 0);
	pthread_mutex_lock(&gate);
	workers_push(pool, &gate_job.job);
	struct workers_stats stats;
	do
		workers_stats_read(pool, &stats);
	while (stats.queued);
	/* Those that are more urgent than the other kind are taken, in their order. */
	static const uint64_t urgency[] = {1024, 0, 512, 256};
	for (int i = 0; i < 4; i++) {
		asker[i] = (struct asker){
			.job = {.share = &alone, .run = ask, .urgency = urgency[i]}, .pool = pool};
		workers_push(pool, &asker[i].job);
	}
	atomic_store(&ran_count, 0);
	workers_push(pool, &other.job);
	pthread_mutex_unlock(&gate);
	workers_free(pool);
	assert_int_equal(asker[1].count, 2);
	assert_ptr_equal(asker[1].got[0], &asker[3].job);
	assert_ptr_equal(asker[1].got[1], &asker[2].job);
	assert_int_equal(atomic_load(&ran_count), 1);
	assert_int_equal(asker[0].count, 0);
}

/* All of them wait, and that counts before it ends. */
static void idle_workers_count_while_they_wait(void **state)
{
	(void)state;
	struct workers *pool = make(3);
	struct workers_stats before, after;
	uint64_t delay_ns;
	do {
		workers_stats_read(pool, &before);
		(void)usleep(1000);
		workers_stats_read(pool, &after);
	} while (after.idle_ns - before.idle_ns < 3 * 1000000); /* until all three do */
	assert_true(workers_cpu_ns(pool) < (uint64_t)3600 * 1000000000);
	if (workers_delay_ns(pool, &delay_ns)) /* as far as the kernel says */
		assert_true(delay_ns < (uint64_t)3600 * 1000000000);
	workers_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_waits_goes_first_and_nobody_is_passed_for_ever),
		cmocka_unit_test(streams_that_wait_alike_get_the_same_time),
		cmocka_unit_test(every_job_runs_once),
		cmocka_unit_test(impossible_numbers_of_threads_are_refused),
		cmocka_unit_test(a_job_takes_more_of_its_kind),
		cmocka_unit_test(idle_workers_count_while_they_wait),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* permit: the bound holds with many threads, no thread starves, and a request that can never fit is
 * refused at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/permit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { THREADS = 6, ROUNDS = 400, TOTAL = 100 };

struct crowd {
	struct permit permit;
	atomic_uint held; /* bytes, as the jobs count them */
	atomic_uint arrivals; /* how many have had their turn */
	atomic_bool overrun;
};

struct job {
	struct crowd *crowd;
	uint64_t bytes;
	unsigned turn;
	pthread_t thread;
};

static void counts_what_is_held(void **state)
{
	struct permit permit;
	(void)state;
	permit_init(&permit, TOTAL);
	assert_int_equal(permit_acquire(&permit, 60), 0);
	assert_int_equal(permit_try(&permit, 41), -EAGAIN);
	assert_int_equal(permit_try(&permit, 40), 0);
	assert_int_equal(permit.used, TOTAL);
	assert_int_equal(permit_try(&permit, 1), -EAGAIN);
	assert_int_equal(permit_try(&permit, 0), 0);
	struct permit_stats stats;
	permit_stats_read(&permit, &stats);
	assert_true(stats.wait_ns == 0 && stats.largest == 60);
	permit_release(&permit, 60);
	assert_int_equal(permit_try(&permit, 50), 0);
	permit_release(&permit, 50);
	permit_release(&permit, 40);
	assert_int_equal(permit.peak, TOTAL);
	permit_deinit(&permit);
}

static void refuses_what_never_fits(void **state)
{
	struct permit permit;
	(void)state;
	permit_init(&permit, TOTAL);
	assert_int_equal(permit_acquire(&permit, TOTAL + 1), PERMIT_E_TOO_LARGE);
	assert_int_equal(permit_try(&permit, UINT64_MAX), PERMIT_E_TOO_LARGE);
	assert_int_equal(permit_acquire(&permit, TOTAL), 0);
	permit_release(&permit, TOTAL);
	/* What could not be had counts where a budget is recommended. */
	struct permit_stats stats;
	permit_note(&permit, TOTAL * 7);
	permit_note(&permit, 1);
	permit_stats_read(&permit, &stats);
	assert_int_equal(stats.largest, TOTAL * 7);
	permit_deinit(&permit);
}

static void *crowd_job(void *arg)
{
	struct job *job = arg;
	struct crowd *crowd = job->crowd;
	for (int i = 0; i < ROUNDS; i++) {
		if (permit_acquire(&crowd->permit, job->bytes) != 0)
			atomic_store(&crowd->overrun, true);
		if (atomic_fetch_add(&crowd->held, (unsigned)job->bytes) + job->bytes > TOTAL)
			atomic_store(&crowd->overrun, true);
		atomic_fetch_sub(&crowd->held, (unsigned)job->bytes);
		permit_release(&crowd->permit, job->bytes);
	}
	return NULL;
}

static void keeps_the_bound_among_threads(void **state)
{
	static const uint64_t bytes[THREADS] = {1, 30, 50, 70, 99, 100};
	struct crowd crowd = {0};
	struct job job[THREADS];
	(void)state;
	permit_init(&crowd.permit, TOTAL);
	for (int i = 0; i < THREADS; i++) {
		job[i] = (struct job){.crowd = &crowd, .bytes = bytes[i]};
		assert_int_equal(pthread_create(&job[i].thread, NULL, crowd_job, &job[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(job[i].thread, NULL), 0);
	assert_false(atomic_load(&crowd.overrun));
	assert_int_equal(crowd.permit.used, 0);
	assert_in_range(crowd.permit.peak, 100, TOTAL);
	permit_deinit(&crowd.permit);
}

static void *waiting_job(void *arg)
{
	struct job *job = arg;
	(void)permit_acquire(&job->crowd->permit, job->bytes);
	job->turn = atomic_fetch_add(&job->crowd->arrivals, 1);
	permit_release(&job->crowd->permit, job->bytes);
	return NULL;
}

static void wait_for_tickets(struct crowd *crowd, uint64_t tickets)
{
	for (;;) {
		pthread_mutex_lock(&crowd->permit.lock);
		uint64_t taken = crowd->permit.next_ticket;
		pthread_mutex_unlock(&crowd->permit.lock);
		if (taken == tickets)
			return;
		(void)usleep(100);
	}
}

/* A request for everything waits first. A small one that would fit at once waits after it, and
 * permit_try refuses. */
static void serves_in_order_of_arrival(void **state)
{
	struct crowd crowd = {0};
	struct job large = {.crowd = &crowd, .bytes = TOTAL}, small = {.crowd = &crowd, .bytes = 1};
	struct permit_stats stats;
	(void)state;
	permit_init(&crowd.permit, TOTAL);
	assert_int_equal(permit_acquire(&crowd.permit, 10), 0);
	assert_int_equal(pthread_create(&large.thread, NULL, waiting_job, &large), 0);
	wait_for_tickets(&crowd, 2);
	assert_int_equal(pthread_create(&small.thread, NULL, waiting_job, &small), 0);
	wait_for_tickets(&crowd, 3);
	assert_int_equal(permit_try(&crowd.permit, 1), -EAGAIN);
	assert_int_equal(atomic_load(&crowd.arrivals), 0);
	/* The time of waiting threads counts before they are done. */
	permit_stats_read(&crowd.permit, &stats);
	assert_true(stats.wait_ns > 0);
	assert_int_equal(stats.largest, 10);
	permit_release(&crowd.permit, 10);
	assert_int_equal(pthread_join(large.thread, NULL), 0);
	assert_int_equal(pthread_join(small.thread, NULL), 0);
	assert_int_equal(large.turn, 0);
	assert_int_equal(small.turn, 1);
	uint64_t waited = stats.wait_ns;
	permit_stats_read(&crowd.permit, &stats);
	assert_true(stats.wait_ns >= waited);
	assert_int_equal(stats.largest, TOTAL);
	/* No thread waits any more, and the sum no longer grows. */
	waited = stats.wait_ns;
	(void)usleep(1000);
	permit_stats_read(&crowd.permit, &stats);
	assert_int_equal(stats.wait_ns, waited);
	permit_deinit(&crowd.permit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_what_is_held),
		cmocka_unit_test(refuses_what_never_fits),
		cmocka_unit_test(keeps_the_bound_among_threads),
		cmocka_unit_test(serves_in_order_of_arrival),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

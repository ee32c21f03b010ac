/* account: rates over a second, from two counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/observe/account.h"
#include "stats/verdict.h"

#include <math.h>

#define SECOND ((uint64_t)1000000000)

static void is(double got, double expected)
{
	if (!(fabs(got - expected) < 1e-9))
		fail_msg("expected %g, got %g", expected, got);
}

static const struct account_counters early = {
	.at_ns = 100 * SECOND,
	.idle_ns = 7 * SECOND,
	.delay_ns = 90 * SECOND,
	.read_delay_ns = 80 * SECOND,
	.throttled_us = 70000000,
	.bytes = 1000,
	.reads = 10,
	.delay_known = true,
	.read_delay_known = true,
	.throttled_known = true,
};

static struct account_counters a_second_later(void)
{
	struct account_counters now = early;
	now.at_ns += SECOND;
	now.idle_ns += SECOND / 2;
	now.delay_ns += SECOND / 4;
	now.read_delay_ns += SECOND / 8;
	now.throttled_us += 500000;
	now.bytes += 64;
	now.reads += 2;
	return now;
}

static void a_second_is_what_grew(void **state)
{
	struct account_counters now = a_second_later();
	struct account_second second;
	(void)state;
	account_between(&early, &now, &second);
	is(second.seconds, 1);
	is(second.workers_idle_s, 0.5);
	is(second.delay_s, 0.25);
	is(second.read_delay_s, 0.125);
	is(second.throttled_s, 0.5);
	assert_int_equal(second.read_bytes, 64);
	assert_int_equal(second.reads, 2);
	now.idle_ns = early.idle_ns - 1; /* summed from several places */
	account_between(&early, &now, &second);
	is(second.workers_idle_s, 0);
}

/* As when no descriptor was free to read the count: earlier delay does not count for the next
 * second. */
static void what_was_not_said_once_is_not_made_up_for(void **state)
{
	struct account_counters now = a_second_later(), silent = early;
	struct account_second second;
	(void)state;
	silent.delay_ns = silent.read_delay_ns = silent.throttled_us = 0;
	silent.delay_known = silent.read_delay_known = silent.throttled_known = false;
	account_between(&silent, &now, &second);
	assert_true(second.delay_s < 0);
	is(second.read_delay_s, 0);
	is(second.throttled_s, 0);
	account_between(&now, &silent, &second);
	assert_true(second.delay_s < 0);
	is(second.read_delay_s, 0);
	is(second.throttled_s, 0);
}

/* Second by second: 10 requests, of which one is told to slow down, and one more connection. */
static void requests_of_the_last_seconds(void **state)
{
	static struct account_server account;
	struct verdict_remote remote;
	struct account_remote now = {.limit = 64};
	(void)state;
	account_requested(&account, 10, &remote);
	assert_true(remote.requests == 0 && remote.connections == 0 && !remote.store);
	assert_string_equal(remote.waiting, "");
	for (unsigned i = 1; i <= 30; i++) {
		now.requests += 10;
		now.slowdowns++;
		now.throttled_ns += SECOND / 2;
		now.connections = i;
		/* Slow ones at first, which the window has left behind. */
		histogram_add(&now.first_byte, i <= 20 ? 30 * SECOND : SECOND / 100);
		account.remote[account.remote_ticks++ % (ACCOUNT_WINDOW + 1)] = now;
		if (i == 4) {
			account_requested(&account, 10, &remote);
			is(remote.requests, 40);
			is(remote.connections, 2.5);
			assert_true(remote.first_byte_p99_s > 20);
		}
	}
	account_requested(&account, 10, &remote);
	is(remote.requests, 100);
	is(remote.slowdowns, 10);
	is(remote.throttled_s, 5);
	is(remote.connections, 25.5);
	assert_int_equal(remote.limit, 64);
	assert_true(remote.first_byte_p99_s > 0 && remote.first_byte_p99_s <= 0.01);
	account_requested(&account, 1, &remote);
	is(remote.requests, 10);
	is(remote.connections, 30);
	account_requested(&account, 0, &remote);
	is(remote.requests, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_second_is_what_grew),
		cmocka_unit_test(what_was_not_said_once_is_not_made_up_for),
		cmocka_unit_test(requests_of_the_last_seconds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

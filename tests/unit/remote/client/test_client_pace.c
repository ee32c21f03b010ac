/* How fast a server is asked: simulations with a clock of their own, in which the client's pure
 * parts decide and a made-up server answers. Nothing depends on the machine. */
#include "remote/client/client_impl.h"

#include "base/util.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CONNECTIONS = 64, SERVICE_MS = 20, REQUESTS = 2 * CONNECTIONS };

/* A server that serves `room` requests at once and refuses the others, and refuses or never answers
 * some by chance. */
struct server {
	unsigned room; /* 0: any number */
	double refuses, stalls;
	bool plainly; /* with 429 */
};

struct run {
	struct client_place place;
	const struct server *server;
	uint64_t random, now_ms;
	struct one {
		uint64_t began_ms, end_ms; /* end 0: free; UINT64_MAX: never */
		bool good, hedged;
		unsigned failures;
	} one[CONNECTIONS + CONNECTIONS / 16];
	struct retry {
		uint64_t due_ms; /* 0: free */
		unsigned failures;
	} retry[REQUESTS];
	unsigned waiting;
	double tokens;
	/* results */
	uint64_t served, refused, begun, halved, hedges, stalled, late_ms, wait_ms, retries;
	double limit; /* mean */
};

static struct run run;

static double chance(void)
{
	run.random = run.random * 6364136223846793005u + 1442695040888963407u;
	return (double)(run.random >> 11) / (double)(UINT64_C(1) << 53);
}

static uint64_t now_ns(void)
{
	return run.now_ms * CLIENT_MS;
}

static unsigned serving(void)
{
	unsigned count = 0;
	for (size_t i = 0; i < UTIL_COUNT(run.one); i++)
		count += run.one[i].end_ms && run.one[i].good;
	return count;
}

static void begin(unsigned failures)
{
	const struct server *server = run.server;
	struct one *one = run.one;
	while (one->end_ms)
		one++;
	const bool full = server->room && serving() >= server->room;
	const double draw = chance();
	const uint64_t service = SERVICE_MS * 3 / 4 + (uint64_t)(chance() * SERVICE_MS / 2);
	*one = (struct one){.began_ms = run.now_ms, .failures = failures};
	one->good = !full && draw >= server->refuses;
	one->end_ms = run.now_ms + (one->good ? service : 1);
	if (one->good && chance() < server->stalls) {
		one->end_ms = UINT64_MAX;
		run.stalled++;
	}
	run.place.running++;
	run.begun++;
	if (!failures)
		run.tokens = UTIL_MIN(run.tokens + 0.02, 16.0);
}

static void finish(struct one *one)
{
	one->end_ms = 0;
	run.place.running--;
	if (one->good) {
		run.served++;
		client_place_first_byte(&run.place, (run.now_ms - one->began_ms) * CLIENT_MS);
		client_place_answered(&run.place, now_ns());
		client_place_answered(&run.place, now_ns());
		return;
	}
	struct retry *retry = run.retry;
	run.refused++;
	client_place_failed(&run.place, "status 503", now_ns());
	run.halved += client_place_slow_down(&run.place, run.server->plainly, now_ns());
	const uint64_t wait = client_place_backoff(&run.place, one->failures + 1, 100 * CLIENT_MS,
		20ull * CLIENT_S, &run.random, now_ns());
	while (retry->due_ms)
		retry++;
	*retry = (struct retry){
		.due_ms = run.now_ms + 1 + wait / CLIENT_MS, .failures = one->failures + 1};
	run.waiting++;
	run.wait_ms += wait / CLIENT_MS;
	run.retries++;
}

static bool launch(void)
{
	if (run.place.running >= (unsigned)run.place.limit)
		return false;
	for (size_t i = 0; i < REQUESTS; i++)
		if (run.retry[i].due_ms && run.retry[i].due_ms <= run.now_ms) {
			run.retry[i].due_ms = 0;
			run.waiting--;
			begin(run.retry[i].failures);
			return true;
		}
	/* A stream has so many samples in flight. */
	if (run.place.running + run.waiting >= REQUESTS)
		return false;
	begin(0);
	return true;
}

/* As the client does it: the oldest first, every 10 ms. A request that is sent a second time ends
 * at once here: how soon is what counts. */
static void hedge(void)
{
	for (;;) {
		struct one *oldest = NULL;
		for (size_t i = 0; i < UTIL_COUNT(run.one); i++)
			if (run.one[i].end_ms && run.one[i].good &&
				(!oldest || run.one[i].began_ms < oldest->began_ms))
				oldest = &run.one[i];
		if (!oldest || run.tokens < 1 ||
			(run.now_ms - oldest->began_ms) * CLIENT_MS <=
				client_place_hedge_ns(&run.place, run.tokens))
			return;
		if (oldest->end_ms == UINT64_MAX)
			run.late_ms += run.now_ms - oldest->began_ms;
		run.tokens -= 1;
		run.hedges++;
		oldest->end_ms = 0;
		run.place.running--;
	}
}

static void simulate(const struct server *server, unsigned connections, unsigned seconds)
{
	run = (struct run){.server = server, .random = 11};
	run.now_ms = 1000000;
	client_place_begin(&run.place, "s3://bucket", connections, now_ns());
	for (const uint64_t end = run.now_ms + seconds * 1000u; run.now_ms < end; run.now_ms++) {
		for (size_t i = 0; i < UTIL_COUNT(run.one); i++)
			if (run.one[i].end_ms && run.one[i].end_ms <= run.now_ms)
				finish(&run.one[i]);
		if (run.now_ms % 10 == 0 && server->stalls > 0)
			hedge();
		if (run.now_ms % 10 == 0)
			client_place_grow(&run.place, connections, now_ns());
		while (launch())
			;
		run.limit += run.place.limit;
	}
	run.limit /= seconds * 1000.0;
	print_message("limit %.1f, served %llu, refused %llu, halved %llu, hedges %llu of %llu, "
		      "mean wait %.1f ms, stalls hedged after %.1f ms\n",
		run.limit, (unsigned long long)run.served, (unsigned long long)run.refused,
		(unsigned long long)run.halved, (unsigned long long)run.hedges,
		(unsigned long long)run.begun, (double)run.wait_ms / (double)(run.retries + 1),
		(double)run.late_ms / (double)(run.stalled + 1));
}

/* A store that refuses one request in twenty is asked as much as one that refuses none, and the
 * refused ones again soon. */
static void test_refused_by_chance(void **state)
{
	static const struct server good = {.room = 0}, some = {.refuses = 0.05};
	simulate(&good, CONNECTIONS, 20);
	const uint64_t undisturbed = run.served;
	assert_true(undisturbed > 60000);
	simulate(&some, CONNECTIONS, 20);
	assert_true(run.refused > undisturbed / 30);
	assert_true(run.limit > CONNECTIONS * 0.97);
	assert_true((double)run.served > 0.95 * (double)undisturbed);
	assert_true(run.wait_ms < 10 * run.retries);
}

/* A store that has room for 20 requests gets about 20. */
static void test_room(void **state)
{
	static const struct server busy = {.room = 20};
	simulate(&busy, CONNECTIONS, 20);
	assert_in_range((unsigned)run.limit, 15, 30);
	/* Of what the room can serve, 1000 a second. */
	assert_true(run.served > 17000);
	/* There is no storm: most requests are served. */
	assert_true(run.refused < run.served / 2);
	static const struct server small = {.room = 3, .refuses = 0.05};
	simulate(&small, CONNECTIONS, 20);
	assert_true(run.served > 2500);
	assert_true(run.refused < run.served);
}

/* A quarter of refusals, whatever the number of requests, and each 429, mean fewer requests. */
static void test_fewer(void **state)
{
	static const struct server many = {.refuses = 0.25};
	static const struct server told = {.refuses = 0.05, .plainly = true};
	simulate(&many, CONNECTIONS, 10);
	assert_true(run.halved > 5);
	assert_true(run.limit < CONNECTIONS * 0.75);
	simulate(&told, CONNECTIONS, 10);
	assert_true(run.halved > 5);
	assert_true(run.limit < CONNECTIONS * 0.75);
	/* One is enough. */
	uint64_t now = 1000 * (uint64_t)CLIENT_S;
	struct client_place place;
	client_place_begin(&place, "s3://bucket", CONNECTIONS, now);
	assert_true(client_place_slow_down(&place, true, now));
	/* Of those that may be by chance, eight in a row are; and as many more as a twentieth of
	 * the requests that run, which may be told sooner than the others' bodies. */
	static const struct {
		unsigned connections;
		int before;
	} rows[] = {{4, 7}, {16, 8}, {CONNECTIONS, 10}};
	for (size_t row = 0; row < UTIL_COUNT(rows); row++) {
		const unsigned connections = rows[row].connections;
		uint64_t random = 5;
		client_place_begin(&place, "s3://bucket", connections, now);
		for (int i = 0; i < rows[row].before; i++) {
			assert_false(client_place_slow_down(&place, false, now));
			/* Until then, what was refused is asked for again soon. */
			assert_in_range(client_place_backoff(&place, 1, 100 * CLIENT_MS,
						20ull * CLIENT_S, &random, now),
				0, 100 * CLIENT_MS / 16);
		}
		assert_int_equal((int)place.limit, connections);
		assert_true(client_place_slow_down(&place, false, now));
		assert_int_equal((int)place.limit, connections / 2);
	}
}

/* The few requests that may be sent twice are those that are not answered, also where few requests
 * are made and many take a little longer than others. */
static void test_hedges(void **state)
{
	static const struct server stalls = {.stalls = 0.01};
	for (unsigned connections = 4; connections <= CONNECTIONS; connections *= 4) {
		simulate(&stalls, connections, 60);
		assert_true(run.hedges <= run.begun / 50);
		assert_true(run.stalled > 50);
		/* The p95 of what is answered is 29 ms, and the client looks every 10 ms. */
		assert_true(run.late_ms < run.stalled * 60);
	}
	struct client_place place;
	client_place_begin(&place, "s3://bucket", CONNECTIONS, 1);
	assert_int_equal(client_place_hedge_ns(&place, 16), CLIENT_S);
	place.p95_ns = 100 * CLIENT_MS;
	assert_int_equal(client_place_hedge_ns(&place, 16), 100 * CLIENT_MS);
	assert_int_equal(client_place_hedge_ns(&place, 8), 100 * CLIENT_MS);
	assert_int_equal(client_place_hedge_ns(&place, 4), 200 * CLIENT_MS);
	assert_int_equal(client_place_hedge_ns(&place, 0), 300 * CLIENT_MS);
	/* Beyond the limit, but not while the store wants fewer requests. */
	uint64_t now = 1000 * (uint64_t)CLIENT_S;
	place.running = CONNECTIONS + 3;
	assert_true(client_place_may_hedge(&place, CONNECTIONS, now));
	place.running = CONNECTIONS + 4;
	assert_false(client_place_may_hedge(&place, CONNECTIONS, now));
	assert_true(client_place_slow_down(&place, true, now));
	place.running = CONNECTIONS / 2;
	assert_false(client_place_may_hedge(&place, CONNECTIONS, now + CLIENT_S / 2));
	assert_true(client_place_may_hedge(&place, CONNECTIONS, now + CLIENT_S));
	place.running--;
	assert_true(client_place_may_hedge(&place, CONNECTIONS, now + CLIENT_S / 2));
}

/* Waits are short while failures are rare, and long when many requests fail. */
static void test_waits(void **state)
{
	struct client_place place;
	uint64_t now = 1000 * (uint64_t)CLIENT_S, random = 5, longest[4] = {0}, spent = 0;
	client_place_begin(&place, "s3://bucket", CONNECTIONS, now);
	for (unsigned i = 0; i < 400; i++) {
		now += CLIENT_S;
		uint64_t wait = client_place_backoff(
			&place, 1 + i % 4, 100 * CLIENT_MS, 5ull * CLIENT_S, &random, now);
		longest[i % 4] = UTIL_MAX(longest[i % 4], wait);
	}
	for (unsigned i = 0; i < 4; i++)
		assert_in_range(
			longest[i], (5 * CLIENT_MS) << 2 * i, (25 * CLIENT_MS / 4) << 2 * i);
	/* A server that is gone: half of the saved retries are quick. */
	unsigned quick = 0;
	now += 10ull * CLIENT_S;
	for (unsigned i = 0; i < 500; i++) {
		uint64_t wait = client_place_backoff(
			&place, 1, 100 * CLIENT_MS, 5ull * CLIENT_S, &random, now);
		quick += wait < 25 * CLIENT_MS / 4;
		spent += wait;
	}
	assert_in_range(quick, 40, 75);
	assert_true(spent / 500 > CLIENT_S);
	/* A stall is told sooner while few requests fail. */
	place.p99_ns = 400 * CLIENT_MS;
	assert_int_equal(client_place_stall_ns(&place, now), 8ull * CLIENT_S);
	client_place_begin(&place, "s3://bucket", CONNECTIONS, now);
	assert_int_equal(client_place_stall_ns(&place, now), 10ull * CLIENT_S);
	place.p99_ns = 400 * CLIENT_MS;
	assert_int_equal(client_place_stall_ns(&place, now), 2ull * CLIENT_S);
	place.p99_ns = 4 * CLIENT_MS;
	assert_int_equal(client_place_stall_ns(&place, now), CLIENT_S);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_by_chance),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_fewer),
		cmocka_unit_test(test_hedges),
		cmocka_unit_test(test_waits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* fetch with its cache: cached samples are delivered without a read, not even of an index page; a
 * sample is not read twice at a time; and whatever happens to the first read, the items that waited
 * for it get their sample. */
#include "unit/fetch/fetch_fixture.h"

#include "base/host/ledger.h"
#include "fetch/fetch_op.h"

#include <stdatomic.h>

#define MIB ((uint64_t)1 << 20)

static struct fetch *begin(
	enum fetch_engine engine, struct ledger *ledger, uint64_t budget, struct permit *large)
{
	struct fetch_options options = {.engine = engine,
		.io = FETCH_IO_BUFFERED,
		.arena_bytes = 2 << 20,
		.index_bytes = 1 << 18,
		.cache = FETCH_CACHE_ON,
		.ledger = ledger,
		.large = large};
	ledger_init(ledger, budget);
	struct fetch *fetch = fixture_fetch(&options);
	if (!fetch)
		ledger_deinit(ledger);
	return fetch;
}

static void end(struct fetch *fetch, struct ledger *ledger)
{
	fetch_free(fetch);
	assert_int_equal(ledger->borrowed, 0);
	ledger_deinit(ledger);
}

static void round_of(struct fetch *fetch, const struct fixture *fixture, uint64_t seed)
{
	struct reader reader;
	reader_init(&reader, fetch, fixture, fixture->count);
	reader_shuffle(&reader, seed);
	reader_all(&reader);
	assert_int_equal(reader.outcome[FETCH_OK], fixture->count);
	reader_deinit(&reader);
}

/* --- hits --- */

static void read_once(struct fetch *fetch, const struct fixture *fixture)
{
	struct fetch_stats first, second;
	fetch_expect(fetch, fixture->dataset);
	round_of(fetch, fixture, 1);
	fetch_stats_read(fetch, &first);
	assert_int_equal(first.cache.samples, fixture->count);
	for (uint64_t seed = 2; seed < 5; seed++)
		round_of(fetch, fixture, seed);
	fetch_stats_read(fetch, &second);
	assert_int_equal(second.bytes, first.bytes);
	assert_int_equal(second.reads, first.reads);
	assert_int_equal(
		second.index_hits + second.index_misses, first.index_hits + first.index_misses);
	assert_int_equal(second.cache.hits - first.cache.hits, 3 * fixture->count);
	assert_int_equal(second.arena_used, 0);
	assert_int_equal(second.inflight, 0);
	fetch_forget(fetch, fixture->dataset);
	fetch_stats_read(fetch, &second);
	assert_int_equal(second.cache.samples, 0);
	assert_int_equal(second.cache.bytes, 0);
}

static void test_hits(void **state)
{
	struct fixture tars, folder;
	struct permit large;
	permit_init(&large, 4 << 20);
	fixture_tars(&tars, 300, 70, true);
	fixture_images(&folder, 200, true);
	for (size_t e = 0; e < UTIL_COUNT(fixture_engines); e++) {
		struct ledger ledger;
		struct fetch *fetch = begin(fixture_engines[e], &ledger, 64 * MIB, &large);
		if (!fetch)
			continue;
		read_once(fetch, &tars);
		read_once(fetch, &folder);
		end(fetch, &ledger);
	}
	fixture_free(&tars);
	fixture_free(&folder);
	permit_deinit(&large);
}

/* Half of the dataset fits: that half is found in every round, the other is read. */
static void test_full(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 400, 100, false);
	for (size_t e = 0; e < UTIL_COUNT(fixture_engines); e++) {
		struct ledger ledger;
		struct fetch_stats stats;
		struct fetch *fetch = begin(fixture_engines[e], &ledger, 4 * MIB, NULL);
		if (!fetch)
			continue;
		fetch_expect(fetch, fixture.dataset);
		round_of(fetch, &fixture, 1);
		fetch_stats_read(fetch, &stats);
		uint64_t held = stats.cache.samples;
		assert_in_range(held, 100, 300);
		for (uint64_t seed = 2; seed < 6; seed++) {
			uint64_t hits = stats.cache.hits;
			round_of(fetch, &fixture, seed);
			fetch_stats_read(fetch, &stats);
			assert_int_equal(stats.cache.hits - hits, held);
			assert_int_equal(stats.cache.samples, held);
		}
		fetch_forget(fetch, fixture.dataset);
		end(fetch, &ledger);
	}
	fixture_free(&fixture);
}

/* `done` is never called on the thread that submits. */
static pthread_t submitter;
static _Atomic unsigned done_here, done_elsewhere;

static void note_thread(struct fetch_item *item)
{
	atomic_fetch_add(
		pthread_equal(pthread_self(), submitter) ? &done_here : &done_elsewhere, 1);
	reader_done(item);
}

static void test_done_by_a_fetch_thread(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 100, 100, false);
	submitter = pthread_self();
	for (size_t e = 0; e < UTIL_COUNT(fixture_engines); e++) {
		struct ledger ledger;
		struct fetch *fetch = begin(fixture_engines[e], &ledger, 16 * MIB, NULL);
		if (!fetch)
			continue;
		fetch_expect(fetch, fixture.dataset);
		round_of(fetch, &fixture, 1);
		struct reader reader;
		reader_init(&reader, fetch, &fixture, 100);
		for (int i = 0; i < 100; i++)
			reader.items[i].item.done = note_thread;
		atomic_store(&done_elsewhere, 0);
		reader_submit(&reader, 0, 100);
		/* Also while it is being canceled. */
		fetch_cancel(fetch, &reader.who);
		reader_take(&reader, 100);
		reader_deinit(&reader);
		assert_int_equal(atomic_load(&done_here), 0);
		assert_int_equal(atomic_load(&done_elsewhere), 100);
		fetch_forget(fetch, fixture.dataset);
		end(fetch, &ledger);
	}
	fixture_free(&fixture);
}

/* `auto` caches only datasets read with O_DIRECT; a dataset that was not announced is not cached;
 * `off` borrows nothing. */
static void test_modes(void **state)
{
	struct fixture fixture;
	fixture_tars(&fixture, 100, 100, false);
	for (int mode = FETCH_CACHE_AUTO; mode <= FETCH_CACHE_OFF; mode++)
		for (int expected = 0; expected < 2; expected++) {
			struct ledger ledger;
			struct fetch_stats stats;
			ledger_init(&ledger, 16 * MIB);
			struct fetch_options options = {.engine = FETCH_PREAD,
				.io = FETCH_IO_BUFFERED,
				.arena_bytes = 2 << 20,
				.index_bytes = 1 << 18,
				.cache = (enum fetch_cache)mode,
				.ledger = &ledger};
			struct fetch *fetch = fixture_fetch(&options);
			if (expected)
				fetch_expect(fetch, fixture.dataset);
			round_of(fetch, &fixture, 1);
			fetch_stats_read(fetch, &stats);
			bool kept = mode == FETCH_CACHE_ON && expected;
			assert_int_equal(stats.cache.samples, kept ? 100 : 0);
			assert_int_equal(ledger.borrowed > 0, kept);
			fetch_forget(fetch, fixture.dataset);
			end(fetch, &ledger);
		}
	fixture_free(&fixture);
}

/* --- one read for several --- */

/* Reads of samples wait at a gate; the first `left` of them then get this answer. */
static struct {
	_Atomic bool open;
	_Atomic int left;
	_Atomic unsigned asked;
	int answer;
} gate;

static int hook_gate(struct fetch_op *op)
{
	if (op->kind != FETCH_OP_RANGE && op->kind != FETCH_OP_FILE)
		return 0;
	if (op->stage != FETCH_OP_READ)
		return 0;
	atomic_fetch_add(&gate.asked, 1);
	struct timespec pause = {.tv_nsec = 100000};
	while (!atomic_load(&gate.open))
		(void)nanosleep(&pause, NULL);
	return atomic_fetch_sub(&gate.left, 1) > 0 ? gate.answer : 0;
}

static void gate_set(int answer, int left)
{
	gate.answer = answer;
	atomic_store(&gate.open, false);
	atomic_store(&gate.asked, 0);
	atomic_store(&gate.left, left);
	fetch_hook_set(hook_gate);
}

static void wait_for_shared(struct fetch *fetch, uint64_t count)
{
	struct fetch_stats stats;
	struct timespec pause = {.tv_nsec = 1000000};
	for (int i = 0; i < 60000; i++) {
		fetch_stats_read(fetch, &stats);
		if (stats.shared == count)
			return;
		(void)nanosleep(&pause, NULL);
	}
	fail_msg("%llu share a read, not %llu", (unsigned long long)stats.shared,
		(unsigned long long)count);
}

static void wait_for_asked(void)
{
	struct timespec pause = {.tv_nsec = 1000000};
	for (int i = 0; i < 60000 && !atomic_load(&gate.asked); i++)
		(void)nanosleep(&pause, NULL);
	assert_true(atomic_load(&gate.asked) > 0);
}

enum { SAMPLE = 31, FOLLOWERS = 5 };

/* One item leads and waits at the gate; the items of another reader follow it. */
static void lead_and_follow(struct fetch *fetch, const struct fixture *fixture, uint64_t sample,
	struct reader *leader, struct reader *followers)
{
	struct fetch_stats stats;
	fetch_stats_read(fetch, &stats);
	reader_init(leader, fetch, fixture, 1);
	reader_init(followers, fetch, fixture, FOLLOWERS);
	leader->items[0].item.number = sample;
	for (int i = 0; i < FOLLOWERS; i++)
		followers->items[i].item.number = sample;
	reader_submit(leader, 0, 1);
	wait_for_asked();
	reader_submit(followers, 0, FOLLOWERS);
	wait_for_shared(fetch, stats.shared + FOLLOWERS);
}

/* Checks what becomes of both readers, who wait at the gate. */
typedef void flight_test(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers);

/* Runs a test for tars and a folder, with a cache that has room and without one. The first
 * `failing` reads fail with -EIO. */
static void with_flights(flight_test *test, uint64_t sample, int failing)
{
	struct fixture fixtures[2];
	struct permit large;
	permit_init(&large, 4 << 20);
	fixture_tars(&fixtures[0], 120, 60, true);
	fixture_images(&fixtures[1], 120, true);
	for (int which = 0; which < 2; which++)
		for (int kept = 0; kept < 2; kept++) {
			struct ledger ledger;
			struct reader leader, followers;
			struct fetch *fetch = begin(FETCH_PREAD, &ledger, 32 * MIB, &large);
			if (kept)
				fetch_expect(fetch, fixtures[which].dataset);
			gate_set(-EIO, failing);
			lead_and_follow(fetch, &fixtures[which], sample, &leader, &followers);
			test(fetch, kept, &leader, &followers);
			reader_deinit(&leader);
			reader_deinit(&followers);
			fetch_hook_set(NULL);
			fetch_forget(fetch, fixtures[which].dataset);
			end(fetch, &ledger);
		}
	assert_int_equal(large.used, 0);
	fixture_free(&fixtures[0]);
	fixture_free(&fixtures[1]);
	permit_deinit(&large);
}

/* The cmocka test test_NAME. */
#define FLIGHT_TEST(name, sample, failing)           \
	static void test_##name(void **state)        \
	{                                            \
		with_flights(name, sample, failing); \
	}

/* Opens the gate and takes the results of both. */
static void let_go(struct reader *leader, struct reader *followers)
{
	atomic_store(&gate.open, true);
	reader_take(leader, 1);
	reader_take(followers, FOLLOWERS);
}

static uint64_t reads_of(struct fetch *fetch)
{
	struct fetch_stats stats;
	fetch_stats_read(fetch, &stats);
	return stats.reads;
}

static void read_for_all(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers)
{
	let_go(leader, followers);
	assert_int_equal(followers->outcome[FETCH_OK], FOLLOWERS);
	assert_int_equal(leader->outcome[FETCH_OK], 1);
	assert_int_equal(reads_of(fetch), 1);
}

FLIGHT_TEST(read_for_all, SAMPLE, 0)

/* A large sample's buffer cannot be shared: the followers find the sample in the cache, or read it
 * one after the other. */
static void read_large(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers)
{
	let_go(leader, followers);
	assert_int_equal(followers->outcome[FETCH_OK], FOLLOWERS);
	if (kept)
		assert_int_equal(reads_of(fetch), 1);
}

FLIGHT_TEST(read_large, FIXTURE_LARGE, 0)

/* The first read fails once: no other item is affected. */
static void fail_first(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers)
{
	let_go(leader, followers);
	assert_int_equal(leader->outcome[FETCH_E_IO], 1);
	assert_int_equal(followers->outcome[FETCH_OK], FOLLOWERS);
	assert_in_range(reads_of(fetch), 2, 1 + FOLLOWERS);
}

FLIGHT_TEST(fail_first, SAMPLE, 1)

/* All reads fail: each item has its own outcome and sentence. */
static void fail_all(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers)
{
	struct fetch_stats stats;
	let_go(leader, followers);
	assert_int_equal(leader->outcome[FETCH_E_IO], 1);
	assert_int_equal(followers->outcome[FETCH_E_IO], FOLLOWERS);
	fetch_stats_read(fetch, &stats);
	assert_int_equal(stats.cache.samples, 0);
}

FLIGHT_TEST(fail_all, SAMPLE, 1000)

/* The leader's stream is closed while it is read: the read in flight completes for all. */
static void cancel_first(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers)
{
	fetch_cancel(fetch, &leader->who);
	let_go(leader, followers);
	assert_int_equal(followers->outcome[FETCH_OK], FOLLOWERS);
}

FLIGHT_TEST(cancel_first, SAMPLE, 0)

/* The other way round: followers need not wait for a read that does not end. */
static void cancel_followers(
	struct fetch *fetch, bool kept, struct reader *leader, struct reader *followers)
{
	fetch_cancel(fetch, &followers->who);
	reader_take(followers, FOLLOWERS);
	assert_int_equal(followers->negative, FOLLOWERS);
	atomic_store(&gate.open, true);
	reader_take(leader, 1);
	assert_int_equal(leader->outcome[FETCH_OK], 1);
}

FLIGHT_TEST(cancel_followers, SAMPLE, 0)

static void *open_gate_later(void *context)
{
	struct timespec pause = {.tv_nsec = 20000000};
	(void)nanosleep(&pause, NULL);
	atomic_store(&gate.open, true);
	return NULL;
}

static void test_end_while_they_follow(void **state)
{
	struct fixture fixture;
	struct ledger ledger;
	struct reader leader, followers;
	pthread_t thread;
	fixture_tars(&fixture, 120, 60, true);
	struct fetch *fetch = begin(FETCH_PREAD, &ledger, 32 * MIB, NULL);
	fetch_expect(fetch, fixture.dataset);
	gate_set(0, 0);
	lead_and_follow(fetch, &fixture, SAMPLE, &leader, &followers);
	assert_int_equal(pthread_create(&thread, NULL, open_gate_later, NULL), 0);
	end(fetch, &ledger);
	assert_int_equal(pthread_join(thread, NULL), 0);
	fetch_hook_set(NULL);
	for (int i = 0; i < FOLLOWERS; i++)
		assert_int_equal(followers.items[i].item.result, -ECANCELED);
	assert_int_equal(leader.items[0].item.result, -ECANCELED);
	reader_deinit(&leader);
	reader_deinit(&followers);
	fixture_free(&fixture);
}

/* --- all at once --- */

struct storm {
	struct fetch *fetch;
	struct ledger *ledger;
	const struct fixture *fixture;
	uint64_t seed;
	_Atomic bool over;
};

static void *storm_read(void *context)
{
	struct storm *storm = context;
	for (uint64_t round = 0; round < 6; round++) {
		struct reader reader;
		reader_init(&reader, storm->fetch, storm->fixture, storm->fixture->count);
		/* In every other round all threads use the same seed. */
		reader_shuffle(&reader, round % 2 ? storm->seed : round);
		reader_submit(&reader, 0, reader.count);
		if (round == 3) {
			fetch_cancel(storm->fetch, &reader.who);
			reader_take(&reader, reader.count);
			assert_int_equal(reader.negative + reader.outcome[FETCH_OK], reader.count);
		} else {
			reader_take(&reader, reader.count);
			assert_int_equal(reader.outcome[FETCH_OK], reader.count);
		}
		reader_deinit(&reader);
	}
	return NULL;
}

static void *storm_reserve(void *context)
{
	struct storm *storm = context;
	struct fault fault;
	int line;
	while (!atomic_load(&storm->over)) {
		if (ledger_reserve(storm->ledger, 5 * MIB, "slots", &line, &fault) < 0)
			fail_msg("%s", fault.text);
		struct timespec pause = {.tv_nsec = 1000000};
		(void)nanosleep(&pause, NULL);
		ledger_release(storm->ledger, line);
	}
	return NULL;
}

static void test_storm(void **state)
{
	struct fixture fixture;
	struct permit large;
	permit_init(&large, 4 << 20);
	fixture_tars(&fixture, 300, 70, true);
	for (size_t e = 0; e < UTIL_COUNT(fixture_engines); e++) {
		struct ledger ledger;
		struct fetch *fetch = begin(fixture_engines[e], &ledger, 8 * MIB, &large);
		if (!fetch)
			continue;
		fetch_expect(fetch, fixture.dataset);
		struct storm storm[4], reserve = {.ledger = &ledger};
		pthread_t thread[4], other;
		assert_int_equal(pthread_create(&other, NULL, storm_reserve, &reserve), 0);
		for (size_t i = 0; i < UTIL_COUNT(thread); i++) {
			storm[i] =
				(struct storm){.fetch = fetch, .fixture = &fixture, .seed = i + 10};
			assert_int_equal(
				pthread_create(&thread[i], NULL, storm_read, &storm[i]), 0);
		}
		for (size_t i = 0; i < UTIL_COUNT(thread); i++)
			assert_int_equal(pthread_join(thread[i], NULL), 0);
		atomic_store(&reserve.over, true);
		assert_int_equal(pthread_join(other, NULL), 0);
		fetch_forget(fetch, fixture.dataset);
		end(fetch, &ledger);
	}
	assert_int_equal(large.used, 0);
	fixture_free(&fixture);
	permit_deinit(&large);
}

static int no_hook(void **state)
{
	fetch_hook_set(NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hits),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_done_by_a_fetch_thread),
		cmocka_unit_test(test_modes),
		cmocka_unit_test_teardown(test_read_for_all, no_hook),
		cmocka_unit_test_teardown(test_read_large, no_hook),
		cmocka_unit_test_teardown(test_fail_first, no_hook),
		cmocka_unit_test_teardown(test_fail_all, no_hook),
		cmocka_unit_test_teardown(test_cancel_first, no_hook),
		cmocka_unit_test_teardown(test_cancel_followers, no_hook),
		cmocka_unit_test_teardown(test_end_while_they_follow, no_hook),
		cmocka_unit_test(test_storm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

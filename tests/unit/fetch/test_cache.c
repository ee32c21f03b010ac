/* cache: samples that are put are found, with bytes and place; nothing is replaced; it gives memory
 * back to reservations, even if samples are lent; datasets share the room in proportion to their
 * bytes; and the ledger accounts for all its memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "base/host/ledger.h"
#include "base/util.h"
#include "fetch/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define MIB ((uint64_t)1 << 20)

/* Datasets are only keys here. */
static char names[CACHE_DATASETS + 2];

static const struct dataset *dataset_named(unsigned n)
{
	return (const struct dataset *)(void *)&names[n];
}

static uint8_t byte_of(unsigned dataset, uint64_t number, uint32_t at)
{
	return (uint8_t)(hash_mix(number * 64 + dataset) >> (at % 7 * 8)) ^ (uint8_t)(at >> 8);
}

struct place {
	struct ledger ledger;
	struct cache *cache;
};

static void place_init(struct place *place, uint64_t budget)
{
	ledger_init(&place->ledger, budget);
	assert_int_equal(cache_new(&place->ledger, &place->cache), 0);
}

static void place_deinit(struct place *place)
{
	cache_free(place->cache);
	assert_int_equal(ledger_free(&place->ledger), place->ledger.budget);
	assert_int_equal(place->ledger.borrowed, 0);
	ledger_deinit(&place->ledger);
}

/* A cache that one dataset has joined. */
static void place_init_joined(
	struct place *place, uint64_t budget, uint64_t samples, uint64_t dataset_bytes)
{
	place_init(place, budget);
	cache_join(place->cache, dataset_named(0), samples, dataset_bytes);
}

static void put(struct place *place, unsigned dataset, uint64_t number, uint32_t size)
{
	uint8_t *bytes = malloc(size + 1);
	assert_non_null(bytes);
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = byte_of(dataset, number, i);
	struct cache_sample sample = {.number = number,
		.position = number * 1000 + dataset,
		.label = (int64_t)number - 1,
		.shard = (uint32_t)(number % 7),
		.size = size,
		.data = bytes};
	cache_put(place->cache, dataset_named(dataset), &sample);
	memset(bytes, 0xee, size);
	free(bytes);
}

/* Puts the first samples of the first dataset, all of one size. */
static void put_many(struct place *place, uint64_t count, uint32_t size)
{
	for (uint64_t i = 0; i < count; i++)
		put(place, 0, i, size);
}

static void check(const struct cache_sample *sample, unsigned dataset, uint64_t number)
{
	volatile uint8_t sink = 0;
	assert_int_equal(sample->number, number);
	assert_int_equal(sample->position, number * 1000 + dataset);
	assert_int_equal(sample->label, (int64_t)number - 1);
	assert_int_equal(sample->shard, number % 7);
	for (uint32_t i = 0; i < sample->size; i++)
		if (sample->data[i] != byte_of(dataset, number, i))
			fail_msg("sample %llu of %u, byte %u", (unsigned long long)number, dataset,
				i);
	for (uint32_t i = 0; i < CACHE_SLACK; i++)
		sink = sink ^ sample->data[sample->size + i];
}

/* True if the sample is held; it must then be right. */
static bool held(struct place *place, unsigned dataset, uint64_t number)
{
	struct cache_sample sample;
	struct cache_block *block;
	if (!cache_take(place->cache, dataset_named(dataset), number, &sample, &block))
		return false;
	check(&sample, dataset, number);
	cache_release(place->cache, block);
	return true;
}

static uint64_t held_of(struct place *place, unsigned dataset, uint64_t count)
{
	uint64_t n = 0;
	for (uint64_t i = 0; i < count; i++)
		n += held(place, dataset, i);
	return n;
}

static void test_holds(void **state)
{
	static const uint32_t sizes[] = {0, 1, 63, 64, 65, 4096, 100000, CACHE_BLOCK / 4,
		CACHE_BLOCK / 4 + 1, CACHE_BLOCK - 1, CACHE_BLOCK, 3 * CACHE_BLOCK + 7};
	struct place place;
	struct cache_stats stats;
	place_init_joined(&place, 64 * MIB, 100, 20 * MIB);
	for (uint64_t i = 0; i < UTIL_COUNT(sizes); i++) {
		assert_false(cache_has(place.cache, dataset_named(0), i));
		put(&place, 0, i, sizes[i]);
		assert_true(cache_has(place.cache, dataset_named(0), i));
		put(&place, 0, i, sizes[i]);
	}
	for (uint64_t i = 0; i < UTIL_COUNT(sizes); i++) {
		struct cache_sample sample;
		struct cache_block *block;
		assert_true(cache_take(place.cache, dataset_named(0), i, &sample, &block));
		assert_int_equal(sample.size, sizes[i]);
		check(&sample, 0, i);
		cache_release(place.cache, block);
	}
	assert_false(held(&place, 0, UTIL_COUNT(sizes)));
	assert_false(held(&place, 1, 0));
	cache_stats_read(place.cache, &stats);
	assert_int_equal(stats.samples, UTIL_COUNT(sizes));
	assert_int_equal(stats.hits, UTIL_COUNT(sizes));
	assert_int_equal(stats.misses, 2 * UTIL_COUNT(sizes));
	assert_int_equal(stats.bytes, place.ledger.borrowed);
	assert_int_equal(stats.shrinks, 0);
	/* A dataset that has not joined, or was stopped, is not kept. */
	put(&place, 1, 0, 10);
	assert_false(held(&place, 1, 0));
	cache_stop(place.cache, dataset_named(0));
	put(&place, 0, 50, 10);
	assert_false(held(&place, 0, 50));
	assert_true(held(&place, 0, 6));
	cache_leave(place.cache, dataset_named(1));
	cache_leave(place.cache, dataset_named(0));
	assert_int_equal(place.ledger.borrowed, 0);
	place_deinit(&place);
}

/* A full cache replaces nothing. */
static void test_full(void **state)
{
	struct place place;
	struct cache_stats stats;
	place_init_joined(&place, 8 * MIB, 1000, 100 * MIB);
	put_many(&place, 300, 100000);
	uint64_t first = held_of(&place, 0, 300);
	assert_in_range(first, 66, 80);
	for (uint64_t i = 0; i < first; i++)
		assert_true(held(&place, 0, i));
	assert_true(place.ledger.borrowed <= 8 * MIB);
	cache_stats_read(place.cache, &stats);
	assert_int_equal(stats.samples, first);
	place_deinit(&place);
}

/* A budget slightly larger than the data holds all of it. */
static void test_little_is_left_over(void **state)
{
	struct place place;
	uint64_t bytes = 0;
	for (uint64_t i = 0; i < 600; i++)
		bytes += 20000 + hash_mix(i) % 180000;
	place_init_joined(&place, bytes + bytes / 20, 600, bytes);
	for (uint64_t i = 0; i < 600; i++)
		put(&place, 0, i, (uint32_t)(20000 + hash_mix(i) % 180000));
	assert_int_equal(held_of(&place, 0, 600), 600);
	place_deinit(&place);
}

/* Several threads that put at once fill blocks together; none gets a block of its own. */
struct putter {
	struct place *place;
	uint64_t first;
};

static void *put_some(void *context)
{
	struct putter *putter = context;
	for (uint64_t i = 0; i < 40; i++)
		put(putter->place, 0, putter->first + i, 10000);
	return NULL;
}

static void test_many_put(void **state)
{
	for (int round = 0; round < 20; round++) {
		struct place place;
		struct putter putter[12];
		pthread_t thread[UTIL_COUNT(putter)];
		place_init_joined(&place, 7 * MIB, 480, 5 * MIB);
		for (size_t i = 0; i < UTIL_COUNT(putter); i++) {
			putter[i] = (struct putter){&place, i * 40};
			assert_int_equal(pthread_create(&thread[i], NULL, put_some, &putter[i]), 0);
		}
		for (size_t i = 0; i < UTIL_COUNT(putter); i++)
			assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(held_of(&place, 0, 480), 480);
		place_deinit(&place);
	}
}

static void test_gives_way(void **state)
{
	struct place place;
	struct cache_stats stats;
	struct fault fault;
	int line;
	place_init_joined(&place, 32 * MIB, 1000, 30 * MIB);
	put_many(&place, 280, 100000);
	uint64_t all = held_of(&place, 0, 280);
	assert_in_range(all, 270, 280);
	assert_int_equal(ledger_reserve(&place.ledger, 20 * MIB, "slots", &line, &fault), 0);
	assert_true(place.ledger.borrowed <= 12 * MIB);
	uint64_t left = held_of(&place, 0, 280);
	assert_in_range(left, 80, 120);
	cache_stats_read(place.cache, &stats);
	assert_int_equal(stats.samples, left);
	assert_int_equal(stats.shrinks, 1);
	/* Memory that was returned to the ledger can be borrowed again. */
	ledger_release(&place.ledger, line);
	put_many(&place, 280, 100000);
	assert_int_equal(held_of(&place, 0, 280), all);
	/* To the last byte. */
	assert_int_equal(ledger_reserve(&place.ledger, 32 * MIB, "slots", &line, &fault), 0);
	assert_int_equal(place.ledger.borrowed, 0);
	assert_int_equal(held_of(&place, 0, 280), 0);
	put(&place, 0, 1, 100);
	assert_false(held(&place, 0, 1));
	ledger_release(&place.ledger, line);
	put(&place, 0, 1, 100);
	assert_true(held(&place, 0, 1));
	place_deinit(&place);
}

struct lender {
	struct place *place;
	struct cache_block *block;
	_Atomic bool returned;
};

static void *return_later(void *context)
{
	struct lender *lender = context;
	struct timespec pause = {.tv_nsec = 50000000};
	(void)nanosleep(&pause, NULL);
	atomic_store(&lender->returned, true);
	cache_release(lender->place->cache, lender->block);
	return NULL;
}

/* A lent sample stays readable; the reservation waits for it. */
static void test_gives_way_while_lent(void **state)
{
	struct place place;
	struct fault fault;
	struct cache_sample sample;
	int line;
	place_init_joined(&place, 8 * MIB, 10, MIB);
	put(&place, 0, 3, 100000);
	struct lender lender = {.place = &place};
	assert_true(cache_take(place.cache, dataset_named(0), 3, &sample, &lender.block));
	pthread_t thread;
	assert_int_equal(pthread_create(&thread, NULL, return_later, &lender), 0);
	assert_int_equal(ledger_reserve(&place.ledger, 8 * MIB, "slots", &line, &fault), 0);
	assert_true(atomic_load(&lender.returned));
	assert_int_equal(pthread_join(thread, NULL), 0);
	ledger_release(&place.ledger, line);
	/* A sample is released too late: the reservation is refused, and nothing is lost. */
	put(&place, 0, 3, 100000);
	assert_true(cache_take(place.cache, dataset_named(0), 3, &sample, &lender.block));
	assert_int_equal(ledger_reserve(&place.ledger, 8 * MIB, "slots", &line, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "try again"));
	check(&sample, 0, 3);
	assert_false(held(&place, 0, 3));
	cache_release(place.cache, lender.block);
	assert_int_equal(ledger_reserve(&place.ledger, 8 * MIB, "slots", &line, &fault), 0);
	ledger_release(&place.ledger, line);
	/* A dataset leaves while one of its samples is lent. */
	put(&place, 0, 3, 100000);
	assert_true(cache_take(place.cache, dataset_named(0), 3, &sample, &lender.block));
	cache_leave(place.cache, dataset_named(0));
	check(&sample, 0, 3);
	cache_release(place.cache, lender.block);
	assert_int_equal(place.ledger.borrowed, 0);
	place_deinit(&place);
}

enum { SLOWLY = 6 };

static void *return_slowly(void *context)
{
	struct lender *lender = context;
	struct timespec pause = {.tv_nsec = 450000000};
	for (int i = 0; i < SLOWLY; i++) {
		(void)nanosleep(&pause, NULL);
		cache_release(lender->place->cache, lender->block);
	}
	return NULL;
}

/* A thread that repeatedly finds no room must not prolong the wait for a sample that is not
 * released. */
static void *put_always(void *context)
{
	struct lender *lender = context;
	while (!atomic_load(&lender->returned))
		put(lender->place, 0, 4, 100000);
	return NULL;
}

/* A stream that has read far ahead releases one sample after another: the reservation waits as long
 * as they come. */
static void test_gives_way_slowly(void **state)
{
	struct place place;
	struct fault fault;
	struct cache_sample sample;
	pthread_t thread;
	int line;
	place_init_joined(&place, 8 * MIB, 10, MIB);
	put(&place, 0, 3, 100000);
	struct lender lender = {.place = &place};
	for (int i = 0; i < SLOWLY; i++)
		assert_true(cache_take(place.cache, dataset_named(0), 3, &sample, &lender.block));
	assert_int_equal(pthread_create(&thread, NULL, return_slowly, &lender), 0);
	if (ledger_reserve(&place.ledger, 8 * MIB, "slots", &line, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ledger_release(&place.ledger, line);
	put(&place, 0, 3, 100000);
	assert_true(cache_take(place.cache, dataset_named(0), 3, &sample, &lender.block));
	assert_int_equal(pthread_create(&thread, NULL, put_always, &lender), 0);
	assert_int_equal(ledger_reserve(&place.ledger, 8 * MIB, "slots", &line, &fault), -ENOMEM);
	atomic_store(&lender.returned, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	cache_release(place.cache, lender.block);
	place_deinit(&place);
}

static void test_shares(void **state)
{
	struct place place;
	struct fault fault;
	int line;
	place_init_joined(&place, 40 * MIB, 600, 60 * MIB);
	put_many(&place, 600, 100000);
	uint64_t alone = held_of(&place, 0, 600);
	assert_in_range(alone, 350, 420);
	/* A dataset with a third of all bytes gets a third of the room. */
	cache_join(place.cache, dataset_named(1), 300, 30 * MIB);
	uint64_t shared = held_of(&place, 0, 600);
	assert_in_range(shared, alone * 6 / 10, alone * 67 / 100);
	for (uint64_t i = 0; i < 600; i++) {
		put(&place, 0, i, 100000);
		put(&place, 1, i % 300, 100000);
	}
	assert_int_equal(held_of(&place, 0, 600), shared);
	assert_in_range(held_of(&place, 1, 300), alone * 3 / 10, alone * 34 / 100);
	/* Both shrink in the same proportion. */
	assert_int_equal(ledger_reserve(&place.ledger, 20 * MIB, "slots", &line, &fault), 0);
	assert_in_range(held_of(&place, 0, 600), shared * 4 / 10, shared * 56 / 100);
	assert_in_range(held_of(&place, 1, 300), alone * 13 / 100, alone * 18 / 100);
	ledger_release(&place.ledger, line);
	/* Its room belongs to the other dataset again. */
	cache_leave(place.cache, dataset_named(1));
	put_many(&place, 600, 100000);
	assert_int_equal(held_of(&place, 0, 600), alone);
	place_deinit(&place);
}

/* A stopped dataset keeps its samples, and takes no room from others. */
static void test_stopped(void **state)
{
	struct place place;
	place_init_joined(&place, 32 * MIB, 100000, 10000 * MIB);
	cache_join(place.cache, dataset_named(1), 1000, 100 * MIB);
	put_many(&place, 20, 100000);
	cache_stop(place.cache, dataset_named(0));
	for (uint64_t i = 0; i < 400; i++) {
		put(&place, 0, 100 + i, 100000);
		put(&place, 1, i, 100000);
	}
	assert_int_equal(held_of(&place, 0, 600), 20);
	assert_in_range(held_of(&place, 1, 400), 230, 300);
	place_deinit(&place);
}

static void test_more_datasets_than_it_knows(void **state)
{
	struct place place;
	place_init(&place, 256 * MIB);
	for (unsigned i = 0; i <= CACHE_DATASETS; i++) {
		cache_join(place.cache, dataset_named(i), 10, 1000);
		put(&place, i, 5, 100);
		assert_int_equal(held(&place, i, 5), i < CACHE_DATASETS);
	}
	cache_leave(place.cache, dataset_named(7));
	cache_join(place.cache, dataset_named(CACHE_DATASETS + 1), 10, 1000);
	put(&place, CACHE_DATASETS + 1, 5, 100);
	assert_true(held(&place, CACHE_DATASETS + 1, 5));
	assert_false(held(&place, 7, 5));
	place_deinit(&place);
}

/* A large dataset leaves: its closing does not wait until the memory has returned, but a
 * reservation does. */
static void test_large_leaves(void **state)
{
	struct place place;
	struct cache_stats stats;
	struct cache_sample sample;
	struct cache_block *block;
	struct fault fault;
	int line;
	place_init(&place, 200 * MIB);
	for (int round = 0; round < 3; round++) {
		cache_join(place.cache, dataset_named(0), 1000, 190 * MIB);
		put_many(&place, 800, 200000);
		cache_stats_read(place.cache, &stats);
		assert_int_equal(stats.samples, 800);
		assert_true(cache_take(place.cache, dataset_named(0), 3, &sample, &block));
		cache_leave(place.cache, dataset_named(0));
		check(&sample, 0, 3);
		assert_false(held(&place, 0, 3));
		cache_stats_read(place.cache, &stats);
		assert_int_equal(stats.samples, 0);
		assert_int_equal(stats.bytes, 0);
		cache_release(place.cache, block);
		if (round == 2)
			break; /* the cache is freed while the memory returns */
		assert_int_equal(
			ledger_reserve(&place.ledger, 200 * MIB, "slots", &line, &fault), 0);
		assert_int_equal(place.ledger.borrowed, 0);
		ledger_release(&place.ledger, line);
	}
	place_deinit(&place);
}

/* All at once: readers, reservations, datasets that join and leave. */
struct storm {
	struct place *place;
	_Atomic bool over;
};

static void *storm_read(void *context)
{
	struct storm *storm = context;
	static _Atomic uint64_t turn;
	uint64_t seed = atomic_fetch_add(&turn, 1) << 32;
	for (uint64_t i = 0; i < 4000; i++) {
		uint64_t number = hash_mix(seed + i) % 400;
		if (!held(storm->place, 0, number))
			put(storm->place, 0, number, (uint32_t)(hash_mix(number) % 60000));
	}
	return NULL;
}

static void *storm_reserve(void *context)
{
	struct storm *storm = context;
	struct fault fault;
	int line;
	while (!atomic_load(&storm->over)) {
		/* Two of these fit; lent samples are soon released. */
		if (ledger_reserve(&storm->place->ledger, 6 * MIB, "slots", &line, &fault) < 0)
			fail_msg("%s", fault.text);
		ledger_release(&storm->place->ledger, line);
	}
	return NULL;
}

static void *storm_join(void *context)
{
	struct storm *storm = context;
	while (!atomic_load(&storm->over)) {
		cache_join(storm->place->cache, dataset_named(1), 400, 12 * MIB);
		for (uint64_t i = 0; i < 50; i++) {
			put(storm->place, 1, i, 30000);
			(void)held(storm->place, 1, i);
		}
		cache_leave(storm->place->cache, dataset_named(1));
	}
	return NULL;
}

static void test_storm(void **state)
{
	struct place place;
	place_init_joined(&place, 16 * MIB, 400, 12 * MIB);
	struct storm storm = {.place = &place};
	void *(*const others[])(void *) = {storm_reserve, storm_reserve, storm_join};
	pthread_t reader[4], other[UTIL_COUNT(others)];
	for (size_t i = 0; i < UTIL_COUNT(reader); i++)
		assert_int_equal(pthread_create(&reader[i], NULL, storm_read, &storm), 0);
	for (size_t i = 0; i < UTIL_COUNT(others); i++)
		assert_int_equal(pthread_create(&other[i], NULL, others[i], &storm), 0);
	for (size_t i = 0; i < UTIL_COUNT(reader); i++)
		assert_int_equal(pthread_join(reader[i], NULL), 0);
	atomic_store(&storm.over, true);
	for (size_t i = 0; i < UTIL_COUNT(others); i++)
		assert_int_equal(pthread_join(other[i], NULL), 0);
	assert_true(place.ledger.borrowed <= 16 * MIB);
	place_deinit(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holds),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_little_is_left_over),
		cmocka_unit_test(test_many_put),
		cmocka_unit_test(test_gives_way),
		cmocka_unit_test(test_gives_way_while_lent),
		cmocka_unit_test(test_gives_way_slowly),
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_more_datasets_than_it_knows),
		cmocka_unit_test(test_large_leaves),
		cmocka_unit_test(test_storm),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

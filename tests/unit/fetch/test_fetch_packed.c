/* fetch with samples that are stored packed: every item gets its stored bytes and what is needed to
 * unpack them, samples that are packed together share a read, and so does the cache. */
#include "unit/fetch/fetch_fixture.h"

#include "base/host/ledger.h"

#include <stdatomic.h>

#define MIB ((uint64_t)1 << 20)

enum { COUNT = 400, GROUP = 20 };

static const struct fetch_options plain = {
	.io = FETCH_IO_BUFFERED, .arena_bytes = 16 << 20, .index_bytes = 1 << 18};

static void round_of(struct fetch *fetch, const struct fixture *fixture, uint64_t seed)
{
	struct reader reader;
	reader_init(&reader, fetch, fixture, fixture->count);
	if (seed)
		reader_shuffle(&reader, seed);
	reader_all(&reader);
	assert_int_equal(reader.outcome[FETCH_OK], fixture->count);
	reader_deinit(&reader);
}

static void test_all_bytes(void **state)
{
	struct fixture fixture;
	fixture_packed(&fixture, COUNT, GROUP, false);
	for (int direct = 0; direct < 2; direct++) {
		struct fetch_options options = plain;
		options.io = direct ? FETCH_IO_DIRECT : FETCH_IO_BUFFERED;
		each_engine (fetch, &options)
			for (uint64_t seed = 0; seed < 3; seed++)
				round_of(fetch, &fixture, seed);
	}
	fixture_free(&fixture);
}

/* Items that are submitted together read a group once, however many samples it has. */
static void test_group_is_read_once(void **state)
{
	struct fixture fixture;
	fixture_packed(&fixture, COUNT, GROUP, false);
	each_engine (fetch, &plain) {
		struct fetch_stats stats;
		struct stat st;
		round_of(fetch, &fixture, 0);
		fetch_stats_read(fetch, &stats);
		assert_int_equal(stat(dataset_shard_path(fixture.dataset, 0), &st), 0);
		/* Without sharing it would be ten times the shard. */
		assert_true(stats.bytes < 2 * (uint64_t)st.st_size);
		assert_true(stats.shared > COUNT / 2);
	}
	fixture_free(&fixture);
}

/* The cache holds the stored bytes of a group once, and gives them to all of its samples. */
static void test_cache(void **state)
{
	struct fixture fixture;
	struct ledger ledger;
	fixture_packed(&fixture, COUNT, GROUP, false);
	for (size_t engine = 0; engine < UTIL_COUNT(fixture_engines); engine++) {
		struct fetch_options options = plain;
		struct fetch_stats first, second;
		struct stat st;
		options.cache = FETCH_CACHE_ON;
		options.ledger = &ledger;
		options.engine = fixture_engines[engine];
		ledger_init(&ledger, 64 * MIB);
		struct fetch *fetch = fixture_fetch(&options);
		if (fetch) {
			fetch_expect(fetch, fixture.dataset);
			round_of(fetch, &fixture, 1);
			fetch_stats_read(fetch, &first);
			round_of(fetch, &fixture, 2);
			fetch_stats_read(fetch, &second);
			assert_int_equal(stat(dataset_shard_path(fixture.dataset, 0), &st), 0);
			/* A quarter of the groups is stored as it is. */
			assert_int_equal(first.cache.samples, COUNT / GROUP * 3 / 4 + COUNT / 4);
			assert_int_equal(second.reads, first.reads);
			assert_true(second.cache.hits >= COUNT);
			fetch_free(fetch);
		}
		ledger_deinit(&ledger);
	}
	fixture_free(&fixture);
}

/* Parts that begin at the same place are not taken for each other, in flight and in the cache. */
static void test_parts(void **state)
{
	static const enum packed_method methods[] = {PACKED_SNAPPY_PART};
	struct fixture fixture;
	struct ledger ledger;
	fixture_packed_by(&fixture, 200, GROUP, false, methods, 1);
	for (size_t engine = 0; engine < UTIL_COUNT(fixture_engines); engine++) {
		struct fetch_options options = plain;
		struct fetch_stats first, second;
		options.cache = FETCH_CACHE_ON;
		options.ledger = &ledger;
		options.engine = fixture_engines[engine];
		ledger_init(&ledger, 512 * MIB);
		struct fetch *fetch = fixture_fetch(&options);
		if (fetch) {
			fetch_expect(fetch, fixture.dataset);
			round_of(fetch, &fixture, 1);
			fetch_stats_read(fetch, &first);
			round_of(fetch, &fixture, 2);
			fetch_stats_read(fetch, &second);
			assert_int_equal(first.cache.samples, 200);
			assert_int_equal(second.reads, first.reads);
			fetch_free(fetch);
		}
		ledger_deinit(&ledger);
	}
	fixture_free(&fixture);
}

/* Stored bytes beyond what the arena has for one sample take a buffer of their own; beyond what
 * the pool has they are the caller's, who learns the sample's own size. */
static void test_large(void **state)
{
	struct fixture fixture;
	struct permit pool;
	fixture_packed(&fixture, 120, GROUP, true);
	for (int small = 0; small < 2; small++) {
		struct fetch_options options = plain;
		permit_init(&pool, small ? 64 << 10 : 64 * MIB);
		options.arena_bytes = MIB;
		options.large = &pool;
		each_engine (fetch, &options) {
			struct reader reader;
			reader_init(&reader, fetch, &fixture, fixture.count);
			reader_submit(&reader, 0, reader.count);
			for (uint64_t i = 0; i < reader.count; i++) {
				struct fetch_item *item = reader_one(&reader, 60000);
				assert_non_null(item);
				if (item->result == FETCH_E_TOO_LARGE)
					assert_int_equal(item->unpacked,
						fixture_size(&fixture, item->number));
				reader_finish(&reader, item);
			}
			assert_int_equal(reader.outcome[FETCH_E_TOO_LARGE] > 0, small);
			assert_int_equal(
				reader.outcome[FETCH_OK] + reader.outcome[FETCH_E_TOO_LARGE],
				fixture.count);
			reader_deinit(&reader);
		}
		permit_deinit(&pool);
	}
	fixture_free(&fixture);
}

/* A shard that was cut or replaced ends the stream, as a tar does. */
static void test_shard_changes(void **state)
{
	struct fixture fixture;
	fixture_packed(&fixture, COUNT, GROUP, false);
	const char *path = dataset_shard_path(fixture.dataset, 0);
	assert_int_equal(truncate(path, 30000), 0);
	each_engine (fetch, &plain) {
		struct reader reader;
		reader_init(&reader, fetch, &fixture, fixture.count);
		reader_submit(&reader, 0, reader.count);
		for (uint64_t i = 0; i < reader.count; i++) {
			struct fetch_item *item = reader_one(&reader, 60000);
			assert_non_null(item);
			if (item->result != FETCH_OK)
				assert_int_equal(item->result, -ESTALE);
			if (item->result == -ESTALE)
				assert_non_null(strstr(item->fault->text, path));
			reader_finish(&reader, item);
		}
		assert_true(reader.negative > 0);
		reader_deinit(&reader);
	}
	fixture_free(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_bytes),
		cmocka_unit_test(test_group_is_read_once),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_shard_changes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* fetch, from remote storage: both engines give the bytes, the outcomes and the sentences, and
 * nothing that waits for a server keeps a reader, a dataset or fetch from ending. */
#include "unit/fetch/far_fixture.h"

#include <stdatomic.h>

enum { COUNT = 120, PER_SHARD = 60 };

static struct fetch_options options_of(void)
{
	return (struct fetch_options){.arena_bytes = 64 << 20, .index_bytes = 8 << 20};
}

/* Runs a statement for each engine, with tars and a folder below `fetch` in remote storage. */
typedef void far_test(struct fetch *fetch, struct fixture *fixture);

static void with(far_test *test, bool folder)
{
	struct fetch_options options = options_of();
	each_engine (fetch, &options) {
		struct fixture fixture;
		if (folder)
			fixture_images(&fixture, COUNT, false);
		else
			fixture_tars(&fixture, COUNT, PER_SHARD, false);
		far_storage_begin(fixture.root);
		test(fetch, &fixture);
		fetch_forget(fetch, fixture.dataset);
		far_storage_end();
		fixture_free(&fixture);
	}
}

static void with_both(far_test *test)
{
	with(test, false);
	with(test, true);
}

/* Everything is read, twice, the second time in random order. */
static void read_all(struct fetch *fetch, const struct fixture *fixture)
{
	struct reader reader;
	for (unsigned round = 0; round < 2; round++) {
		reader_init(&reader, fetch, fixture, fixture->count);
		if (round)
			reader_shuffle(&reader, 7);
		reader_all(&reader);
		assert_int_equal(reader.outcome[FETCH_OK], fixture->count);
		reader_deinit(&reader);
	}
}

static void check_bytes(struct fetch *fetch, struct fixture *fixture)
{
	read_all(fetch, fixture);
	assert_true(far_storage.begun > 0);
	fetch_forget(fetch, fixture->dataset);
	far_storage_set(at_once, true);
	read_all(fetch, fixture);
}

static void test_bytes(void **state)
{
	with_both(check_bytes);
}

/* What the cache has is read from its file, and what its file does not have after all is asked
 * for. */
static void check_cached(struct fetch *fetch, struct fixture *fixture)
{
	far_storage_set(local, true);
	read_all(fetch, fixture);
	assert_int_equal(far_storage_get(&far_storage.begun), 0);
	char *path = fixture_path(fixture->root, "empty");
	fixture_write(path, "", 0);
	int empty = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(empty >= 0);
	far_storage_set(local_fd, empty);
	read_all(fetch, fixture);
	assert_true(far_storage_get(&far_storage.begun) > 0);
	(void)close(empty);
	int none = open(fixture->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(none >= 0);
	far_storage_set(local_fd, none);
	read_all(fetch, fixture);
	(void)close(none);
}

static void test_cached(void **state)
{
	with_both(check_cached);
}

/* Neighbors in a shard need few requests. */
static void check_merged(struct fetch *fetch, struct fixture *fixture)
{
	struct fetch_stats stats;
	struct reader reader;
	reader_init(&reader, fetch, fixture, fixture->count);
	/* The shards are opened first. */
	reader_submit(&reader, 0, 1);
	reader_take(&reader, 1);
	reader_submit(&reader, PER_SHARD, PER_SHARD + 1);
	reader_take(&reader, 1);
	far_storage_set(begun, 0);
	reader_submit(&reader, 1, PER_SHARD);
	reader_take(&reader, PER_SHARD - 1);
	fetch_stats_read(fetch, &stats);
	assert_int_equal(far_storage_get(&far_storage.begun), 1);
	assert_int_equal(stats.merged, PER_SHARD - 2);
	reader_deinit(&reader);
}

static void test_merged(void **state)
{
	with(check_merged, false);
}

/* The options say how many reads are in flight; many of them wait for a connection in remote/. */
static void test_many(void **state)
{
	enum { MANY = 400 };
	struct fetch_options options = options_of();
	options.far_reads = MANY;
	each_engine (fetch, &options) {
		struct fixture fixture;
		struct reader reader;
		fixture_tars(&fixture, MANY, MANY / 2, false);
		far_storage_begin(fixture.root);
		far_storage_set(hangs, true);
		reader_init(&reader, fetch, &fixture, MANY);
		/* Neighbors would be merged. */
		reader_shuffle(&reader, 7);
		reader_submit(&reader, 0, MANY);
		far_storage_await(&far_storage.in_flight, 300);
		far_storage_set(hangs, false);
		reader_take(&reader, MANY);
		assert_int_equal(reader.outcome[FETCH_OK], MANY);
		reader_deinit(&reader);
		fetch_forget(fetch, fixture.dataset);
		far_storage_end();
		fixture_free(&fixture);
	}
}

/* --- outcomes --- */

struct outcome {
	bool opening;
	int answer; /* of remote storage */
	int tar, file; /* the results */
};

static struct outcome outcome;

static void check_outcome(struct fetch *fetch, struct fixture *fixture)
{
	bool folder = dataset_in_files(fixture->dataset);
	int expected = folder ? outcome.file : outcome.tar;
	struct reader reader;
	if (outcome.opening)
		far_storage_set(open_result, outcome.answer);
	else
		far_storage_set(read_result, outcome.answer);
	reader_init(&reader, fetch, fixture, fixture->count);
	reader_all(&reader);
	for (uint64_t i = 0; i < fixture->count; i++) {
		const struct reader_item *item = &reader.items[i];
		/* Nothing is read of an empty file. */
		if (fixture_size(fixture, i) == 0 && item->item.result == FETCH_OK)
			continue;
		if (item->item.result != expected)
			fail_msg("%d gives %d and not %d: %s", outcome.answer, item->item.result,
				expected, item->fault.text);
		if (expected < 0 && !strstr(item->fault.text, "the server says no to"))
			fail_msg("%d: \"%s\"", outcome.answer, item->fault.text);
	}
	reader_deinit(&reader);
	/* The next readers find out by themselves. */
	far_storage_set(open_result, 0);
	far_storage_set(read_result, 0);
	read_all(fetch, fixture);
}

static void test_outcomes(void **state)
{
	static const struct outcome outcomes[] = {
		{false, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT},
		{false, -EIO, -EIO, -EIO},
		{false, -EACCES, -EACCES, -EACCES},
		{false, -ESTALE, -ESTALE, FETCH_E_CHANGED},
		{false, -ENOENT, -ESTALE, FETCH_E_MISSING},
		{false, -ENODATA, FETCH_E_SHORT, FETCH_E_CHANGED},
		{true, -ETIMEDOUT, -ETIMEDOUT, -ETIMEDOUT},
		{true, -EACCES, -EACCES, -EACCES},
		{true, -ENOENT, -ESTALE, FETCH_E_MISSING},
	};
	for (size_t i = 0; i < UTIL_COUNT(outcomes); i++) {
		outcome = outcomes[i];
		with_both(check_outcome);
	}
}

/* A part of an object fails: only the samples in it. */
static void check_part(struct fetch *fetch, struct fixture *fixture)
{
	enum { VICTIM = 47 };
	struct sample sample;
	struct reader reader;
	assert_int_equal(dataset_sample(fixture->dataset, VICTIM, &sample, NULL), 0);
	far_storage_set(at, sample.offset + sample.size / 2);
	far_storage_set(read_result, -ENODATA);
	reader_init(&reader, fetch, fixture, PER_SHARD);
	reader_all(&reader);
	for (uint64_t i = 0; i < PER_SHARD; i++)
		assert_int_equal(
			reader.items[i].item.result, i == VICTIM ? FETCH_E_SHORT : FETCH_OK);
	reader_deinit(&reader);
}

static void test_part(void **state)
{
	with(check_part, false);
}

/* Another object is at the URL than the index says. */
static void check_replaced(struct fetch *fetch, struct fixture *fixture)
{
	char path[FIXTURE_PATH];
	struct reader reader;
	fixture_shard_path(fixture, 1, path);
	far_storage_set(changed, path);
	reader_init(&reader, fetch, fixture, fixture->count);
	reader_all(&reader);
	for (uint64_t i = 0; i < fixture->count; i++) {
		assert_int_equal(reader.items[i].item.result, i < PER_SHARD ? FETCH_OK : -ESTALE);
		if (i >= PER_SHARD)
			assert_non_null(strstr(reader.items[i].fault.text, path));
	}
	reader_deinit(&reader);
	far_storage_set(changed, NULL);
}

static void test_replaced(void **state)
{
	with(check_replaced, false);
}

static void check_resized(struct fetch *fetch, struct fixture *fixture)
{
	enum { GROWN = 31, GONE = 32 };
	char path[FIXTURE_PATH];
	struct reader reader;
	fixture_write_file(fixture, GROWN, fixture_size(fixture, GROWN) + 1);
	fixture_file_path(fixture, GONE, path);
	assert_int_equal(unlink(path), 0);
	reader_init(&reader, fetch, fixture, fixture->count);
	reader_all(&reader);
	assert_int_equal(reader.items[GROWN].item.result, FETCH_E_CHANGED);
	assert_int_equal(reader.items[GONE].item.result, FETCH_E_MISSING);
	assert_int_equal(reader.outcome[FETCH_OK], fixture->count - 2);
	reader_deinit(&reader);
}

static void test_resized(void **state)
{
	with(check_resized, true);
}

/* --- what waits for a server --- */

/* Reads in flight are not limited by threads, and a reader that is canceled does not wait for
 * them. Another reader of the same samples gets them. */
static void check_cancel(struct fetch *fetch, struct fixture *fixture)
{
	struct reader first, second;
	far_storage_set(hangs, true);
	reader_init(&first, fetch, fixture, fixture->count);
	reader_shuffle(&first, 3);
	reader_submit(&first, 0, fixture->count);
	far_storage_await(&far_storage.in_flight, dataset_in_files(fixture->dataset) ? 100 : 60);
	reader_init(&second, fetch, fixture, fixture->count);
	reader_submit(&second, 0, fixture->count);
	fetch_cancel(fetch, &first.who);
	for (uint64_t i = 0; i < first.count; i++) {
		struct fetch_item *item = reader_one(&first, 60000);
		assert_non_null(item);
		assert_true(item->result == -ECANCELED || item->result == FETCH_OK);
		fetch_release(fetch, item);
	}
	assert_true(far_storage_get(&far_storage.canceled) > 0);
	far_storage_set(hangs, false);
	reader_take(&second, second.count);
	assert_int_equal(second.outcome[FETCH_OK], second.count);
	reader_deinit(&first);
	reader_deinit(&second);
}

static void test_cancel(void **state)
{
	with_both(check_cancel);
}

/* A server that never answers HEAD. */
static void check_opening(struct fetch *fetch, struct fixture *fixture)
{
	struct reader reader;
	far_storage_set(opens_hang, true);
	reader_init(&reader, fetch, fixture, fixture->count);
	reader_submit(&reader, 0, fixture->count);
	far_storage_await(&far_storage.open, 2);
	fetch_cancel(fetch, &reader.who);
	reader_take(&reader, reader.count);
	assert_int_equal(reader.negative, reader.count);
	fetch_forget(fetch, fixture->dataset);
	reader_deinit(&reader);
}

static void test_opening(void **state)
{
	with_both(check_opening);
}

/* fetch ends while reads and openings are under way. */
static void test_ending(void **state)
{
	struct fetch_options options = options_of();
	for (unsigned opens = 0; opens < 2; opens++)
		for (size_t engine = 0; engine < UTIL_COUNT(fixture_engines); engine++) {
			struct fixture fixture;
			struct reader reader;
			struct fetch *fetch = fixture_engine(&options, engine);
			if (!fetch)
				continue;
			fixture_tars(&fixture, COUNT, PER_SHARD, false);
			far_storage_begin(fixture.root);
			far_storage_set(hangs, true);
			far_storage_set(opens_hang, opens == 1);
			reader_init(&reader, fetch, &fixture, fixture.count);
			reader_submit(&reader, 0, fixture.count);
			far_storage_await(opens ? &far_storage.open : &far_storage.in_flight, 1);
			fetch_free(fetch);
			for (uint64_t i = 0; i < reader.count; i++) {
				struct fetch_item *item = reader_one(&reader, 0);
				assert_non_null(item);
				assert_int_equal(item->result, -ECANCELED);
			}
			reader_deinit(&reader);
			far_storage_end();
			fixture_free(&fixture);
		}
}

/* Storage that hangs keeps only its own readers waiting. */
static void check_beside(struct fetch *fetch, struct fixture *far)
{
	struct fixture near;
	struct reader hanging;
	fixture_images(&near, COUNT, false);
	far_storage_set(hangs, true);
	reader_init(&hanging, fetch, far, far->count);
	reader_submit(&hanging, 0, far->count);
	far_storage_await(&far_storage.in_flight, 1);
	read_all(fetch, &near);
	fetch_forget(fetch, near.dataset);
	fixture_free(&near);
	far_storage_set(hangs, false);
	reader_take(&hanging, hanging.count);
	assert_int_equal(hanging.outcome[FETCH_OK], hanging.count);
	reader_deinit(&hanging);
}

/* A server that answers no HEAD keeps only its own readers waiting, not those of a server that
 * does. */
static void check_opening_beside(struct fetch *fetch, struct fixture *far)
{
	struct fixture near;
	struct reader hanging;
	fixture_images(&near, COUNT, false);
	fetch_far_pretend("/");
	far_storage_set(opens_hang_at, far->root);
	far_storage_set(opens_hang, true);
	reader_init(&hanging, fetch, far, far->count);
	reader_submit(&hanging, 0, far->count);
	far_storage_await(&far_storage.open, 32);
	read_all(fetch, &near);
	fetch_forget(fetch, near.dataset);
	fixture_free(&near);
	far_storage_set(opens_hang, false);
	reader_take(&hanging, hanging.count);
	assert_int_equal(hanging.outcome[FETCH_OK], hanging.count);
	reader_deinit(&hanging);
}

static void test_opening_beside(void **state)
{
	with(check_opening_beside, true);
}

static void test_beside(void **state)
{
	with_both(check_beside);
}

/* Waiting for a server counts as waiting for storage. */
static void check_waiting(struct fetch *fetch, struct fixture *fixture)
{
	static const struct timespec pause = {.tv_nsec = 50000000};
	struct fetch_stats before, after;
	struct reader reader;
	far_storage_set(hangs, true);
	/* The first sample is empty. */
	reader_init(&reader, fetch, fixture, 2);
	reader_submit(&reader, 1, 2);
	far_storage_await(&far_storage.in_flight, 1);
	fetch_stats_read(fetch, &before);
	(void)nanosleep(&pause, NULL);
	fetch_stats_read(fetch, &after);
	assert_true(after.busy_ns - before.busy_ns >= 50000000);
	far_storage_set(hangs, false);
	reader_take(&reader, 1);
	reader_deinit(&reader);
}

static void test_waiting(void **state)
{
	with_both(check_waiting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_cached),
		cmocka_unit_test(test_merged),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_outcomes),
		cmocka_unit_test(test_part),
		cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_resized),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_opening),
		cmocka_unit_test(test_ending),
		cmocka_unit_test(test_beside),
		cmocka_unit_test(test_opening_beside),
		cmocka_unit_test(test_waiting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

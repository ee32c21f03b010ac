/* shelf: streams that read the same share one dataset; datasets that differ in anything that a
 * batch shows are not shared; the last holder frees a dataset. */
#include "unit/fetch/fetch_fixture.h"

#include "stream/shelf.h"

static struct fetch *shelf_fetch(void)
{
	struct fetch_options options = {.engine = FETCH_PREAD,
		.io = FETCH_IO_BUFFERED,
		.pread_threads = 2,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18};
	return fixture_fetch(&options);
}

struct place {
	struct shelf shelf;
	struct fixture fixture;
	char cache[FIXTURE_PATH], pattern[FIXTURE_PATH];
};

static void place_init(struct place *place, uint64_t count, uint64_t per_shard)
{
	shelf_init(&place->shelf, shelf_fetch());
	fixture_tars(&place->fixture, count, per_shard, false);
	(void)snprintf(place->cache, sizeof place->cache, "%s/cache", place->fixture.root);
	(void)snprintf(place->pattern, sizeof place->pattern, "%s/data-*.tar", place->fixture.root);
}

static void place_deinit(struct place *place)
{
	shelf_deinit(&place->shelf);
	fetch_free(place->shelf.fetch);
	fixture_free(&place->fixture);
}

static struct shelf_entry *place_open(
	struct place *place, const char *source, enum dataset_labels labels, bool entry_points)
{
	struct dataset_options options = {.cache_dir = place->cache, .labels = labels};
	struct shelf_entry *entry = NULL;
	struct fault fault = {""};
	if (shelf_open(&place->shelf, source, &options, entry_points, &entry, &fault) < 0)
		fail_msg("%s", fault.text);
	return entry;
}

static void test_shared(void **state)
{
	(void)state;
	struct place place;
	place_init(&place, 90, 30);
	struct shelf_entry *a = place_open(&place, place.pattern, DATASET_LABELS_AUTO, true);
	struct shelf_entry *b = place_open(&place, place.pattern, DATASET_LABELS_AUTO, true);
	/* The same shards by another name. */
	char braces[FIXTURE_PATH];
	(void)snprintf(braces, sizeof braces, "%.64s/data-{0000..0002}.tar", place.fixture.root);
	struct shelf_entry *c = place_open(&place, braces, DATASET_LABELS_AUTO, true);
	assert_ptr_equal(a, b);
	assert_ptr_equal(a, c);
	assert_non_null(a->sidecar);
	assert_int_equal(a->holders, 3);
	shelf_close(&place.shelf, b);
	shelf_close(&place.shelf, a);
	assert_int_equal(dataset_count(c->dataset), 90);
	shelf_close(&place.shelf, c);
	assert_true(list_is_empty(&place.shelf.entries));
	shelf_close(&place.shelf, NULL);
	place_deinit(&place);
}

static void test_apart(void **state)
{
	(void)state;
	struct place place;
	char one[FIXTURE_PATH];
	place_init(&place, 90, 30);
	fixture_shard_path(&place.fixture, 1, one);
	struct shelf_entry *all = place_open(&place, place.pattern, DATASET_LABELS_AUTO, false);
	struct shelf_entry *part = place_open(&place, one, DATASET_LABELS_AUTO, false);
	struct shelf_entry *bare = place_open(&place, place.pattern, DATASET_LABELS_NONE, false);
	struct shelf_entry *kept = place_open(&place, place.pattern, DATASET_LABELS_AUTO, true);
	assert_ptr_not_equal(all, part);
	assert_ptr_not_equal(all, bare);
	assert_ptr_not_equal(all, kept);
	assert_null(all->sidecar);
	/* A shard is written again under its old name: only streams that open now read it. */
	fixture_write_tar(&place.fixture, one, 30, 29);
	struct shelf_entry *later = place_open(&place, place.pattern, DATASET_LABELS_AUTO, false);
	assert_ptr_not_equal(all, later);
	assert_int_equal(dataset_count(all->dataset), 90);
	assert_int_equal(dataset_count(later->dataset), 89);
	shelf_close(&place.shelf, all);
	shelf_close(&place.shelf, part);
	shelf_close(&place.shelf, bare);
	shelf_close(&place.shelf, kept);
	shelf_close(&place.shelf, later);
	place_deinit(&place);
}

/* The same bytes under a new inode are not shared: a reader of the old file would be told that it
 * changed. */
static void test_touched(void **state)
{
	(void)state;
	struct place place;
	char path[FIXTURE_PATH];
	place_init(&place, 40, 40);
	fixture_shard_path(&place.fixture, 0, path);
	struct shelf_entry *before = place_open(&place, place.pattern, DATASET_LABELS_AUTO, false);
	struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	struct shelf_entry *after = place_open(&place, place.pattern, DATASET_LABELS_AUTO, false);
	assert_int_equal(dataset_fingerprint(before->dataset), dataset_fingerprint(after->dataset));
	assert_ptr_not_equal(before, after);
	shelf_close(&place.shelf, before);
	shelf_close(&place.shelf, after);
	place_deinit(&place);
}

static void test_refused(void **state)
{
	(void)state;
	struct place place;
	struct shelf_entry *entry = NULL;
	struct fault fault = {""};
	place_init(&place, 10, 10);
	struct dataset_options options = {.cache_dir = place.cache};
	assert_int_equal(
		shelf_open(&place.shelf, "/nowhere/at/all", &options, true, &entry, &fault),
		-ENOENT);
	assert_non_null(strstr(fault.text, "/nowhere/at/all"));
	assert_null(entry);
	assert_true(list_is_empty(&place.shelf.entries));
	place_deinit(&place);
}

/* Several threads open, read a few samples and close at once. */
static void *open_and_close(void *context)
{
	struct place *place = context;
	for (int round = 0; round < 20; round++) {
		struct shelf_entry *entry =
			place_open(place, place->pattern, DATASET_LABELS_AUTO, round % 2);
		struct fixture shared = place->fixture;
		struct reader reader;
		shared.dataset = entry->dataset;
		reader_init(&reader, place->shelf.fetch, &shared, 20);
		reader_shuffle(&reader, (uint64_t)round);
		reader_all(&reader);
		assert_int_equal(reader.outcome[FETCH_OK], 20);
		reader_deinit(&reader);
		shelf_close(&place->shelf, entry);
	}
	return NULL;
}

static void test_many_at_once(void **state)
{
	(void)state;
	struct place place;
	pthread_t thread[6];
	place_init(&place, 60, 20);
	for (size_t i = 0; i < UTIL_COUNT(thread); i++)
		assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, &place), 0);
	for (size_t i = 0; i < UTIL_COUNT(thread); i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_true(list_is_empty(&place.shelf.entries));
	place_deinit(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_touched),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_many_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

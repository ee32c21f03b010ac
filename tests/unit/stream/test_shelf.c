/* shelf: streams that read the same share one dataset; datasets that differ in anything that a
 * batch shows are not shared; the last holder frees a dataset. */
#include "unit/fetch/fetch_fixture.h"

#include "base/clock.h"
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

/* ---- images that are rewritten in place ---- */

struct renewing {
	struct shelf shelf;
	char *root, cache[FIXTURE_PATH], source[FIXTURE_PATH];
	struct dataset_options options;
	struct shelf_entry *old;
};

static void renewing_init(struct renewing *r)
{
	shelf_init(&r->shelf, shelf_fetch());
	r->root = fixture_folder();
	(void)snprintf(r->cache, sizeof r->cache, "%s/cache", r->root);
	(void)snprintf(r->source, sizeof r->source, "%s/set", r->root);
	fixture_file(r->root, "set/a/1.jpg", "one");
	fixture_file(r->root, "set/b/2.jpg", "two");
	r->options = (struct dataset_options){.cache_dir = r->cache};
	struct fault fault = {""};
	assert_int_equal(shelf_open(&r->shelf, r->source, &r->options, true, &r->old, &fault), 0);
}

static void renewing_deinit(struct renewing *r)
{
	shelf_close(&r->shelf, r->old);
	assert_true(list_is_empty(&r->shelf.entries));
	shelf_deinit(&r->shelf);
	fetch_free(r->shelf.fetch);
	fixture_remove(r->root);
}

static int renew(struct renewing *r, struct shelf_entry *old, struct shelf_entry **ret,
	uint64_t *ret_after_ns, bool *ret_made, struct fault *fault)
{
	return shelf_renew(
		&r->shelf, old, r->source, &r->options, ret, ret_after_ns, ret_made, fault);
}

static uint64_t first_size(const struct shelf_entry *entry)
{
	struct sample sample;
	struct fault fault;
	assert_int_equal(dataset_sample(entry->dataset, 0, &sample, &fault), 0);
	return sample.size;
}

static void wait_until_ns(uint64_t until)
{
	while (clock_ns() < until) {
		struct timespec pause = {.tv_nsec = 1000000};
		(void)nanosleep(&pause, NULL);
	}
}

static void test_renewed(void **state)
{
	(void)state;
	struct renewing r;
	struct shelf_entry *one = NULL, *two = NULL, *three = NULL;
	struct fault fault = {""};
	uint64_t after = 0, again = 0;
	bool made = false;
	renewing_init(&r);
	fixture_file(r.root, "set/a/1.jpg", "rewritten");
	assert_int_equal(renew(&r, r.old, &one, &after, &made, &fault), 0);
	assert_true(made && one != r.old && one->sidecar && after > clock_ns());
	assert_int_equal(first_size(one), 9);
	assert_int_equal(first_size(r.old), 3); /* for those that still read it */
	/* Another holder of the old one gets the same, whatever the pause. */
	assert_int_equal(renew(&r, r.old, &two, &again, &made, &fault), 0);
	assert_true(!made && two == one && again == after);
	/* Too soon; then a second time, after a pause that is twice as long. */
	fixture_file(r.root, "set/a/1.jpg", "rewritten again");
	assert_int_equal(renew(&r, one, &three, &again, &made, &fault), SHELF_E_SOON);
	assert_true(!made && again == after && !three);
	wait_until_ns(after);
	assert_int_equal(renew(&r, one, &three, &again, &made, &fault), 0);
	assert_true(made && again > clock_ns() + SHELF_PAUSE_NS);
	assert_int_equal(first_size(three), 15);
	/* A holder that is two renewals behind gets the last one at once. */
	shelf_close(&r.shelf, two);
	assert_int_equal(renew(&r, r.old, &two, &after, &made, &fault), 0);
	assert_true(!made && two == three && after == again);
	/* A renewal that changes nothing. */
	wait_until_ns(again);
	shelf_close(&r.shelf, two);
	assert_int_equal(renew(&r, three, &two, &after, &made, &fault), SHELF_E_SAME);
	assert_true(made && after > clock_ns() + 2 * SHELF_PAUSE_NS);
	assert_null(three->next);
	shelf_close(&r.shelf, three);
	shelf_close(&r.shelf, one);
	renewing_deinit(&r);
}

/* The pause belongs to the dataset: it outlives the streams that read it. */
static void test_renewed_pause_stays(void **state)
{
	(void)state;
	struct renewing r;
	struct shelf_entry *one = NULL;
	struct fault fault = {""};
	uint64_t after;
	bool made;
	renewing_init(&r);
	fixture_file(r.root, "set/a/1.jpg", "rewritten");
	assert_int_equal(renew(&r, r.old, &one, &after, &made, &fault), 0);
	shelf_close(&r.shelf, one);
	shelf_close(&r.shelf, r.old);
	assert_true(list_is_empty(&r.shelf.entries));
	assert_int_equal(shelf_open(&r.shelf, r.source, &r.options, true, &r.old, &fault), 0);
	fixture_file(r.root, "set/a/1.jpg", "rewritten again");
	assert_int_equal(renew(&r, r.old, &one, &after, &made, &fault), SHELF_E_SOON);
	renewing_deinit(&r);
}

/* All holders of the old entry are told why they cannot go on; the index is made once. */
static void test_renewed_misfit(void **state)
{
	(void)state;
	struct renewing r;
	struct shelf_entry *one = NULL;
	struct fault fault;
	uint64_t after;
	bool made;
	renewing_init(&r);
	fixture_file(r.root, "set/a/1.jpg", "rewritten");
	fixture_file(r.root, "set/a/3.jpg", "added");
	for (int i = 0; i < 3; i++) {
		fault = (struct fault){""};
		assert_int_equal(renew(&r, r.old, &one, &after, &made, &fault), -ESTALE);
		assert_non_null(strstr(fault.text, "it had 2 samples, and has 3 now"));
		assert_true(made == (i == 0) && !one);
	}
	renewing_deinit(&r);
	/* What can no longer be indexed is an error of its own, and not tried again at once. */
	renewing_init(&r);
	fixture_file(r.root, "set/a/1.jpg", "rewritten");
	fixture_file(r.root, "set/c/nothing.txt", "a class without images");
	assert_int_equal(renew(&r, r.old, &one, &after, &made, &fault), -EINVAL);
	assert_true(made && strstr(fault.text, "without an image"));
	assert_int_equal(renew(&r, r.old, &one, &after, &made, &fault), SHELF_E_SOON);
	renewing_deinit(&r);
}

struct renewal_thread {
	struct renewing *r;
	struct shelf_entry *entry;
	bool made;
	int result;
};

static void *renew_one(void *context)
{
	struct renewal_thread *t = context;
	struct fault fault = {""};
	uint64_t after;
	t->result = renew(t->r, t->r->old, &t->entry, &after, &t->made, &fault);
	return NULL;
}

static void test_renewed_once(void **state)
{
	(void)state;
	struct renewing r;
	struct renewal_thread job[6];
	pthread_t thread[UTIL_COUNT(job)];
	unsigned made = 0;
	renewing_init(&r);
	fixture_file(r.root, "set/a/1.jpg", "rewritten");
	for (size_t i = 0; i < UTIL_COUNT(job); i++) {
		job[i] = (struct renewal_thread){.r = &r};
		assert_int_equal(pthread_create(&thread[i], NULL, renew_one, &job[i]), 0);
	}
	for (size_t i = 0; i < UTIL_COUNT(job); i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(job[i].result, 0);
		assert_ptr_equal(job[i].entry, job[0].entry);
		made += job[i].made;
	}
	assert_int_equal(made, 1);
	assert_int_equal(job[0].entry->holders, UTIL_COUNT(job) + 1);
	for (size_t i = 0; i < UTIL_COUNT(job); i++)
		shelf_close(&r.shelf, job[i].entry);
	renewing_deinit(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_touched),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_many_at_once),
		cmocka_unit_test(test_renewed),
		cmocka_unit_test(test_renewed_pause_stays),
		cmocka_unit_test(test_renewed_misfit),
		cmocka_unit_test(test_renewed_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

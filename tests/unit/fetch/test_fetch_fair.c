/* fetch between several readers: turns by bytes, buffers for each of them, and threads left over if
 * the storage of one hangs. With one reader, only urgency determines the order. */
#include "unit/fetch/fetch_fixture.h"

#include "base/quota.h"
#include "fetch/fetch_internal.h"
#include "fetch/fetch_op.h"

#include <stdatomic.h>

/* --- quotas --- */

/* Takes as much as the quota allows. */
static uint64_t fill_up(uint64_t own, uint64_t *used, uint64_t total)
{
	while (*used < total && quota_allows(own, *used, total, 1)) {
		own++;
		(*used)++;
	}
	return own;
}

static void test_quota(void **state)
{
	for (uint64_t wanted = 1; wanted < 300; wanted++) {
		uint64_t total = quota_total(wanted), used = 0;
		/* A single holder gets what was asked for, and leaves some. */
		assert_int_equal(fill_up(0, &used, total), wanted);
		assert_true(used < total);
		/* The next one gets some of that, although the first one never gives anything
		 * back. */
		assert_true(fill_up(0, &used, total) >= 1);
		/* Two that take turns get the same, nearly a half each. */
		uint64_t a = 0, b = 0;
		used = 0;
		while (quota_allows(a, used, total, 1) && used < total) {
			a++, used++;
			if (!quota_allows(b, used, total, 1) || used == total)
				break;
			b++, used++;
		}
		assert_in_range(a - b, 0, 1);
		assert_true(a >= total * 4 / 10);
	}
	/* A holder of nothing may always try. */
	assert_true(quota_allows(0, 10, 10, 5));
	assert_false(quota_allows(1, 10, 10, 1));
}

/* --- turns --- */

struct turns {
	struct fixture fixture;
	struct fetch_queue queue;
	struct fetch_item *items;
};

static void turns_init(struct turns *turns, uint64_t count)
{
	*turns =
		(struct turns){.queue = {.lanes = 1}, .items = calloc(count, sizeof *turns->items)};
	assert_non_null(turns->items);
	fixture_tars(&turns->fixture, 60, 60, false);
}

static void turns_deinit(struct turns *turns)
{
	fixture_free(&turns->fixture);
	free(turns->items);
}

static void turns_push(struct turns *turns, uint64_t at, struct fetch_reader *reader,
	const struct dataset *dataset, uint64_t urgency)
{
	struct fetch_item *item = &turns->items[at];
	*item = (struct fetch_item){
		.reader = reader, .dataset = dataset, .number = at, .urgency = urgency};
	fetch_queue_push(&turns->queue, item);
}

static struct fetch_item *turns_pop(struct turns *turns)
{
	struct fetch_reader *reader = fetch_queue_next(&turns->queue, NULL, NULL);
	return reader ? fetch_queue_pop(&turns->queue, reader) : NULL;
}

/* The order of one reader's items: by order of submission and by how many they let pass. */
static void test_one_reader(void **state)
{
	enum { COUNT = 2000 };
	struct turns turns;
	struct fetch_reader reader;
	turns_init(&turns, COUNT);
	fetch_reader_init(&reader);
	uint64_t pushed = 0, popped = 0, last = 0;
	bool out[COUNT] = {false};
	for (uint64_t round = 0; popped < COUNT; round++) {
		for (uint64_t n = hash_mix(round) % 40; n > 0 && pushed < COUNT; n--, pushed++)
			turns_push(&turns, pushed, &reader, turns.fixture.dataset,
				hash_mix(pushed + 9) % 300);
		for (uint64_t n = hash_mix(round + 5) % 30; n > 0; n--) {
			struct fetch_item *item = turns_pop(&turns);
			if (!item)
				break;
			/* No waiting item should have been served before. */
			uint64_t key = item->number + item->urgency;
			for (uint64_t i = 0; i < pushed; i++)
				if (!out[i] && i != item->number)
					assert_true(i + turns.items[i].urgency >= key);
			if (item->number % 17 == 0 && last != item->number) {
				/* An item that is returned comes again at its place. */
				last = item->number;
				fetch_queue_return(&turns.queue, item);
				continue;
			}
			out[item->number] = true;
			popped++;
		}
	}
	turns_deinit(&turns);
}

/* Two readers of the same urgency alternate, although one has many items queued and the other
 * few. */
static void test_two_readers(void **state)
{
	struct turns turns;
	struct fetch_reader many, few;
	turns_init(&turns, 400);
	fetch_reader_init(&many);
	fetch_reader_init(&few);
	const struct dataset *dataset = turns.fixture.dataset;
	for (uint64_t i = 0; i < 300; i++)
		turns_push(&turns, i, &many, dataset, 5);
	for (int i = 0; i < 100; i++)
		assert_ptr_equal(turns_pop(&turns)->reader, &many);
	/* The turns that `many` had before do not count against it. */
	for (uint64_t i = 300; i < 320; i++)
		turns_push(&turns, i, &few, dataset, 5);
	unsigned of_few = 0;
	for (int i = 0; i < 40; i++)
		of_few += turns_pop(&turns)->reader == &few;
	assert_in_range(of_few, 19, 20);
	while (few.places[0].root)
		(void)turns_pop(&turns);
	/* `few` does not get back the turns that it did not use. */
	for (int i = 0; i < 50; i++)
		assert_ptr_equal(turns_pop(&turns)->reader, &many);
	for (uint64_t i = 320; i < 360; i++)
		turns_push(&turns, i, &few, dataset, 5);
	of_few = 0;
	for (int i = 0; i < 40; i++)
		of_few += turns_pop(&turns)->reader == &few;
	assert_in_range(of_few, 19, 21);
	turns_deinit(&turns);
}

/* A reader of larger samples gets fewer of them. */
static void test_turns_by_bytes(void **state)
{
	struct turns turns;
	struct fixture small, large;
	struct fetch_reader reader[2];
	turns_init(&turns, 800);
	fixture_tars(&small, 17, 17, false);
	fixture_tars(&large, 18, 18, true);
	uint64_t mean_small = dataset_bytes(small.dataset) / 17,
		 mean_large = dataset_bytes(large.dataset) / 18;
	assert_true(mean_large > mean_small * 2);
	fetch_reader_init(&reader[0]);
	fetch_reader_init(&reader[1]);
	for (uint64_t i = 0; i < 800; i++)
		turns_push(&turns, i, &reader[i % 2], i % 2 ? large.dataset : small.dataset, 0);
	uint64_t bytes[2] = {0};
	while (reader[0].places[0].root && reader[1].places[0].root) {
		struct fetch_item *item = turns_pop(&turns);
		bytes[item->reader == &reader[1]] +=
			item->reader == &reader[1] ? mean_large : mean_small;
	}
	assert_in_range(bytes[0], bytes[1] - 2 * mean_large, bytes[1] + 2 * mean_large);
	fixture_free(&small);
	fixture_free(&large);
	turns_deinit(&turns);
}

/* An urgent reader goes first, but passes no other for ever. */
static void test_urgent_reader(void **state)
{
	struct turns turns;
	struct fetch_reader calm, waits;
	turns_init(&turns, 1000);
	fetch_reader_init(&calm);
	fetch_reader_init(&waits);
	const struct dataset *dataset = turns.fixture.dataset;
	for (uint64_t i = 0; i < 20; i++)
		turns_push(&turns, i, &calm, dataset, 100);
	for (uint64_t i = 20; i < 1000; i++)
		turns_push(&turns, i, &waits, dataset, 0);
	unsigned passed = 0;
	while (turns_pop(&turns)->reader == &waits)
		passed++;
	assert_in_range(passed, 99, 101);
	/* From then on they take turns. */
	unsigned of_calm = 0;
	for (int i = 0; i < 20; i++)
		of_calm += turns_pop(&turns)->reader == &calm;
	assert_in_range(of_calm, 9, 11);
	turns_deinit(&turns);
}

/* --- room --- */

static struct fetch_options options_of(enum fetch_engine engine, unsigned threads)
{
	return (struct fetch_options){.engine = engine,
		.io = FETCH_IO_BUFFERED,
		.pread_threads = threads,
		.arena_bytes = 1 << 20,
		.index_bytes = 1 << 18};
}

/* One reader keeps all its buffers; another one can still read, and then a third. */
static void test_room_for_others(void **state)
{
	struct fixture fixture, other;
	fixture_tars(&fixture, 300, 300, false);
	fixture_images(&other, 100, false);
	struct permit large;
	permit_init(&large, 1 << 20);
	struct fetch_options options = options_of(FETCH_AUTO, 4);
	options.large = &large;
	each_engine (fetch, &options) {
		struct reader keeps, reads[2];
		struct fetch_item *held[300];
		unsigned count = 0;
		reader_init(&keeps, fetch, &fixture, 300);
		reader_shuffle(&keeps, 3);
		reader_submit(&keeps, 0, 300);
		while ((held[count] = reader_one(&keeps, 300)))
			count++;
		assert_true(count > 0 && count < 300);
		for (int i = 0; i < 2; i++) {
			reader_init(&reads[i], fetch, i ? &other : &fixture, 100);
			reader_shuffle(&reads[i], 4);
			reader_all(&reads[i]);
			assert_int_equal(reads[i].outcome[FETCH_OK], 100);
			reader_deinit(&reads[i]);
		}
		for (unsigned i = 0; i < count; i++)
			reader_finish(&keeps, held[i]);
		reader_take(&keeps, 300 - count);
		assert_int_equal(keeps.outcome[FETCH_OK], 300);
		reader_deinit(&keeps);
	}
	assert_int_equal(large.used, 0);
	permit_deinit(&large);
	fixture_free(&fixture);
	fixture_free(&other);
}

/* What the first reader leaves of the arena is less than the other one's large samples need: they
 * get buffers of their own, one at a time. */
static void test_no_room_for_others(void **state)
{
	struct fixture fixture, other;
	struct permit large;
	fixture_tars(&fixture, 300, 300, false);
	fixture_tars(&other, 200, 200, true);
	permit_init(&large, FIXTURE_LARGE_BYTES * 2);
	struct fetch_options options = options_of(FETCH_AUTO, 4);
	options.arena_bytes = FIXTURE_LARGE_BYTES * 5;
	options.large = &large;
	each_engine (fetch, &options) {
		struct reader keeps, reads;
		struct fetch_item *held[300];
		unsigned count = 0;
		reader_init(&keeps, fetch, &fixture, 300);
		reader_submit(&keeps, 0, 300);
		while ((held[count] = reader_one(&keeps, 300)))
			count++;
		assert_true(count > 0 && count < 300);
		reader_init(&reads, fetch, &other, 200);
		reader_all(&reads);
		assert_int_equal(reads.outcome[FETCH_OK], 200);
		assert_int_equal(large.used, 0);
		assert_true(large.peak >= FIXTURE_LARGE_BYTES);
		reader_deinit(&reads);
		for (unsigned i = 0; i < count; i++)
			reader_finish(&keeps, held[i]);
		reader_take(&keeps, 300 - count);
		assert_int_equal(keeps.outcome[FETCH_OK], 300);
		reader_deinit(&keeps);
	}
	permit_deinit(&large);
	fixture_free(&fixture);
	fixture_free(&other);
}

/* --- storage that hangs --- */

/* All ops of this kind on this dataset wait. */
static struct {
	const struct dataset *dataset;
	enum fetch_op_kind kind;
	_Atomic bool open;
	_Atomic unsigned waiting;
} hang;

static int hook_hang(struct fetch_op *op)
{
	if (op->dataset != hang.dataset || op->kind != hang.kind)
		return 0;
	struct timespec pause = {.tv_nsec = 200000};
	atomic_fetch_add(&hang.waiting, 1);
	while (!atomic_load(&hang.open))
		(void)nanosleep(&pause, NULL);
	return 0;
}

static void wait_for_hanging(unsigned count)
{
	struct timespec pause = {.tv_nsec = 1000000};
	for (int i = 0; i < 60000 && atomic_load(&hang.waiting) < count; i++)
		(void)nanosleep(&pause, NULL);
	assert_true(atomic_load(&hang.waiting) >= count);
}

static void read_beside_hanging(const struct fixture *hangs, const struct fixture *other,
	enum fetch_op_kind kind, unsigned threads)
{
	struct fetch_options options = options_of(FETCH_PREAD, threads);
	/* Enough buffers, so that threads are scarce. */
	options.arena_bytes = 16 << 20;
	struct fetch *fetch = fixture_fetch(&options);
	struct reader stuck, reads;
	hang.dataset = hangs->dataset;
	hang.kind = kind;
	atomic_store(&hang.open, false);
	atomic_store(&hang.waiting, 0);
	fetch_hook_set(hook_hang);
	reader_init(&stuck, fetch, hangs, hangs->count);
	reader_shuffle(&stuck, 7);
	reader_submit(&stuck, 0, hangs->count);
	/* An index of a few pages, or one or two shards, cannot occupy more threads. */
	wait_for_hanging(kind == FETCH_OP_RANGE || kind == FETCH_OP_FILE ? threads : 1);
	for (uint64_t seed = 0; seed < 3; seed++) {
		reader_init(&reads, fetch, other, other->count);
		reader_shuffle(&reads, seed);
		reader_all(&reads);
		assert_int_equal(reads.outcome[FETCH_OK], other->count);
		reader_deinit(&reads);
	}
	assert_null(reader_one(&stuck, 0));
	atomic_store(&hang.open, true);
	reader_take(&stuck, hangs->count);
	assert_int_equal(stuck.outcome[FETCH_OK], hangs->count);
	reader_deinit(&stuck);
	fetch_hook_set(NULL);
	fetch_free(fetch);
}

static void test_hanging_storage(void **state)
{
	struct fixture tars, shards, folder;
	fixture_tars(&tars, 300, 100, false);
	fixture_tars(&shards, 300, 5, false);
	fixture_images(&folder, 300, false);
	static const unsigned threads[] = {1, 3, 16};
	for (size_t i = 0; i < UTIL_COUNT(threads); i++) {
		read_beside_hanging(&tars, &folder, FETCH_OP_RANGE, threads[i]);
		read_beside_hanging(&folder, &tars, FETCH_OP_FILE, threads[i]);
		read_beside_hanging(&shards, &folder, FETCH_OP_SHARD, threads[i]);
		read_beside_hanging(&shards, &folder, FETCH_OP_PAGE, threads[i]);
		read_beside_hanging(&folder, &tars, FETCH_OP_PAGE, threads[i]);
	}
	fixture_free(&tars);
	fixture_free(&shards);
	fixture_free(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_one_reader),
		cmocka_unit_test(test_two_readers),
		cmocka_unit_test(test_turns_by_bytes),
		cmocka_unit_test(test_urgent_reader),
		cmocka_unit_test(test_room_for_others),
		cmocka_unit_test(test_no_room_for_others),
		cmocka_unit_test(test_hanging_storage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

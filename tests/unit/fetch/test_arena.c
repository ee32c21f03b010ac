/* arena: buffers never overlap, all are freed, a full arena announces when to try again. */
#include "fetch/arena.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PAGES = ARENA_LEAST / ARENA_PAGE };

static uint32_t random_next(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

static void test_least_and_rounding(void **state)
{
	struct arena arena;
	assert_int_equal(arena_init(&arena, 1, NULL), 0);
	assert_int_equal(arena_bytes(&arena), ARENA_LEAST);
	assert_int_equal((uintptr_t)arena.base % ARENA_PAGE, 0);
	arena_deinit(&arena);
	assert_int_equal(arena_init(&arena, ARENA_LEAST + 1, NULL), 0);
	assert_int_equal(arena_bytes(&arena), ARENA_LEAST + ARENA_PAGE);
	arena_deinit(&arena);
	arena_deinit(&arena);
}

static void test_too_much_is_refused(void **state)
{
	struct arena arena;
	struct fault fault = {""};
	assert_int_equal(arena_init(&arena, UINT64_C(1) << 60, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "memory:"));
}

/* The cost includes the slack: a buffer that fills its pages up to the last 64 bytes takes no
 * further page, one byte more does. */
static void test_slack(void **state)
{
	assert_int_equal(arena_cost(0), ARENA_PAGE);
	assert_int_equal(arena_cost(ARENA_PAGE - ARENA_SLACK), ARENA_PAGE);
	assert_int_equal(arena_cost(ARENA_PAGE - ARENA_SLACK + 1), 2 * ARENA_PAGE);
	struct arena arena;
	assert_int_equal(arena_init(&arena, ARENA_LEAST, NULL), 0);
	/* The last buffer's slack is readable too. */
	uint8_t *all = arena_take(&arena, ARENA_LEAST - ARENA_SLACK, false);
	assert_non_null(all);
	all[ARENA_LEAST - 1] = 1;
	assert_null(arena_take(&arena, 1, false));
	assert_false(arena_drop(&arena, all));
	assert_null(arena_take(&arena, ARENA_LEAST - ARENA_SLACK + 1, false));
	arena_deinit(&arena);
}

static void test_full_wakes_once(void **state)
{
	struct arena arena;
	assert_int_equal(arena_init(&arena, ARENA_LEAST, NULL), 0);
	uint8_t *half = arena_take(&arena, ARENA_LEAST / 2 - ARENA_SLACK, true);
	uint8_t *rest = arena_take(&arena, ARENA_LEAST / 2 - ARENA_SLACK, true);
	assert_non_null(half);
	assert_non_null(rest);
	assert_null(arena_take(&arena, 1, true));
	assert_true(arena_drop(&arena, half));
	assert_false(arena_drop(&arena, rest));
	assert_int_equal(arena.used, 0);
	assert_int_equal(arena.peak, ARENA_LEAST);
	arena_deinit(&arena);
}

static void test_shared_goes_with_the_last(void **state)
{
	struct arena arena;
	assert_int_equal(arena_init(&arena, ARENA_LEAST, NULL), 0);
	uint8_t *buffer = arena_take(&arena, ARENA_LEAST - ARENA_SLACK, false);
	arena_share(&arena, buffer, 3);
	assert_null(arena_take(&arena, 1, true));
	assert_false(arena_drop(&arena, buffer));
	assert_false(arena_drop(&arena, buffer));
	assert_null(arena_take(&arena, 1, true));
	assert_true(arena_drop(&arena, buffer));
	assert_non_null(buffer = arena_take(&arena, 1, false));
	(void)arena_drop(&arena, buffer);
	arena_deinit(&arena);
}

/* A run may not wrap around the end: only the longer of the free runs at both ends counts. */
static void test_no_wrapping(void **state)
{
	struct arena arena;
	assert_int_equal(arena_init(&arena, ARENA_LEAST, NULL), 0);
	uint8_t *page[PAGES];
	for (int i = 0; i < PAGES; i++)
		assert_non_null(page[i] = arena_take(&arena, 1, false));
	for (int i = 0; i < 70; i++)
		(void)arena_drop(&arena, page[i]);
	for (int i = PAGES - 69; i < PAGES; i++)
		(void)arena_drop(&arena, page[i]);
	assert_null(arena_take(&arena, 71 * ARENA_PAGE - ARENA_SLACK, false));
	uint8_t *found = arena_take(&arena, 70 * ARENA_PAGE - ARENA_SLACK, false);
	assert_ptr_equal(found, arena.base);
	(void)arena_drop(&arena, found);
	for (int i = 70; i < PAGES - 69; i++)
		(void)arena_drop(&arena, page[i]);
	arena_deinit(&arena);
}

/* Against a map of bytes: buffers do not overlap, and a refusal means that no run was long
 * enough. */
static void test_random_against_model(void **state)
{
	struct arena arena;
	assert_int_equal(arena_init(&arena, ARENA_LEAST, NULL), 0);
	static uint8_t model[PAGES];
	memset(model, 0, sizeof model);
	struct {
		uint8_t *at;
		size_t first, pages;
	} held[PAGES];
	size_t count = 0;
	uint32_t seed = 7;
	for (int step = 0; step < 100000; step++) {
		size_t pages = 1 + random_next(&seed) % (step % 3 ? 4 : 90);
		if (random_next(&seed) % 100 < 55) {
			uint8_t *at = arena_take(&arena, pages * ARENA_PAGE - ARENA_SLACK, false);
			size_t run = 0, longest = 0;
			for (size_t i = 0; i < PAGES; i++) {
				run = model[i] ? 0 : run + 1;
				longest = run > longest ? run : longest;
			}
			assert_int_equal(at != NULL, longest >= pages);
			if (!at)
				continue;
			size_t first = (size_t)(at - arena.base) / ARENA_PAGE;
			for (size_t i = first; i < first + pages; i++) {
				assert_true(i < PAGES && !model[i]);
				model[i] = 1;
			}
			held[count].at = at;
			held[count].first = first;
			held[count++].pages = pages;
		} else if (count > 0) {
			size_t i = random_next(&seed) % count;
			memset(model + held[i].first, 0, held[i].pages);
			(void)arena_drop(&arena, held[i].at);
			held[i] = held[--count];
		}
	}
	while (count > 0)
		(void)arena_drop(&arena, held[--count].at);
	assert_int_equal(arena.used, 0);
	arena_deinit(&arena);
}

/* One thread takes buffers, as in the pipeline, and four drop them. */
struct belt {
	struct arena *arena;
	pthread_mutex_t lock;
	pthread_cond_t some;
	uint8_t *item[64];
	unsigned count;
	bool over;
};

static void *belt_drop(void *context)
{
	struct belt *belt = context;
	for (;;) {
		pthread_mutex_lock(&belt->lock);
		while (belt->count == 0 && !belt->over)
			pthread_cond_wait(&belt->some, &belt->lock);
		uint8_t *item = belt->count ? belt->item[--belt->count] : NULL;
		pthread_mutex_unlock(&belt->lock);
		if (!item)
			return NULL;
		assert_int_equal(item[0], item[ARENA_PAGE - 1]);
		(void)arena_drop(belt->arena, item);
	}
}

static void test_threads_give_back(void **state)
{
	struct arena arena;
	assert_int_equal(arena_init(&arena, ARENA_LEAST, NULL), 0);
	struct belt belt = {.arena = &arena};
	pthread_mutex_init(&belt.lock, NULL);
	pthread_cond_init(&belt.some, NULL);
	pthread_t thread[4];
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, belt_drop, &belt), 0);
	for (unsigned taken = 0; taken < 20000;) {
		pthread_mutex_lock(&belt.lock);
		uint8_t *item = belt.count < 60 ? arena_take(&arena, 3 * ARENA_PAGE, true) : NULL;
		if (item) {
			item[0] = item[ARENA_PAGE - 1] = (uint8_t)taken++;
			arena_share(&arena, item, 2);
			belt.item[belt.count++] = item;
			belt.item[belt.count++] = item;
			pthread_cond_broadcast(&belt.some);
		}
		pthread_mutex_unlock(&belt.lock);
	}
	pthread_mutex_lock(&belt.lock);
	belt.over = true;
	pthread_cond_broadcast(&belt.some);
	pthread_mutex_unlock(&belt.lock);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(arena.used, 0);
	pthread_cond_destroy(&belt.some);
	pthread_mutex_destroy(&belt.lock);
	arena_deinit(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least_and_rounding),
		cmocka_unit_test(test_too_much_is_refused),
		cmocka_unit_test(test_slack),
		cmocka_unit_test(test_full_wakes_once),
		cmocka_unit_test(test_shared_goes_with_the_last),
		cmocka_unit_test(test_no_wrapping),
		cmocka_unit_test(test_random_against_model),
		cmocka_unit_test(test_threads_give_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

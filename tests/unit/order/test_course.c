/* course: walks small courses batch by batch, and checks numbers that are too large to walk. */
#include "order/course.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Walks three epochs batch by batch, as a stream does, and compares every answer. */
static void assert_walk(const struct order_epoch *epoch, uint64_t position)
{
	struct course course = course_from(epoch, 5, position);
	uint64_t number = 5, origin = position,
		 global = (uint64_t)epoch->batch_size * epoch->world_size;
	if (!order_batches(epoch, position)) {
		number++;
		origin = 0;
	}
	assert_int_equal(course.start_epoch, number);
	assert_int_equal(course.start_position, origin);
	assert_int_equal(course_end(&course, 0), course_end(&course, (uint64_t)1 << 32));
	assert_int_equal(course_end(&course, number), 0);
	for (uint64_t serial = 0, found; number < 8; serial++) {
		uint32_t rank = (uint32_t)serial % epoch->world_size;
		struct course_batch batch = course_batch(&course, serial, rank);
		struct order_slice slice = order_slice(epoch, origin, rank);
		assert_int_equal(batch.epoch, number);
		assert_int_equal(batch.origin, origin);
		assert_int_equal(batch.batch, origin / global);
		assert_int_equal(batch.slice.position, slice.position);
		assert_int_equal(batch.slice.count, slice.count);
		assert_true(course_serial(&course, number, origin, &found));
		assert_int_equal(found, serial);
		/* No epoch begins between two batches; at the end of an epoch the next one
		 * begins. */
		if (global > 1 && !slice.last)
			assert_false(course_serial(&course, number, origin + 1, &found));
		if (slice.last) {
			assert_true(course_serial(&course, number, epoch->samples, &found));
			assert_int_equal(found, serial + 1);
			assert_int_equal(course_end(&course, number + 1), serial + 1);
		}
		origin = slice.next;
		number += slice.last;
	}
	uint64_t found;
	assert_false(course_serial(&course, course.start_epoch - 1, 0, &found));
	if (course.start_position)
		assert_false(course_serial(&course, course.start_epoch, 0, &found));
}

static void names_every_batch(void **state)
{
	(void)state;
	for (uint64_t samples = 1; samples <= 25; samples++)
		for (uint32_t batch_size = 1; batch_size <= 4; batch_size++)
			for (uint32_t world_size = 1; world_size <= 3; world_size++)
				for (int drop_last = 0; drop_last <= 1; drop_last++) {
					struct order_epoch epoch = {.samples = samples,
						.batch_size = batch_size,
						.world_size = world_size,
						.drop_last = drop_last};
					if (!order_batches(&epoch, 0))
						continue;
					for (uint64_t position = 0; position <= samples; position++)
						assert_walk(&epoch, position);
				}
}

static void counts_to_the_end_of_numbers(void **state)
{
	struct order_epoch epoch = {
		.samples = (uint64_t)1 << 48, .batch_size = 1, .world_size = 1, .drop_last = false};
	struct course course = course_from(&epoch, 0, 0);
	uint64_t found;
	(void)state;
	assert_int_equal(course_end(&course, 2), (uint64_t)2 << 48);
	assert_int_equal(course_end(&course, UINT32_MAX), UINT64_MAX);
	assert_true(course_serial(&course, 1, 7, &found));
	assert_int_equal(found, ((uint64_t)1 << 48) + 7);
	assert_false(course_serial(&course, UINT32_MAX, 7, &found));
	assert_false(course_serial(&course, UINT32_MAX, 0, &found));
}

static void ends_with_the_last_epoch_that_has_a_number(void **state)
{
	struct order_epoch epoch = {
		.samples = 10, .batch_size = 2, .world_size = 1, .drop_last = true};
	(void)state;
	struct course last = course_from(&epoch, UINT32_MAX, 4),
		      over = course_from(&epoch, UINT32_MAX, 9);
	assert_int_equal(course_end(&last, 0), 3);
	assert_int_equal(course_batch(&last, 2, 0).epoch, UINT32_MAX);
	assert_true(course_batch(&last, 2, 0).slice.last);
	assert_int_equal(course_end(&over, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_every_batch),
		cmocka_unit_test(counts_to_the_end_of_numbers),
		cmocka_unit_test(ends_with_the_last_epoch_that_has_a_number),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

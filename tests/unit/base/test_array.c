/* array: grows when it is full, keeps what is in it, and survives an impossible size. */
#include "base/array.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_grows(void **state)
{
	(void)state;
	uint64_t *array = NULL;
	size_t room = 0, moved = 0;
	for (size_t count = 0; count < 10000; count++) {
		size_t before = room;
		uint64_t *grown = array_grown(array, count, &room, sizeof *array);
		assert_non_null(grown);
		assert_true(room > count);
		moved += room != before;
		array = grown;
		array[count] = count;
	}
	assert_true(moved < 12);
	for (size_t i = 0; i < 10000; i++)
		assert_int_equal(array[i], i);
	free(array);
}

static void test_no_memory(void **state)
{
	(void)state;
	/* Hidden from the compiler, which would refuse them. */
	volatile size_t huge = SIZE_MAX / 16, bytes = 8;
	size_t room = huge;
	assert_null(array_grown(NULL, room, &room, bytes));
	assert_int_equal(room, SIZE_MAX / 16);
	huge = SIZE_MAX;
	room = huge;
	assert_null(array_grown(NULL, huge, &room, bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),
		cmocka_unit_test(test_no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

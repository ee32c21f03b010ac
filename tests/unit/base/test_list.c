/* list: order after every kind of change, against an array; removal while walking. */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct item {
	int value;
	struct list_node node, other;
};

/* Compares a list, forward and backward, with `count` values. */
static void expect(const struct list_head *list, const int *values, int count)
{
	int i = 0;
	list_each (item, list, struct item, node) {
		assert_true(i < count);
		assert_int_equal(item->value, values[i++]);
	}
	assert_int_equal(i, count);
	for (const struct list_node *n = list->last; n; n = n->previous)
		assert_int_equal(list_of(n, struct item, node)->value, values[--i]);
	assert_int_equal(i, 0);
	assert_int_equal(list_is_empty(list), count == 0);
}

static void test_order(void **state)
{
	(void)state;
	struct list_head list = {0};
	struct item item[4] = {{.value = 0}, {.value = 1}, {.value = 2}, {.value = 3}};
	expect(&list, NULL, 0);
	list_append(&list, &item[1].node);
	expect(&list, (int[]){1}, 1);
	list_append(&list, &item[2].node);
	list_prepend(&list, &item[0].node);
	expect(&list, (int[]){0, 1, 2}, 3);
	list_insert(&list, &item[1].node, &item[3].node);
	expect(&list, (int[]){0, 1, 3, 2}, 4);
	assert_ptr_equal(list_first(&list, struct item, node), &item[0]);
	assert_ptr_equal(list.last, &item[2].node);
	list_remove(&list, &item[3].node); /* in the middle */
	list_remove(&list, &item[0].node); /* the first */
	expect(&list, (int[]){1, 2}, 2);
	list_remove(&list, &item[2].node); /* the last */
	list_remove(&list, &item[1].node); /* the only one */
	expect(&list, NULL, 0);
}

static void test_queue(void **state)
{
	(void)state;
	struct list_head list = {0};
	struct item item[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
	for (int i = 0; i < 3; i++)
		list_append(&list, &item[i].node);
	for (int i = 0; i < 3; i++)
		assert_ptr_equal(list_take(&list, struct item, node), &item[i]);
	assert_null(list_take(&list, struct item, node));
	assert_null(list_first(&list, struct item, node));
}

static void test_join(void **state)
{
	(void)state;
	struct list_head a = {0}, b = {0};
	struct item item[3] = {{.value = 0}, {.value = 1}, {.value = 2}};
	list_join(&a, &b);
	expect(&a, NULL, 0);
	list_append(&b, &item[0].node);
	list_join(&a, &b);
	expect(&a, (int[]){0}, 1);
	expect(&b, NULL, 0);
	list_append(&b, &item[1].node);
	list_append(&b, &item[2].node);
	list_join(&a, &b);
	list_join(&a, &b);
	expect(&a, (int[]){0, 1, 2}, 3);
}

/* An element may be on two lists, and be freed by the walk that removes it. */
static void test_removing(void **state)
{
	(void)state;
	struct list_head all = {0}, odd = {0};
	for (int i = 0; i < 100; i++) {
		struct item *item = malloc(sizeof *item);
		assert_non_null(item);
		item->value = i;
		list_append(&all, &item->node);
		if (i % 2)
			list_prepend(&odd, &item->other);
	}
	int count = 0;
	list_each_removable (item, &odd, struct item, other) {
		assert_int_equal(item->value, 99 - 2 * count++);
		list_remove(&odd, &item->other);
		list_remove(&all, &item->node);
		free(item);
	}
	assert_int_equal(count, 50);
	assert_true(list_is_empty(&odd));
	list_each_removable (item, &all, struct item, node) {
		assert_int_equal(item->value % 2, 0);
		list_remove(&all, &item->node);
		free(item);
	}
	assert_true(list_is_empty(&all));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_removing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* task: done is seen after the work, the wake comes last, and a task can be started again. */
#include "base/task.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct work {
	sem_t go, woken;
	int result;
	char name[16];
};

static void work_run(void *argument)
{
	struct work *work = argument;
	while (sem_wait(&work->go))
		;
	(void)pthread_getname_np(pthread_self(), work->name, sizeof work->name);
	work->result++;
}

static void work_wake(void *context)
{
	struct work *work = context;
	(void)sem_post(&work->woken);
}

static struct work work_new(void)
{
	struct work work = {.result = 0};
	assert_int_equal(sem_init(&work.go, 0, 0), 0);
	assert_int_equal(sem_init(&work.woken, 0, 0), 0);
	return work;
}

static void test_collect(void **state)
{
	(void)state;
	struct work work = work_new();
	struct task task = {.name = "penstock-test",
		.run = work_run,
		.argument = &work,
		.wake = work_wake,
		.context = &work};
	assert_false(task_is_done(&task));
	assert_false(task_collect(&task));
	for (int round = 1; round <= 3; round++) {
		assert_int_equal(task_start(&task), 0);
		assert_true(task.running);
		assert_false(task_is_done(&task));
		assert_false(task_collect(&task));
		(void)sem_post(&work.go);
		while (sem_wait(&work.woken))
			;
		assert_true(task_is_done(&task));
		assert_true(task_collect(&task));
		assert_int_equal(work.result, round);
		assert_string_equal(work.name, "penstock-test");
		assert_false(task.running);
		assert_false(task_collect(&task));
	}
}

/* Joining waits for the work, and needs no wake. */
static void test_join(void **state)
{
	(void)state;
	struct work work = work_new();
	struct task task = {.name = "penstock-test", .run = work_run, .argument = &work};
	task_join(&task);
	assert_int_equal(task_start(&task), 0);
	(void)sem_post(&work.go);
	task_join(&task);
	assert_int_equal(work.result, 1);
	assert_false(task.running);
	task_join(&task);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_collect),
		cmocka_unit_test(test_join),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

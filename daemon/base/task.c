/* task: see task.h. */
#include "base/task.h"

#include <assert.h>

/* The work keeps paths and sentences of some KiB on its stack, and calls libraries. */
enum { TASK_STACK = 1 << 20 };

static void *task_main(void *argument)
{
	struct task *task = argument;
	/* Once it is done, its owner may free it. */
	void (*wake)(void *context) = task->wake;
	void *context = task->context;
	(void)pthread_setname_np(pthread_self(), task->name);
	task->run(task->argument);
	atomic_store_explicit(&task->done, true, memory_order_release);
	if (wake)
		wake(context);
	return NULL;
}

int task_start(struct task *task)
{
	pthread_attr_t attr;
	assert(!task->running);
	/* Nobody else reads it before the thread begins. */
	atomic_store_explicit(&task->done, false, memory_order_relaxed);
	int result = pthread_attr_init(&attr);
	if (result)
		return -result;
	(void)pthread_attr_setstacksize(&attr, TASK_STACK);
	result = pthread_create(&task->thread, &attr, task_main, task);
	(void)pthread_attr_destroy(&attr);
	task->running = result == 0;
	return -result;
}

bool task_is_done(const struct task *task)
{
	return task->running && atomic_load_explicit(&task->done, memory_order_acquire);
}

void task_join(struct task *task)
{
	if (!task->running)
		return;
	(void)pthread_join(task->thread, NULL);
	task->running = false;
}

bool task_collect(struct task *task)
{
	if (!task_is_done(task))
		return false;
	task_join(task);
	return true;
}

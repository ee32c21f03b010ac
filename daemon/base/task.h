/* task: one piece of work that may take long, on a thread of its own.
 *
 * The event loop must never wait for storage, so it hands such work to a task and looks later
 * whether it is done:
 *
 *   task->name = "penstock-open"; task->run = opening_run; task->argument = opening;
 *   task->wake = wake_loop; task->context = loop;
 *   int result = task_start(task);
 *   ...
 *   if (task_collect(task)) ...    the work is done, and everything it wrote can be read
 *
 * From task_start until task_collect returns true (or task_join returns) the task's thread owns
 * what `run` writes; the task and its argument must not be freed or moved before. `wake` is called
 * on the task's thread after the work is done; it may not use the task.
 *
 * All functions: the thread that owns the task. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct task { /* zeroed does not run */
	const char *name; /* of the thread: at most 15 bytes; static */
	void (*run)(void *argument);
	void *argument;
	void (*wake)(void *context); /* NULL: nobody is told */
	void *context;

	pthread_t thread;
	bool running; /* started and not yet joined */
	atomic_bool done; /* released by the task's thread, acquired by task_is_done */
};

/* 0, or a negative errno: -EAGAIN (limits on threads), -ENOMEM. Then nothing runs. */
int task_start(struct task *task);

/* Whether it is running and its work is done. Does not block. */
bool task_is_done(const struct task *task);

/* Whether it was running and its work is done; if so, its thread is joined and the task may be
 * started again or freed. Blocks at most for the thread's last few instructions. */
bool task_collect(struct task *task);

/* Waits for the work; does nothing where it is not running. */
void task_join(struct task *task);

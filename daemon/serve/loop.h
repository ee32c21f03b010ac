/* loop: what the event loop waits for, in one epoll: the listening socket, signals, a timer that
 * expires once a second, wake-ups by other threads, and what others add. Event loop, except
 * loop_wake. */
#pragma once

#include "base/fault.h"
#include "base/task.h"

#include <stdbool.h>
#include <stdint.h>

/* What an event is about. epoll hands back a pointer to a struct watch. */
enum watch_kind {
	WATCH_LISTENER,
	WATCH_SIGNAL,
	WATCH_TIMER,
	WATCH_WAKE,
	WATCH_CLIENT,
	WATCH_PIDFD,
	WATCH_WITNESS
};

struct watch {
	enum watch_kind kind;
	struct client *client; /* of WATCH_CLIENT and WATCH_PIDFD */
};

struct loop {
	int epoll_fd, listen_fd, signal_fd, timer_fd, wake_fd; /* -1: closed */
	struct watch listen, signal, timer, wake;
	bool deaf; /* the listening socket is not watched */
};

void loop_init(struct loop *loop);
void loop_deinit(struct loop *loop);

/* Makes all descriptors but the listening socket. 0, or a negative errno with a fault. */
int loop_start(struct loop *loop, struct fault *fault);

int loop_listen(struct loop *loop, const char *path, struct fault *fault);
/* Closes the listening socket, where it is open, and removes its path. */
void loop_stop_listening(struct loop *loop, const char *path);
/* Stops watching the listening socket, or begins again. epoll would otherwise report a connection
 * that cannot be accepted for ever. */
void loop_deafen(struct loop *loop, bool deaf);

/* 0; -ENOMEM or -ENOSPC: it is not watched. */
int loop_watch(struct loop *loop, int fd, uint32_t events, struct watch *watch);
void loop_rewatch(struct loop *loop, int fd, uint32_t events, struct watch *watch);
void loop_unwatch(struct loop *loop, int fd);

/* Wakes the loop: any thread. The argument is a struct loop. */
void loop_wake(void *context);

/* Takes the wake-ups, or the expirations of the timer, that are counted in this descriptor. */
void loop_clear(int fd);

/* Starts a task that wakes the loop when it is done. 0, or a negative errno as of task_start. */
int loop_start_task(struct loop *loop, struct task *task, const char *name,
	void (*run)(void *argument), void *argument);

/* loop: see loop.h. */
#include "serve/loop.h"

#include "base/host/limits.h"
#include "base/util.h"
#include "proto/conn.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

void loop_init(struct loop *loop)
{
	*loop = (struct loop){
		.epoll_fd = -1,
		.listen_fd = -1,
		.signal_fd = -1,
		.timer_fd = -1,
		.wake_fd = -1,
		.listen.kind = WATCH_LISTENER,
		.signal.kind = WATCH_SIGNAL,
		.timer.kind = WATCH_TIMER,
		.wake.kind = WATCH_WAKE,
	};
}

void loop_deinit(struct loop *loop)
{
	int const fds[] = {
		loop->listen_fd, loop->epoll_fd, loop->signal_fd, loop->timer_fd, loop->wake_fd};
	for (size_t i = 0; i < UTIL_COUNT(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
}

int loop_watch(struct loop *loop, int fd, uint32_t events, struct watch *watch)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void loop_rewatch(struct loop *loop, int fd, uint32_t events, struct watch *watch)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

void loop_unwatch(struct loop *loop, int fd)
{
	(void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

void loop_deafen(struct loop *loop, bool deaf)
{
	if (loop->deaf == deaf || loop->listen_fd < 0)
		return;
	loop->deaf = deaf;
	loop_rewatch(loop, loop->listen_fd, deaf ? 0 : EPOLLIN, &loop->listen);
}

static int loop_watch_fault(int result, struct fault *fault)
{
	return fault_set(fault, result,
		"the event loop cannot watch a descriptor: %s; raise fs.epoll.max_user_watches",
		strerror(-result));
}

int loop_start(struct loop *loop, struct fault *fault)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct itimerspec second = {{1, 0}, {1, 0}};
	if (loop->epoll_fd < 0 || loop->signal_fd < 0 || loop->timer_fd < 0 || loop->wake_fd < 0 ||
		timerfd_settime(loop->timer_fd, 0, &second, NULL))
		return fault_set(fault, -errno,
			"cannot set up the event loop (epoll, signalfd, timerfd, eventfd): %s%s",
			strerror(errno), limits_hint(errno));
	int result = loop_watch(loop, loop->signal_fd, EPOLLIN, &loop->signal);
	if (!result)
		result = loop_watch(loop, loop->timer_fd, EPOLLIN, &loop->timer);
	if (!result)
		result = loop_watch(loop, loop->wake_fd, EPOLLIN, &loop->wake);
	return result ? loop_watch_fault(result, fault) : 0;
}

int loop_listen(struct loop *loop, const char *path, struct fault *fault)
{
	int result = conn_listen(path, &loop->listen_fd);
	if (result)
		return fault_set(fault, result,
			"cannot listen on %s: %s; choose another place with --socket or "
			"PENSTOCK_SOCKET",
			path, strerror(-result));
	/* Where the kernel cannot refuse descriptors, they are closed when they arrive. */
	(void)conn_refuse_fds(loop->listen_fd);
	result = loop_watch(loop, loop->listen_fd, EPOLLIN, &loop->listen);
	return result ? loop_watch_fault(result, fault) : 0;
}

void loop_stop_listening(struct loop *loop, const char *path)
{
	if (loop->listen_fd < 0)
		return;
	(void)unlink(path);
	(void)close(loop->listen_fd);
	loop->listen_fd = -1;
}

void loop_wake(void *context)
{
	const struct loop *loop = context;
	uint64_t one = 1;
	/* A full counter means that the loop is awake already. */
	ssize_t written = write(loop->wake_fd, &one, sizeof one);
	(void)written;
}

void loop_clear(int fd)
{
	uint64_t count;
	ssize_t n = read(fd, &count, sizeof count);
	(void)n;
}

int loop_start_task(struct loop *loop, struct task *task, const char *name,
	void (*run)(void *argument), void *argument)
{
	*task = (struct task){
		.name = name, .run = run, .argument = argument, .wake = loop_wake, .context = loop};
	return task_start(task);
}

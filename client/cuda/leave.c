/* leave: penstock_cuda_detach within a bound of time, for the end of a process.
 *
 * The driver has no wait with a time limit that covers all of a context's work, so a thread
 * detaches, and the caller waits for that thread. If the device does not finish, the thread stays
 * in the driver until the process ends.
 *
 * Thread: the application's. */
#include "client/cuda/attachment.h"
#include "client/cuda/sentence.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Shared by both threads; the last of them frees it. */
struct leave {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* CLOCK_MONOTONIC */
	struct penstock_cuda *cuda;
	bool done, abandoned;
};

static void leave_free(struct leave *leave)
{
	(void)pthread_cond_destroy(&leave->changed);
	(void)pthread_mutex_destroy(&leave->lock);
	free(leave);
}

static void *leave_run(void *argument)
{
	struct leave *leave = argument;
	(void)pthread_setname_np(pthread_self(), "penstock-leave");
	penstock_cuda_detach(leave->cuda);
	(void)pthread_mutex_lock(&leave->lock);
	leave->done = true;
	bool abandoned = leave->abandoned;
	(void)pthread_cond_signal(&leave->changed);
	(void)pthread_mutex_unlock(&leave->lock);
	if (abandoned)
		leave_free(leave);
	return NULL;
}

static int leave_begin(struct leave *leave)
{
	pthread_t thread;
	pthread_condattr_t clock;
	sigset_t all, before;
	(void)pthread_mutex_init(&leave->lock, NULL);
	(void)pthread_condattr_init(&clock);
	(void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&leave->changed, &clock);
	(void)pthread_condattr_destroy(&clock);
	/* The application's threads handle its signals. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, NULL, leave_run, leave);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		(void)pthread_detach(thread);
	return -error;
}

/* True if the thread has detached within the time. Otherwise the thread frees `leave`. */
static bool leave_await(struct leave *leave, int32_t timeout_ms)
{
	uint64_t end_ns = pump_now_ns() + (uint64_t)timeout_ms * 1000000U;
	const struct timespec end = {
		.tv_sec = (time_t)(end_ns / 1000000000U), .tv_nsec = (long)(end_ns % 1000000000U)};
	int error = 0;
	(void)pthread_mutex_lock(&leave->lock);
	while (!leave->done && error != ETIMEDOUT)
		error = pthread_cond_timedwait(&leave->changed, &leave->lock, &end);
	bool done = leave->done;
	leave->abandoned = !done;
	(void)pthread_mutex_unlock(&leave->lock);
	return done;
}

int penstock_cuda_detach_within(struct penstock_cuda *cuda, int32_t timeout_ms)
{
	if (timeout_ms < 0)
		return sentence_set(
			-EINVAL, "timeout_ms is %d: expected milliseconds, from 0", timeout_ms);
	/* A forked child has nothing to wait for. */
	if (!cuda || cuda->owner != getpid()) {
		penstock_cuda_detach(cuda);
		return 0;
	}
	struct leave *leave = calloc(1, sizeof *leave);
	if (!leave)
		return sentence_set(-ENOMEM, "not enough memory to detach");
	leave->cuda = cuda;
	int32_t device = cuda->device.ordinal;
	int result = leave_begin(leave);
	if (result < 0) {
		leave_free(leave);
		return sentence_set(
			result, "cannot start the thread that detaches: %s", strerror(-result));
	}
	if (leave_await(leave, timeout_ms)) {
		leave_free(leave);
		return 0;
	}
	return sentence_set(-ETIMEDOUT,
		"device %d has not finished with the attachment's memory within %.1f s: a CUDA "
		"stream is blocked, as by a collective that waits for another rank. The attachment "
		"is left to the end of the process",
		device, timeout_ms / 1000.0);
}

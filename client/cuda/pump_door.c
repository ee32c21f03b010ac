/* pump_door: the functions of pump.h that the application's thread calls. Any thread may call
 * those that end the attachment or ask whether it has ended. */
#include "client/cuda/pump.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	PUMP_ASK_MS = 1, /* for penstock_stream_next to report why no batch comes */
	PUMP_HANDED_MS = 1000,
	PUMP_LOOK_MS = 100, /* for options.interrupt */
	PUMP_SENTENCE_BYTES = 640,
};

/* ---- the end ---- */

void pump_wake(struct pump *pump)
{
	const uint64_t one = 1;
	/* write fails only if the counter is full, and then the pump is awake. */
	ssize_t n = write(pump->wake_fd, &one, sizeof one);
	(void)n;
}

void pump_end(struct pump *pump, int code, uint64_t serial)
{
	struct buffer_table *buffers = pump->buffers;
	(void)pthread_mutex_lock(&buffers->lock);
	if (!pump->over || serial < pump->over_serial) {
		pump->over = code;
		pump->over_serial = serial;
		(void)snprintf(
			pump->over_sentence, sizeof pump->over_sentence, "%s", penstock_error());
	}
	(void)pthread_cond_broadcast(&buffers->changed);
	(void)pthread_mutex_unlock(&buffers->lock);
	pump_wake(pump);
}

/* Under the buffers' lock: sets the sentence. */
static int pump_say_over(const struct pump *pump)
{
	return pump->over < 0 ? sentence_set(pump->over, "%s", pump->over_sentence) : pump->over;
}

int pump_check(struct pump *pump)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	int result = pump->over && pump->over_serial == 0 ? pump_say_over(pump) : 0;
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	return result;
}

/* ---- time ---- */

uint64_t pump_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

uint64_t pump_starved_ns(struct pump *pump, uint64_t now_ns)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	uint64_t since_ns = pump->starved_since_ns, ns = pump->starved_ns;
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	return since_ns && now_ns > since_ns ? ns + (now_ns - since_ns) : ns;
}

/* ---- batches ---- */

/* Under the buffers' lock. 0; -EAGAIN; otherwise what penstock_cuda_next returns. */
static int pump_try(struct pump *pump, struct buffer **ret_buffer)
{
	struct buffer_table *buffers = pump->buffers;
	struct buffer *buffer = buffer_oldest(buffers);
	if (buffer && (!pump->over || buffer->serial < pump->over_serial)) {
		buffer_move(buffer, BUFFER_GIVEN);
		*ret_buffer = buffer;
		return 0;
	}
	/* A batch that is let through was READY before the pump reported the end. */
	if (pump->over)
		return pump_say_over(pump);
	if (buffer_count(buffers, BUFFER_GIVEN) == buffers->count)
		return sentence_set(-EDEADLK,
			"this trainer holds all %u batches that have room on the device and asks "
			"for another: release one first, or raise prefetch",
			buffers->count);
	return -EAGAIN;
}

static struct timespec pump_deadline(int32_t ms)
{
	struct timespec at;
	(void)clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += ms / 1000;
	at.tv_nsec += (long)(ms % 1000) * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	return at;
}

/* Waits under the buffers' lock. 0, -EAGAIN the time is up, or as pump_try. */
static int pump_await_once(
	struct pump *pump, const struct timespec *deadline, struct buffer **ret_buffer)
{
	struct buffer_table *buffers = pump->buffers;
	(void)pthread_mutex_lock(&buffers->lock);
	int result = pump_try(pump, ret_buffer);
	while (result == -EAGAIN) {
		int error = deadline ? pthread_cond_timedwait(
					       &buffers->changed, &buffers->lock, deadline)
				     : pthread_cond_wait(&buffers->changed, &buffers->lock);
		result = pump_try(pump, ret_buffer);
		if (error == ETIMEDOUT)
			break;
	}
	(void)pthread_mutex_unlock(&buffers->lock);
	return result;
}

static bool pump_is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* The same in pieces, between which the application is asked whether to go on; -EINTR. */
static int pump_await(
	struct pump *pump, const struct timespec *deadline, struct buffer **ret_buffer)
{
	const struct penstock_cuda_options *options = pump->options;
	if (!options->interrupt)
		return pump_await_once(pump, deadline, ret_buffer);
	for (;;) {
		struct timespec look = pump_deadline(PUMP_LOOK_MS);
		bool last = deadline && pump_is_before(deadline, &look);
		int result = pump_await_once(pump, last ? deadline : &look, ret_buffer);
		if (result != -EAGAIN || last)
			return result;
		if (options->interrupt(options->interrupt_data) != 0)
			return sentence_set(-EINTR, "waiting for a batch was ended by "
						    "options.interrupt: the attachment goes on");
	}
}

static int pump_say_behind(const struct pump *pump, int32_t timeout_ms)
{
	return sentence_set(-ETIMEDOUT,
		"no batch within %.1f s: the daemon has given what there is room for, and device "
		"%d has not finished with earlier batches: the CUDA streams that they were used in "
		"and released with are behind",
		timeout_ms / 1000.0, pump->device->ordinal);
}

/* penstock_stream_next reports its own timeout, and then what the daemon waits for. */
static int pump_say_slow(int32_t timeout_ms)
{
	char why[PUMP_SENTENCE_BYTES];
	const char *text = penstock_error();
	const char *colon = strstr(text, ": ");
	(void)snprintf(why, sizeof why, "%s", colon ? colon + 2 : text);
	return sentence_set(-ETIMEDOUT, "no batch within %.1f s: %s", timeout_ms / 1000.0, why);
}

/* The time is up. 0: a batch has come meanwhile, and the pump gets it. This thread asks the
 * stream and, through penstock_options.interrupt, the application. */
static int pump_explain(struct pump *pump, int32_t timeout_ms)
{
	int result = tap_ask(&pump->tap, PUMP_ASK_MS);
	if (result == TAP_E_FULL)
		return pump_say_behind(pump, timeout_ms);
	if (result == -ETIMEDOUT)
		return pump_say_slow(timeout_ms);
	if (result == -EINTR)
		return sentence_set(-EINTR, "%s", penstock_error());
	/* The pump will find the same, in its order. */
	pump_wake(pump);
	return 0;
}

int pump_next(struct pump *pump, int32_t timeout_ms, struct buffer **ret_buffer)
{
	if (timeout_ms == PENSTOCK_FOREVER)
		return pump_await(pump, NULL, ret_buffer);
	struct timespec deadline = pump_deadline(timeout_ms);
	int result = pump_await(pump, &deadline, ret_buffer);
	if (result != -EAGAIN)
		return result;
	if (timeout_ms == 0)
		return sentence_set(-EAGAIN, "no batch is ready");
	result = pump_explain(pump, timeout_ms);
	if (result < 0)
		return result;
	deadline = pump_deadline(PUMP_HANDED_MS);
	result = pump_await(pump, &deadline, ret_buffer);
	return result == -EAGAIN ? pump_say_behind(pump, timeout_ms) : result;
}

void pump_release(struct pump *pump, struct buffer *buffer, bool recorded)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	buffer->awaited = recorded;
	pump->unsettled = pump->unsettled || !recorded;
	buffer_move(buffer, BUFFER_FREE);
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	pump_wake(pump);
}

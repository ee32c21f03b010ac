/* pump: the thread of the pump, and how it begins and ends; see pump.h. pump_door.c has what other
 * threads call meanwhile. */
#include "client/cuda/pump.h"

#include "client/cuda/mix.h"
#include "proto/philox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
	PUMP_PAUSE_LEAST_US = 100,
	PUMP_PAUSE_MOST_US = 3200,
};

/* ---- orders ---- */

struct pump_orders {
	bool stop, over, lost;
};

static struct pump_orders pump_read_orders(struct pump *pump)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	struct pump_orders orders = {.stop = pump->stop,
		.over = pump->over != 0,
		.lost = pump->over && pump->over_serial == 0};
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	return orders;
}

/* ---- copies ---- */

/* Withdraws a batch that was overwritten during its copy, and all batches after it. */
static void pump_give_back(struct pump *pump, struct buffer *buffer)
{
	if (!buffer->holds_slot)
		return;
	int result = tap_give_back(&pump->tap, &buffer->slot);
	buffer->holds_slot = false;
	if (result == -ECANCELED || result == -EPROTO)
		pump_end(pump, result, buffer->serial);
	else if (result < 0)
		pump_end(pump, result, pump->serial + 1);
}

static void pump_push(struct pump *pump, struct buffer *buffer)
{
	uint32_t place = (pump->flight_first + pump->flight_count) % pump->buffers->count;
	pump->flight[place] = (uint32_t)(buffer - pump->buffers->buffer);
	pump->flight_count++;
	buffer->copying = true;
}

static void pump_pop(struct pump *pump)
{
	struct buffer *buffer = &pump->buffers->buffer[pump->flight[pump->flight_first]];
	pump->flight_first = (pump->flight_first + 1) % pump->buffers->count;
	pump->flight_count--;
	pump_give_back(pump, buffer);
	memory_done(pump->memory, buffer->extent);
	buffer->extent = MEMORY_NO_EXTENT;
	buffer->copying = false;
}

static void pump_fail(struct pump *pump, CUresult r, const char *call)
{
	pump_end(pump, driver_fail(pump->device->driver, r, NULL, "%s", call), 0);
}

/* Returns the slots of finished copies. True if there was one. */
static bool pump_collect(struct pump *pump)
{
	bool moved = false;
	while (pump->flight_count > 0) {
		struct buffer *buffer = &pump->buffers->buffer[pump->flight[pump->flight_first]];
		CUresult r = pump->device->driver->event_query(buffer->ready);
		if (r == CUDA_ERROR_NOT_READY)
			break;
		if (r != CUDA_SUCCESS) {
			pump_fail(pump, r, "copying a batch to the device");
			break;
		}
		pump_pop(pump);
		moved = true;
	}
	return moved;
}

/* The device has failed: waits only for what it may still do. */
static void pump_abandon(struct pump *pump)
{
	if (pump->flight_count > 0)
		(void)pump->device->driver->stream_synchronize(pump->queue);
	while (pump->flight_count > 0)
		pump_pop(pump);
}

static int pump_copy_images(struct pump *pump, struct buffer *buffer, const struct tap_batch *taken)
{
	const struct memory_source source = {.images = taken->batch.images,
		.bytes = taken->batch.count * pump->buffers->geometry.image_bytes,
		.base = taken->base,
		.extent_bytes = taken->extent_bytes,
		.extent = taken->batch.extent};
	return memory_copy(pump->memory, &source, buffer->images, pump->queue, &buffer->extent);
}

static int pump_copy_rows(struct pump *pump, struct buffer *buffer)
{
	const struct driver *driver = pump->device->driver;
	buffer_take_rows(buffer, &buffer->slot);
	mix_plan(pump->options, philox_salted(pump->info.seed, pump->info.salt), buffer->epoch,
		buffer->host_samples, buffer->count, pump->info.height, pump->info.width,
		buffer->host_rows);
	CUresult r = buffer_send_rows(pump->buffers, buffer, pump->queue);
	if (r != CUDA_SUCCESS)
		return driver_fail(driver, r, NULL, "cuMemcpyHtoDAsync of labels");
	r = driver->event_record(buffer->ready, pump->queue);
	return r == CUDA_SUCCESS ? 0 : driver_fail(driver, r, NULL, "cuEventRecord");
}

static int pump_await_release(struct pump *pump, bool awaited, struct buffer *buffer)
{
	if (!awaited)
		return 0;
	CUresult r = pump->device->driver->stream_wait_event(pump->queue, buffer->released, 0);
	return r == CUDA_SUCCESS ? 0
				 : driver_fail(pump->device->driver, r, NULL, "cuStreamWaitEvent");
}

/* ---- buffers ---- */

/* Whether a buffer may be filled; `ret_used`: whether the device may still use it. On false,
 * `ret_used` is unchanged. */
static bool pump_is_free(struct pump *pump, struct buffer *buffer, bool *ret_used)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	/* One that was freed because it could not be recorded when the device is done with it is
	 * not free: the attachment is over. */
	bool free_now = buffer->state == BUFFER_FREE && !pump->over;
	bool awaited = buffer->awaited;
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	if (!free_now || buffer->copying)
		return false;
	if (awaited) {
		CUresult r = pump->device->driver->event_query(buffer->released);
		awaited = r != CUDA_SUCCESS;
		if (awaited && r != CUDA_ERROR_NOT_READY)
			pump_fail(pump, r, "what the device did with a batch");
	}
	*ret_used = awaited;
	return true;
}

/* A buffer for the next batch: an idle one, else the one that was filled first, whose copy then
 * waits on the device. NULL: none at present. */
static struct buffer *pump_find_room(struct pump *pump, bool *ret_used)
{
	struct buffer *first = NULL;
	for (uint32_t i = 0; i < pump->buffers->count; i++) {
		struct buffer *buffer = &pump->buffers->buffer[i];
		bool used;
		if (!pump_is_free(pump, buffer, &used))
			continue;
		if (!used) {
			*ret_used = false;
			return buffer;
		}
		if (!first || buffer->serial < first->serial)
			first = buffer;
	}
	pump->waiting_idle = first && memory_is_ring(pump->memory);
	if (pump->waiting_idle)
		return NULL;
	*ret_used = true;
	return first;
}

static void pump_claim(struct pump *pump, struct buffer *buffer, const struct tap_batch *taken)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	buffer_move(buffer, BUFFER_FILLING);
	buffer->awaited = false;
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	buffer->serial = ++pump->serial;
	buffer->slot = taken->batch;
	buffer->holds_slot = true;
	buffer->extent = MEMORY_NO_EXTENT;
	buffer->count = taken->batch.count;
	buffer->flags = taken->batch.flags;
	buffer->epoch = taken->batch.epoch;
	buffer->batch = taken->batch.batch;
	memcpy(buffer->loop, taken->loop, sizeof buffer->loop);
}

static void pump_show(struct pump *pump, struct buffer *buffer, size_t bytes)
{
	(void)pthread_mutex_lock(&pump->buffers->lock);
	buffer_move(buffer, BUFFER_READY);
	pump->copied_bytes += bytes;
	(void)pthread_cond_broadcast(&pump->buffers->changed);
	(void)pthread_mutex_unlock(&pump->buffers->lock);
}

/* The batch's copy is enqueued, so the batch can be delivered; the events make sure that it
 * arrives. */
static void pump_fill(
	struct pump *pump, struct buffer *buffer, bool used, const struct tap_batch *taken)
{
	pump_claim(pump, buffer, taken);
	pump_push(pump, buffer);
	int result = pump_await_release(pump, used, buffer);
	if (result == 0)
		result = pump_copy_images(pump, buffer, taken);
	if (result == 0)
		result = pump_copy_rows(pump, buffer);
	if (result < 0) {
		pump_end(pump, result, 0);
		return;
	}
	if (buffer->extent == MEMORY_NO_EXTENT)
		pump_give_back(pump, buffer);
	pump_show(pump, buffer,
		taken->batch.count * pump->buffers->geometry.image_bytes +
			buffer_sent_bytes(pump->buffers));
}

/* Sends one batch from the stream to the device. True if there was a batch, or the stream's end. */
static bool pump_feed(struct pump *pump)
{
	struct tap_batch taken;
	bool used;
	pump->listening = false;
	struct buffer *buffer = pump_find_room(pump, &used);
	if (!buffer)
		return false;
	int result = tap_take(&pump->tap, &taken);
	pump->listening = result == -EAGAIN;
	if (result == -EAGAIN || result == TAP_E_FULL)
		return false;
	if (result == 0)
		pump_fill(pump, buffer, used, &taken);
	else
		pump_end(pump, result, pump->serial + 1);
	return true;
}

/* Begins or ends the time in which the pump waits for the daemon. */
static void pump_note_starving(struct pump *pump)
{
	/* Only this thread changes it, so it may read it without the lock. */
	if (pump->listening == (pump->starved_since_ns != 0))
		return;
	uint64_t now_ns = pump_now_ns();
	(void)pthread_mutex_lock(&pump->buffers->lock);
	if (!pump->listening)
		pump->starved_ns += now_ns - pump->starved_since_ns;
	pump->starved_since_ns = pump->listening ? now_ns : 0;
	(void)pthread_mutex_unlock(&pump->buffers->lock);
}

/* ---- the thread ---- */

/* The pause before the next query: it grows while nothing has changed, so the pump notices the
 * end of a copy within a fraction of the copy's time, and does not query a copy that waits for a
 * training step ten thousand times a second. NULL: nothing to query. */
static const struct timespec *pump_pause(struct pump *pump, struct timespec *pause)
{
	if (pump->flight_count == 0 && !pump->waiting_idle)
		return NULL;
	*pause = (struct timespec){.tv_nsec = (long)pump->pause_us * 1000};
	if (pump->pause_us < PUMP_PAUSE_MOST_US)
		pump->pause_us *= 2;
	return pause;
}

static void pump_wait(struct pump *pump)
{
	uint64_t counter;
	struct timespec pause;
	struct pollfd fds[] = {{.fd = pump->wake_fd, .events = POLLIN},
		{.fd = pump->listening ? pump->stream_fd : -1, .events = POLLIN}};
	(void)ppoll(fds, sizeof fds / sizeof *fds, pump_pause(pump, &pause), NULL);
	ssize_t n = read(pump->wake_fd, &counter, sizeof counter);
	(void)n; /* EAGAIN: something else woke the thread */
}

static void pump_turn(struct pump *pump, struct pump_orders orders)
{
	bool moved = false;
	if (orders.lost)
		pump_abandon(pump);
	else
		moved = pump_collect(pump);
	if (orders.over)
		pump->listening = pump->waiting_idle = false;
	else
		moved = pump_feed(pump) || moved;
	pump_note_starving(pump);
	if (moved)
		pump->pause_us = PUMP_PAUSE_LEAST_US;
	else
		pump_wait(pump);
}

static void *pump_run(void *argument)
{
	struct pump *pump = argument;
	(void)pthread_setname_np(pthread_self(), "penstock-cuda");
	CUstreamCaptureMode mode;
	int result = device_enter(pump->device, &mode);
	if (result < 0) {
		pump_end(pump, result, 0);
		return NULL;
	}
	for (struct pump_orders orders = pump_read_orders(pump); !orders.stop;
		orders = pump_read_orders(pump))
		pump_turn(pump, orders);
	device_leave(pump->device, mode);
	return NULL;
}

/* The application's threads handle signals, except those that this thread could raise itself: if
 * they were blocked, the kernel would end the process without the application's handlers. */
static int pump_start(struct pump *pump)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
	sigset_t all, before;
	(void)sigfillset(&all);
	for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++)
		(void)sigdelset(&all, own[i]);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&pump->thread, NULL, pump_run, pump);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		return sentence_set(-error, "cannot start the copying thread: %s (see `ulimit -u`)",
			strerror(error));
	pump->running = true;
	return 0;
}

/* ---- life: the thread that attaches and detaches ---- */

static int pump_make(struct pump *pump)
{
	pump->flight = calloc(pump->buffers->count, sizeof *pump->flight);
	if (!pump->flight)
		return sentence_set(-ENOMEM, "not enough memory for the order of the copies");
	pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (pump->wake_fd < 0)
		return sentence_set(-errno,
			"no descriptor for waking the copying thread: %s (`ulimit -n` raises the "
			"limit)",
			strerror(errno));
	CUresult r = pump->device->driver->stream_create(&pump->queue, CU_STREAM_NON_BLOCKING);
	if (r == CUDA_SUCCESS)
		return 0;
	pump->queue = NULL;
	return driver_fail(pump->device->driver, r, NULL, "cuStreamCreate");
}

int pump_init(struct pump *pump, const struct device *device,
	const struct penstock_cuda_options *options, struct memory *memory,
	struct buffer_table *buffers, struct penstock_stream *stream)
{
	*pump = (struct pump){.device = device,
		.options = options,
		.memory = memory,
		.buffers = buffers,
		.stream_fd = penstock_stream_fd(stream),
		.wake_fd = -1,
		/* Until the thread has asked for the first time, only the daemon can have
		 * nothing. */
		.starved_since_ns = pump_now_ns(),
		.pause_us = PUMP_PAUSE_LEAST_US};
	penstock_stream_info(stream, &pump->info);
	tap_init(&pump->tap, stream, &pump->info);
	int result = pump_make(pump);
	return result < 0 ? result : pump_start(pump);
}

static void pump_stop(struct pump *pump)
{
	if (!pump->running)
		return;
	(void)pthread_mutex_lock(&pump->buffers->lock);
	pump->stop = true;
	(void)pthread_mutex_unlock(&pump->buffers->lock);
	pump_wake(pump);
	(void)pthread_join(pump->thread, NULL);
	pump->running = false;
}

/* Waits until the device has finished with the buffers: for their events; or for all of its
 * work, if the events do not tell enough because the application still holds buffers or a call
 * failed. */
static void pump_settle(struct pump *pump)
{
	const struct driver *driver = pump->device->driver;
	bool settled = driver->stream_synchronize(pump->queue) == CUDA_SUCCESS &&
		       !pump->unsettled && buffer_count(pump->buffers, BUFFER_GIVEN) == 0 &&
		       buffer_count(pump->buffers, BUFFER_FILLING) == 0;
	for (uint32_t i = 0; i < pump->buffers->count && settled; i++) {
		const struct buffer *buffer = &pump->buffers->buffer[i];
		if (buffer->awaited)
			settled = driver->event_synchronize(buffer->released) == CUDA_SUCCESS;
	}
	if (!settled)
		(void)driver->ctx_synchronize();
}

void pump_deinit(struct pump *pump)
{
	if (!pump->device)
		return;
	pump_stop(pump);
	if (pump->queue)
		pump_settle(pump);
	while (pump->flight_count > 0)
		pump_pop(pump);
	tap_deinit(&pump->tap);
	if (pump->queue)
		(void)pump->device->driver->stream_destroy(pump->queue);
	pump_forget(pump);
	*pump = (struct pump){0};
}

void pump_forget(struct pump *pump)
{
	if (pump->wake_fd >= 0)
		(void)close(pump->wake_fd);
	free(pump->flight);
}

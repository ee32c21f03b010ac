/* The fake's streams and events: see fake_driver.c.
 *
 * A lane is a thread that does its work in order; a stream has one for its lifetime. Later streams
 * reuse lanes, and the numbers continue. The dependencies of work on other lanes (events, the
 * default stream's rule) are fixed when it is queued, as in CUDA: recording an event again later
 * changes nothing for work that already waits.
 *
 * The default stream: its work waits for all work queued in the context's blocking streams, and
 * they wait for its work (CUDA Driver API, "Stream synchronization behavior"). */
#include "cuda/fake_parts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Parameters have penstock's names, not those of cuda.h.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

struct lane {
	bool running;
	pthread_t thread;
	struct CUstream_st *stream; /* the owner */
	uint64_t queued, done; /* numbers of work */
	struct clock clock; /* the work that precedes the next queued work */
	struct work *work; /* ring of `room` */
	size_t first, count, room;
	pthread_cond_t wake;
};

static struct {
	struct lane lane[FAKE_LANES];
	struct clock host; /* the work that the host knows to be done */
	struct CUstream_st *streams;
	struct CUevent_st *events;
	unsigned hold, delay_us;
	bool ending;
	pthread_cond_t moved; /* a lane has done something, or the device is lost */
} fake = {.moved = PTHREAD_COND_INITIALIZER};

static void clock_join(struct clock *clock, const struct clock *other)
{
	for (int i = 0; i < FAKE_LANES; i++)
		if (other->at[i] > clock->at[i])
			clock->at[i] = other->at[i];
}

/* ---- lanes ---- */

static bool work_is_held(const struct work *work)
{
	return (work->kind == WORK_COPY && fake.hold & FAKE_CUDA_COPIES) ||
	       (work->kind == WORK_KERNEL && fake.hold & FAKE_CUDA_KERNELS);
}

static bool work_may_begin(const struct work *work)
{
	if (fake_lost() != CUDA_SUCCESS || work_is_held(work))
		return false;
	for (int i = 0; i < FAKE_LANES; i++)
		if (work->need.at[i] > fake.lane[i].done)
			return false;
	return true;
}

static uint64_t now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_us(unsigned microseconds)
{
	struct timespec length = {microseconds / 1000000, microseconds % 1000000 * 1000};
	(void)nanosleep(&length, NULL);
}

static void work_copy(const struct work *work, unsigned delay_us)
{
	if (delay_us)
		sleep_us(delay_us);
	bool mapped = memory_is_mapped(work->from, work->bytes) &&
		      memory_is_mapped(work->to, work->bytes);
	(void)pthread_mutex_lock(&fake_lock);
	/* A device that was lost meanwhile reads and writes nothing, and its memory may be gone. */
	bool lost = fake_lost() != CUDA_SUCCESS;
	if (!mapped && !lost)
		fake_fault("memory was unmapped before its copy was done");
	(void)pthread_mutex_unlock(&fake_lock);
	if (!mapped || lost)
		return;
	memcpy(work->to, work->from, work->bytes);
}

static void work_do(struct work *work, unsigned delay_us)
{
	if (work->kind == WORK_COPY)
		work_copy(work, delay_us);
	else if (work->kind == WORK_KERNEL)
		kernel_run(&work->launch);
	else if (work->kind == WORK_HOST)
		work->call(work->argument);
	free(work->staged);
	work->staged = NULL;
}

static void work_mark(const struct work *work)
{
	if (work->kind != WORK_MARK || !work->event)
		return;
	work->event->done_seq = work->seq;
	work->event->done_ns = now_ns();
}

static void *lane_run(void *argument)
{
	struct lane *lane = argument;
	(void)pthread_mutex_lock(&fake_lock);
	while (!fake.ending) {
		if (!lane->count || !work_may_begin(&lane->work[lane->first])) {
			(void)pthread_cond_wait(&lane->wake, &fake_lock);
			continue;
		}
		struct work work = lane->work[lane->first];
		unsigned delay_us = fake.delay_us;
		lane->first = (lane->first + 1) % lane->room;
		lane->count--;
		(void)pthread_mutex_unlock(&fake_lock);
		work_do(&work, delay_us);
		(void)pthread_mutex_lock(&fake_lock);
		work_mark(&work);
		lane->done = work.seq;
		stream_wake();
	}
	for (size_t i = 0; i < lane->count; i++)
		free(lane->work[(lane->first + i) % lane->room].staged);
	free(lane->work);
	lane->work = NULL;
	lane->count = 0;
	(void)pthread_mutex_unlock(&fake_lock);
	return NULL;
}

void stream_wake(void)
{
	for (int i = 0; i < FAKE_LANES; i++)
		if (fake.lane[i].running)
			(void)pthread_cond_signal(&fake.lane[i].wake);
	(void)pthread_cond_broadcast(&fake.moved);
}

/* The application's own threads handle signals. */
static void lane_start(struct lane *lane)
{
	sigset_t all, before;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &before);
	(void)pthread_cond_init(&lane->wake, NULL);
	if (pthread_create(&lane->thread, NULL, lane_run, lane) != 0)
		abort();
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	lane->running = true;
}

static unsigned lane_take(struct CUstream_st *stream)
{
	for (unsigned i = 0; i < FAKE_LANES; i++) {
		struct lane *lane = &fake.lane[i];
		if (lane->stream || lane->done != lane->queued)
			continue;
		if (!lane->running)
			lane_start(lane);
		lane->stream = stream;
		return i;
	}
	(void)fprintf(stderr, "fake CUDA: more than %d streams\n", FAKE_LANES);
	abort();
}

static void lane_grow(struct lane *lane)
{
	size_t room = lane->room ? 2 * lane->room : 64;
	struct work *work = fake_room(room * sizeof *work);
	for (size_t i = 0; i < lane->count; i++)
		work[i] = lane->work[(lane->first + i) % lane->room];
	free(lane->work);
	lane->work = work;
	lane->first = 0;
	lane->room = room;
}

/* ---- streams ---- */

static struct CUstream_st *stream_new(struct CUctx_st *context, bool blocking, bool legacy)
{
	struct CUstream_st *stream = fake_room(sizeof *stream);
	stream->context = context;
	stream->blocking = blocking;
	stream->legacy = legacy;
	stream->alive = true;
	stream->lane = lane_take(stream);
	stream->next = fake.streams;
	fake.streams = stream;
	return stream;
}

struct CUstream_st *stream_find(CUstream handle)
{
	struct CUctx_st *context = fake_current();
	if (handle == NULL || handle == CU_STREAM_LEGACY) {
		if (!context->legacy)
			context->legacy = stream_new(context, false, true);
		return context->legacy;
	}
	for (struct CUstream_st *stream = fake.streams; stream; stream = stream->next) {
		if (stream != handle)
			continue;
		if (!stream->alive)
			fake_fault("a stream was used after it was destroyed");
		return stream->alive && stream->context == context ? stream : NULL;
	}
	return NULL;
}

/* The work of other lanes that precedes the next work in it, by the default stream's rule. */
static void stream_meet_default(struct CUstream_st *stream)
{
	struct lane *lane = &fake.lane[stream->lane];
	for (struct CUstream_st *other = fake.streams; other; other = other->next) {
		bool meets = other->context == stream->context &&
			     fake.lane[other->lane].stream == other &&
			     ((stream->legacy && other->blocking) ||
				     (stream->blocking && other->legacy));
		if (meets)
			clock_join(&lane->clock, &fake.lane[other->lane].clock);
	}
}

const struct clock *stream_clock(struct CUstream_st *stream)
{
	struct lane *lane = &fake.lane[stream->lane];
	clock_join(&lane->clock, &fake.host);
	stream_meet_default(stream);
	return &lane->clock;
}

uint64_t stream_last(const struct CUstream_st *stream)
{
	return fake.lane[stream->lane].queued;
}

uint64_t stream_next(const struct CUstream_st *stream)
{
	return fake.lane[stream->lane].queued + 1;
}

uint64_t stream_push(struct CUstream_st *stream, struct work *work)
{
	struct lane *lane = &fake.lane[stream->lane];
	if (stream->capturing)
		fake_fault("work was queued in a stream that is being captured");
	work->need = *stream_clock(stream);
	work->seq = ++lane->queued;
	work->need.at[stream->lane] = 0; /* the lane's own order ensures it */
	lane->clock.at[stream->lane] = work->seq;
	if (lane->count == lane->room)
		lane_grow(lane);
	lane->work[(lane->first + lane->count++) % lane->room] = *work;
	(void)pthread_cond_signal(&lane->wake);
	return work->seq;
}

bool stream_done(unsigned lane, uint64_t seq)
{
	return fake.lane[lane].done >= seq;
}

CUresult stream_await(unsigned lane, uint64_t seq)
{
	while (fake_lost() == CUDA_SUCCESS && !stream_done(lane, seq))
		(void)pthread_cond_wait(&fake.moved, &fake_lock);
	return fake_lost();
}

FAKE_EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *ret_stream, unsigned int flags)
{
	FAKE_ENTER(CALL_stream_create, true);
	if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_stream = stream_new(fake_current(), !(flags & CU_STREAM_NON_BLOCKING), false);
	return CUDA_SUCCESS;
}

/* The lane still does its queued work; after that it is reused. */
static void stream_drop(struct CUstream_st *stream)
{
	stream->alive = false;
	fake.lane[stream->lane].stream = NULL;
}

FAKE_EXPORT CUresult CUDAAPI cuStreamDestroy_v2(CUstream handle)
{
	FAKE_ENTER_RELEASE(CALL_stream_destroy, true);
	struct CUstream_st *stream = handle && fake_current() ? stream_find(handle) : NULL;
	if (!stream) {
		fake_fault("a stream was destroyed that does not exist in the current context");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	stream_drop(stream);
	return result;
}

FAKE_EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream handle)
{
	FAKE_ENTER(CALL_stream_synchronize, true);
	struct CUstream_st *stream = stream_find(handle);
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	struct clock clock = *stream_clock(stream);
	result = stream_await(stream->lane, stream_last(stream));
	if (result == CUDA_SUCCESS)
		clock_join(&fake.host, &clock);
	return result;
}

FAKE_EXPORT CUresult CUDAAPI cuCtxSynchronize(void)
{
	FAKE_ENTER(CALL_ctx_synchronize, true);
	const struct CUctx_st *context = fake_current();
	uint64_t last[FAKE_LANES] = {0};
	struct clock clock = {{0}};
	for (struct CUstream_st *stream = fake.streams; stream; stream = stream->next) {
		if (stream->context != context || fake.lane[stream->lane].stream != stream)
			continue;
		last[stream->lane] = stream_last(stream);
		clock_join(&clock, stream_clock(stream));
	}
	for (unsigned i = 0; i < FAKE_LANES && result == CUDA_SUCCESS; i++)
		result = stream_await(i, last[i]);
	if (result == CUDA_SUCCESS)
		clock_join(&fake.host, &clock);
	return result;
}

static struct CUevent_st *event_find(CUevent handle)
{
	for (struct CUevent_st *event = fake.events; event; event = event->next) {
		if (event != handle)
			continue;
		if (!event->alive)
			fake_fault("an event was used after it was destroyed");
		return event->alive ? event : NULL;
	}
	return NULL;
}

/* A dependency must not cross the border of a capture; one into the capture would make the
 * stream join it. */
static CUresult stream_wait_captured(
	const struct CUstream_st *stream, const struct CUevent_st *event)
{
	if (stream->capturing)
		return event->captured ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	fake_fault("a stream joined the capture of another");
	return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

/* The default stream waits for the blocking ones, which a graph cannot hold. */
static bool stream_is_implied(const struct CUstream_st *stream)
{
	for (const struct CUstream_st *other = fake.streams; other; other = other->next)
		if (stream->legacy && other->alive && other->blocking && other->capturing &&
			other->context == stream->context)
			return true;
	return false;
}

/* A query may also concern streams of other contexts. */
FAKE_EXPORT CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *ret_status)
{
	FAKE_ENTER(CALL_stream_is_capturing, true);
	const struct CUstream_st *stream = stream_find(handle);
	if (stream && stream_is_implied(stream))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	*ret_status = stream && stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
						  : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* The event may be one of another context, also of another device. */
FAKE_EXPORT CUresult CUDAAPI cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
	FAKE_ENTER(CALL_stream_wait_event, true);
	struct CUstream_st *stream = stream_find(handle);
	event = event_find(event);
	if (!stream || !event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capturing || event->captured)
		return stream_wait_captured(stream, event);
	if (event->recorded) {
		struct work work = {.kind = WORK_MARK};
		clock_join(&fake.lane[stream->lane].clock, &event->clock);
		(void)stream_push(stream, &work);
	}
	return CUDA_SUCCESS;
}

/* This library does not use it; tests block a stream with it. */
FAKE_EXPORT CUresult CUDAAPI cuLaunchHostFunc(CUstream handle, CUhostFn function, void *argument)
{
	struct work work = {.kind = WORK_HOST, .call = function, .argument = argument};
	FAKE_LOCKED;
	struct CUstream_st *stream = fake_current() ? stream_find(handle) : NULL;
	if (fake_lost() != CUDA_SUCCESS)
		return fake_lost();
	return stream && stream_push(stream, &work) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* ---- events ---- */

FAKE_EXPORT CUresult CUDAAPI cuEventCreate(CUevent *ret_event, unsigned int flags)
{
	FAKE_ENTER(CALL_event_create, true);
	if (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	struct CUevent_st *event = fake_room(sizeof *event);
	event->context = fake_current();
	event->alive = true;
	event->timed = !(flags & CU_EVENT_DISABLE_TIMING);
	event->next = fake.events;
	fake.events = *ret_event = event;
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuEventDestroy_v2(CUevent handle)
{
	FAKE_ENTER_RELEASE(CALL_event_destroy, true);
	struct CUevent_st *event = event_find(handle);
	if (!event) {
		fake_fault("an event was destroyed that does not exist");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	event->alive = false;
	return result;
}

FAKE_EXPORT CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream stream_handle)
{
	FAKE_ENTER(CALL_event_record, true);
	struct CUstream_st *stream = stream_find(stream_handle);
	struct CUevent_st *event = event_find(handle);
	if (!stream || !event || event->context != stream->context)
		return CUDA_ERROR_INVALID_HANDLE;
	event->captured = stream->capturing;
	if (event->captured)
		return CUDA_SUCCESS;
	struct work work = {.kind = WORK_MARK, .event = event};
	event->recorded = true;
	event->done_seq = 0;
	event->lane = stream->lane;
	event->seq = stream_push(stream, &work);
	event->clock = fake.lane[stream->lane].clock;
	return CUDA_SUCCESS;
}

/* The state of an event in a graph is unknown, and a query is an error in threads of every mode. */
static bool event_spoils_capture(const struct CUevent_st *event)
{
	if (event->captured)
		fake_fault("an event was queried that was recorded in a capture");
	return event->captured;
}

FAKE_EXPORT CUresult CUDAAPI cuEventQuery(CUevent handle)
{
	FAKE_ENTER(CALL_event_query, true);
	struct CUevent_st *event = event_find(handle);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event_spoils_capture(event))
		return CUDA_ERROR_CAPTURED_EVENT;
	if (event->recorded && !stream_done(event->lane, event->seq))
		return CUDA_ERROR_NOT_READY;
	clock_join(&fake.host, &event->clock);
	return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult CUDAAPI cuEventSynchronize(CUevent handle)
{
	FAKE_ENTER(CALL_event_synchronize, true);
	struct CUevent_st *event = event_find(handle);
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event_spoils_capture(event))
		return CUDA_ERROR_CAPTURED_EVENT;
	struct clock clock = event->clock;
	if (event->recorded)
		result = stream_await(event->lane, event->seq);
	if (result == CUDA_SUCCESS)
		clock_join(&fake.host, &clock);
	return result;
}

static CUresult event_elapsed(
	float *ret_milliseconds, const struct CUevent_st *from, const struct CUevent_st *to)
{
	if (!from->timed || !to->timed || !from->recorded || !to->recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	if (from->done_seq != from->seq || to->done_seq != to->seq)
		return CUDA_ERROR_NOT_READY;
	*ret_milliseconds = (float)((double)(int64_t)(to->done_ns - from->done_ns) / 1e6);
	return CUDA_SUCCESS;
}

/* Both versions: they differ in how they treat events that another stream records meanwhile. */
#undef cuEventElapsedTime
FAKE_EXPORT CUresult CUDAAPI cuEventElapsedTime(
	float *ret_milliseconds, CUevent from_handle, CUevent to_handle);
CUresult CUDAAPI cuEventElapsedTime(float *ret_milliseconds, CUevent from_handle, CUevent to_handle)
{
	FAKE_ENTER(CALL_event_elapsed_time, true);
	struct CUevent_st *from = event_find(from_handle), *to = event_find(to_handle);
	if (!from || !to || from->context != to->context)
		return CUDA_ERROR_INVALID_HANDLE;
	return event_elapsed(ret_milliseconds, from, to);
}

/* ---- all of them ---- */

void stream_hold(unsigned kinds)
{
	fake.hold = kinds;
	stream_wake();
}

void stream_delay(unsigned microseconds)
{
	fake.delay_us = microseconds;
}

void stream_capture(struct CUstream_st *stream, bool under_way)
{
	stream->capturing = under_way;
}

static unsigned leaks_of_streams(const struct CUctx_st *context, bool tell, bool forget)
{
	unsigned n = 0;
	for (struct CUstream_st *stream = fake.streams; stream; stream = stream->next) {
		if (!stream->alive || (context && stream->context != context))
			continue;
		n += !stream->legacy;
		if (tell && !stream->legacy)
			(void)fprintf(stderr, "fake CUDA: a stream was not destroyed\n");
		if (forget)
			stream_drop(stream);
	}
	return n;
}

static unsigned leaks_of_events(const struct CUctx_st *context, bool tell, bool forget)
{
	unsigned n = 0;
	for (struct CUevent_st *event = fake.events; event; event = event->next) {
		if (!event->alive || (context && event->context != context))
			continue;
		n++;
		if (forget)
			event->alive = false;
	}
	if (tell && n)
		(void)fprintf(stderr, "fake CUDA: events that were not destroyed: %u\n", n);
	return n;
}

unsigned stream_leaks(const struct CUctx_st *context, bool tell, bool forget)
{
	return leaks_of_streams(context, tell, forget) + leaks_of_events(context, tell, forget);
}

void stream_use(struct fake_cuda_use *use)
{
	use->streams = leaks_of_streams(NULL, false, false);
	use->events = leaks_of_events(NULL, false, false);
	use->idle = true;
	for (int i = 0; i < FAKE_LANES; i++)
		use->idle = use->idle && fake.lane[i].done == fake.lane[i].queued;
}

void stream_end(void)
{
	fake.ending = true;
	stream_wake();
	for (int i = 0; i < FAKE_LANES; i++) {
		if (!fake.lane[i].running)
			continue;
		(void)pthread_mutex_unlock(&fake_lock);
		(void)pthread_join(fake.lane[i].thread, NULL);
		(void)pthread_mutex_lock(&fake_lock);
	}
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* reconnect: see reconnect.h.
 *
 * The stream continues from its state: the new daemon begins with the batch after the last one that
 * the application was given, so batches that the old daemon had announced beyond that are given
 * again. Batches that the application still holds stay mapped (lease_lose).
 *
 * Only reconnect_wait waits, no longer than the application allows, and only there is the
 * application asked. Each step takes what has come, and leaves a stage from which the next step, or
 * the next call, continues. Meanwhile the stream's epoll watches what the stage waits for: a
 * socket, a starting daemon's pipe, a timer.
 *
 * The time limit counts while a daemon is looked for, and not while a daemon that was found builds
 * an index. A daemon that dies before it has given a batch does not reset it; otherwise two daemons
 * that die in turn would be tried for ever.
 *
 * Another user's or job's daemon may take the socket that a daemon has left. A daemon that does not
 * know the configuration's stream, or knows another stream by its name, is not the one that is
 * waited for, and does not end the stream.
 *
 * Thread: that of the stream. */
#include "client/lib/reconnect.h"

#include "client/lib/open.h"
#include "client/lib/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
	RECONNECT_E_ON = 1, /* outcome of a step: another may follow at once */
	RECONNECT_PAUSE_MS = 50,
	/* After a start that failed, since an ending daemon may still hold the instance's lock, and
	 * after a daemon that is not the one. */
	RECONNECT_AGAIN_MS = 300,
	RECONNECT_CONNECT_MS = 1,
	RECONNECT_START_MS = 30000,
	RECONNECT_LEAST_MS =
		1000, /* for a daemon that was reached to answer, even when time is up */
	RECONNECT_STATE = 512,
};

/* ---- life ---- */

static int64_t reconnect_limit_ns(const struct reconnect *r)
{
	return r->limit_ms == PENSTOCK_FOREVER ? CONNECTION_NEVER : (int64_t)r->limit_ms * 1000000;
}

void reconnect_init(struct reconnect *r)
{
	*r = (struct reconnect){.timer_fd = -1, .watched_fd = -1};
	private_init(&r->start, NULL, NULL, 0);
}

int reconnect_keep(struct reconnect *r, const struct penstock_options *options,
	const struct socket_path *place)
{
	r->limit_ms = options->reconnect_ms;
	r->left_ns = reconnect_limit_ns(r);
	r->named = open_is_named(options->source);
	/* A private daemon would have no configuration, and be in the way of the right one. */
	r->private_daemon = options->private_daemon && !r->named;
	r->threads = options->daemon_threads;
	r->restarts = options->restarts;
	r->place = *place;
	if (options->daemon_memory)
		r->memory = strdup(options->daemon_memory);
	return options->daemon_memory && !r->memory
		       ? error_set(-ENOMEM, "no memory for a stream's options")
		       : 0;
}

void reconnect_deinit(struct reconnect *r)
{
	if (r->timer_fd >= 0)
		(void)close(r->timer_fd);
	if (r->start.ready_fd >= 0)
		(void)close(r->start.ready_fd);
	free(r->memory);
	r->timer_fd = r->start.ready_fd = -1;
	r->memory = NULL;
}

/* ---- what the stream's epoll watches ---- */

static int reconnect_add(int poll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	return epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) < 0
		       ? error_set(-errno, "no descriptor for waiting on the stream: %s",
				 strerror(errno))
		       : 0;
}

/* Removed before it is closed: a forked child's copy would keep it in the epoll. */
static void reconnect_unwatch(struct penstock_stream *stream)
{
	if (stream->reconnect.watched_fd >= 0)
		(void)epoll_ctl(stream->poll_fd, EPOLL_CTL_DEL, stream->reconnect.watched_fd, NULL);
	stream->reconnect.watched_fd = -1;
}

static int reconnect_watch_fd(struct penstock_stream *stream, int fd)
{
	reconnect_unwatch(stream);
	int result = reconnect_add(stream->poll_fd, fd);
	if (result == 0)
		stream->reconnect.watched_fd = fd;
	return result;
}

int reconnect_watch(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	int result = reconnect_watch_fd(stream, stream->connection.fd);
	if (result < 0 || !r->limit_ms)
		return result;
	r->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r->timer_fd < 0)
		return error_set(-errno, "no timer for the stream: %s", strerror(errno));
	return reconnect_add(stream->poll_fd, r->timer_fd);
}

/* `ns` CONNECTION_NEVER: off. */
static void reconnect_set_timer(struct reconnect *r, int64_t ns)
{
	struct itimerspec timer = {0};
	if (ns != CONNECTION_NEVER) {
		timer.it_value.tv_sec = ns / 1000000000;
		timer.it_value.tv_nsec = ns % 1000000000;
	}
	(void)timerfd_settime(r->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

/* ---- from stage to stage ---- */

static void reconnect_enter(struct reconnect *r, enum reconnect_stage stage, int64_t next_ns)
{
	r->stage = stage;
	r->next_ns = next_ns;
	reconnect_set_timer(r, next_ns);
}

static void reconnect_drop(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	reconnect_unwatch(stream);
	connection_close(&stream->connection);
	stream->connection.daemon_pid = 0;
	private_unlock(&r->start);
	if (r->start.ready_fd >= 0)
		(void)close(r->start.ready_fd);
	r->start.ready_fd = -1;
}

/* Ends the stream, with this thread's sentence. */
static int reconnect_end(struct penstock_stream *stream, int code)
{
	reconnect_drop(stream);
	reconnect_enter(&stream->reconnect, RECONNECT_IDLE, CONNECTION_NEVER);
	stream->reconnect.limit_ms = 0;
	return stream_fail(stream, code);
}

/* Takes the time since the loss, or since the last count, from what is left. */
static void reconnect_spend(struct reconnect *r)
{
	int64_t now_ns = wait_deadline(0);
	if (r->left_ns != CONNECTION_NEVER)
		r->left_ns -= now_ns - r->lost_ns;
	r->lost_ns = now_ns;
}

static int64_t reconnect_deadline(const struct reconnect *r)
{
	return r->left_ns == CONNECTION_NEVER ? CONNECTION_NEVER : r->lost_ns + r->left_ns;
}

static int reconnect_give_up(struct penstock_stream *stream, const char *what)
{
	const struct reconnect *r = &stream->reconnect;
	error_set(stream->failed, "%s; within the %.1f s of options.reconnect_ms %s: %s",
		stream->sentence, r->limit_ms / 1000.0, what, r->reason);
	return reconnect_end(stream, stream->failed);
}

/* This try has failed, for the reason in this thread's sentence. The time limit is checked only
 * here: an application that calls too late still gets a try. */
static int reconnect_pause(struct penstock_stream *stream, int64_t pause_ms)
{
	struct reconnect *r = &stream->reconnect;
	(void)snprintf(r->reason, sizeof r->reason, "%s", error_text());
	if (r->stage == RECONNECT_OPENING)
		r->lost_ns = wait_deadline(0);
	reconnect_drop(stream);
	if (wait_deadline(0) < reconnect_deadline(r)) {
		reconnect_enter(r, RECONNECT_PAUSING, wait_deadline(pause_ms));
		return -EAGAIN;
	}
	return reconnect_give_up(stream,
		r->named ? "its own daemon did not return" : "no daemon could be reached again");
}

/* A daemon that does not listen yet, or any more, may come. One that refuses has come. */
static int reconnect_judge(struct penstock_stream *stream, int result)
{
	switch (result) {
	case CONNECTION_E_ABSENT:
	case -EPIPE:
	case -ECONNREFUSED:
	case -ESHUTDOWN:
	case -ETIMEDOUT:
		return reconnect_pause(stream, RECONNECT_PAUSE_MS);
	default:
		return reconnect_end(stream, result);
	}
}

/* The daemon does not know the configuration's stream, or its data are missing: another daemon may
 * have taken the socket, or a disk may not be mounted yet. The time that this took counts. */
static int reconnect_judge_opened(struct penstock_stream *stream, int result)
{
	struct reconnect *r = &stream->reconnect;
	if (!r->named || result != -ENOENT)
		return reconnect_judge(stream, result);
	error_set(result,
		"the daemon that listens now (pid %d) does not open it (%s); if it is not the "
		"stream's own, end it (penstock stop) and start that one (penstockd --config "
		"FILE)",
		stream->connection.daemon_pid, error_text());
	reconnect_spend(r);
	return reconnect_pause(stream, RECONNECT_AGAIN_MS);
}

static int64_t reconnect_patience(const struct reconnect *r, int64_t most_ms)
{
	int64_t end = reconnect_deadline(r), least = wait_deadline(RECONNECT_LEAST_MS),
		most = wait_deadline(most_ms);
	end = end < least ? least : end;
	return end < most ? end : most;
}

static int reconnect_greet(struct penstock_stream *stream, int result)
{
	struct reconnect *r = &stream->reconnect;
	if (result == 0)
		result = reconnect_watch_fd(stream, stream->connection.fd);
	if (result != 0)
		return reconnect_judge(stream, result);
	reconnect_enter(r, RECONNECT_GREETING, reconnect_patience(r, CONNECTION_GREETING_MS));
	return RECONNECT_E_ON;
}

static int reconnect_connect(struct penstock_stream *stream)
{
	const struct reconnect *r = &stream->reconnect;
	return socket_path_begin(&stream->connection, &r->place, RECONNECT_CONNECT_MS);
}

/* No daemon listens, no process is starting one, and this stream has started all that it may. */
static int reconnect_had_enough(struct penstock_stream *stream)
{
	const struct reconnect *r = &stream->reconnect;
	char line[PRIVATE_LINE];
	private_last_word(&r->start, line);
	error_set(stream->failed,
		"the daemon was restarted %u time%s, as often as options.restarts allows, and is "
		"gone again; its log %s ends with: %s; `penstock why` says how it ended, and a new "
		"stream opened with the saved state goes on with the next batch",
		r->started, r->started == 1 ? "" : "s", r->start.log, line);
	return reconnect_end(stream, stream->failed);
}

/* No daemon listens. One process starts one, and the others find it. */
static int reconnect_start(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	off_t log_start = r->start.log_start; /* of the daemon that was started last */
	private_init(&r->start, &r->place, r->memory, r->threads);
	r->start.log_start = log_start;
	int result = private_lock(&r->start);
	if (result == -EAGAIN)
		return reconnect_pause(stream, RECONNECT_PAUSE_MS);
	int found = result == 0 ? reconnect_connect(stream) : CONNECTION_E_ABSENT;
	if (found != CONNECTION_E_ABSENT) {
		private_unlock(&r->start);
		return reconnect_greet(stream, found);
	}
	if (result == 0 && r->restarts && r->started == r->restarts)
		return reconnect_had_enough(stream);
	if (result == 0)
		result = private_begin(&r->start);
	if (result == 0) {
		r->started++;
		result = reconnect_watch_fd(stream, r->start.ready_fd);
	}
	if (result < 0)
		return reconnect_pause(stream, RECONNECT_AGAIN_MS);
	reconnect_enter(r, RECONNECT_STARTING, reconnect_patience(r, RECONNECT_START_MS));
	return RECONNECT_E_ON;
}

static int reconnect_step_pausing(struct penstock_stream *stream)
{
	if (wait_deadline(0) < stream->reconnect.next_ns)
		return -EAGAIN;
	int result = reconnect_connect(stream);
	if (result == CONNECTION_E_ABSENT && stream->reconnect.private_daemon)
		return reconnect_start(stream);
	return reconnect_greet(stream, result);
}

static int reconnect_step_starting(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	struct pollfd ready = {.fd = r->start.ready_fd, .events = POLLIN};
	if (poll(&ready, 1, 0) != 1) {
		if (wait_deadline(0) < r->next_ns)
			return -EAGAIN;
		error_set(-ETIMEDOUT, "a private daemon does not get ready; its log is %s",
			r->start.log);
		return reconnect_pause(stream, RECONNECT_PAUSE_MS);
	}
	reconnect_unwatch(stream);
	int result = private_end(&r->start);
	if (result < 0 && private_was_refused(&r->start))
		r->started--; /* no daemon died: another one has the place */
	private_unlock(&r->start);
	if (result < 0)
		return reconnect_pause(stream, RECONNECT_AGAIN_MS);
	return reconnect_greet(stream, reconnect_connect(stream));
}

static int reconnect_open(struct penstock_stream *stream)
{
	char state[RECONNECT_STATE];
	int result = penstock_stream_state(stream, state, sizeof state);
	if (result >= 0)
		result = stream_send_open(stream, state, true);
	if (result < 0)
		return reconnect_judge(stream, result);
	reconnect_spend(&stream->reconnect);
	reconnect_enter(&stream->reconnect, RECONNECT_OPENING, CONNECTION_NEVER);
	return RECONNECT_E_ON;
}

static int reconnect_step_greeting(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	int result = connection_welcome(&stream->connection);
	if (result == 0)
		return reconnect_open(stream);
	if (result != -EAGAIN)
		return reconnect_judge(stream, result);
	if (wait_deadline(0) < r->next_ns)
		return -EAGAIN;
	error_set(-ETIMEDOUT, "the daemon at %s does not answer: is it stopped?",
		stream->connection.path);
	return reconnect_pause(stream, RECONNECT_PAUSE_MS);
}

static int reconnect_done(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	reconnect_enter(r, RECONNECT_IDLE, CONNECTION_NEVER);
	r->proven = false;
	stream->failed = 0;
	const uint64_t gone = (uint32_t)r->gone_pid, now = (uint32_t)stream->connection.daemon_pid;
	/* Partner: penstock_stream_replaced. The count publishes the pids. */
	atomic_store_explicit(&r->pids, gone << 32 | now, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->replaced, 1, memory_order_release);
	return 0;
}

static int reconnect_step_opening(struct penstock_stream *stream)
{
	int result = stream_receive(stream);
	if (result == 0)
		return RECONNECT_E_ON;
	if (result == -EAGAIN)
		return result;
	stream->awaiting = 0;
	if (result == STREAM_E_ANSWERED)
		result = stream_judge_opened(stream);
	return result == 0 ? reconnect_done(stream) : reconnect_judge_opened(stream, result);
}

static int reconnect_step_on(struct penstock_stream *stream)
{
	switch (stream->reconnect.stage) {
	case RECONNECT_PAUSING:
		return reconnect_step_pausing(stream);
	case RECONNECT_STARTING:
		return reconnect_step_starting(stream);
	case RECONNECT_GREETING:
		return reconnect_step_greeting(stream);
	case RECONNECT_OPENING:
		return reconnect_step_opening(stream);
	default:
		return 0;
	}
}

static int reconnect_step(struct penstock_stream *stream)
{
	stream->connection.wait = NULL;
	int result = reconnect_step_on(stream);
	stream->connection.wait = &stream->wait;
	return result;
}

/* ---- waiting ---- */

/* Waits for a starting daemon's pipe, if there is one, or the time. */
static int reconnect_sleep(struct penstock_stream *stream, int64_t until_ns)
{
	int result = wait_poll(&stream->wait, stream->reconnect.start.ready_fd, POLLIN, until_ns);
	if (result >= 0 || result == -EINTR)
		return result < 0 ? result : 0;
	return error_set(result, "waiting for a daemon failed: %s", strerror(-result));
}

/* 0: another step; -EAGAIN: the deadline has come; -EINTR; others: the stream is over. */
static int reconnect_wait(struct penstock_stream *stream, int64_t deadline_ns)
{
	struct reconnect *r = &stream->reconnect;
	int64_t until_ns = r->next_ns < deadline_ns ? r->next_ns : deadline_ns;
	if (wait_deadline(0) >= deadline_ns)
		return -EAGAIN;
	if (r->stage == RECONNECT_PAUSING || r->stage == RECONNECT_STARTING)
		return reconnect_sleep(stream, until_ns);
	int result = connection_wait(&stream->connection, until_ns);
	if (result == 0 || result == -ETIMEDOUT)
		return 0;
	if (result == -EINTR)
		return result;
	result = reconnect_judge(stream, result);
	return result == -EAGAIN ? 0 : result;
}

/* ---- the whole ---- */

bool reconnect_may(const struct penstock_stream *stream, int code)
{
	return code < 0 && code == stream->failed && stream->reconnect.limit_ms != 0 &&
	       (code == -EPIPE || code == -ESHUTDOWN);
}

static int reconnect_begin(struct penstock_stream *stream)
{
	struct reconnect *r = &stream->reconnect;
	r->gone_pid = stream->connection.daemon_pid;
	stream_send_close(stream); /* a daemon that is ending waits for this */
	reconnect_drop(stream);
	stream->opened.head.type = 0; /* the rest of it is what the next daemon must open */
	lease_lose(&stream->leases);
	stream->ended = false; /* if it had, its last batches were not given yet */
	r->lost_ns = wait_deadline(0);
	(void)snprintf(r->reason, sizeof r->reason, "%s", stream->sentence);
	if (!r->proven && r->left_ns <= 0)
		return reconnect_give_up(stream, "the daemons that came gave no batch");
	/* After a daemon that died before it was of use, the next try waits a moment. */
	reconnect_enter(r, RECONNECT_PAUSING, wait_deadline(r->proven ? 0 : RECONNECT_PAUSE_MS));
	return RECONNECT_E_ON;
}

int reconnect_anew(struct penstock_stream *stream)
{
	stream_send_close(stream);
	reconnect_drop(stream);
	stream->opened.head.type = 0;
	lease_lose(&stream->leases);
	stream->ended = false;
	int result = socket_path_open(&stream->connection, &stream->reconnect.place);
	if (result == CONNECTION_E_ABSENT)
		return error_set(-EPIPE, "the daemon at %s is gone", stream->connection.path);
	return result == 0 ? reconnect_watch_fd(stream, stream->connection.fd) : result;
}

static int reconnect_say(const struct penstock_stream *stream)
{
	const struct reconnect *r = &stream->reconnect;
	switch (r->stage) {
	case RECONNECT_STARTING:
		return error_set(-EAGAIN, "the daemon is gone; another one is being started");
	case RECONNECT_GREETING:
		return error_set(-EAGAIN,
			"the daemon is gone; another one at %s has not answered yet",
			stream->connection.path);
	case RECONNECT_OPENING:
		return error_set(-EAGAIN,
			"the daemon is gone; the one now at %s is opening the stream again",
			stream->connection.path);
	default:
		return error_set(
			-EAGAIN, "the daemon is gone; waiting for one to come: %s", r->reason);
	}
}

int reconnect_run(struct penstock_stream *stream, int64_t deadline_ns)
{
	struct reconnect *r = &stream->reconnect;
	int result = RECONNECT_E_ON;
	if (r->stage == RECONNECT_IDLE)
		result = reconnect_begin(stream);
	while (result == RECONNECT_E_ON) {
		result = reconnect_step(stream);
		if (result == -EAGAIN) {
			result = reconnect_wait(stream, deadline_ns);
			result = result == 0 ? RECONNECT_E_ON : result;
		}
	}
	/* The application may not call again for long. */
	private_unlock(&r->start);
	return result == -EAGAIN ? reconnect_say(stream) : result;
}

uint32_t penstock_stream_replaced(
	const struct penstock_stream *stream, int32_t *ret_gone_pid, int32_t *ret_pid)
{
	const struct reconnect *r = &stream->reconnect;
	/* Partner: reconnect_done. */
	const uint32_t replaced = atomic_load_explicit(&r->replaced, memory_order_acquire);
	const uint64_t pids = atomic_load_explicit(&r->pids, memory_order_relaxed);
	if (!replaced)
		return 0;
	*ret_gone_pid = (int32_t)(uint32_t)(pids >> 32);
	*ret_pid = (int32_t)(uint32_t)pids;
	return replaced;
}

void reconnect_succeed(struct reconnect *r)
{
	r->proven = true;
	r->left_ns = reconnect_limit_ns(r);
}

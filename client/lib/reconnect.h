/* reconnect: finds another daemon in place of one that has gone, for a stream whose application
 * asked for it. */
#pragma once

#include "client/lib/private.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct penstock_options;
struct penstock_stream;

enum reconnect_stage {
	RECONNECT_IDLE = 0, /* connected, or over; the loss of the connection leads to PAUSING */
	RECONNECT_PAUSING, /* no daemon was found: until next_ns; then STARTING or GREETING */
	RECONNECT_STARTING, /* a private daemon gets ready; then GREETING */
	RECONNECT_GREETING, /* HELLO was sent; then OPENING */
	RECONNECT_OPENING, /* OPEN was sent; then IDLE. A failure of any stage leads to PAUSING */
};

struct reconnect {
	int32_t limit_ms; /* 0: never */
	bool private_daemon; /* as when the stream was opened */
	bool named; /* a stream of a configuration: only a daemon that knows it will do */
	uint32_t threads;
	uint32_t restarts; /* private daemons that may be started; 0: no limit */
	uint32_t started; /* that were */
	char *memory;
	struct socket_path place;

	enum reconnect_stage stage;
	bool proven; /* the daemon has given a batch */
	int64_t left_ns; /* of limit_ms, from lost_ns on, until a daemon has given a batch */
	int64_t lost_ns; /* when the loss was noticed, or a daemon was found that did not open */
	int64_t next_ns; /* PAUSING: when to try; STARTING, GREETING: when to give up */
	struct private_start start;
	int timer_fd; /* -1, or in the stream's epoll: expires at next_ns */
	int watched_fd; /* the third descriptor in that epoll, or -1 */
	char reason[512]; /* why the last try failed */

	int32_t gone_pid; /* of the daemon whose place is being filled */
	/* For any thread. How many daemons were replaced, stored after the pids of the last pair:
	 * gone in the high half, and its successor. */
	_Atomic uint64_t pids;
	_Atomic uint32_t replaced;
};

/* Nothing open, nothing allocated. */
void reconnect_init(struct reconnect *reconnect);

/* Keeps what is needed to reach a daemon again. 0, -ENOMEM. */
int reconnect_keep(struct reconnect *reconnect, const struct penstock_options *options,
	const struct socket_path *place);

/* The stream is open and has its epoll: adds the connection and the timer to it. 0, or -errno
 * with a sentence. */
int reconnect_watch(struct penstock_stream *stream);

/* Leaves the daemon and connects to it again, for a stream that is to be opened anew. Batches that
 * the application holds stay mapped. 0; -EPIPE and others with a sentence. */
int reconnect_anew(struct penstock_stream *stream);

/* Closes and frees, except what a forked child shares with its parent. */
void reconnect_deinit(struct reconnect *reconnect);

/* Whether a stream that failed with this code is opened again, instead of ended. */
bool reconnect_may(const struct penstock_stream *stream, int code);

/* Opens the stream again, with its state. Returns by the deadline, give or take the milliseconds
 * that starting a process takes. 0: the stream continues with its next batch. -EAGAIN (the
 * deadline has come) or -EINTR (the application has ended the call), with a sentence: call
 * again. Others: the stream is over, with its sentence. */
int reconnect_run(struct penstock_stream *stream, int64_t deadline_ns);

/* A batch has come: the next loss has all the time again. */
void reconnect_succeed(struct reconnect *reconnect);

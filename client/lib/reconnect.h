/* reconnect: another daemon in the place of one that has gone, for a stream whose application asked
 * for it. */
#pragma once

#include "client/lib/private.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct penstock_options;
struct penstock_stream;

enum reconnect_stage {
	RECONNECT_IDLE = 0, /* connected, or over; the loss of the connection leads to PAUSING */
	RECONNECT_PAUSING, /* nobody was there: until next_ns; then STARTING or GREETING */
	RECONNECT_STARTING, /* a private daemon gets ready; then GREETING */
	RECONNECT_GREETING, /* HELLO was sent; then OPENING */
	RECONNECT_OPENING, /* OPEN was sent; then IDLE. From each, what fails leads to PAUSING */
};

struct reconnect {
	int32_t limit_ms; /* 0: never */
	bool private_daemon; /* as when the stream was opened */
	bool named; /* a stream of a configuration: a daemon without it is not the one */
	uint32_t threads;
	uint32_t restarts, started; /* private daemons that may be started, 0 without limit; that
				       were */
	char *memory;
	struct socket_path place;

	enum reconnect_stage stage;
	bool proven; /* the daemon has given a batch */
	int64_t left_ns; /* of limit_ms, until one has; from lost_ns on */
	int64_t lost_ns; /* when this loss was noticed, or a daemon found that has not opened */
	int64_t next_ns; /* PAUSING: when to try; STARTING, GREETING: when to give it up */
	struct private_start start;
	int timer_fd; /* -1, or in the stream's epoll: wakes who waits there when next_ns has come
		       */
	int watched_fd; /* what else is in it besides the bell, or -1 */
	char reason[512]; /* why the last try failed */
};

/* Nothing open, nothing allocated. */
void reconnect_init(struct reconnect *reconnect);

/* Keeps what a daemon was reached with. 0, -ENOMEM. */
int reconnect_keep(struct reconnect *reconnect, const struct penstock_options *options,
	const struct socket_path *place);

/* The stream is open and its epoll made: puts the connection into it, and the timer. 0 or -errno
 * with a sentence. */
int reconnect_watch(struct penstock_stream *stream);

/* Closes, frees; leaves alone what a forked child shares with its parent. */
void reconnect_deinit(struct reconnect *reconnect);

/* Whether a stream that failed of this is to be opened again, not ended. */
bool reconnect_may(const struct penstock_stream *stream, int code);

/* Opens the stream again, with its state. Returns by the deadline (but for the milliseconds of
 * starting a process). 0: it goes on with its next batch; -EAGAIN the deadline has come first, or
 * -EINTR the application has ended the call, with a sentence, call again; others: the stream is
 * over, with its sentence. */
int reconnect_run(struct penstock_stream *stream, int64_t deadline_ns);

/* An OPENED in RECONNECT_OPENING: 0 when it is the stream that was lost, at the batch that comes
 * next; -ESTALE with what differs. */
int reconnect_check(const struct penstock_stream *stream, const struct wire_opened *opened);

/* A batch has come: another loss is another story, with all its time. */
void reconnect_succeed(struct reconnect *reconnect);

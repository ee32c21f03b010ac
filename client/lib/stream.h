/* stream: what is behind struct penstock_stream.
 *
 *   stream.c      open, next, release, close, the descriptor, the state
 *   reconnect.[ch]  another daemon in the place of one that has gone
 *   query.c       questions to the daemon about a stream
 *   open.[ch]     options -> text of WIRE_OPEN
 *   job.[ch]      what the launcher says: ranks, the group's name
 *   lease.[ch]    extents, slots, leases: every check of shared memory
 *   map.[ch]      one sealed mapping
 *   connection.[ch]  socket, greeting, messages
 *   wait.[ch]     waiting, with the application asked meanwhile
 *   place.[ch]    the sockets at which daemons are looked for
 *   private.[ch]  a daemon of one's own: lock, start, wait
 *   spawn.[ch]    a process that is nobody's child
 *   daemon.c      status and stop, without a stream
 *   error.[ch]    the sentence */
#pragma once

#include "client/lib/connection.h"
#include "client/lib/error.h"
#include "client/lib/lease.h"
#include "client/lib/reconnect.h"

/* Each stream has a connection of its own, so that its descriptor says something about it alone,
 * and one number is enough. */
enum { STREAM_NUMBER = 1, STREAM_FIGURE_OUT_MS = 200 };

enum {
	STREAM_E_ANSWERED = 1
}; /* outcome of stream_take: the answer that was awaited is in connection.message */

struct penstock_stream {
	struct connection connection;
	struct wait wait; /* the connection's */
	struct wire_opened opened; /* head.type 0 until it came */
	struct lease_table leases;
	struct reconnect reconnect;
	char *definition; /* the text of OPEN without the state */
	uint32_t awaiting; /* request whose answer somebody waits for; 0: none */
	bool ended;
	int failed; /* 0, or the negative errno that ended the stream (or, while reconnecting, the
		       connection), with its sentence */
	char sentence[ERROR_TEXT];
	int32_t timeout_ms;
	uint32_t idle_messages; /* since one that brought a batch or an answer */
	uint64_t epoch, position; /* where the batch after the last one given begins */
	int poll_fd; /* epoll over the socket and the bell; what penstock_stream_fd gives */
	int bell_fd; /* rings while something can be had that no longer lies in the socket */
	bool ringing;
};

/* 0, or -EBADF in a process that is not the one that opened the stream. */
int stream_check_owner(const struct penstock_stream *stream);

/* Keeps this thread's sentence as the stream's, whose end it is. Returns `code`. */
int stream_fail(struct penstock_stream *stream, int code);

/* Receives one message, if there is one, and acts on it, whatever the stream has failed of. 0;
 * STREAM_E_ANSWERED; -EAGAIN; others with a sentence. */
int stream_receive(struct penstock_stream *stream);

/* Sends OPEN with this state (NULL: from the beginning), whose answer is then awaited. 0, or
 * -errno. */
int stream_send_open(struct penstock_stream *stream, const char *state, bool reconnect);

/* Says CLOSE, if there is anything to close. The hang-up that follows would be enough; the message
 * makes the daemon's log tell an end from a death. */
void stream_send_close(struct penstock_stream *stream);

/* What the answer that has come to an OPEN says: 0 opened, or the refusal. */
int stream_judge_opened(struct penstock_stream *stream);

/* Takes one message from the socket, if there is one, and acts on it. 0; STREAM_E_ANSWERED;
 * -EAGAIN; otherwise the stream has failed. */
int stream_take(struct penstock_stream *stream);

/* Sets or clears the bell as what can be had without the socket demands. */
void stream_ring(struct penstock_stream *stream);

/* Asks and waits for the answer. 0; -ETIMEDOUT and -EINTR with a sentence (the answer is dropped
 * when it comes), the daemon's refusal, or the stream's failure. */
int stream_ask(struct penstock_stream *stream, uint32_t kind, uint64_t argument, int64_t limit_ms,
	char **ret_text);

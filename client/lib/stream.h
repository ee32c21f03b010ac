/* stream: struct penstock_stream: a stream as the application has opened it.
 *
 * A map of this folder:
 *   stream.[ch]       messages from and to the daemon, the descriptor, the state
 *   stream_open.c     open and close; other samples from the next epoch on
 *   stream_next.c     the next batch, and release: a lease is returned in penstock_batch_release
 *   lease.[ch]        extents, slots, leases: every check of shared memory
 *   map.[ch]          one sealed mapping
 *   query.c           questions to the daemon about a stream
 *   reconnect.[ch]    finds another daemon in place of one that has gone
 *   connection.[ch]   socket, greeting, messages
 *   socket_path.[ch]  the sockets at which a daemon is looked for
 *   private.[ch]      starts a daemon: lock, start, wait
 *   spawn.[ch]        starts a process that is not a child of this one
 *   open.[ch]         options -> text of WIRE_OPEN
 *   open_json.[ch]    options that are JSON
 *   job.[ch]          what the launcher says: ranks, the group's name
 *   wait.[ch]         blocks, and asks the application meanwhile
 *   daemon.c          status and stop, without a stream
 *   convert.[ch]      pixels to floats
 *   error.[ch]        the sentence behind penstock_error()
 *   mix/              MixUp, CutMix, erasing and soft labels on the CPU */
#pragma once

#include "client/lib/connection.h"
#include "client/lib/error.h"
#include "client/lib/lease.h"
#include "client/lib/reconnect.h"
#include "proto/opened_tail.h"

/* Each stream has a connection of its own, so that its descriptor is about that stream only. So one
 * number is enough. */
enum { STREAM_NUMBER = 1, STREAM_FIGURE_OUT_MS = 200 };

/* Outcome of stream_take: the answer that was awaited is in connection.message. */
enum { STREAM_E_ANSWERED = 1 };

struct penstock_stream {
	struct connection connection;
	struct wait wait; /* the connection's */
	struct wire_opened opened; /* head.type 0 until it came */
	struct opened_tail tail;
	struct lease_table leases;
	struct reconnect reconnect;
	char *definition; /* the text of OPEN without the state */
	unsigned chosen; /* how often it was defined anew (stream_open.c) */
	uint32_t awaiting; /* the request whose answer is waited for; 0: none */
	bool ended;
	/* 0, or the negative errno that ended the stream (or, while reconnecting, the connection),
	 * with its sentence. */
	int failed;
	char sentence[ERROR_TEXT];
	int32_t timeout_ms;
	uint32_t idle_messages; /* since the last one that brought a batch or an answer */
	uint64_t epoch, position; /* where the batch after the last one given begins */
	int poll_fd; /* epoll over the socket and the bell: penstock_stream_fd returns it */
	int bell_fd; /* rings while something is available that is no longer in the socket */
	bool ringing;
};

/* 0, or -EBADF in a process that is not the one that opened the stream. */
int stream_check_owner(const struct penstock_stream *stream);

/* The refusal of a field that the stream does not have. Returns -EINVAL. */
int stream_no_field(const struct penstock_stream *stream, uint32_t field);

/* The stream ends with `code` and this thread's sentence. Returns `code`. */
int stream_fail(struct penstock_stream *stream, int code);

/* Receives one message, if there is one, and acts on it, even if the stream has failed. 0;
 * STREAM_E_ANSWERED; -EAGAIN; others with a sentence. */
int stream_receive(struct penstock_stream *stream);

/* Sends OPEN with this state (NULL: from the beginning); its answer is then awaited. 0, or
 * -errno. */
int stream_send_open(struct penstock_stream *stream, const char *state, bool reconnect);

/* Sends CLOSE, if there is anything to close. The hang-up that follows would be enough; the message
 * lets the daemon's log tell an end from a death. */
void stream_send_close(struct penstock_stream *stream);

/* Reads the answer to an OPEN: 0: opened; or the refusal. */
int stream_judge_opened(struct penstock_stream *stream);

/* Takes one message from the socket, if there is one, and acts on it. 0; STREAM_E_ANSWERED;
 * -EAGAIN; otherwise the stream has failed. */
int stream_take(struct penstock_stream *stream);

/* Sets the bell if something is available without the socket, else clears it. */
void stream_ring(struct penstock_stream *stream);

/* Asks and waits for the answer. 0; -ETIMEDOUT and -EINTR with a sentence (an answer that comes
 * later is dropped); the daemon's refusal; or the stream's failure. */
int stream_ask(struct penstock_stream *stream, uint32_t kind, uint64_t argument, int64_t limit_ms,
	char **ret_text);

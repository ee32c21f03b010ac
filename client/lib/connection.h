/* connection: one connection to the daemon: found, greeted, and read one checked message at a time.
 */
#pragma once

#include "client/lib/wait.h"
#include "proto/conn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	CONNECTION_PATH = 108,
	CONNECTION_CONNECT_MS = 5000, /* for a listener with a full backlog */
	CONNECTION_GREETING_MS = 10000,
};

/* A deadline that never comes. */
#define CONNECTION_NEVER INT64_MAX

/* Outcomes. */
enum {
	CONNECTION_E_ABSENT = 1, /* nobody listens at the path, or who did has just gone: a daemon
				    may be started there */
};

struct connection {
	int fd; /* -1: closed */
	pid_t owner; /* the process that opened it: a forked child keeps its hands off */
	int32_t daemon_pid; /* 0: in another pid namespace, so no number that means anything here,
			       or not greeted */
	pid_t peer; /* whoever listened, as the kernel knows it */
	uint32_t last_request;
	char path[CONNECTION_PATH];
	struct wait *wait; /* NULL, or whom to ask while a call blocks: then each that does may
			      return -EINTR with a sentence */
	struct conn_message
		message; /* the last one received; its descriptor is -1 once somebody took it */
};

/* Resolves the socket's path into `ret_path` (absolute). `socket` NULL: the default. `ret_named`
 * tells whether the user said which (by option or environment). 0 or -ENAMETOOLONG, -errno of
 * getcwd. */
int connection_find(const char *socket, char ret_path[CONNECTION_PATH], bool *ret_named);

/* Connects to `path` and says hello. A peer at a path that the user did not name must be the user
 * or root. 0; CONNECTION_E_ABSENT (with a sentence); -EPROTO another version or no penstockd;
 * -EPERM, -EACCES, -ETIMEDOUT, ... On failure nothing stays open. */
int connection_open(struct connection *connection, const char *path, bool named);

/* The same in two steps, for who must not wait. The first connects, within `limit_ms` of a full
 * backlog, and says hello; the second takes the answer: 0, -EAGAIN when it is not there yet, or as
 * connection_open, but that the connection is the caller's to close. */
int connection_begin(struct connection *connection, const char *path, bool named, int32_t limit_ms);
int connection_welcome(struct connection *connection);

/* Takes a connection that is closed or zeroed with fd -1. */
void connection_close(struct connection *connection);

/* Sends a message; waits up to ten seconds for room. Sent wholly or not at all. 0; CONN_E_CLOSED
 * when the daemon is gone (what it said last may still be read); -ETIMEDOUT and others with a
 * sentence. */
int connection_send(struct connection *connection, struct wire_head *fixed, size_t fixed_bytes,
	const void *text, size_t text_bytes);

/* Takes one message, if one is there, into connection->message. 0; -EAGAIN without a sentence;
 * -EPIPE, -EPROTO, -EMFILE ... with one. A descriptor of the message before that nobody took is
 * closed. */
int connection_receive(struct connection *connection);

/* Waits until something can be received. 0; -ETIMEDOUT without a sentence; -EPIPE when the daemon's
 * process is gone although its socket is not. Signals do not end the wait by themselves. */
int connection_wait(struct connection *connection, int64_t deadline_ns);

/* The daemon's ERROR in connection->message, as this thread's sentence; returns its code. -EPROTO
 * when it is malformed. */
int connection_error(const struct connection *connection);

/* The text of the ANSWER in connection->message: malloc'ed and terminated. 0, -EPROTO, -ENOMEM,
 * -EIO. */
int connection_answer(struct connection *connection, char **ret_text);

/* connection: one connection to the daemon: finding it, greeting it, and reading one checked
 * message at a time. */
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
	/* No process listens at the path, or the one that did has just ended: a daemon may be
	 * started there. */
	CONNECTION_E_ABSENT = 1,
};

struct connection {
	int fd; /* -1: closed */
	pid_t owner; /* the process that opened it: a forked child must not use it */
	/* 0: not greeted, or in another pid namespace, where its number means nothing here. */
	int32_t daemon_pid;
	pid_t peer; /* the process that listened, by the kernel's word */
	uint32_t last_request;
	uint64_t features, agreed; /* enum wire_feature: what the caller offers; what both know */
	char path[CONNECTION_PATH];
	/* NULL, or how to ask the application while a call blocks: then every call that blocks may
	 * return -EINTR with a sentence. */
	struct wait *wait;
	struct conn_message message; /* the last one received; its descriptor is -1 once taken */
};

/* Resolves the socket's path into `ret_path` (absolute). `socket` NULL: the default. `ret_named`
 * tells whether the user named it (by option or environment). 0, -ENAMETOOLONG, or -errno of
 * getcwd. */
int connection_find(const char *socket, char ret_path[CONNECTION_PATH], bool *ret_named);

/* Connects to `path` and says hello. A peer at a path that the user did not name must be the user
 * or root. 0; CONNECTION_E_ABSENT (with a sentence); -EPROTO: another version, or not penstockd;
 * -EPERM, -EACCES, -ETIMEDOUT, ... On failure nothing stays open. */
int connection_open(struct connection *connection, const char *path, bool named);

/* The same in two steps, for a caller that must not wait. The first connects, waiting at most
 * `limit_ms` for a full backlog, and says hello. The second takes the answer: 0; -EAGAIN when it
 * has not come yet; or as connection_open, except that the caller closes the connection. */
int connection_begin(struct connection *connection, const char *path, bool named, int32_t limit_ms);
int connection_welcome(struct connection *connection);

/* Takes a connection that is closed or zeroed with fd -1. */
void connection_close(struct connection *connection);

/* Sends a message, wholly or not at all; waits up to ten seconds for room. 0; CONN_E_CLOSED when
 * the daemon is gone (its last messages may still be read); -ETIMEDOUT and others with a
 * sentence. */
int connection_send(struct connection *connection, struct wire_head *fixed, size_t fixed_bytes,
	const void *text, size_t text_bytes);

/* Takes one message, if one has come, into connection->message. 0; -EAGAIN without a sentence;
 * -EPIPE, -EPROTO, -EMFILE ... with one. Closes the previous message's descriptor if it was not
 * taken. */
int connection_receive(struct connection *connection);

/* Waits until something can be received. 0; -ETIMEDOUT without a sentence; -EPIPE when the daemon's
 * process is gone although its socket is not. Signals do not end the wait by themselves. */
int connection_wait(struct connection *connection, int64_t deadline_ns);

/* The daemon's ERROR in connection->message, as this thread's sentence; returns its code. -EPROTO
 * when the message is malformed. */
int connection_error(const struct connection *connection);

/* The text of the ANSWER in connection->message: malloc'ed and terminated. 0, -EPROTO, -ENOMEM,
 * -EIO. */
int connection_answer(struct connection *connection, char **ret_text);

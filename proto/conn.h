/* conn: one SEQPACKET socket: whole messages in and out, a descriptor beside one of them.
 *
 * Used by the daemon (non-blocking, behind epoll) and by libpenstock. No allocation; CLOEXEC
 * always; every descriptor that a message brings unasked is closed. Functions return 0 or a
 * negative errno, and positive outcomes where they say so. */
#pragma once

#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum conn_outcome {
	CONN_OK = 0,
	CONN_E_CLOSED = 1, /* the peer hung up */
	CONN_E_MALFORMED = 2, /* longer than WIRE_MESSAGE_MAX, shorter than a head, `bytes` off, too
				 many descriptors */
	CONN_E_FDS = 3, /* descriptors came to who takes none */
};

struct conn_message {
	union {
		struct wire_head head;
		uint8_t bytes[WIRE_MESSAGE_MAX];
		uint64_t aligned;
	};
	size_t size;
	int fd; /* -1, or a descriptor that now belongs to the caller */
};

/* Receives one message. -EAGAIN when none is there (non-blocking socket or `no_wait`), -EINTR
 * retried, -EMFILE when a descriptor came and this process has no room for it (the message is
 * lost). */
int conn_receive(int fd, bool no_wait, struct conn_message *ret);

/* The same for who takes no descriptors: none is installed in this process, whatever is sent, and a
 * message that came with one is CONN_E_FDS, and lost. */
int conn_receive_plain(int fd, struct conn_message *ret);

/* Has the kernel refuse descriptors that are sent to this socket, or to what it accepts
 * (SO_PASSRIGHTS, Linux 6.16). False where it cannot. */
bool conn_refuse_fds(int fd);

/* Sends one message made of a fixed struct and an optional text behind it; `fixed->bytes` is filled
 * in here. `pass_fd` -1: none. Never raises SIGPIPE. -EAGAIN when the socket's buffer is full and
 * `no_wait`; -EMSGSIZE beyond WIRE_MESSAGE_MAX; CONN_E_CLOSED when the peer is gone (what it said
 * last may still be there to receive). */
int conn_send(int fd, bool no_wait, struct wire_head *fixed, size_t fixed_bytes, const void *text,
	size_t text_bytes, int pass_fd);

/* The message as `type` when it is long enough for it and its text_bytes (at `text_offset` of the
 * fixed struct, or 0 for none) fits exactly; NULL otherwise. */
const void *conn_view(const struct conn_message *message, enum wire_type type, size_t fixed_bytes,
	size_t text_field_offset);

/* Connects to a socket path: 0 and the descriptor (blocking), -ENOENT, -ECONNREFUSED (nobody
 * listens), -EACCES, -ETIMEDOUT (the listener accepted nobody for five seconds), ... */
int conn_connect(const char *path, int *ret_fd);

/* The same with another limit than five seconds, above 0. */
int conn_connect_within(const char *path, int limit_ms, int *ret_fd);

/* Binds and listens (backlog 128, mode 0600, non-blocking). The caller holds the instance lock, so
 * a socket that lies there is stale and is removed; -EEXIST when something else than a socket does.
 */
int conn_listen(const char *path, int *ret_fd);

/* The folder and socket in use: PENSTOCK_SOCKET, else $XDG_RUNTIME_DIR/penstock/penstock.sock where
 * that folder can be used, else $TMPDIR or /tmp + /penstock-UID/penstock.sock. -ENAMETOOLONG beyond
 * what sockaddr_un holds. */
int conn_default_path(char *buffer, size_t room);

/* Makes the socket's folder (0700, ours, not a link); -EPERM when it exists and is another user's
 * or open to others. */
int conn_make_folder(const char *socket_path);

/* Uid and pid of the peer. */
int conn_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

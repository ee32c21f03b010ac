/* conn: sends and receives whole messages on a SEQPACKET socket, with at most one descriptor each.
 *
 * For the daemon (non-blocking, with epoll) and for libpenstock. It allocates nothing, sets CLOEXEC
 * always, and closes every unexpected descriptor of a message. Functions return 0 or a negative
 * errno, and positive outcomes where they say so. Any thread; one at a time for each socket and
 * direction. */
#pragma once

#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum conn_outcome {
	CONN_OK = 0,
	CONN_E_CLOSED = 1, /* the peer hung up */
	/* Longer than WIRE_MESSAGE_MAX, shorter than a head, wrong `bytes`, or too many
	 * descriptors. */
	CONN_E_MALFORMED = 2,
	CONN_E_FDS = 3, /* descriptors for a receiver that accepts none */
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

/* Receives one message. -EAGAIN where none is there (non-blocking socket or `no_wait`); -EMFILE
 * where this process has no room for the message's descriptor (the message is lost). EINTR is
 * retried. */
int conn_receive(int fd, bool no_wait, struct conn_message *ret);

/* The same for a receiver that accepts no descriptors: none is installed in this process, whatever
 * the peer sends. A message with a descriptor is lost: CONN_E_FDS. */
int conn_receive_plain(int fd, struct conn_message *ret);

/* Makes the kernel refuse descriptors that are sent to this socket or to the sockets that it
 * accepts (SO_PASSRIGHTS, Linux 6.16). False where the kernel cannot. */
bool conn_refuse_fds(int fd);

/* Sends one message of a fixed struct and an optional text, and sets `fixed->bytes`. `pass_fd` -1:
 * no descriptor. Never raises SIGPIPE. -EAGAIN where the socket's buffer is full and `no_wait` is
 * set;
 * -EMSGSIZE beyond WIRE_MESSAGE_MAX; CONN_E_CLOSED where the peer is gone (its last messages may
 * still be received). */
int conn_send(int fd, bool no_wait, struct wire_head *fixed, size_t fixed_bytes, const void *text,
	size_t text_bytes, int pass_fd);

/* The message as `type`; NULL where it has another type or is too short, or where its text_bytes
 * (at `text_field_offset` of the fixed struct; 0: it has no text) does not fit exactly. */
const void *conn_view(const struct conn_message *message, enum wire_type type, size_t fixed_bytes,
	size_t text_field_offset);

/* Connects to a socket path: 0 and a blocking descriptor; -ENOENT; -ECONNREFUSED (no process
 * listens); -EACCES; -ETIMEDOUT (the listener accepted no connection for five seconds); ... */
int conn_connect(const char *path, int *ret_fd);

/* The same with a time limit other than five seconds, above 0. */
int conn_connect_within(const char *path, int limit_ms, int *ret_fd);

/* Binds and listens (backlog 128, mode 0600, non-blocking). The caller holds the instance lock, so
 * a socket at the path is stale, and is removed; -EEXIST where the path is not a socket. */
int conn_listen(const char *path, int *ret_fd);

/* The default socket path: PENSTOCK_SOCKET, else $XDG_RUNTIME_DIR/penstock/penstock.sock if that
 * folder can be used, else $TMPDIR or /tmp + /penstock-UID/penstock.sock. -ENAMETOOLONG where it
 * does not fit sockaddr_un. */
int conn_default_path(char *buffer, size_t room);

/* Makes the socket's folder (0700, not a link). -EPERM where it exists and belongs to another user
 * or is open to others. */
int conn_make_folder(const char *socket_path);

/* Uid and pid of the peer. */
int conn_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

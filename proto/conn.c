/* conn: see conn.h.
 *
 * Facts about Linux that this file relies on:
 * - A datagram of a SEQPACKET socket arrives whole or not at all, so there is no partial message to
 *   keep between calls.
 * - When a peer closes while messages of ours are still unread in its queue, the next call here
 *   fails once with ECONNRESET, although the peer's last message (often the sentence that explains
 *   the hang-up) is still in our queue. So a receive that gets ECONNRESET tries again: the kernel
 *   has cleared the error by then, and a peer dies only once.
 * - An empty datagram looks like the end of the connection. No peer has a reason to send one, so it
 *   counts as a hang-up.
 * - The kernel drops a descriptor that does not fit (table full, or control buffer too small), and
 *   reports MSG_CTRUNC. */
#include "proto/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

enum {
	CONN_BACKLOG = 128,
	/* How long a client waits for a full backlog: a stopped daemon must not hang its
	 * clients. */
	CONN_CONNECT_WAIT_MS = 5000,
	/* More than a message may carry, so that conn sees one too many and closes it. */
	CONN_FDS_ROOM = 4,
};

/* ---- messages ---- */

/* Takes the descriptors from the control data: stores the first in *fd and closes the others.
 * Returns how many there were. */
static unsigned conn_take_fds(struct msghdr *header, int *fd)
{
	unsigned count = 0;
	*fd = -1;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++, count++) {
			int taken;
			memcpy(&taken, CMSG_DATA(c) + i * sizeof(int), sizeof taken);
			if (count == 0)
				*fd = taken;
			else
				(void)close(taken);
		}
	}
	return count;
}

static void conn_drop_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

static int conn_judge(const struct msghdr *header, struct conn_message *message, unsigned fds)
{
	bool lost = header->msg_flags & MSG_CTRUNC;
	if (lost && fds == 0)
		return -EMFILE; /* the control buffer has room for several: it was our own table
				   that had none */
	if (lost || fds > WIRE_FDS_MAX || (header->msg_flags & MSG_TRUNC))
		return CONN_E_MALFORMED;
	if (message->size < sizeof message->head || message->head.bytes != message->size)
		return CONN_E_MALFORMED;
	return CONN_OK;
}

/* Receives a datagram: its size, 0 at the end of the connection, or -errno. Each attempt begins
 * with a fresh copy of `header`. */
static ssize_t conn_get(int fd, int flags, struct conn_message *ret, struct msghdr *header)
{
	struct iovec part = {.iov_base = ret->bytes, .iov_len = sizeof ret->bytes};
	struct msghdr fresh = *header;
	ssize_t n;
	ret->size = 0;
	ret->fd = -1;
	do {
		*header = fresh;
		header->msg_iov = &part;
		header->msg_iovlen = 1;
		n = recvmsg(fd, header, MSG_CMSG_CLOEXEC | flags);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	return n < 0 ? -errno : n;
}

int conn_receive_plain(int fd, struct conn_message *ret)
{
	/* Without room for control data the kernel drops descriptors and reports it. So none is
	 * ever installed here, and none has to be closed, which could block (a file of FUSE or
	 * NFS). */
	struct msghdr header = {0};
	ssize_t n = conn_get(fd, MSG_DONTWAIT, ret, &header);
	if (n < 0)
		return (int)n;
	if (header.msg_flags & MSG_CTRUNC)
		return CONN_E_FDS;
	if (n == 0)
		return CONN_E_CLOSED;
	ret->size = (size_t)n;
	return conn_judge(&header, ret, 0);
}

int conn_receive(int fd, bool no_wait, struct conn_message *ret)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(CONN_FDS_ROOM * sizeof(int))];
	} control;
	struct msghdr header = {
		.msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
	ssize_t n = conn_get(fd, no_wait ? MSG_DONTWAIT : 0, ret, &header);
	if (n < 0)
		return (int)n;

	unsigned fds = conn_take_fds(&header, &ret->fd);
	int result = CONN_E_CLOSED;
	if (n > 0) {
		ret->size = (size_t)n;
		result = conn_judge(&header, ret, fds);
	}
	if (result != CONN_OK)
		conn_drop_fd(&ret->fd);
	return result;
}

bool conn_refuse_fds(int fd)
{
	int off = 0;
	return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off) == 0;
}

static bool conn_is_hangup(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ECONNREFUSED || error == ENOTCONN;
}

int conn_send(int fd, bool no_wait, struct wire_head *fixed, size_t fixed_bytes, const void *text,
	size_t text_bytes, int pass_fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	if (fixed_bytes > WIRE_MESSAGE_MAX || text_bytes > WIRE_MESSAGE_MAX - fixed_bytes)
		return -EMSGSIZE;
	fixed->bytes = (uint32_t)(fixed_bytes + text_bytes);

	/* sendmsg takes its parts through a pointer to non-const, but only reads them. */
	struct iovec part[2] = {{.iov_base = fixed, .iov_len = fixed_bytes},
		{.iov_base = (void *)(uintptr_t)text, .iov_len = text_bytes}};
	struct msghdr header = {.msg_iov = part, .msg_iovlen = text_bytes ? 2 : 1};
	if (pass_fd >= 0) {
		memset(&control, 0, sizeof control);
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof control.bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof pass_fd);
	}
	ssize_t n;
	do {
		n = sendmsg(fd, &header, MSG_NOSIGNAL | (no_wait ? MSG_DONTWAIT : 0));
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return CONN_OK;
	return conn_is_hangup(errno) ? CONN_E_CLOSED : -errno;
}

const void *conn_view(const struct conn_message *message, enum wire_type type, size_t fixed_bytes,
	size_t text_field_offset)
{
	if (message->head.type != (uint32_t)type || message->size < fixed_bytes)
		return NULL;
	uint32_t text_bytes = 0;
	if (text_field_offset)
		memcpy(&text_bytes, message->bytes + text_field_offset, sizeof text_bytes);
	return message->size - fixed_bytes == text_bytes ? message->bytes : NULL;
}

/* ---- sockets ---- */

static int conn_address(const char *path, struct sockaddr_un *ret)
{
	size_t length = strlen(path);
	if (length == 0)
		return -ENOENT; /* an empty name would mean the abstract namespace, which no folder
				   protects */
	if (length >= sizeof ret->sun_path)
		return -ENAMETOOLONG;
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret->sun_path, path, length);
	return 0;
}

static int64_t conn_now_us(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* 0: without limit. */
static void conn_limit_sends(int fd, int64_t us)
{
	struct timeval limit = {.tv_sec = us / 1000000, .tv_usec = (suseconds_t)(us % 1000000)};
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* The send timeout also limits connect. It is removed afterwards, because later sends have their
 * own rules. Each signal restarts it, so the remaining time is computed here. */
static int conn_connect_wait(int fd, const struct sockaddr_un *address, int limit_ms)
{
	int64_t left_us = (int64_t)limit_ms * 1000, end_us = conn_now_us() + left_us;
	int error;
	do {
		conn_limit_sends(fd, left_us);
		error = connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 ? errno
											   : 0;
		left_us = end_us - conn_now_us();
	} while (error == EINTR && left_us > 0);
	if (error)
		return error == EAGAIN || error == EINTR ? -ETIMEDOUT : -error;
	conn_limit_sends(fd, 0);
	return 0;
}

int conn_connect(const char *path, int *ret_fd)
{
	return conn_connect_within(path, CONN_CONNECT_WAIT_MS, ret_fd);
}

int conn_connect_within(const char *path, int limit_ms, int *ret_fd)
{
	struct sockaddr_un address;
	int result = conn_address(path, &address);
	if (result < 0)
		return result;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	result = conn_connect_wait(fd, &address, limit_ms);
	if (result < 0) {
		(void)close(fd);
		return result;
	}
	*ret_fd = fd;
	return 0;
}

/* Removes the socket of a daemon that has ended. A path that is not a socket is not removed. */
static int conn_remove_stale(const char *path)
{
	struct stat status;
	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

int conn_listen(const char *path, int *ret_fd)
{
	struct sockaddr_un address;
	int result = conn_address(path, &address);
	if (result == 0)
		result = conn_remove_stale(path);
	if (result < 0)
		return result;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Linux gives the path the mode of the socket at bind. So it is never open to others, not
	 * even for a moment, and the umask, which all threads share, does not change. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
		listen(fd, CONN_BACKLOG) < 0) {
		result = -errno;
		(void)close(fd);
		return result;
	}
	*ret_fd = fd;
	return 0;
}

int conn_peer(int fd, uid_t *ret_uid, pid_t *ret_pid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	*ret_uid = peer.uid;
	*ret_pid = peer.pid;
	return 0;
}

/* ---- the default path ---- */

static const char *conn_environment(const char *name)
{
	const char *value = getenv(name);
	return value && *value ? value : NULL;
}

/* Slurm and su pass XDG_RUNTIME_DIR on to machines and users for which the folder does not exist:
 * then the socket cannot be there. */
static const char *conn_runtime_folder(void)
{
	const char *folder = conn_environment("XDG_RUNTIME_DIR");
	return folder && access(folder, W_OK | X_OK) == 0 ? folder : NULL;
}

int conn_default_path(char *buffer, size_t room)
{
	const char *named = conn_environment("PENSTOCK_SOCKET");
	const char *runtime = conn_runtime_folder();
	const char *temporary = conn_environment("TMPDIR");
	struct sockaddr_un *limit = NULL;
	int n;
	if (named)
		n = snprintf(buffer, room, "%s", named);
	else if (runtime)
		n = snprintf(buffer, room, "%s/penstock/penstock.sock", runtime);
	else
		n = snprintf(buffer, room, "%s/penstock-%lu/penstock.sock",
			temporary ? temporary : "/tmp", (unsigned long)geteuid());
	if (n < 0 || (size_t)n >= room || (size_t)n >= sizeof limit->sun_path)
		return -ENAMETOOLONG;
	return 0;
}

int conn_make_folder(const char *socket_path)
{
	char folder[sizeof((struct sockaddr_un *)NULL)->sun_path];
	const char *slash = strrchr(socket_path, '/');
	size_t length = slash ? (size_t)(slash - socket_path) : 0;
	if (length >= sizeof folder)
		return -ENAMETOOLONG;
	memcpy(folder, socket_path, length);
	folder[length] = '\0';
	if (length == 0)
		(void)snprintf(folder, sizeof folder, "%s", slash ? "/" : ".");

	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return -errno;
	struct stat status;
	if (lstat(folder, &status) < 0)
		return -errno;
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077))
		return -EPERM;
	return 0;
}

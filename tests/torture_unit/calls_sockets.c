/* calls_sockets: see calls_impl.h. Descriptors that are not files, and waiting for them. */
#include "torture_unit/calls_impl.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The C library's names for parameters are not for others.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

/* ---- descriptors ---- */

CALL(int, memfd_create, (const char *name, unsigned flags), (name, flags), CALLS_DESCRIPTOR, EMFILE,
	-1)
CALL(int, eventfd, (unsigned start, int flags), (start, flags), CALLS_DESCRIPTOR, EMFILE, -1)
CALL(int, timerfd_create, (clockid_t clock, int flags), (clock, flags), CALLS_DESCRIPTOR, EMFILE,
	-1)
CALL(int, timerfd_settime, (int fd, int flags, const struct itimerspec *to, struct itimerspec *ret),
	(fd, flags, to, ret), CALLS_DESCRIPTOR, ENOMEM, -1)
CALL(int, epoll_create1, (int flags), (flags), CALLS_DESCRIPTOR, EMFILE, -1)

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	REAL(epoll_ctl);
	if (what != EPOLL_CTL_DEL)
		FAIL_OR(epoll_ctl, CALLS_DESCRIPTOR, false, ENOMEM, -1);
	return real(epoll, what, fd, event);
}

CALL(int, pipe2, (int ends[2], int flags), (ends, flags), CALLS_DESCRIPTOR, EMFILE, -1)
CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), CALLS_DESCRIPTOR,
	EMFILE, -1)
CALL(int, socketpair, (int domain, int type, int protocol, int ends[2]),
	(domain, type, protocol, ends), CALLS_DESCRIPTOR, EMFILE, -1)
CALL(int, dup, (int fd), (fd), CALLS_DESCRIPTOR, EMFILE, -1)

/* ---- sockets ---- */

CALL_EINTR(int, connect, (int fd, const struct sockaddr *address, socklen_t size),
	(fd, address, size), CALLS_CONNECT, ECONNREFUSED, -1)
CALL(int, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size),
	CALLS_CONNECT, EADDRINUSE, -1)
CALL(int, listen, (int fd, int backlog), (fd, backlog), CALLS_CONNECT, EADDRINUSE, -1)
CALL_EINTR(int, accept4,
	(int fd, struct sockaddr *restrict address, socklen_t *restrict size, int flags),
	(fd, address, size, flags), CALLS_CONNECT, EMFILE, -1)
CALL(int, getsockopt, (int fd, int level, int name, void *restrict value, socklen_t *restrict size),
	(fd, level, name, value, size), CALLS_CONNECT, ENOBUFS, -1)
CALL(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
	(fd, level, name, value, size), CALLS_CONNECT, ENOBUFS, -1)
CALL_EINTR(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
	(fd, message, flags), CALLS_SEND, ENOBUFS, -1)
CALL_EINTR(ssize_t, send, (int fd, const void *from, size_t size, int flags),
	(fd, from, size, flags), CALLS_SEND, ENOBUFS, -1)
CALL_EINTR(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags),
	CALLS_RECEIVE, ENOMEM, -1)
CALL_EINTR(ssize_t, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags),
	CALLS_RECEIVE, ENOMEM, -1)
CALL_EINTR(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout),
	CALLS_WAIT, ENOMEM, -1)
CALL_EINTR(int, ppoll,
	(struct pollfd * fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask),
	(fds, count, timeout, mask), CALLS_WAIT, ENOMEM, -1)

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	REAL(epoll_wait);
	if (calls_fails("epoll_wait", CALLS_WAIT, true, false) == CALLS_EINTR) {
		errno = EINTR;
		return -1;
	}
	return real(epoll, events, most, timeout);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

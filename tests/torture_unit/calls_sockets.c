/* calls_sockets: see calls_impl.h. Descriptors that are no files, and waiting for them. */
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
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

/* ---- descriptors ---- */

int memfd_create(const char *name, unsigned flags)
{
	REAL(memfd_create);
	FAIL_OR(memfd_create, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(name, flags);
}

int eventfd(unsigned start, int flags)
{
	REAL(eventfd);
	FAIL_OR(eventfd, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(start, flags);
}

int timerfd_create(clockid_t clock, int flags)
{
	REAL(timerfd_create);
	FAIL_OR(timerfd_create, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(clock, flags);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *to, struct itimerspec *ret)
{
	REAL(timerfd_settime);
	FAIL_OR(timerfd_settime, CALLS_DESCRIPTOR, false, ENOMEM, -1);
	return real(fd, flags, to, ret);
}

int epoll_create1(int flags)
{
	REAL(epoll_create1);
	FAIL_OR(epoll_create1, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(flags);
}

int epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
	REAL(epoll_ctl);
	if (what != EPOLL_CTL_DEL)
		FAIL_OR(epoll_ctl, CALLS_DESCRIPTOR, false, ENOMEM, -1);
	return real(epoll, what, fd, event);
}

int pipe2(int ends[2], int flags)
{
	REAL(pipe2);
	FAIL_OR(pipe2, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(ends, flags);
}

int socket(int domain, int type, int protocol)
{
	REAL(socket);
	FAIL_OR(socket, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
	REAL(socketpair);
	FAIL_OR(socketpair, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(domain, type, protocol, ends);
}

int dup(int fd)
{
	REAL(dup);
	FAIL_OR(dup, CALLS_DESCRIPTOR, false, EMFILE, -1);
	return real(fd);
}

/* ---- sockets ---- */

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
	REAL(connect);
	FAIL_OR(connect, CALLS_CONNECT, true, ECONNREFUSED, -1);
	return real(fd, address, size);
}

int bind(int fd, const struct sockaddr *address, socklen_t size)
{
	REAL(bind);
	FAIL_OR(bind, CALLS_CONNECT, false, EADDRINUSE, -1);
	return real(fd, address, size);
}

int listen(int fd, int backlog)
{
	REAL(listen);
	FAIL_OR(listen, CALLS_CONNECT, false, EADDRINUSE, -1);
	return real(fd, backlog);
}

int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict size, int flags)
{
	REAL(accept4);
	FAIL_OR(accept4, CALLS_CONNECT, true, EMFILE, -1);
	return real(fd, address, size, flags);
}

int getsockopt(int fd, int level, int name, void *restrict value, socklen_t *restrict size)
{
	REAL(getsockopt);
	FAIL_OR(getsockopt, CALLS_CONNECT, false, ENOBUFS, -1);
	return real(fd, level, name, value, size);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	REAL(setsockopt);
	FAIL_OR(setsockopt, CALLS_CONNECT, false, ENOBUFS, -1);
	return real(fd, level, name, value, size);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	REAL(sendmsg);
	FAIL_OR(sendmsg, CALLS_SEND, true, ENOBUFS, -1);
	return real(fd, message, flags);
}

ssize_t send(int fd, const void *from, size_t size, int flags)
{
	REAL(send);
	FAIL_OR(send, CALLS_SEND, true, ENOBUFS, -1);
	return real(fd, from, size, flags);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	REAL(recvmsg);
	FAIL_OR(recvmsg, CALLS_RECEIVE, true, ENOMEM, -1);
	return real(fd, message, flags);
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
	REAL(recv);
	FAIL_OR(recv, CALLS_RECEIVE, true, ENOMEM, -1);
	return real(fd, to, size, flags);
}

int poll(struct pollfd *fds, nfds_t count, int timeout)
{
	REAL(poll);
	FAIL_OR(poll, CALLS_WAIT, true, ENOMEM, -1);
	return real(fds, count, timeout);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
	REAL(ppoll);
	FAIL_OR(ppoll, CALLS_WAIT, true, ENOMEM, -1);
	return real(fds, count, timeout, mask);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	REAL(epoll_wait);
	if (calls_fails("epoll_wait", CALLS_WAIT, true, false) == CALLS_EINTR) {
		errno = EINTR;
		return -1;
	}
	return real(epoll, events, most, timeout);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* inject: the C library's functions, each with its twins (64-bit, fortified, older names). See
 * inject.h.
 *
 * A function that fails says so as its own manual page does: -1, NULL, MAP_FAILED, EOF or the error
 * itself. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1 /* glibc's headers define some of these functions in place */
#endif
#include "inject/inject.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Parameters are named as in this file, not as in the system's headers.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */
#define INJECT_PUBLIC __attribute__((visibility("default")))

/* The next `name`, found once. */
#define INJECT_NEXT(type, name, parameters)                                          \
	static type(*_Atomic next_) parameters;                                      \
	type(*real) parameters = atomic_load_explicit(&next_, memory_order_relaxed); \
	if (!real) {                                                                 \
		real = (type(*) parameters)inject_real(#name);                       \
		atomic_store_explicit(&next_, real, memory_order_relaxed);           \
	}

/* A function that fails by errno and a value. */
#define INJECT_WRAP(call, type, name, parameters, arguments, fd, path, value) \
	INJECT_PUBLIC type name parameters;                                   \
	type name parameters                                                  \
	{                                                                     \
		INJECT_NEXT(type, name, parameters)                           \
		int effect_ = inject_verdict(INJECT_##call, fd, path);        \
		if (effect_ > 0) {                                            \
			errno = effect_;                                      \
			return value;                                         \
		}                                                             \
		return real arguments;                                        \
	}

/* A function that moves `size` bytes. */
#define INJECT_WRAP_BYTES(call, name, parameters, arguments, fd, size) \
	INJECT_PUBLIC ssize_t name parameters;                         \
	ssize_t name parameters                                        \
	{                                                              \
		INJECT_NEXT(ssize_t, name, parameters)                 \
		int effect_ = inject_verdict(INJECT_##call, fd, NULL); \
		if (effect_ > 0) {                                     \
			errno = effect_;                               \
			return -1;                                     \
		}                                                      \
		if (effect_ == INJECT_ZERO)                            \
			return 0;                                      \
		if (effect_ == INJECT_SHORT && (size) > 1)             \
			(size) /= 2;                                   \
		return real arguments;                                 \
	}

/* A function that returns its error. */
#define INJECT_WRAP_ERROR(call, name, parameters, arguments)           \
	INJECT_PUBLIC int name parameters;                             \
	int name parameters                                            \
	{                                                              \
		INJECT_NEXT(int, name, parameters)                     \
		int effect_ = inject_verdict(INJECT_##call, -1, NULL); \
		return effect_ > 0 ? effect_ : real arguments;         \
	}

/* ---- memory: glibc's own names, since finding others allocates ---- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static bool inject_no_memory(enum inject_call call)
{
	int effect = inject_verdict(call, -1, NULL);
	if (effect > 0)
		errno = effect;
	return effect > 0;
}

static void *inject_counted(void *piece)
{
	inject_given(piece);
	return piece;
}

INJECT_PUBLIC void *malloc(size_t size)
{
	return inject_no_memory(INJECT_malloc) ? NULL : inject_counted(__libc_malloc(size));
}

INJECT_PUBLIC void *calloc(size_t count, size_t size)
{
	return inject_no_memory(INJECT_calloc) ? NULL : inject_counted(__libc_calloc(count, size));
}

INJECT_PUBLIC void *realloc(void *old, size_t size)
{
	if (inject_no_memory(INJECT_realloc))
		return NULL;
	inject_given_back(old);
	void *piece = __libc_realloc(old, size);
	inject_given(piece ? piece : size > 0 ? old : NULL);
	return piece;
}

INJECT_PUBLIC void free(void *piece)
{
	inject_given_back(piece);
	__libc_free(piece);
}

INJECT_PUBLIC void *aligned_alloc(size_t alignment, size_t size)
{
	return inject_no_memory(INJECT_posix_memalign)
		       ? NULL
		       : inject_counted(__libc_memalign(alignment, size));
}

INJECT_PUBLIC int posix_memalign(void **ret, size_t alignment, size_t size)
{
	int effect = inject_verdict(INJECT_posix_memalign, -1, NULL);
	if (effect > 0)
		return effect;
	void *memory = inject_counted(__libc_memalign(alignment, size));
	if (!memory)
		return ENOMEM;
	*ret = memory;
	return 0;
}

INJECT_WRAP(mmap, void *, mmap, (void *at, size_t size, int prot, int flags, int fd, off_t offset),
	(at, size, prot, flags, fd, offset), fd, NULL, MAP_FAILED)
INJECT_WRAP(mmap, void *, mmap64,
	(void *at, size_t size, int prot, int flags, int fd, off64_t offset),
	(at, size, prot, flags, fd, offset), fd, NULL, MAP_FAILED)
INJECT_WRAP(munmap, int, munmap, (void *at, size_t size), (at, size), -1, NULL, -1)
INJECT_WRAP(madvise, int, madvise, (void *at, size_t size, int advice), (at, size, advice), -1,
	NULL, -1)
INJECT_WRAP(mlock, int, mlock, (const void *at, size_t size), (at, size), -1, NULL, -1)
INJECT_WRAP(memfd_create, int, memfd_create, (const char *name, unsigned flags), (name, flags), -1,
	NULL, -1)

/* ---- opening ---- */

static mode_t inject_mode(int flags, va_list more)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

#define INJECT_OPEN(name, leading, names, path)                     \
	INJECT_PUBLIC int name leading;                             \
	int name leading                                            \
	{                                                           \
		INJECT_NEXT(int, name, leading)                     \
		va_list more;                                       \
		va_start(more, flags);                              \
		mode_t mode = inject_mode(flags, more);             \
		va_end(more);                                       \
		int effect = inject_verdict(INJECT_open, -1, path); \
		if (effect > 0) {                                   \
			errno = effect;                             \
			return -1;                                  \
		}                                                   \
		return real names;                                  \
	}

INJECT_OPEN(open, (const char *path, int flags, ...), (path, flags, mode), path)
INJECT_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode), path)
INJECT_OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode), path)
INJECT_OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode), path)
INJECT_WRAP(open, int, __open_2, (const char *path, int flags), (path, flags), -1, path, -1)
INJECT_WRAP(open, int, __open64_2, (const char *path, int flags), (path, flags), -1, path, -1)
INJECT_WRAP(open, int, __openat_2, (int at, const char *path, int flags), (at, path, flags), -1,
	path, -1)
INJECT_WRAP(open, int, __openat64_2, (int at, const char *path, int flags), (at, path, flags), -1,
	path, -1)
INJECT_WRAP(
	fopen, FILE *, fopen, (const char *path, const char *mode), (path, mode), -1, path, NULL)
INJECT_WRAP(
	fopen, FILE *, fopen64, (const char *path, const char *mode), (path, mode), -1, path, NULL)
INJECT_WRAP(fdopen, FILE *, fdopen, (int fd, const char *mode), (fd, mode), fd, NULL, NULL)
INJECT_WRAP(opendir, DIR *, opendir, (const char *path), (path), -1, path, NULL)
INJECT_WRAP(opendir, DIR *, fdopendir, (int fd), (fd), fd, NULL, NULL)
INJECT_WRAP(readdir, struct dirent *, readdir, (DIR * dir), (dir), dirfd(dir), NULL, NULL)
INJECT_WRAP(readdir, struct dirent64 *, readdir64, (DIR * dir), (dir), dirfd(dir), NULL, NULL)
INJECT_WRAP(dup, int, dup, (int fd), (fd), fd, NULL, -1)
INJECT_WRAP(dup, int, dup2, (int fd, int to), (fd, to), fd, NULL, -1)
INJECT_WRAP(dup, int, dup3, (int fd, int to, int flags), (fd, to, flags), fd, NULL, -1)
INJECT_WRAP(dlopen, void *, dlopen, (const char *path, int flags), (path, flags), -1, path, NULL)

/* ---- stdio ---- */

INJECT_WRAP(getline, ssize_t, getline, (char **line, size_t *size, FILE *file), (line, size, file),
	fileno(file), NULL, -1)
INJECT_WRAP(getline, ssize_t, __getdelim, (char **line, size_t *size, int end, FILE *file),
	(line, size, end, file), fileno(file), NULL, -1)
INJECT_WRAP(fflush, int, fflush, (FILE * file), (file), -1, NULL, EOF)

/* What is to be closed is closed. */
INJECT_PUBLIC int fclose(FILE *file)
{
	INJECT_NEXT(int, fclose, (FILE *))
	int effect = inject_verdict(INJECT_fclose, -1, NULL), rc = real(file);
	if (effect > 0) {
		errno = effect;
		rc = EOF;
	}
	return rc;
}

INJECT_PUBLIC int close(int fd)
{
	INJECT_NEXT(int, close, (int))
	int effect = inject_verdict(INJECT_close, fd, NULL), rc = real(fd);
	if (effect > 0) {
		errno = effect;
		rc = -1;
	}
	return rc;
}

/* ---- bytes ---- */

INJECT_WRAP_BYTES(read, read, (int fd, void *at, size_t size), (fd, at, size), fd, size)
INJECT_WRAP_BYTES(read, __read_chk, (int fd, void *at, size_t size, size_t room),
	(fd, at, size, room), fd, size)
INJECT_WRAP_BYTES(pread, pread, (int fd, void *at, size_t size, off_t offset),
	(fd, at, size, offset), fd, size)
INJECT_WRAP_BYTES(pread, pread64, (int fd, void *at, size_t size, off64_t offset),
	(fd, at, size, offset), fd, size)
INJECT_WRAP_BYTES(pread, __pread_chk, (int fd, void *at, size_t size, off_t offset, size_t room),
	(fd, at, size, offset, room), fd, size)
INJECT_WRAP_BYTES(pread, __pread64_chk,
	(int fd, void *at, size_t size, off64_t offset, size_t room), (fd, at, size, offset, room),
	fd, size)
INJECT_WRAP_BYTES(write, write, (int fd, const void *at, size_t size), (fd, at, size), fd, size)
INJECT_WRAP_BYTES(pwrite, pwrite, (int fd, const void *at, size_t size, off_t offset),
	(fd, at, size, offset), fd, size)
INJECT_WRAP_BYTES(pwrite, pwrite64, (int fd, const void *at, size_t size, off64_t offset),
	(fd, at, size, offset), fd, size)

/* ---- files ---- */

INJECT_WRAP(fsync, int, fsync, (int fd), (fd), fd, NULL, -1)
INJECT_WRAP(fsync, int, fdatasync, (int fd), (fd), fd, NULL, -1)
INJECT_WRAP(ftruncate, int, ftruncate, (int fd, off_t size), (fd, size), fd, NULL, -1)
INJECT_WRAP(ftruncate, int, ftruncate64, (int fd, off64_t size), (fd, size), fd, NULL, -1)
INJECT_WRAP(fallocate, int, fallocate, (int fd, int mode, off_t at, off_t size),
	(fd, mode, at, size), fd, NULL, -1)
INJECT_WRAP(fallocate, int, fallocate64, (int fd, int mode, off64_t at, off64_t size),
	(fd, mode, at, size), fd, NULL, -1)
INJECT_WRAP_ERROR(fallocate, posix_fallocate, (int fd, off_t at, off_t size), (fd, at, size))
INJECT_WRAP_ERROR(fallocate, posix_fallocate64, (int fd, off64_t at, off64_t size), (fd, at, size))
INJECT_WRAP_ERROR(
	fadvise, posix_fadvise, (int fd, off_t at, off_t size, int advice), (fd, at, size, advice))
INJECT_WRAP_ERROR(fadvise, posix_fadvise64, (int fd, off64_t at, off64_t size, int advice),
	(fd, at, size, advice))
INJECT_WRAP(rename, int, rename, (const char *path, const char *to), (path, to), -1, path, -1)
INJECT_WRAP(rename, int, renameat, (int at, const char *path, int at_to, const char *to),
	(at, path, at_to, to), -1, path, -1)
INJECT_WRAP(unlink, int, unlink, (const char *path), (path), -1, path, -1)
INJECT_WRAP(unlink, int, unlinkat, (int at, const char *path, int flags), (at, path, flags), -1,
	path, -1)
INJECT_WRAP(mkdir, int, mkdir, (const char *path, mode_t mode), (path, mode), -1, path, -1)
INJECT_WRAP(mkostemp, int, mkostemp, (char *path, int flags), (path, flags), -1, path, -1)
INJECT_WRAP(mkostemp, int, mkostemp64, (char *path, int flags), (path, flags), -1, path, -1)
INJECT_WRAP(stat, int, stat, (const char *path, struct stat *ret), (path, ret), -1, path, -1)
INJECT_WRAP(stat, int, lstat, (const char *path, struct stat *ret), (path, ret), -1, path, -1)
INJECT_WRAP(stat, int, fstat, (int fd, struct stat *ret), (fd, ret), fd, NULL, -1)
INJECT_WRAP(stat, int, fstatat, (int at, const char *path, struct stat *ret, int flags),
	(at, path, ret, flags), -1, path, -1)
INJECT_WRAP(stat, int, stat64, (const char *path, struct stat64 *ret), (path, ret), -1, path, -1)
INJECT_WRAP(stat, int, lstat64, (const char *path, struct stat64 *ret), (path, ret), -1, path, -1)
INJECT_WRAP(stat, int, fstat64, (int fd, struct stat64 *ret), (fd, ret), fd, NULL, -1)
INJECT_WRAP(stat, int, fstatat64, (int at, const char *path, struct stat64 *ret, int flags),
	(at, path, ret, flags), -1, path, -1)
INJECT_WRAP(stat, int, statx,
	(int at, const char *path, int flags, unsigned mask, struct statx *ret),
	(at, path, flags, mask, ret), *path ? -1 : at, *path ? path : NULL, -1)
INJECT_WRAP(
	statvfs, int, statvfs, (const char *path, struct statvfs *ret), (path, ret), -1, path, -1)
INJECT_WRAP(statvfs, int, statvfs64, (const char *path, struct statvfs64 *ret), (path, ret), -1,
	path, -1)
INJECT_WRAP(access, int, access, (const char *path, int mode), (path, mode), -1, path, -1)
INJECT_WRAP(fchmod, int, fchmod, (int fd, mode_t mode), (fd, mode), fd, NULL, -1)
INJECT_WRAP(getcwd, char *, getcwd, (char *at, size_t size), (at, size), -1, NULL, NULL)
INJECT_WRAP(realpath, char *, realpath, (const char *path, char *at), (path, at), -1, path, NULL)
INJECT_WRAP(flock, int, flock, (int fd, int how), (fd, how), fd, NULL, -1)

/* One argument of a word's size, whether the caller passes it or not. */
#define INJECT_WORD(type, name, leading, last, names, fd)             \
	INJECT_PUBLIC type name leading;                              \
	type name leading                                             \
	{                                                             \
		INJECT_NEXT(type, name, leading)                      \
		va_list more;                                         \
		va_start(more, last);                                 \
		void *word = va_arg(more, void *);                    \
		va_end(more);                                         \
		int effect = inject_verdict(INJECT_##name, fd, NULL); \
		if (effect > 0) {                                     \
			errno = effect;                               \
			return -1;                                    \
		}                                                     \
		return real names;                                    \
	}

INJECT_WORD(int, fcntl, (int fd, int what, ...), what, (fd, what, word), fd)
#define INJECT_fcntl64 INJECT_fcntl
INJECT_WORD(int, fcntl64, (int fd, int what, ...), what, (fd, what, word), fd)
INJECT_WORD(int, ioctl, (int fd, unsigned long what, ...), what, (fd, what, word), fd)

/* ---- sockets ---- */

INJECT_WRAP(socket, int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1,
	NULL, -1)
INJECT_WRAP(socketpair, int, socketpair, (int domain, int type, int protocol, int ret[2]),
	(domain, type, protocol, ret), -1, NULL, -1)
INJECT_WRAP(bind, int, bind, (int fd, __CONST_SOCKADDR_ARG at, socklen_t size), (fd, at, size), fd,
	NULL, -1)
INJECT_WRAP(listen, int, listen, (int fd, int backlog), (fd, backlog), fd, NULL, -1)
INJECT_WRAP(accept, int, accept, (int fd, __SOCKADDR_ARG at, socklen_t *restrict size),
	(fd, at, size), fd, NULL, -1)
INJECT_WRAP(accept, int, accept4, (int fd, __SOCKADDR_ARG at, socklen_t *restrict size, int flags),
	(fd, at, size, flags), fd, NULL, -1)
INJECT_WRAP(connect, int, connect, (int fd, __CONST_SOCKADDR_ARG at, socklen_t size),
	(fd, at, size), fd, NULL, -1)
INJECT_WRAP(setsockopt, int, setsockopt,
	(int fd, int level, int name, const void *value, socklen_t size),
	(fd, level, name, value, size), fd, NULL, -1)
INJECT_WRAP(getsockopt, int, getsockopt,
	(int fd, int level, int name, void *restrict value, socklen_t *restrict size),
	(fd, level, name, value, size), fd, NULL, -1)
INJECT_WRAP(getsockname, int, getsockname, (int fd, __SOCKADDR_ARG at, socklen_t *restrict size),
	(fd, at, size), fd, NULL, -1)
INJECT_WRAP(getaddrinfo, int, getaddrinfo,
	(const char *restrict node, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict ret),
	(node, service, hints, ret), -1, NULL, EAI_SYSTEM)
INJECT_WRAP_BYTES(send, send, (int fd, const void *at, size_t size, int flags),
	(fd, at, size, flags), fd, size)
INJECT_WRAP_BYTES(
	recv, recv, (int fd, void *at, size_t size, int flags), (fd, at, size, flags), fd, size)
INJECT_WRAP(sendmsg, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
	(fd, message, flags), fd, NULL, -1)

/* Zero: the peer has hung up. */
INJECT_PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	INJECT_NEXT(ssize_t, recvmsg, (int, struct msghdr *, int))
	int effect = inject_verdict(INJECT_recvmsg, fd, NULL);
	if (effect > 0)
		errno = effect;
	if (effect == INJECT_ZERO) {
		message->msg_controllen = 0;
		message->msg_flags = 0;
	}
	return effect > 0 ? -1 : effect == INJECT_ZERO ? 0 : real(fd, message, flags);
}

/* ---- waiting ---- */

INJECT_WRAP(epoll_create, int, epoll_create1, (int flags), (flags), -1, NULL, -1)

/* What is watched already takes no memory to be changed. */
INJECT_PUBLIC int epoll_ctl(int fd, int what, int of, struct epoll_event *event)
{
	INJECT_NEXT(int, epoll_ctl, (int, int, int, struct epoll_event *))
	int effect = what == EPOLL_CTL_ADD ? inject_verdict(INJECT_epoll_ctl, of, NULL) : 0;
	if (effect > 0)
		errno = effect;
	return effect > 0 ? -1 : real(fd, what, of, event);
}

INJECT_WRAP(epoll_wait, int, epoll_wait, (int fd, struct epoll_event *ret, int most, int ms),
	(fd, ret, most, ms), fd, NULL, -1)
INJECT_WRAP(poll, int, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms), -1,
	NULL, -1)
INJECT_WRAP(eventfd, int, eventfd, (unsigned count, int flags), (count, flags), -1, NULL, -1)
INJECT_WRAP(eventfd_read, int, eventfd_read, (int fd, eventfd_t *ret), (fd, ret), fd, NULL, -1)
INJECT_WRAP(timerfd_create, int, timerfd_create, (clockid_t clock, int flags), (clock, flags), -1,
	NULL, -1)
INJECT_WRAP(timerfd_settime, int, timerfd_settime,
	(int fd, int flags, const struct itimerspec *to, struct itimerspec *ret),
	(fd, flags, to, ret), fd, NULL, -1)
INJECT_WRAP(signalfd, int, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags),
	-1, NULL, -1)

/* ---- threads, processes, what the system is asked ---- */

INJECT_WRAP_ERROR(pthread_create, pthread_create,
	(pthread_t *restrict ret, const pthread_attr_t *restrict attr, void *(*run)(void *),
		void *restrict context),
	(ret, attr, run, context))
INJECT_WRAP(sem_init, int, sem_init, (sem_t * sem, int shared, unsigned value),
	(sem, shared, value), -1, NULL, -1)
INJECT_WRAP(fork, pid_t, fork, (void), (), -1, NULL, -1)
INJECT_WRAP(setrlimit, int, setrlimit, (__rlimit_resource_t what, const struct rlimit *to),
	(what, to), -1, NULL, -1)
INJECT_WRAP(getrlimit, int, getrlimit, (__rlimit_resource_t what, struct rlimit *ret), (what, ret),
	-1, NULL, -1)
INJECT_WRAP(sched_getaffinity, int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t *ret),
	(pid, size, ret), -1, NULL, -1)
INJECT_WRAP(setpriority, int, setpriority, (__priority_which_t which, id_t who, int to),
	(which, who, to), -1, NULL, -1)
INJECT_WRAP(uname, int, uname, (struct utsname * ret), (ret), -1, NULL, -1)

/* As many words as either can take, whether they are there or not. */
#define INJECT_WORDS(type, name, first)                                                    \
	INJECT_PUBLIC type name(first number, ...);                                        \
	type name(first number, ...)                                                       \
	{                                                                                  \
		INJECT_NEXT(type, name, (first, ...))                                      \
		long word[6];                                                              \
		va_list more;                                                              \
		va_start(more, number);                                                    \
		for (int i = 0; i < 6; i++)                                                \
			word[i] = va_arg(more, long);                                      \
		va_end(more);                                                              \
		int effect = inject_verdict(INJECT_##name, -1, NULL);                      \
		if (effect > 0) {                                                          \
			errno = effect;                                                    \
			return -1;                                                         \
		}                                                                          \
		return real(number, word[0], word[1], word[2], word[3], word[4], word[5]); \
	}

INJECT_WORDS(long, syscall, long)
INJECT_WORDS(int, prctl, int)
/* NOLINTEND(readability-inconsistent-declaration-parameter-name,bugprone-macro-parentheses) */

/* calls: see calls.h. Every thread of the program comes here; nothing here allocates. */
/* Seen by the libraries, whose calls are to come here. */
#pragma GCC visibility push(default)

#include "torture_unit/calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <unwind.h>

/* The declarations of <stdio.h> and others say more than definitions here have to. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { RING_STRIKES = 200 };

struct calls *calls;

static atomic_bool armed;
static _Thread_local bool inside;

void calls_arm(bool on)
{
	atomic_store(&armed, on);
}

/* ---- where a call comes from ---- */

struct walk {
	void **frame;
	int count, skip;
};

static _Unwind_Reason_Code walk_step(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	if (walk->skip > 0)
		walk->skip--;
	else
		walk->frame[walk->count++] = (void *)(uintptr_t)_Unwind_GetIP(context);
	return walk->count < CALLS_FRAMES ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static uint64_t hash_of(void *const *frame, int count, const char *name)
{
	uint64_t h = (uint64_t)(uintptr_t)name * 0x9e3779b97f4a7c15u;
	for (int i = 0; i < count && i < CALLS_HASHED; i++) {
		h ^= (uint64_t)(uintptr_t)frame[i];
		h *= 0x94d049bb133111ebu;
		h ^= h >> 29;
	}
	return h ? h : 1;
}

static void lock(void)
{
	while (atomic_exchange_explicit(&calls->lock, 1, memory_order_acquire))
		;
}

static void unlock(void)
{
	atomic_store_explicit(&calls->lock, 0, memory_order_release);
}

static void note(uint64_t hash, const struct calls_site *like)
{
	lock();
	uint32_t i = 0;
	while (i < calls->sites && calls->site[i].hash != hash)
		i++;
	if (i < CALLS_SITES) {
		if (i == calls->sites) {
			calls->site[i] = *like;
			calls->site[i].hash = hash;
			calls->sites++;
		}
		calls->site[i].times++;
	}
	unlock();
}

/* Whether this is the call that is to fail, and in which way. */
static bool is_target(uint64_t hash, const struct calls_site *like)
{
	if ((calls->mode == CALLS_EINTR && !like->interruptible) ||
		(calls->mode == CALLS_SHORT && !like->divisible))
		return false;
	if (!calls->target)
		return atomic_load(&calls->count) == calls->nth;
	return hash == calls->target && atomic_fetch_add(&calls->at_target, 1) + 1 == calls->nth;
}

static void strike(const struct calls_site *like, void *const *frame, int count)
{
	calls->struck_name = like->name;
	calls->struck_family = like->family;
	calls->frames = count;
	memcpy(calls->frame, frame, (size_t)count * sizeof *frame);
	atomic_fetch_add(&calls->strikes, 1);
	atomic_store(&calls->struck, true);
}

/* -1: goes on; else the enum calls_mode in which it fails. */
static int decide(const struct calls_site *like)
{
	void *frame[CALLS_FRAMES];
	struct walk walk = {frame, 0, 2};
	if (atomic_load(&calls->struck)) {
		if (calls->mode != CALLS_FOREVER || calls->struck_family != like->family)
			return -1;
		/* A ring that is busy, or short of memory, is so for a time. */
		if (atomic_fetch_add(&calls->strikes, 1) >= RING_STRIKES &&
			like->family == CALLS_RING)
			return -1;
		return CALLS_FOREVER;
	}
	atomic_fetch_add(&calls->count, 1);
	if (!calls->watch && !calls->target && atomic_load(&calls->count) < calls->nth)
		return -1;
	(void)_Unwind_Backtrace(walk_step, &walk);
	uint64_t hash = hash_of(frame, walk.count, like->name);
	if (calls->watch) {
		note(hash, like);
		return -1;
	}
	if (!is_target(hash, like))
		return -1;
	strike(like, frame, walk.count);
	return (int)calls->mode;
}

static __attribute__((noinline)) int fails(
	const char *name, enum calls_family family, bool interruptible, bool divisible)
{
	if (!atomic_load_explicit(&armed, memory_order_relaxed) || inside)
		return -1;
	int saved = errno;
	inside = true;
	struct calls_site like = {.family = (uint8_t)family,
		.interruptible = interruptible,
		.divisible = divisible,
		.name = name};
	int mode = decide(&like);
	inside = false;
	errno = saved;
	return mode;
}

/* ---- the real ones ---- */

#define REAL(name)                                                                    \
	static _Atomic(void *) real_##name;                                           \
	void *at_##name = atomic_load_explicit(&real_##name, memory_order_relaxed);   \
	if (!at_##name) {                                                             \
		bool was_##name = inside;                                             \
		inside = true;                                                        \
		at_##name = dlsym(RTLD_NEXT, #name);                                  \
		inside = was_##name;                                                  \
		atomic_store_explicit(&real_##name, at_##name, memory_order_relaxed); \
	}                                                                             \
	__typeof__(name) *real = (__typeof__(name) *)(uintptr_t)at_##name

/* Fails with a natural errno, or with EINTR. */
#define FAIL_OR(name, family, interruptible, error, failure)            \
	do {                                                            \
		int mode_ = fails(#name, family, interruptible, false); \
		if (mode_ >= 0) {                                       \
			errno = mode_ == CALLS_EINTR ? EINTR : (error); \
			return failure;                                 \
		}                                                       \
	} while (0)

/* ---- memory ---- */

/* The C library's and liburing's names for parameters are not for others.
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

extern void *__interceptor_malloc(size_t size) __attribute__((weak));
extern void *__interceptor_calloc(size_t count, size_t size) __attribute__((weak));
extern void *__interceptor_realloc(void *old, size_t size) __attribute__((weak));
extern int __interceptor_posix_memalign(void **ret, size_t align, size_t size)
	__attribute__((weak));
extern void *__interceptor_aligned_alloc(size_t align, size_t size) __attribute__((weak));
extern int __interceptor_pthread_create(pthread_t *ret, const pthread_attr_t *attributes,
	void *(*run)(void *), void *argument) __attribute__((weak));
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
	FAIL_OR(malloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	FAIL_OR(calloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_calloc ? __interceptor_calloc(count, size)
				    : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	FAIL_OR(realloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t size)
{
	FAIL_OR(aligned_alloc, CALLS_MEMORY, false, ENOMEM, NULL);
	return __interceptor_aligned_alloc ? __interceptor_aligned_alloc(align, size)
					   : __libc_memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	if (fails("posix_memalign", CALLS_MEMORY, false, false) >= 0)
		return ENOMEM;
	if (__interceptor_posix_memalign)
		return __interceptor_posix_memalign(ret, align, size);
	void *memory = __libc_memalign(align, size);
	if (!memory)
		return ENOMEM;
	*ret = memory;
	return 0;
}

char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);
	return copy ? memcpy(copy, text, size) : NULL;
}

char *strndup(const char *text, size_t most)
{
	size_t size = strnlen(text, most);
	char *copy = malloc(size + 1);
	if (copy) {
		memcpy(copy, text, size);
		copy[size] = '\0';
	}
	return copy;
}

/* ---- mappings ---- */

enum { MAPPINGS = 512 };
static struct mapping {
	_Atomic uintptr_t base;
} mapping[MAPPINGS];

static void remember(void *base)
{
	for (int i = 0; i < MAPPINGS; i++) {
		uintptr_t none = 0;
		if (atomic_compare_exchange_strong(&mapping[i].base, &none, (uintptr_t)base))
			return;
	}
}

static void forget(const void *base)
{
	for (int i = 0; i < MAPPINGS; i++) {
		uintptr_t this = (uintptr_t)base;
		if (atomic_compare_exchange_strong(&mapping[i].base, &this, 0))
			return;
	}
}

unsigned calls_mappings(void)
{
	unsigned count = 0;
	for (int i = 0; i < MAPPINGS; i++)
		count += atomic_load(&mapping[i].base) != 0;
	return count;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	REAL(mmap);
	FAIL_OR(mmap, CALLS_MAP, false, ENOMEM, MAP_FAILED);
	void *base = real(at, size, protection, flags, fd, offset);
	if (base != MAP_FAILED && atomic_load(&armed) && !inside && !(flags & MAP_FIXED))
		remember(base);
	return base;
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return mmap(at, size, protection, flags, fd, offset);
}

int munmap(void *at, size_t size)
{
	REAL(munmap);
	forget(at);
	return real(at, size);
}

int mprotect(void *at, size_t size, int protection)
{
	REAL(mprotect);
	FAIL_OR(mprotect, CALLS_MAP, false, ENOMEM, -1);
	return real(at, size, protection);
}

int mlock(const void *at, size_t size)
{
	REAL(mlock);
	FAIL_OR(mlock, CALLS_MAP, false, ENOMEM, -1);
	return real(at, size);
}

int madvise(void *at, size_t size, int advice)
{
	REAL(madvise);
	FAIL_OR(madvise, CALLS_MAP, false, ENOMEM, -1);
	return real(at, size, advice);
}

/* ---- files ---- */

static mode_t mode_of(int flags, va_list list)
{
	return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(list, unsigned) : 0;
}

int open(const char *path, int flags, ...)
{
	REAL(open);
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	FAIL_OR(open, CALLS_OPEN, false, EMFILE, -1);
	return real(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	REAL(open64);
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	FAIL_OR(open, CALLS_OPEN, false, EMFILE, -1);
	return real(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
	REAL(openat);
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	FAIL_OR(openat, CALLS_OPEN, false, EMFILE, -1);
	return real(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...)
{
	REAL(openat64);
	va_list list;
	va_start(list, flags);
	mode_t mode = mode_of(flags, list);
	va_end(list);
	FAIL_OR(openat, CALLS_OPEN, false, EMFILE, -1);
	return real(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *how)
{
	REAL(fopen);
	FAIL_OR(fopen, CALLS_OPEN, false, EMFILE, NULL);
	return real(path, how);
}

DIR *opendir(const char *path)
{
	REAL(opendir);
	FAIL_OR(opendir, CALLS_OPEN, false, EMFILE, NULL);
	return real(path);
}

DIR *fdopendir(int fd)
{
	REAL(fdopendir);
	FAIL_OR(fdopendir, CALLS_MEMORY, false, ENOMEM, NULL);
	return real(fd);
}

struct dirent *readdir(DIR *folder)
{
	REAL(readdir);
	FAIL_OR(readdir, CALLS_READ, false, EIO, NULL);
	return real(folder);
}

enum what { REGULAR, FOLDER, OTHER, NOTHING };

/* What a descriptor is: only storage fails with EIO and ENOSPC, and counters (eventfd and the like)
 * with nothing. */
static enum what what_is(int fd)
{
	struct stat st;
	if (syscall(SYS_fstat, fd, &st) < 0)
		return NOTHING;
	if (S_ISREG(st.st_mode))
		return REGULAR;
	if (S_ISDIR(st.st_mode))
		return FOLDER;
	return S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) ? OTHER
										   : NOTHING;
}

static bool is_storage(int fd)
{
	return atomic_load_explicit(&armed, memory_order_relaxed) && what_is(fd) == REGULAR;
}

/* *size becomes half where it is to be short. */
static int transfer_fails(const char *name, enum calls_family family, int fd, size_t *size)
{
	if (!is_storage(fd))
		return -1;
	int mode = fails(name, family, true, true);
	if (mode == CALLS_SHORT) {
		*size = *size > 1 ? *size / 2 : *size;
		return -1;
	}
	if (mode >= 0)
		errno = mode == CALLS_EINTR ? EINTR : family == CALLS_READ ? EIO : ENOSPC;
	return mode;
}

ssize_t read(int fd, void *to, size_t size)
{
	REAL(read);
	return transfer_fails("read", CALLS_READ, fd, &size) >= 0 ? -1 : real(fd, to, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t offset)
{
	REAL(pread);
	return transfer_fails("pread", CALLS_READ, fd, &size) >= 0 ? -1
								   : real(fd, to, size, offset);
}

ssize_t pread64(int fd, void *to, size_t size, off_t offset)
{
	return pread(fd, to, size, offset);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
	REAL(preadv);
	size_t size = 0;
	int mode = is_storage(fd) ? fails("preadv", CALLS_READ, true, true) : -1;
	if (mode == CALLS_SHORT) {
		size = parts[0].iov_len > 1 ? parts[0].iov_len / 2 : parts[0].iov_len;
		return pread(fd, parts[0].iov_base, size, offset);
	}
	if (mode >= 0) {
		errno = mode == CALLS_EINTR ? EINTR : EIO;
		return -1;
	}
	return real(fd, parts, count, offset);
}

ssize_t write(int fd, const void *from, size_t size)
{
	REAL(write);
	return transfer_fails("write", CALLS_WRITE, fd, &size) >= 0 ? -1 : real(fd, from, size);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t offset)
{
	REAL(pwrite);
	return transfer_fails("pwrite", CALLS_WRITE, fd, &size) >= 0 ? -1
								     : real(fd, from, size, offset);
}

ssize_t pwrite64(int fd, const void *from, size_t size, off_t offset)
{
	return pwrite(fd, from, size, offset);
}

int close(int fd)
{
	REAL(close);
	if (is_storage(fd)) {
		int mode = fails("close", CALLS_CLOSE, true, false);
		if (mode >= 0) {
			(void)real(fd);
			errno = mode == CALLS_EINTR ? EINTR : EIO;
			return -1;
		}
	}
	return real(fd);
}

#define STAT_CALL(name, ...) FAIL_OR(name, CALLS_STAT, false, EIO, -1)

int fstat(int fd, struct stat *ret)
{
	REAL(fstat);
	STAT_CALL(fstat);
	return real(fd, ret);
}

int stat(const char *restrict path, struct stat *restrict ret)
{
	REAL(stat);
	STAT_CALL(stat);
	return real(path, ret);
}

int lstat(const char *restrict path, struct stat *restrict ret)
{
	REAL(lstat);
	STAT_CALL(lstat);
	return real(path, ret);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict ret, int flags)
{
	REAL(fstatat);
	STAT_CALL(fstatat);
	return real(folder, path, ret, flags);
}

int statx(
	int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict ret)
{
	REAL(statx);
	STAT_CALL(statx);
	return real(folder, path, flags, mask, ret);
}

int access(const char *path, int how)
{
	REAL(access);
	STAT_CALL(access);
	return real(path, how);
}

int rename(const char *from, const char *to)
{
	REAL(rename);
	FAIL_OR(rename, CALLS_NAME, false, EIO, -1);
	return real(from, to);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	REAL(renameat);
	FAIL_OR(renameat, CALLS_NAME, false, EIO, -1);
	return real(from_folder, from, to_folder, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
	REAL(linkat);
	FAIL_OR(linkat, CALLS_NAME, false, ENOSPC, -1);
	return real(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path)
{
	REAL(unlink);
	FAIL_OR(unlink, CALLS_NAME, false, EIO, -1);
	return real(path);
}

int unlinkat(int folder, const char *path, int flags)
{
	REAL(unlinkat);
	FAIL_OR(unlinkat, CALLS_NAME, false, EIO, -1);
	return real(folder, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
	REAL(mkdir);
	FAIL_OR(mkdir, CALLS_NAME, false, ENOSPC, -1);
	return real(path, mode);
}

int mkdirat(int folder, const char *path, mode_t mode)
{
	REAL(mkdirat);
	FAIL_OR(mkdirat, CALLS_NAME, false, ENOSPC, -1);
	return real(folder, path, mode);
}

int fsync(int fd)
{
	REAL(fsync);
	FAIL_OR(fsync, CALLS_SYNC, false, EIO, -1);
	return real(fd);
}

int fdatasync(int fd)
{
	REAL(fdatasync);
	FAIL_OR(fdatasync, CALLS_SYNC, false, EIO, -1);
	return real(fd);
}

int ftruncate(int fd, off_t size)
{
	REAL(ftruncate);
	FAIL_OR(ftruncate, CALLS_SIZE, false, EIO, -1);
	return real(fd, size);
}

int fallocate(int fd, int how, off_t offset, off_t size)
{
	REAL(fallocate);
	FAIL_OR(fallocate, CALLS_SIZE, false, ENOSPC, -1);
	return real(fd, how, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
	REAL(posix_fallocate);
	int mode = fails("posix_fallocate", CALLS_SIZE, false, false);
	if (mode >= 0)
		return ENOSPC;
	return real(fd, offset, size);
}

int flock(int fd, int how)
{
	REAL(flock);
	FAIL_OR(flock, CALLS_LOCK, false, ENOLCK, -1);
	return real(fd, how);
}

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
	if (fails("epoll_wait", CALLS_WAIT, true, false) == CALLS_EINTR) {
		errno = EINTR;
		return -1;
	}
	return real(epoll, events, most, timeout);
}

/* ---- threads and processes ---- */

int pthread_create(pthread_t *restrict ret, const pthread_attr_t *restrict attributes,
	void *(*run)(void *), void *restrict argument)
{
	REAL(pthread_create);
	if (fails("pthread_create", CALLS_PROCESS, false, false) >= 0)
		return EAGAIN;
	return __interceptor_pthread_create
		       ? __interceptor_pthread_create(ret, attributes, run, argument)
		       : real(ret, attributes, run, argument);
}

/* Sanitizers ask when a thread starts, and end the program where this has no memory. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *ret)
{
	REAL(pthread_getattr_np);
	bool was = inside;
	inside = true;
	int result = real(thread, ret);
	inside = was;
	return result;
}

pid_t fork(void)
{
	REAL(fork);
	FAIL_OR(fork, CALLS_PROCESS, false, EAGAIN, -1);
	return real();
}

/* ---- io_uring ---- */

#define RING_CALL(name, error)                                   \
	do {                                                     \
		if (fails(#name, CALLS_RING, false, false) >= 0) \
			return -(error);                         \
	} while (0)

int io_uring_queue_init_params(
	unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
	REAL(io_uring_queue_init_params);
	RING_CALL(io_uring_queue_init_params, ENOMEM);
	return real(entries, ring, params);
}

int io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	REAL(io_uring_queue_init);
	RING_CALL(io_uring_queue_init, ENOMEM);
	return real(entries, ring, flags);
}

struct io_uring_probe *io_uring_get_probe_ring(struct io_uring *ring)
{
	REAL(io_uring_get_probe_ring);
	if (fails("io_uring_get_probe_ring", CALLS_RING, false, false) >= 0)
		return NULL;
	return real(ring);
}

int io_uring_register_buffers(struct io_uring *ring, const struct iovec *parts, unsigned count)
{
	REAL(io_uring_register_buffers);
	RING_CALL(io_uring_register_buffers, ENOMEM);
	return real(ring, parts, count);
}

int io_uring_register_files(struct io_uring *ring, const int *files, unsigned count)
{
	REAL(io_uring_register_files);
	RING_CALL(io_uring_register_files, EMFILE);
	return real(ring, files, count);
}

int io_uring_register_files_update(
	struct io_uring *ring, unsigned from, const int *files, unsigned count)
{
	REAL(io_uring_register_files_update);
	RING_CALL(io_uring_register_files_update, ENOMEM);
	return real(ring, from, files, count);
}

int io_uring_submit(struct io_uring *ring)
{
	REAL(io_uring_submit);
	RING_CALL(io_uring_submit, EAGAIN);
	return real(ring);
}

int io_uring_submit_and_wait(struct io_uring *ring, unsigned wanted)
{
	REAL(io_uring_submit_and_wait);
	RING_CALL(io_uring_submit_and_wait, EAGAIN);
	return real(ring, wanted);
}

int io_uring_submit_and_get_events(struct io_uring *ring)
{
	REAL(io_uring_submit_and_get_events);
	RING_CALL(io_uring_submit_and_get_events, EAGAIN);
	return real(ring);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

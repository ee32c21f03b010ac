/* inject: calls of the C library and of liburing that are made to fail, in a program that knows
 * nothing of it.
 *
 *   LD_PRELOAD=bin/libpenstock_inject.so PENSTOCK_INJECT=malloc:17 penstockd ...
 *
 * inject.c          the rules, the counts, the places that calls came from
 * inject_calls.c    the C library's functions
 * inject_uring.c    liburing's functions, and what rings answer
 * inject.py         the same from a test: arms and disarms while the program runs
 *
 * Environment, read once when the program starts:
 *
 *   PENSTOCK_INJECT=RULE[,RULE...]
 *       RULE is CALL:FROM[+|-TO][@SITE][:EFFECT]. The FROM-th of these calls fails, with + all from
 *       there on, with -TO all up to that one. SITE: only calls from the place of this number, in
 *       hex (inject.py lists them). EFFECT is the name of an errno (EIO), or `short` (half of what
 *       was asked for) or `zero` (nothing, as at the end of a file); without it the call's own
 *       first error (inject_table).
 *   PENSTOCK_INJECT_PATH=WORD
 *       of calls that take a path or a descriptor, only those whose path contains WORD; the rules
 *       of the environment alone
 *   PENSTOCK_INJECT_PROGRAM=NAME
 *       only in the program of this name (the last part of argv[0]); its children by fork included
 *   PENSTOCK_INJECT_FILE=PATH
 *       struct inject_shared lies in this file, of at least its size, for others to map: counts,
 *       rules, what failed. Without it in memory that forked children share.
 *   PENSTOCK_INJECT_LOG=PATH
 *       a line is appended for each call that is made to fail: which, the how-manyth, and the
 *       addresses that it came from, as FILE+OFFSET for addr2line -fe FILE OFFSET
 *   PENSTOCK_INJECT_COLLECT=1
 *       notes the places that calls come from (in the file: `collect`)
 *
 * CALL is a name of inject_table: mostly the function's, open64 and __open_2 counting as open and
 * so on. Answers of a ring are completion_read and completion_open: EIO, EAGAIN, zero, short. A
 * call that is made to fail has no other effect, but that close does close, and what an altered
 * completion_open had opened is closed.
 *
 * Any thread. Takes no locks, and memory only from glibc's own allocator. */
#ifndef PENSTOCK_INJECT_H
#define PENSTOCK_INJECT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, the error that it fails with when none is asked for) */
#define INJECT_TABLE(X)               \
	X(malloc, ENOMEM)             \
	X(calloc, ENOMEM)             \
	X(realloc, ENOMEM)            \
	X(posix_memalign, ENOMEM)     \
	X(mmap, ENOMEM)               \
	X(munmap, ENOMEM)             \
	X(madvise, EINVAL)            \
	X(mlock, ENOMEM)              \
	X(memfd_create, EMFILE)       \
	X(open, EMFILE)               \
	X(fopen, EMFILE)              \
	X(fdopen, ENOMEM)             \
	X(opendir, EMFILE)            \
	X(readdir, EIO)               \
	X(getline, EIO)               \
	X(fflush, ENOSPC)             \
	X(fclose, ENOSPC)             \
	X(close, EIO)                 \
	X(dup, EMFILE)                \
	X(read, EIO)                  \
	X(pread, EIO)                 \
	X(write, ENOSPC)              \
	X(pwrite, ENOSPC)             \
	X(fsync, EIO)                 \
	X(ftruncate, EIO)             \
	X(fallocate, ENOSPC)          \
	X(rename, EIO)                \
	X(unlink, EIO)                \
	X(mkdir, ENOSPC)              \
	X(mkostemp, ENOSPC)           \
	X(stat, EIO)                  \
	X(statvfs, EIO)               \
	X(access, EIO)                \
	X(fchmod, EPERM)              \
	X(getcwd, ENOENT)             \
	X(realpath, ENOENT)           \
	X(fcntl, EINVAL)              \
	X(ioctl, ENOTTY)              \
	X(flock, ENOLCK)              \
	X(fadvise, EINVAL)            \
	X(socket, EMFILE)             \
	X(socketpair, EMFILE)         \
	X(bind, EACCES)               \
	X(listen, EADDRINUSE)         \
	X(accept, EMFILE)             \
	X(connect, ECONNREFUSED)      \
	X(setsockopt, ENOMEM)         \
	X(getsockopt, ENOBUFS)        \
	X(getsockname, ENOBUFS)       \
	X(getaddrinfo, EIO)           \
	X(send, ENOBUFS)              \
	X(sendmsg, ENOBUFS)           \
	X(recv, ENOMEM)               \
	X(recvmsg, ENOMEM)            \
	X(epoll_create, EMFILE)       \
	X(epoll_ctl, ENOMEM)          \
	X(epoll_wait, EINTR)          \
	X(poll, EINTR)                \
	X(eventfd, EMFILE)            \
	X(eventfd_read, EAGAIN)       \
	X(timerfd_create, EMFILE)     \
	X(timerfd_settime, EINVAL)    \
	X(signalfd, EMFILE)           \
	X(pthread_create, EAGAIN)     \
	X(sem_init, ENOSYS)           \
	X(fork, EAGAIN)               \
	X(syscall, ENOSYS)            \
	X(prctl, EPERM)               \
	X(setrlimit, EPERM)           \
	X(getrlimit, EPERM)           \
	X(sched_getaffinity, EINVAL)  \
	X(setpriority, EACCES)        \
	X(uname, EFAULT)              \
	X(dlopen, ENOMEM)             \
	X(uring_init, ENOMEM)         \
	X(uring_submit, EAGAIN)       \
	X(uring_buffers, ENOMEM)      \
	X(uring_files, EMFILE)        \
	X(uring_files_update, ENOMEM) \
	X(uring_register, EINVAL)     \
	X(uring_probe, ENOMEM)        \
	X(completion_read, EIO)       \
	X(completion_open, EIO)

enum inject_call {
#define INJECT_NAME(name, error) INJECT_##name,
	INJECT_TABLE(INJECT_NAME)
#undef INJECT_NAME
		INJECT_CALLS
};

/* inject.py has the same numbers. */
enum {
	INJECT_ROOM = 96, /* for calls */
	INJECT_RULES = 8,
	INJECT_FRAMES =
		12, /* that are noted of a call; `depth` of them tell its place from another */
	INJECT_FAILED = 64, /* calls made to fail that are kept, the latest */
	INJECT_MODULES = 64,
	INJECT_SITES = 1 << 14,
	INJECT_PATH = 256,
};

static_assert((int)INJECT_CALLS <= (int)INJECT_ROOM, "inject.py has no room for more");

/* What can happen to a call other than an errno. */
enum { INJECT_PASS = 0, INJECT_SHORT = -1, INJECT_ZERO = -2 };

#define INJECT_MAGIC UINT64_C(0x3154434a4e49) /* "INJCT1" */

struct inject_count {
	char name[24];
	_Atomic uint64_t count, failed;
};

/* The process that arms it writes all of it, `on` last. */
struct inject_rule {
	char call[24];
	char path[104]; /* empty: any */
	_Atomic uint64_t seen; /* calls that this rule is for, since it was armed */
	uint64_t first, last; /* of these, counted from 1 */
	uint64_t site; /* 0: any */
	int32_t effect; /* an errno, INJECT_SHORT or INJECT_ZERO */
	_Atomic uint32_t on;
};

/* From the callee outwards: modules[module - 1].path + offset; module 0 is none. */
struct inject_frame {
	uint32_t module, offset;
};

struct inject_failure {
	uint32_t call;
	int32_t effect;
	uint64_t site;
	uint32_t pid, tid;
	struct inject_frame frames[INJECT_FRAMES];
};

struct inject_site {
	_Atomic uint64_t hash; /* 0: free */
	_Atomic uint64_t count;
	uint32_t call, ready;
	struct inject_frame frames[INJECT_FRAMES];
};

struct inject_module {
	_Atomic uint32_t state; /* 0 free, 1 being written, 2 there */
	char path[INJECT_PATH - 4];
};

struct inject_shared {
	uint64_t magic;
	uint32_t calls, rules, failed, modules, sites, frames; /* how many of each there are */
	_Atomic uint32_t collect;
	_Atomic uint32_t depth;
	_Atomic uint64_t failures; /* calls made to fail so far */
	/* Pieces of the heap that the program holds, and their bytes; its forked children's do not
	 * count. */
	_Atomic int64_t live, live_bytes;
	struct inject_count count[INJECT_ROOM];
	struct inject_rule rule[INJECT_RULES];
	struct inject_failure failure[INJECT_FAILED];
	struct inject_module module[INJECT_MODULES];
	struct inject_site site[INJECT_SITES];
};

/* Counts this call and says what becomes of it: INJECT_PASS, an errno, INJECT_SHORT or INJECT_ZERO.
 * `fd` -1 and `path` NULL: it has none. errno is left as it is. */
int inject_verdict(enum inject_call call, int fd, const char *path);

/* The program has a piece of the heap more, or is about to give one back. */
void inject_given(void *piece);
void inject_given_back(void *piece);

/* The next definition of a function after this library's. */
void *inject_real(const char *name);

#endif

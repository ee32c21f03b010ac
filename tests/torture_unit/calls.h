/* calls: this program's own versions of functions of the C library and liburing that can fail. They
 * count their calls, and fail on request with a natural errno.
 *
 * They are the program's own symbols, so that the calls of libyaml, jansson, libjpeg,
 * libmicrohttpd and of the C library itself end here too. With AddressSanitizer, they pass calls
 * on to its interceptors. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls that fail together where one fails for good. */
enum calls_family {
	CALLS_MEMORY, /* malloc and its kin */
	CALLS_MAP, /* mmap, mprotect, mlock */
	CALLS_OPEN, /* functions that open a path */
	CALLS_READ, /* of files */
	CALLS_WRITE,
	CALLS_STAT,
	CALLS_NAME, /* rename, link, unlink, mkdir */
	CALLS_SYNC,
	CALLS_SIZE, /* ftruncate, fallocate */
	CALLS_LOCK,
	CALLS_DESCRIPTOR, /* memfd, eventfd, socket, epoll, pipe */
	CALLS_CONNECT, /* connect, bind, listen, accept */
	CALLS_SEND,
	CALLS_RECEIVE,
	CALLS_WAIT, /* poll, epoll */
	CALLS_PROCESS, /* threads, fork */
	CALLS_RING, /* io_uring */
	CALLS_CLOSE,
	CALLS_FAMILIES
};

/* Interrupted are calls that wait: in local files none does, and the daemon's threads take no
 * signals. */
enum calls_mode {
	CALLS_ONCE, /* fails once */
	CALLS_FOREVER, /* and so does every later one of its family */
	CALLS_EINTR, /* once, if a signal can interrupt it */
	CALLS_SHORT, /* reads or writes half, once, if it reads or writes */
	CALLS_MODES
};

enum { CALLS_FRAMES = 16, CALLS_HASHED = 5, CALLS_SITES = 8192 };

/* A place that a call is made from: its return addresses. */
struct calls_site {
	uint64_t hash;
	uint32_t times; /* called, in the run that was watched */
	uint8_t family;
	bool interruptible, divisible;
	const char *name;
};

/* Shared by the walker and the process of a run. */
struct calls {
	/* what is to happen */
	bool watch; /* note sites; else: */
	uint64_t target; /* the site whose call fails; 0: the `nth` call of all */
	uint64_t nth; /* of the site's calls, from 1; or of all */
	enum calls_mode mode;
	/* what happened */
	_Atomic uint64_t count, at_target;
	_Atomic bool struck;
	_Atomic uint32_t strikes;
	_Atomic uint8_t struck_family;
	const char *struck_name;
	int frames;
	void *frame[CALLS_FRAMES];
	_Atomic int lock;
	uint32_t sites;
	struct calls_site site[CALLS_SITES];
};

extern struct calls *calls; /* set before the first calls_arm */

void calls_arm(bool on);

/* Mappings made while armed and not undone since. */
unsigned calls_mappings(void);

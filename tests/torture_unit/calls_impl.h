/* calls_impl: how the program's own versions of calls ask whether they fail, and find the C
 * library's. Every thread of the program comes here; nothing here allocates.
 *
 *   calls.c           which call fails
 *   calls_process.c   memory, mappings, threads, processes
 *   calls_files.c     files and folders
 *   calls_sockets.c   sockets, counters, timers, and waiting for them
 *   calls_uring.c     liburing
 *
 * They are compiled with default visibility, so that calls of libraries also reach them. Only these
 * files include this header. */
#pragma once

#include "torture_unit/calls.h"

/* The declarations of <stdio.h> and others say more than definitions here have to. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Between calls_arm(true) and calls_arm(false). */
extern atomic_bool calls_armed;
/* This thread is in here already: what it calls now is nobody's call. */
extern _Thread_local bool calls_inside __attribute__((tls_model("initial-exec")));

/* Counts the call. -1: it goes on; else the enum calls_mode in which it fails. errno stays. */
int calls_fails(const char *name, enum calls_family family, bool interruptible, bool divisible);

/* The next definition of a function after this program's. */
void *calls_real(const char *name);

/* Declares `real`, found once. */
#define REAL(name)                                                                    \
	static _Atomic(void *) real_##name;                                           \
	void *at_##name = atomic_load_explicit(&real_##name, memory_order_relaxed);   \
	if (!at_##name) {                                                             \
		at_##name = calls_real(#name);                                        \
		atomic_store_explicit(&real_##name, at_##name, memory_order_relaxed); \
	}                                                                             \
	__typeof__(name) *real = (__typeof__(name) *)(uintptr_t)at_##name

/* Fails with a natural errno, or with EINTR. */
#define FAIL_OR(name, family, interruptible, error, failure)                  \
	do {                                                                  \
		int mode_ = calls_fails(#name, family, interruptible, false); \
		if (mode_ >= 0) {                                             \
			errno = mode_ == CALLS_EINTR ? EINTR : (error);       \
			return failure;                                       \
		}                                                             \
	} while (0)

/* Defines a call that fails with `error` and `failure`, and otherwise goes on; CALL_EINTR may also
 * fail with EINTR. */
#define CALL_OR_FAIL(type, name, parameters, arguments, family, interruptible, error, failure) \
	type name parameters                                                                   \
	{                                                                                      \
		REAL(name);                                                                    \
		FAIL_OR(name, family, interruptible, error, failure);                          \
		return real arguments;                                                         \
	}
#define CALL(type, name, parameters, arguments, family, error, failure) \
	CALL_OR_FAIL(type, name, parameters, arguments, family, false, error, failure)
#define CALL_EINTR(type, name, parameters, arguments, family, error, failure) \
	CALL_OR_FAIL(type, name, parameters, arguments, family, true, error, failure)

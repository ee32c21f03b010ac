/* confined: shared by the tests of confine/: a child process that is confined and reports. */
#pragma once

#include "confine/confine.h"
#include "unit/sanitized.h"

#include <errno.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CONFINED_LIMIT_S = 60 };

/* In the child: prints what was expected, and ends the child. */
#define CONFINED_EXPECT(condition)                                                        \
	do {                                                                              \
		if (!(condition)) {                                                       \
			(void)dprintf(2, "%s:%d: expected %s (errno %d: %s)\n", __FILE__, \
				__LINE__, #condition, errno, strerror(errno));            \
			_exit(1);                                                         \
		}                                                                         \
	} while (0)

/* The wait status of a child that runs `body` and ends with 0. */
static int confined_child(void (*body)(void))
{
	int status;
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(CONFINED_LIMIT_S);
		body();
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void confined_run(void (*body)(void))
{
	assert_int_equal(confined_child(body), 0);
}

/* In the child: from now on the kernel gives this answer to a call. */
static inline void confined_forbid(int call, int error)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	CONFINED_EXPECT(filter != NULL);
	CONFINED_EXPECT(seccomp_rule_add(filter, SCMP_ACT_ERRNO((unsigned)error), call, 0) == 0);
	CONFINED_EXPECT(seccomp_load(filter) == 0);
	seccomp_release(filter);
}

static inline void confined_begin(struct confine_state *state)
{
	struct fault fault;
	CONFINED_EXPECT(confine_begin(false, state, &fault) == 0);
}

/* wait: blocks a thread of the application, and asks the application meanwhile whether to go on
 * (options.interrupt): there a language's interpreter handles its signals. */
#pragma once

#include <stdint.h>

/* Of a stream, or of its opening; zeroed: the application is not asked. */
struct wait {
	int (*interrupt)(void *data);
	void *data;
	int64_t asked_ns; /* when it was last asked */
};

/* The monotonic time `ms` from now. */
int64_t wait_deadline(int64_t ms);

/* Whole milliseconds until the deadline, rounded up, so that a wait does not end early and spin; at
 * most `most_ms`; 0 when the deadline has come. */
int wait_left_ms(int64_t deadline_ns, int most_ms);

/* Polls one descriptor (-1: none, it only sleeps) for a while, until the deadline at most: for a
 * tenth of a second if the application wants to be asked, else for a second. Asks the
 * application if nothing came in time, and after a signal was handled. 1: the descriptor is
 * ready, or was hung up; 0: not yet, call again; -EINTR: the application ends the call, with a
 * sentence; -errno of poll, without one. `wait` NULL: the application is not asked. */
int wait_poll(struct wait *wait, int fd, short events, int64_t deadline_ns);

/* Sleeps. 0, or -EINTR with a sentence. */
int wait_pause(struct wait *wait, int64_t ms);

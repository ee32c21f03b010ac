/* wait: blocking in a thread of the application's, which may want to be asked meanwhile
 * (options.interrupt): a language's interpreter handles its signals there. */
#pragma once

#include <stdint.h>

/* Of a stream, or of its opening; zeroed: nobody is asked. */
struct wait {
	int (*interrupt)(void *data);
	void *data;
	int64_t asked_ns; /* when it was last */
};

/* The monotonic time `ms` from now. */
int64_t wait_deadline(int64_t ms);

/* Whole milliseconds until the deadline, rounded up so that a wait never ends early and spins; at
 * most `most_ms`, 0 when it has come. */
int wait_left_ms(int64_t deadline_ns, int most_ms);

/* Polls one descriptor (-1: none, so that it only sleeps) for a while, by the deadline at the
 * latest; a tenth of a second where somebody is to be asked, a second where not. Asks where nothing
 * came in time, and when a signal was handled. 1: it is ready, or hung up; 0: not yet, look around
 * and call again; -EINTR: the application ends the call, with a sentence; -errno of poll, without.
 * `wait` NULL: nobody is asked. */
int wait_poll(struct wait *wait, int fd, short events, int64_t deadline_ns);

/* Waits for nothing. 0, or -EINTR with a sentence. */
int wait_pause(struct wait *wait, int64_t ms);

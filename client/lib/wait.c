/* wait: see wait.h.
 *
 * The application is not asked while its call does not block, however often it calls: each question
 * may make an interpreter wait for its lock.
 *
 * Thread: the caller's. */
#include "client/lib/wait.h"

#include "client/lib/error.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum { WAIT_TICK_MS = 1000, WAIT_ASK_MS = 100 };

static int64_t wait_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t wait_deadline(int64_t ms)
{
	return wait_now_ns() + ms * 1000000;
}

int wait_left_ms(int64_t deadline_ns, int most_ms)
{
	int64_t left_ns = deadline_ns - wait_now_ns();
	if (left_ns <= 0)
		return 0;
	int64_t left_ms = left_ns / 1000000 + (left_ns % 1000000 != 0);
	return left_ms < most_ms ? (int)left_ms : most_ms;
}

/* `signalled`: the application's handlers have just run, and may want to end the call. Waits may be
 * much shorter than the time between two questions. */
static int wait_ask(struct wait *wait, bool signalled)
{
	int64_t now_ns = wait_now_ns();
	if (!signalled && now_ns - wait->asked_ns < (int64_t)WAIT_ASK_MS * 1000000)
		return 0;
	int answer = wait->interrupt(wait->data);
	wait->asked_ns = wait_now_ns();
	return answer == 0
		       ? 0
		       : error_set(-EINTR, "the application ended the call (options.interrupt)");
}

int wait_poll(struct wait *wait, int fd, short events, int64_t deadline_ns)
{
	bool asks = wait && wait->interrupt;
	struct pollfd wanted = {.fd = fd, .events = events}; /* poll ignores a negative one */
	int n = poll(&wanted, 1, wait_left_ms(deadline_ns, asks ? WAIT_ASK_MS : WAIT_TICK_MS));
	int error = n < 0 ? errno : 0;
	if (n > 0)
		return 1;
	if (error && error != EINTR)
		return -error;
	return asks ? wait_ask(wait, error == EINTR) : 0;
}

int wait_pause(struct wait *wait, int64_t ms)
{
	int64_t deadline_ns = wait_deadline(ms);
	int result = 0;
	while (result == 0 && wait_left_ms(deadline_ns, 1))
		result = wait_poll(wait, -1, 0, deadline_ns);
	return result;
}

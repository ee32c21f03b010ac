/* feed: asks the daemon again and again, in a thread of its own, so that a daemon that does not
 * answer never holds up the keys. One question at a time, each interval. */
#pragma once

#include "client/cli/answer.h"

#include <stdbool.h>

struct feed;

struct feed_answer {
	struct node *root; /* NULL: no answer, and `said` tells why; its taker frees it */
	double at_s; /* when it came, on the clock that only goes forward */
	int error; /* a negative errno */
	char said[ANSWER_SENTENCE];
};

/* The first question is asked an interval from now. `socket` must last. NULL when there is no
 * memory or no thread, errno set. It is never ended: its thread may be waiting for a daemon that
 * is stopped, and goes with the process. */
struct feed *feed_start(const char *socket, double interval_s);

/* Readable while there is something to take. */
int feed_fd(const struct feed *feed);

/* The newest answer; older ones that nobody took are gone. False when there is none. */
bool feed_take(struct feed *feed, struct feed_answer *ret_answer);

/* From the next question on; at once where it has waited that long. */
void feed_pace(struct feed *feed, double interval_s);

double feed_now_s(void);

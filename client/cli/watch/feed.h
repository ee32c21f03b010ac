/* feed: asks the daemon for its status once per interval, in a thread of its own, so that a daemon
 * that does not answer never delays the keys. It asks one question at a time. */
#pragma once

#include "client/cli/answer.h"

#include <stdbool.h>

struct feed;

struct feed_answer {
	struct node
		*root; /* NULL: no answer, and `said` tells why; the caller of feed_take frees it */
	double at_s; /* when it came, by CLOCK_MONOTONIC */
	int error; /* a negative errno */
	char said[ANSWER_SENTENCE];
};

/* Asks the first question one interval from now. `socket` must stay valid. NULL, with errno set,
 * if memory or a thread cannot be had. Nothing ends a feed: its thread may be waiting for a
 * stopped daemon, and ends with the process. */
struct feed *feed_start(const char *socket, double interval_s);

/* Readable while feed_take has something to return. */
int feed_fd(const struct feed *feed);

/* Returns the newest answer and drops older ones. False: there is none. */
bool feed_take(struct feed *feed, struct feed_answer *ret_answer);

/* Changes the interval from the next question on; asks at once if it has already waited that
 * long. */
void feed_pace(struct feed *feed, double interval_s);

double feed_now_s(void);

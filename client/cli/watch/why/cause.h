/* cause: how a process ended, and what surrounded that, into one cause, and how sure it is. Pure.
 */
#pragma once

#include "client/cli/watch/why/story.h"

/* Sets cause, sure and limit of a trainer; the daemon's end comes first. */
void cause_of_trainer(struct story_end *end, const struct story *story,
	const struct story_end *daemon, const struct story_now *now);
void cause_of_daemon(struct story_end *end, const struct story *story, const struct story_now *now);

/* Once all are judged: of several that were killed at once, more than the OOM killer counts, those
 * after the first may have been killed by others for the first one's sake. */
void cause_share_kills(const struct story *story, struct story_end *end);

/* When the daemon, which is judged, had begun to end; 0: it goes on. */
uint64_t cause_gone_ns(const struct story *story, const struct story_end *daemon);

/* Whether its cgroup had nearly used up its memory, at the last sample before the end. */
bool cause_limit_near(const struct story_numbers *n);

/* The signal that killed it; 0: none, or not known. */
int cause_signal(const struct story_end *end);

/* Its exit code; -1: none, or not known. */
int cause_exit_code(const struct story_end *end);

/* The time limit of a command line such as "timeout -k 5 1.5h ./train": seconds, and how long after
 * it SIGKILL follows (0: never). False where it is none. */
bool cause_timeout(const char *command, double *ret_s, double *ret_kill_s);

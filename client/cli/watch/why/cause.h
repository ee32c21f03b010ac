/* cause: decides on one cause from how a process ended and what surrounded that, and how sure it
 * is. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

/* Sets cause, sure and limit of a trainer. The daemon must have been judged before. */
void cause_of_trainer(struct story_end *end, const struct story *story,
	const struct story_end *daemon, const struct story_now *now);
void cause_of_daemon(struct story_end *end, const struct story *story, const struct story_now *now);

/* After all have been judged: if more processes were killed at once than the OOM killer counted,
 * makes those after the first less certain: the first one's job may have killed them. */
void cause_share_kills(const struct story *story, struct story_end *end);

/* When the daemon began to end; 0: it is running. The daemon must have been judged before. */
uint64_t cause_gone_ns(const struct story *story, const struct story_end *daemon);

/* Whether its cgroup had nearly used up its memory at the last sample before the end. */
bool cause_limit_near(const struct story_numbers *n);

/* The signal that killed it; 0: none, or unknown. */
int cause_signal(const struct story_end *end);

/* Its exit code; -1: none, or unknown. */
int cause_exit_code(const struct story_end *end);

/* The time limit of a command line such as "timeout -k 5 1.5h ./train": seconds, and how long after
 * it SIGKILL follows (0: never). False if the command line is not one of timeout(1). */
bool cause_timeout(const char *command, double *ret_s, double *ret_kill_s);

/* phrase: a story in words: the sentence that says what happened, and the words that it shares with
 * what led to it (detail) and what to do (advice). Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

enum { PHRASE_NUMBER = 32 };

/* Sets sentence, lines and advice; the cause is known by now. */
void phrase_write(struct story_end *end, const struct story *story);

/* Appends; what does not fit is cut. */
void phrase_add(char *buffer, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "trainer 4121", "trainer 4121 (rank 2)", "penstockd 17" */
const char *phrase_who(const struct story_end *end, char *buffer, size_t room);

/* "0.4 s", "4 s", "59 s", "3 min 20 s", "2 h 5 min", "3 d 4 h" */
const char *phrase_duration(double seconds, char *buffer, size_t room);

/* "11.8 GiB"; "?" where it is not known. PHRASE_NUMBER bytes suffice. */
const char *phrase_bytes(uint64_t bytes, char *buffer);

/* "SIGKILL"; "signal 35" of those without a name. PHRASE_NUMBER bytes suffice. */
const char *phrase_signal(int sig, char *buffer);

/* Whose limit a cgroup's path speaks of: "container", "job", "service", "cgroup". */
const char *phrase_cgroup(const char *path);

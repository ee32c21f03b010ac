/* words: the names and numbers that the sentence (phrase), the details (detail) and the advice
 * (advice) of a story have in common. Pure. */
#pragma once

#include "client/cli/watch/why/story.h"

enum { WORDS_NUMBER = 32 };

/* Appends to a text; cuts what does not fit. */
void words_add(char *buffer, size_t room, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "trainer 4121", "trainer 4121 (rank 2)", "penstockd 17" */
const char *words_who(const struct story_end *end, char *buffer, size_t room);

/* "0.4 s", "4 s", "59 s", "3 min 20 s", "2 h 5 min", "3 d 4 h" */
const char *words_duration(double seconds, char *buffer, size_t room);

/* "11.8 GiB"; "?" if unknown. WORDS_NUMBER bytes suffice. */
const char *words_bytes(uint64_t bytes, char *buffer);

/* "SIGKILL"; "signal 35" for a signal without a name. WORDS_NUMBER bytes suffice. */
const char *words_signal(int sig, char *buffer);

/* What the path of a cgroup belongs to: "container", "job", "service", "cgroup". */
const char *words_cgroup(const char *path);

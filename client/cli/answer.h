/* answer: asks the running daemon what it is doing, and what is read off its answer in more than
 * one place. Any thread. */
#pragma once

#include <stdbool.h>

struct node;

/* The daemon's STATUS as text (malloc'ed) and parsed; either may be NULL if it is not wanted.
 * `socket` NULL: the default. 0, or a negative errno after writing the sentence into `said`
 * (ANSWER_SENTENCE bytes). */
enum { ANSWER_SENTENCE = 1024 };
int answer_ask(const char *socket, char **ret_text, struct node **ret_root, char *said);

/* Of one of its streams: what to call it, whether each rank has a stream of its own, and how many
 * broken samples it met. */
const char *answer_name(const struct node *stream);
bool answer_splits(const struct node *stream);
double answer_broken(const struct node *stream);

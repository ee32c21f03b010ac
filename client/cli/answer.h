/* answer: asks the running daemon what it is doing, and reads what several commands show of its
 * answer. Any thread. */
#pragma once

#include <stdbool.h>

struct node;

enum { ANSWER_SENTENCE = 1024 };

/* Gets the daemon's status as text (malloc'ed), parsed, or both; pass NULL for what is not wanted.
 * `socket` NULL: the default. 0, or a negative errno with a sentence in `said` (ANSWER_SENTENCE
 * bytes). */
int answer_ask(const char *socket, char **ret_text, struct node **ret_root, char *said);

/* About one stream of a status: its name, what tells it apart from the others of its dataset ("":
 * it is the only one, or its name does), whether each rank has a stream of its own, and how many
 * broken samples it met. */
const char *answer_name(const struct node *stream);
const char *answer_differs(const struct node *stream);
bool answer_splits(const struct node *stream);
double answer_broken(const struct node *stream);

/* nearest: which of the names that exist was probably meant ("did you mean ...").
 *
 *   struct nearest nearest = nearest_to(word);
 *   for (...) nearest_try(&nearest, name[i]);
 *   const char *meant = nearest_found(&nearest);
 *
 * The distance is optimal string alignment (Damerau, CACM 7, 1964; Boytsov, JEA 16, 2011): how many
 * letters to insert, remove or change, or neighbors to swap, without regard to case. Any thread;
 * pure. */
#pragma once

struct nearest {
	const char *word, *best; /* `best` is one of the names tried, not a copy */
	unsigned distance;
};

struct nearest nearest_to(const char *word);
void nearest_try(struct nearest *nearest, const char *name);

/* The name with the least distance; of several, the one that shares most letters at the beginning
 * and the end with the word, and of these the first; NULL where even that is too far away for
 * a slip of the pen: more than a third of its letters, and more than one. */
const char *nearest_found(const struct nearest *nearest);

/* The same among names that end in NULL. */
const char *nearest_of(const char *word, const char *const *names);

/* The distance of two words; UINT_MAX where one has more than 63 bytes. */
unsigned nearest_distance(const char *a, const char *b);

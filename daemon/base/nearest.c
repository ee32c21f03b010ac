/* nearest: see nearest.h. */
#include "base/nearest.h"

#include "base/util.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

enum { NEAREST_WORD = 63 };

static char nearest_lower(char letter)
{
	return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Without regard to case, whatever the locale. */
static bool nearest_same(char a, char b)
{
	return nearest_lower(a) == nearest_lower(b);
}

unsigned nearest_distance(const char *a, const char *b)
{
	/* The rows of the table for the letters i - 2, i - 1 and i of `a`. */
	unsigned rows[3][NEAREST_WORD + 1];
	size_t m = strlen(a), n = strlen(b);
	if (m > NEAREST_WORD || n > NEAREST_WORD)
		return UINT_MAX;
	for (unsigned j = 0; j <= n; j++)
		rows[0][j] = j;
	for (unsigned i = 1; i <= m; i++) {
		unsigned *row = rows[i % 3];
		const unsigned *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			unsigned best = above[j - 1] + !nearest_same(a[i - 1], b[j - 1]);
			best = UTIL_MIN(best, above[j] + 1);
			best = UTIL_MIN(best, row[j - 1] + 1);
			if (i > 1 && j > 1 && nearest_same(a[i - 1], b[j - 2]) &&
				nearest_same(a[i - 2], b[j - 1]))
				best = UTIL_MIN(best, second[j - 2] + 1);
			row[j] = best;
		}
	}
	return rows[m % 3][n];
}

struct nearest nearest_to(const char *word)
{
	return (struct nearest){.word = word, .distance = UINT_MAX};
}

/* How many letters at the beginning and at the end are the same. A slip of the pen leaves those
 * around it: "sed" is rather "seed" than "std". */
static unsigned nearest_around(const char *a, const char *b)
{
	size_t m = strlen(a), n = strlen(b), least = UTIL_MIN(m, n), begin = 0, end = 0;
	while (begin < least && nearest_same(a[begin], b[begin]))
		begin++;
	while (begin + end < least && nearest_same(a[m - 1 - end], b[n - 1 - end]))
		end++;
	return (unsigned)(begin + end);
}

void nearest_try(struct nearest *nearest, const char *name)
{
	unsigned distance = nearest_distance(nearest->word, name);
	bool tie = nearest->best && distance == nearest->distance;
	if (distance < nearest->distance ||
		(tie && nearest_around(nearest->word, name) >
				nearest_around(nearest->word, nearest->best))) {
		nearest->distance = distance;
		nearest->best = name;
	}
}

const char *nearest_found(const struct nearest *nearest)
{
	bool near = nearest->best && nearest->distance <= UTIL_MAX(1, strlen(nearest->best) / 3);
	return near ? nearest->best : NULL;
}

const char *nearest_of(const char *word, const char *const *names)
{
	struct nearest nearest = nearest_to(word);
	for (; *names; names++)
		nearest_try(&nearest, *names);
	return nearest_found(&nearest);
}

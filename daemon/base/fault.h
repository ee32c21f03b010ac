/* fault: one sentence for the person who has to fix what stopped the program.
 *
 * A function that sets something up returns 0 or a negative errno. A negative errno is a fault: the
 * caller passes it on. The function also fills a struct fault with a sentence that names the thing
 * and says what was expected and what to do. A positive return value is an outcome: it is
 * documented beside the function, and its caller handles it and never passes it on. */
#pragma once

#include <stddef.h>

enum { FAULT_TEXT = 768 };

struct fault {
	char text[FAULT_TEXT];
};

/* Writes the sentence and returns `code`, so that `return fault_set(fault, -EINVAL, ...)` is one
 * step. `fault` may be NULL. A sentence that is too long loses its middle. */
int fault_set(struct fault *fault, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts `context: ` in front of the sentence that is already there: for callers that know the file
 * or the line. */
int fault_prefix(struct fault *fault, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* fault: a sentence for the person who has to mend what stopped us.
 *
 * Functions that set something up return 0 or a negative errno (a fault: propagate it) and fill a
 * struct fault with one sentence that names the thing, says what was expected and what to do.
 * Positive returns are outcomes: they are documented beside the function and never leave its
 * caller. */
#pragma once

#include <stddef.h>

enum { FAULT_TEXT = 768 };

struct fault {
	char text[FAULT_TEXT];
};

/* Writes the sentence and returns `code`, so that `return fault_set(fault, -EINVAL, ...)` reads as
 * one step. `fault` may be NULL. Of a text that is too long
 * the middle is cut out. */
int fault_set(struct fault *fault, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Puts `context: ` before the sentence already there: for callers that know the file or the line.
 */
int fault_prefix(struct fault *fault, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

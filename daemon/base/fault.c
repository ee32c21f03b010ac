/* fault: see fault.h. Any thread; no state. */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAULT_CUT " ... "

enum { FAULT_HEAD = FAULT_TEXT / 2 };

/* A sentence that is too long, often because of a path of thousands of bytes, loses its middle:
 * what is wrong and what to do are at its end. Without memory to format all of it, it loses its
 * end. */
__attribute__((format(printf, 2, 0))) static void fault_write(
	char ret_text[FAULT_TEXT], const char *format, va_list args)
{
	va_list again;
	char *whole = NULL;
	va_copy(again, args);
	int n = vsnprintf(ret_text, FAULT_TEXT, format, args);
	if (n >= FAULT_TEXT && vasprintf(&whole, format, again) == n) {
		size_t cut = strlen(FAULT_CUT), tail = FAULT_TEXT - FAULT_HEAD - cut;
		memcpy(ret_text + FAULT_HEAD, FAULT_CUT, cut);
		memcpy(ret_text + FAULT_HEAD + cut, whole + n + 1 - tail, tail);
		free(whole);
	}
	va_end(again);
}

/* Replaces the sentence of `fault`. */
__attribute__((format(printf, 2, 3))) static void fault_print(
	struct fault *fault, const char *format, ...)
{
	/* Into a copy first: the old sentence may be one of the arguments. */
	struct fault sentence;
	va_list args;
	va_start(args, format);
	fault_write(sentence.text, format, args);
	va_end(args);
	memcpy(fault->text, sentence.text, strlen(sentence.text) + 1);
}

int fault_set(struct fault *fault, int code, const char *format, ...)
{
	if (fault) {
		struct fault sentence;
		va_list args;
		va_start(args, format);
		fault_write(sentence.text, format, args);
		va_end(args);
		memcpy(fault->text, sentence.text, strlen(sentence.text) + 1);
	}
	return code;
}

int fault_prefix(struct fault *fault, int code, const char *format, ...)
{
	if (fault) {
		struct fault prefix;
		va_list args;
		va_start(args, format);
		fault_write(prefix.text, format, args);
		va_end(args);
		fault_print(fault, "%s: %s", prefix.text, fault->text);
	}
	return code;
}

/* error: one sentence per thread, so that a call needs no extra argument and threads do not mix
 * theirs up.
 *
 * A success leaves the sentence alone: penstock_error() is about the last failure. Thread: any. */
#include "client/lib/error.h"

#include "penstock/penstock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char error_sentence[ERROR_TEXT];

int error_set(int code, const char *format, ...)
{
	/* Built aside: the arguments may contain the sentence that is there now. */
	char text[ERROR_TEXT];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return error_take(code, text, strlen(text));
}

int error_take(int code, const char *text, size_t text_bytes)
{
	if (text_bytes >= sizeof error_sentence)
		text_bytes = sizeof error_sentence - 1;
	for (size_t i = 0; i < text_bytes; i++) {
		unsigned char c = (unsigned char)text[i];
		error_sentence[i] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
	}
	error_sentence[text_bytes] = '\0';
	return code;
}

const char *error_text(void)
{
	return error_sentence;
}

const char *penstock_error(void)
{
	return error_sentence;
}

void penstock_error_set(const char *sentence)
{
	(void)error_take(0, sentence, strlen(sentence));
}

const char *penstock_version(void)
{
	return PENSTOCK_VERSION;
}

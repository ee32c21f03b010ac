/* sentence: see sentence.h. libpenstock keeps the text; this library formats it. Thread: any. */
#include "client/cuda/sentence.h"

#include "penstock/penstock.h"

#include <stdarg.h>
#include <stdio.h>

int sentence_set(int code, const char *format, ...)
{
	char text[SENTENCE_BYTES];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	penstock_error_set(text);
	return code;
}

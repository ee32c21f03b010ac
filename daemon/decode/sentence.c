/* sentence: see sentence.h. */
#include "decode/sentence.h"

#include <stdarg.h>
#include <stdio.h>

int sentence_set(struct sentence *sentence, enum decode_outcome outcome, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(sentence->text, sizeof(sentence->text), format, arguments);
	va_end(arguments);
	return (int)outcome;
}

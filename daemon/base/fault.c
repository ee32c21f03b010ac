/* fault: see fault.h. Any thread; no state. */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *fault, int code, const char *format, ...)
{
	if (fault) {
		/* Not straight into the fault: its old sentence may be one of the arguments. */
		struct fault sentence;
		va_list args;
		va_start(args, format);
		(void)vsnprintf(sentence.text, sizeof sentence.text, format, args);
		va_end(args);
		memcpy(fault->text, sentence.text, strlen(sentence.text) + 1);
	}
	return code;
}

int fault_prefix(struct fault *fault, int code, const char *format, ...)
{
	if (fault) {
		struct fault sentence;
		va_list args;
		va_start(args, format);
		int n = vsnprintf(sentence.text, sizeof sentence.text, format, args);
		va_end(args);
		if (n >= 0 && (size_t)n < sizeof sentence.text)
			(void)snprintf(sentence.text + n, sizeof sentence.text - (size_t)n, ": %s",
				fault->text);
		memcpy(fault->text, sentence.text, strlen(sentence.text) + 1);
	}
	return code;
}

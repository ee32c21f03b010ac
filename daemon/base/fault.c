/* fault: see fault.h. Any thread; no state. */
#include "base/fault.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *fault, int code, const char *format, ...)
{
	if (fault) {
		va_list args;
		va_start(args, format);
		(void)vsnprintf(fault->text, sizeof fault->text, format, args);
		va_end(args);
	}
	return code;
}

int fault_prefix(struct fault *fault, int code, const char *format, ...)
{
	if (fault) {
		char old[FAULT_TEXT];
		memcpy(old, fault->text, sizeof old);
		va_list args;
		va_start(args, format);
		int n = vsnprintf(fault->text, sizeof fault->text, format, args);
		va_end(args);
		if (n >= 0 && (size_t)n < sizeof fault->text)
			(void)snprintf(fault->text + n, sizeof fault->text - (size_t)n, ": %s", old);
	}
	return code;
}

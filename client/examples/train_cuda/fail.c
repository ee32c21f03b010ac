/* See fail.h. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("train_cuda: ", stderr);
	(void)vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	exit(1);
}

void *host_new(size_t count, size_t bytes)
{
	void *memory = calloc(count ? count : 1, bytes);

	if (!memory)
		fail("no memory on the host");
	return memory;
}

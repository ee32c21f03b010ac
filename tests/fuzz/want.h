/* want: the message of a fuzz target about a finding, before it aborts. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define want(holds, what) want_that(!!(holds), what, __FILE_NAME__, __LINE__)

static inline void want_that(int holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	(void)fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

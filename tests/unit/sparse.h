/* sparse: how many of very many sizes or values a build tests. Include it after cmocka. */
#pragma once

#include <stdlib.h>

/* PENSTOCK_TEST_SPARSE=N: test every N-th, for builds that look for other faults than wrong pixels;
 * 1 if it is not set. */
static inline uint32_t sparse(void)
{
	const char *text = getenv("PENSTOCK_TEST_SPARSE");
	int every = text ? atoi(text) : 1;
	assert_true(every > 0);
	return (uint32_t)every;
}

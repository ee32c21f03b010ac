/* sparse: how much of a walk over very many sizes or values a build looks at. To be included after
 * cmocka. */
#pragma once

#include <stdlib.h>

/* PENSTOCK_TEST_SPARSE: every so many of them, for builds that are there to find other faults than
 * wrong pixels; 1 where it is not set. */
static inline uint32_t sparse(void)
{
	const char *text = getenv("PENSTOCK_TEST_SPARSE");
	int every = text ? atoi(text) : 1;
	assert_true(every > 0);
	return (uint32_t)every;
}

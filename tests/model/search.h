/* search: breadth first through all orders of events of a world.
 *
 * Every state is kept whole, so none is missed because two have the same hash. The first state
 * found wrong is therefore one with the fewest events before it, and the path to it is printed. */
#pragma once

#include "model/world.h"

#include <stdio.h>

enum { SEARCH_NAME = 32 };

struct search_result {
	uint64_t states, transitions;
	uint32_t depth; /* events on the longest shortest path */
	double seconds; /* of this thread's processor time */
	char violated[SEARCH_NAME]; /* the failed condition: a name from world.c, or "assert"; "" */
};

/* Writes the fault that it finds to `out`. 0; -ENOMEM; -ERANGE when the world does not fit into a
 * state. */
int search_run(const struct config *config, FILE *out, struct search_result *ret_result);

/* choose: the table of kernels that the daemon works with: the one that PENSTOCK_KERNELS names, the
 * widest one, or the winner of a race (proto/dispatch.h knows which tables can run at all).
 *
 * Wide vectors, gathers and byte shuffles are fast on some processors and slow on others that
 * report the same features. So kernels whose time matters race: the tables that can run take the
 * same course a few times, in turn, and their fastest laps count. A narrower table wins only if it
 * is clearly faster: on a machine that others use too, close times are chance, and the wider one is
 * then the better guess. That takes a few milliseconds, once in a process. */
#pragma once

#include "base/fault.h"
#include "proto/dispatch.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The margin of races between tables that differ in the width of their vectors. */
enum { CHOOSE_MARGIN = 16 };

/* A race; one static object for each kind of kernels, with CHOOSE_RACE_START in it. */
struct choose_race {
	const struct dispatch *known;
	size_t course_bytes, course_align; /* of the memory of a table's laps; zeroed at first */
	/* A wider table wins unless another one is faster by more than this part of its time; 0:
	 * the fastest wins. */
	unsigned margin;
	unsigned laps; /* of each table; the first one warms up and does not count */
	/* Prepares the course for a table; false: this table does not compete. NULL: nothing to
	 * prepare. */
	bool (*prepare)(void *course, const void *table);
	/* Nanoseconds that one lap took. */
	uint64_t (*lap)(void *course, const void *table);

	pthread_mutex_t lock;
	const void *winner; /* under `lock`; NULL before the race */
};

#define CHOOSE_RACE_START .lock = PTHREAD_MUTEX_INITIALIZER

/* The table that PENSTOCK_KERNELS names, or the one with the widest vectors. 0; -EINVAL for an
 * unknown name, -ENOTSUP for one that this processor cannot run, each with a sentence. Any thread.
 */
int choose_widest(const struct dispatch *known, const void **ret, struct fault *fault);

/* The same, but the winner of the race instead of the widest; plain C where there is no memory for
 * the course. Any thread: the first one that asks holds the race, the others wait for it. */
int choose_fastest(struct choose_race *race, const void **ret, struct fault *fault);

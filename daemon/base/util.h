/* util: the little that everything uses: cleanup, minimum and maximum, alignment.
 *
 * daemon/base is what every other folder of the daemon is built on. It knows nothing about datasets
 * and streams, and includes only proto.
 *
 * A map of this folder:
 *   array.h        room in an array that grows while it is filled
 *   choose.[ch]    which table of kernels to use: forced, widest, or the winner of a race
 *   clock.h        monotonic nanoseconds
 *   fault.[ch]     one sentence for the person who has to fix what stopped the program
 *   gauge.h        a number that goes up and down, and its integral over time
 *   hash.h         64-bit hashes
 *   hash_name.[ch]  the same for names from outside in tables
 *   list.h         doubly linked lists inside their elements
 *   log.[ch]       lines for the operator
 *   name_order.[ch]  the order of file names, as Python's sorted() has it
 *   nearest.[ch]   which name was probably meant
 *   permit.[ch]    memory that rare, large jobs take turns with
 *   progress.h     how a long job reports how far it is
 *   quota.h        how much one of several may hold of what they share
 *   renamed.[ch]   the old names of options and YAML keys
 *   size.[ch]      sizes as people write them
 *   store.[ch]     files that appear in their place complete or not at all
 *   task.[ch]      one piece of work on a thread of its own
 *   ticks.h        the processor's clock, for very short intervals
 *   util.h         this file
 *   whole.h        reads and writes that continue after a short answer
 *   sum/           checksums
 *   host/          what the kernel and the machine allow
 *   text/          YAML and JSON
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UTIL_MIN(a, b) ((a) < (b) ? (a) : (b))
#define UTIL_MAX(a, b) ((a) > (b) ? (a) : (b))
#define UTIL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* `cleanup(free_ptr) char *x` frees `x` on every way out of its scope. For local variables only. A
 * function uses either this or one forward goto ladder, never both. */
#define cleanup(fn) __attribute__((cleanup(util_##fn)))

static inline void util_free_ptr(void *p)
{
	free(*(void **)p);
}

static inline void util_close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

static inline void util_close_file(FILE **file)
{
	if (*file)
		(void)fclose(*file);
}

/* Rounds up to a multiple of `to`, a power of two. */
static inline uint64_t util_align(uint64_t value, uint64_t to)
{
	return (value + to - 1) & ~(to - 1);
}

/* locks: how long the threads of a program hold each mutex.
 *
 * The linker puts this in the place of the pthread functions (ceiling.cmake has the options), so
 * the program that is measured is the program as it is. Times are those of threads that hold a
 * mutex, not of threads that wait for it. A mutex is known by the place in the code that made it.
 *
 * Measuring costs two readings of the clock for each time a mutex is held, so CPU times are taken
 * in runs of their own. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOCKS = 128, LOCKS_LONG_NS = 20000 };

struct lock_use {
	_Atomic(const pthread_mutex_t *) mutex; /* NULL: free, and so are all after it */
	/* Where pthread_mutex_init was called, from the start of the program's image; 0: it was
	 * never called, because the mutex is initialized where it is defined. */
	_Atomic uint64_t born;
	_Atomic uint64_t times, held_ns;
	/* Of these, holds of LOCKS_LONG_NS and more: mostly, the kernel had taken the processor
	 * away from a thread that held the mutex. */
	_Atomic uint64_t long_times, long_ns;
};

/* Notes what happens into `uses`, which has room for LOCKS, and is zero at first. Times are noted
 * only if `measures`. Call it while one thread runs. */
void locks_note(struct lock_use *uses);
void locks_measure(bool measures);

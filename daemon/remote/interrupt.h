/* interrupt: ends a thread's waits from outside.
 *
 * A thread that may wait long for a server names a flag; its waits then end soon after another
 * thread has set the flag. Threads that it starts to help it name the same flag:
 *
 *   const atomic_bool *before = interrupt_set(&task->cancel);
 *   ...    what waits in here returns -ECANCELED soon after task->cancel is set
 *   (void)interrupt_set(before);
 *
 * A thread without a flag waits as long as it takes. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { INTERRUPT_MS = 100 }; /* how long after it was set a flag is seen, at most */

/* Names the calling thread's flag; NULL: none. It must stay until another one is named. Returns the
 * one before. */
const atomic_bool *interrupt_set(const atomic_bool *flag);
const atomic_bool *interrupt_here(void);

/* Whether the calling thread has a flag that is set. */
bool interrupt_wanted(void);

/* Makes a condition for interrupt_wait. */
void interrupt_cond_init(pthread_cond_t *cond);

/* As pthread_cond_wait, in a loop that looks at interrupt_wanted after each call: a thread with a
 * flag waits for INTERRUPT_MS at most, unless the flag was `seen`. */
void interrupt_wait(pthread_cond_t *cond, pthread_mutex_t *lock, bool seen);

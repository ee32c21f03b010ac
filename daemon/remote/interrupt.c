/* interrupt: see interrupt.h. */
#include "remote/interrupt.h"

#include <stddef.h>
#include <time.h>

static _Thread_local const atomic_bool *interrupt_flag;

const atomic_bool *interrupt_set(const atomic_bool *flag)
{
	const atomic_bool *before = interrupt_flag;
	interrupt_flag = flag;
	return before;
}

const atomic_bool *interrupt_here(void)
{
	return interrupt_flag;
}

bool interrupt_wanted(void)
{
	return interrupt_flag && atomic_load_explicit(interrupt_flag, memory_order_relaxed);
}

void interrupt_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

void interrupt_wait(pthread_cond_t *cond, pthread_mutex_t *lock, bool seen)
{
	struct timespec until;
	if (!interrupt_flag || seen) {
		(void)pthread_cond_wait(cond, lock);
		return;
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += INTERRUPT_MS * 1000000L;
	if (until.tv_nsec >= 1000000000L) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000L;
	}
	(void)pthread_cond_timedwait(cond, lock, &until);
}

/* locks: see locks.h. */
#include "bench/locks.h"

#include "base/clock.h"
#include "base/util.h"

#include <stddef.h>

extern const char __executable_start;

static struct lock_use *locks;
static _Atomic bool locks_on; /* relaxed */
static _Thread_local struct {
	const pthread_mutex_t *mutex;
	uint64_t since_ns;
} lock_held[8];

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_pthread_cond_timedwait(
	pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_timedwait(
	pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until);

void locks_note(struct lock_use *uses)
{
	locks = uses;
}

void locks_measure(bool measures)
{
	atomic_store_explicit(&locks_on, measures, memory_order_relaxed);
}

/* The mutex's entry, a new one if it has none; NULL: there is no room, or nothing is noted. */
static struct lock_use *lock_use_of(const pthread_mutex_t *mutex)
{
	for (size_t i = 0; locks && i < LOCKS; i++) {
		const pthread_mutex_t *none = NULL;
		struct lock_use *use = &locks[i];
		if (atomic_load(&use->mutex) == mutex ||
			atomic_compare_exchange_strong(&use->mutex, &none, mutex) || none == mutex)
			return use;
	}
	return NULL;
}

static void lock_took(const pthread_mutex_t *mutex)
{
	if (!atomic_load_explicit(&locks_on, memory_order_relaxed))
		return;
	for (size_t i = 0; i < UTIL_COUNT(lock_held); i++)
		if (!lock_held[i].mutex) {
			lock_held[i].mutex = mutex;
			lock_held[i].since_ns = clock_ns();
			return;
		}
}

static void lock_count(const pthread_mutex_t *mutex, uint64_t ns)
{
	struct lock_use *use = lock_use_of(mutex);
	if (!use)
		return;
	atomic_fetch_add(&use->times, 1);
	atomic_fetch_add(&use->held_ns, ns);
	if (ns < LOCKS_LONG_NS)
		return;
	atomic_fetch_add(&use->long_times, 1);
	atomic_fetch_add(&use->long_ns, ns);
}

static void lock_gave(const pthread_mutex_t *mutex)
{
	for (size_t i = 0; i < UTIL_COUNT(lock_held); i++)
		if (lock_held[i].mutex == mutex) {
			uint64_t ns = clock_ns() - lock_held[i].since_ns;
			lock_held[i].mutex = NULL;
			lock_count(mutex, ns);
			return;
		}
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
	struct lock_use *use = lock_use_of(mutex);
	if (use)
		atomic_store(&use->born, (uint64_t)((const char *)__builtin_return_address(0) -
						    &__executable_start));
	return __real_pthread_mutex_init(mutex, attr);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int rc = __real_pthread_mutex_lock(mutex);
	lock_took(mutex);
	return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	lock_gave(mutex);
	return __real_pthread_mutex_unlock(mutex);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	lock_gave(mutex);
	int rc = __real_pthread_cond_wait(cond, mutex);
	lock_took(mutex);
	return rc;
}

int __wrap_pthread_cond_timedwait(
	pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
	lock_gave(mutex);
	int rc = __real_pthread_cond_timedwait(cond, mutex, until);
	lock_took(mutex);
	return rc;
}

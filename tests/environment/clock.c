/* libenvironment_clock.so: a wall clock that is set again and again, for LD_PRELOAD.
 *
 * Twenty times a second the time of day jumps by hours, forwards and back; CLOCK_MONOTONIC goes on
 * as it does. The machine's own clock stays as it is. */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>

static int clock_real(clockid_t clock, struct timespec *ret)
{
	static int (*next)(clockid_t, struct timespec *);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
	return next(clock, ret);
}

static time_t clock_jump(void)
{
	static const time_t hours[] = {0, 5, -7, 0, 100, -9000, 1};
	struct timespec now;
	(void)clock_real(CLOCK_MONOTONIC, &now);
	long twentieth = (long)now.tv_sec * 20 + now.tv_nsec / 50000000;
	return hours[(size_t)twentieth % (sizeof hours / sizeof *hours)] * 3600;
}

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
	int result = clock_real(clock_id, tp);
	if (result == 0 && (clock_id == CLOCK_REALTIME || clock_id == CLOCK_REALTIME_COARSE))
		tp->tv_sec += clock_jump();
	return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec now;
	(void)tz;
	int result = clock_gettime(CLOCK_REALTIME, &now);
	tv->tv_sec = now.tv_sec;
	tv->tv_usec = now.tv_nsec / 1000;
	return result;
}

time_t time(time_t *timer)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (timer)
		*timer = now.tv_sec;
	return now.tv_sec;
}

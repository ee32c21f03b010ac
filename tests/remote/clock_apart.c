/* clock_apart: a machine whose clock is PENSTOCK_CLOCK_APART_S seconds off, for tests. It is
 * preloaded, and moves the wall clock of one process; clocks that measure intervals stay as they
 * are. The parameters do not have glibc's names, which are reserved:
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#define EXPORTED __attribute__((visibility("default")))

static time_t apart(void)
{
	const char *text = getenv("PENSTOCK_CLOCK_APART_S");
	return text ? (time_t)strtoll(text, NULL, 10) : 0;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	const int result = real(clock, now);
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += apart();
	return result;
}

EXPORTED time_t time(time_t *ret)
{
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now))
		return -1;
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

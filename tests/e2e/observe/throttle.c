/* throttle: a slow disk, for tests. Preloaded into penstockd (with `--reader pread`) it lets reads
 * through at THROTTLE_BYTES_PER_S together and makes each take THROTTLE_LATENCY_MS at least.
 *
 * Asks the kernel itself, so that it need not look up the function that it replaces. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define THROTTLE_SECOND 1000000000ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_ns; /* when the disk has done what it was asked so far */

static uint64_t throttle_number(const char *name)
{
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : 0;
}

static uint64_t throttle_now(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * THROTTLE_SECOND + (uint64_t)t.tv_nsec;
}

static void throttle_until(uint64_t ns)
{
	const struct timespec t = {(time_t)(ns / THROTTLE_SECOND), (long)(ns % THROTTLE_SECOND)};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* One after the other, as by one arm: the time of `bytes` comes after that of all before. */
static void throttle(size_t bytes)
{
	uint64_t rate = throttle_number("THROTTLE_BYTES_PER_S"), now = throttle_now();
	uint64_t done = now + throttle_number("THROTTLE_LATENCY_MS") * 1000000;
	if (rate) {
		pthread_mutex_lock(&lock);
		free_ns = (free_ns > now ? free_ns : now) + bytes * THROTTLE_SECOND / rate;
		done = free_ns > done ? free_ns : done;
		pthread_mutex_unlock(&lock);
	}
	throttle_until(done);
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *buf, size_t nbytes, off_t offset)
{
	ssize_t got = syscall(SYS_pread64, fd, buf, nbytes, offset);
	if (got > 0)
		throttle((size_t)got);
	return got;
}

/* What pread is called where off_t has 64 bits. */
__attribute__((visibility("default"))) ssize_t pread64(
	int fd, void *buf, size_t nbytes, off_t offset)
{
	return pread(fd, buf, nbytes, offset);
}

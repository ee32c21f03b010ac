/* cpu: see cpu.h. */
#include "base/host/cpu.h"

#include "base/host/cgroup.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

/* The kernel refuses (EINVAL) a mask that is smaller than its own and does not report its size, so
 * the mask grows until it fits. */
enum { CPU_MASK_FIRST = 1024, CPU_MASK_LAST = 1 << 20 };

unsigned cpu_affinity(void)
{
	for (int bits = CPU_MASK_FIRST; bits <= CPU_MASK_LAST; bits *= 2) {
		cpu_set_t *mask = CPU_ALLOC((size_t)bits);
		size_t size = CPU_ALLOC_SIZE((size_t)bits);
		if (!mask)
			break;
		CPU_ZERO_S(size, mask);
		int result = sched_getaffinity(0, size, mask) < 0 ? -errno : 0;
		int count = CPU_COUNT_S(size, mask);
		CPU_FREE(mask);
		if (!result && count > 0)
			return (unsigned)count;
		if (result != -EINVAL)
			break;
	}
	/* Some sandboxes forbid the call. */
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (unsigned)online : 1;
}

unsigned cpu_within_quota(unsigned cpus, double quota)
{
	if (quota > 0 && quota < cpus) {
		unsigned whole = (unsigned)quota;
		cpus = whole + (whole < quota);
	}
	return UTIL_MAX(cpus, 1u);
}

unsigned cpu_available(void)
{
	return cpu_within_quota(cpu_affinity(), cgroup_cpus());
}

unsigned cpu_threads_of(unsigned cpus)
{
	return cpus > 1 ? cpus - 1 : 1;
}

unsigned cpu_threads(void)
{
	return cpu_threads_of(cpu_available());
}

bool cpu_delay_ns(pid_t thread, uint64_t *ret)
{
	char path[48], text[96];
	(void)snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", thread);
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[UTIL_MAX(size, (ssize_t)0)] = 0;
	/* Time on a processor, time waiting for one, how often. */
	return sscanf(text, "%*u %" SCNu64, ret) == 1;
}

/* cpu: see cpu.h. */
#include "base/cpu.h"

#include "base/cgroup.h"
#include "base/util.h"

#include <errno.h>
#include <sched.h>

/* The kernel refuses (EINVAL) a mask smaller than its own, whose size it does not tell: grow until
 * it fits. */
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

/* cpu: see cpu.h. */
#include "base/host/cpu.h"

#include "base/host/cgroup.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel refuses (EINVAL) a mask that is smaller than its own and does not report its size, so
 * the mask grows until it fits. */
enum { CPU_MASK_FIRST = 1024, CPU_MASK_LAST = 1 << 20 };

/* The calling thread's affinity mask, to be freed with CPU_FREE, and its size in bytes; NULL where
 * it is not known. */
static cpu_set_t *cpu_mask(size_t *ret_size)
{
	for (int bits = CPU_MASK_FIRST; bits <= CPU_MASK_LAST; bits *= 2) {
		cpu_set_t *mask = CPU_ALLOC((size_t)bits);
		size_t size = CPU_ALLOC_SIZE((size_t)bits);
		if (!mask)
			return NULL;
		CPU_ZERO_S(size, mask);
		int result = sched_getaffinity(0, size, mask) < 0 ? -errno : 0;
		*ret_size = size;
		if (!result && CPU_COUNT_S(size, mask) > 0)
			return mask;
		CPU_FREE(mask);
		if (result != -EINVAL)
			return NULL;
	}
	return NULL;
}

unsigned cpu_affinity(void)
{
	size_t size;
	cpu_set_t *mask = cpu_mask(&size);
	if (mask) {
		unsigned count = (unsigned)CPU_COUNT_S(size, mask);
		CPU_FREE(mask);
		return count;
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

bool cpu_idle_ticks(const char *line, unsigned *ret_cpu, uint64_t *ret_ticks)
{
	uint64_t idle, wait;
	/* "cpu" without a number is the sum of all. */
	if (strncmp(line, "cpu", 3) != 0 || line[3] < '0' || line[3] > '9')
		return false;
	/* user, nice, system, idle, iowait */
	if (sscanf(line, "cpu%u %*u %*u %*u %" SCNu64 " %" SCNu64, ret_cpu, &idle, &wait) != 3)
		return false;
	*ret_ticks = idle + wait;
	return true;
}

/* Adds up what the CPUs of the mask report. False if one of them is missing. */
static bool cpu_idle_sum(FILE *file, const cpu_set_t *mask, size_t size, uint64_t *ret_ticks)
{
	char line[512];
	uint64_t sum = 0, ticks;
	int seen = 0;
	unsigned cpu;
	/* The first line has the sum of all CPUs, and the lines of single ones follow it. */
	while (fgets(line, sizeof line, file) && strncmp(line, "cpu", 3) == 0)
		if (cpu_idle_ticks(line, &cpu, &ticks) && CPU_ISSET_S(cpu, size, mask)) {
			sum += ticks;
			seen++;
		}
	*ret_ticks = sum;
	return seen == CPU_COUNT_S(size, mask) && sum > 0;
}

bool cpu_idle_ns(uint64_t *ret)
{
	const long per_s = sysconf(_SC_CLK_TCK);
	cleanup(close_file) FILE *file = fopen("/proc/stat", "re");
	size_t size;
	cpu_set_t *mask = file && per_s > 0 ? cpu_mask(&size) : NULL;
	uint64_t ticks = 0;
	bool known = mask && cpu_idle_sum(file, mask, size, &ticks);
	if (mask)
		CPU_FREE(mask);
	if (known)
		*ret = ticks * (1000000000u / (uint64_t)per_s);
	return known;
}

/* The kernel's struct sched_attr, of its first version. Not every libc declares it. */
struct cpu_attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime_ns, deadline_ns, period_ns;
};
_Static_assert(sizeof(struct cpu_attributes) == 48, "the kernel's layout");

bool cpu_lengthen_slice(uint64_t ns)
{
	struct cpu_attributes is = {0};
	if (syscall(SYS_sched_getattr, 0, &is, sizeof is, 0) < 0 ||
		(is.policy != SCHED_OTHER && is.policy != SCHED_BATCH))
		return false;
	is.size = sizeof is;
	is.runtime_ns = ns;
	return syscall(SYS_sched_setattr, 0, &is, 0) == 0;
}

/* cpu: how many processors this process may really use. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* CPUs of the affinity mask, cut by cpu.max (cgroup v2) or cpu.cfs_quota_us (v1) of every ancestor,
 * rounded up; at least 1. */
unsigned cpu_available(void);

/* CPUs of the calling thread's affinity mask alone, at least 1. */
unsigned cpu_affinity(void);

/* How long a thread of this process that could have run waited for a processor, ever: false where
 * the kernel does not say (CONFIG_SCHED_INFO, some sandboxes). Reads a small file. */
bool cpu_delay_ns(pid_t thread, uint64_t *ret);

/* The rule that joins the two: `cpus` cut to a quota of `quota` CPUs (0: none). Pure. */
unsigned cpu_within_quota(unsigned cpus, double quota);

/* cpu: how many processors this process may really use. Any thread. */
#pragma once

/* CPUs of the affinity mask, cut by cpu.max (cgroup v2) or cpu.cfs_quota_us (v1) of every ancestor,
 * rounded up; at least 1. */
unsigned cpu_available(void);

/* CPUs of the calling thread's affinity mask alone, at least 1. */
unsigned cpu_affinity(void);

/* The rule that joins the two: `cpus` cut to a quota of `quota` CPUs (0: none). Pure. */
unsigned cpu_within_quota(unsigned cpus, double quota);

/* cpu: how many processors this process may really use. */
#pragma once

/* CPUs of the affinity mask, cut by cpu.max (cgroup v2) or cpu.cfs_quota_us (v1) of every ancestor, rounded up; at
 * least 1. */
unsigned cpu_available(void);

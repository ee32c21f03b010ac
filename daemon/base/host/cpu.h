/* cpu: how many processors this process may really use. Any thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* CPUs of the affinity mask, reduced to the quota of every ancestor (cpu.max in cgroup v2,
 * cpu.cfs_quota_us in v1) and rounded up; at least 1. */
unsigned cpu_available(void);

/* How many decoding threads a daemon and `penstock check` have if nobody sets a number: all CPUs
 * that may be used but one, which is the trainer's; at least 1. The only rule: everything that
 * reports or assumes a default calls this. */
unsigned cpu_threads(void);

/* CPUs of the calling thread's affinity mask, at least 1; quotas do not count. */
unsigned cpu_affinity(void);

/* How long a thread of this process has waited for a processor since it began. False where the
 * kernel does not report it (no CONFIG_SCHED_INFO, some sandboxes). Reads a small file. */
bool cpu_delay_ns(pid_t thread, uint64_t *ret);

/* How long the CPUs of the calling thread's affinity mask have done nothing since the machine
 * started, added up. Other programs on them count as something. False where the kernel does not
 * report it (some sandboxes). Reads a file whose size depends on the number of CPUs. */
bool cpu_idle_ns(uint64_t *ret);

/* The same of a line of /proc/stat, "cpu3 ...", in ticks. False for any other line. Pure. */
bool cpu_idle_ticks(const char *line, unsigned *ret_cpu, uint64_t *ret_ticks);

/* Asks the kernel for turns of this length for the calling thread, instead of its usual ones; its
 * share of the processors stays the same. False where the kernel refuses, or the thread has another
 * policy than the usual ones. Before Linux 6.12 it changes nothing. */
bool cpu_lengthen_slice(uint64_t ns);

/* cpu_threads where `cpus` may be used. Pure. */
unsigned cpu_threads_of(unsigned cpus);

/* `cpus` reduced to a quota of `quota` CPUs (0: no quota), as cpu_available does it. Pure. */
unsigned cpu_within_quota(unsigned cpus, double quota);

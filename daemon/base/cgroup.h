/* cgroup: what the kernel will let this process use before it kills it.
 *
 * Reads /proc/self/cgroup, finds the mounts in /proc/self/mountinfo, and walks to the root: beyond
 * any ancestor's limit the kernel kills instead of refusing, so the tightest one counts. v1 and v2,
 * also where a container shows its own cgroup as the root. Any thread; reads a few dozen small
 * files, so not for a hot path. */
#pragma once

#include <stdint.h>

struct cgroup_memory {
	uint64_t
		limit; /* bytes: tightest limit of all ancestors, or MemTotal where there is none */
	uint64_t used; /* bytes charged to that cgroup, page cache included */
	uint64_t reclaimable; /* bytes of it that are file cache and can be dropped */
	uint64_t available; /* what may still be taken: at most limit - used + reclaimable of every
			       ancestor, at most MemAvailable */
	char source[192]; /* where the limit was read: "/sys/fs/cgroup/memory.max" or "MemTotal" */
};

/* Never fails: what cannot be read falls back to /proc/meminfo. */
void cgroup_memory_read(struct cgroup_memory *ret);

/* CPUs that the tightest quota of all ancestors allows; 0 where there is none. */
double cgroup_cpus(void);

/* The same with every path looked up below `root` ("" for the machine itself): for tests. */
void cgroup_memory_read_at(const char *root, struct cgroup_memory *ret);
double cgroup_cpus_at(const char *root);

/* cgroup: what the kernel will let this process use before it kills it.
 *
 * Reads /proc/self/cgroup, finds the mounts in /proc/self/mountinfo, and walks to the root: beyond
 * any ancestor's limit the kernel kills instead of refusing, so the tightest one counts. v1 and v2,
 * also where a container shows its own cgroup as the root. Any thread; reads a few dozen small
 * files, so not for a hot path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
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

/* The path of a file of this process's own memory cgroup: `v1` in a hierarchy of that version, else
 * `v2`. False where there is none: the root has no usage of its own in v2. */
bool cgroup_memory_file(const char *v2, const char *v1, char *ret_path, size_t room);

/* CPUs that the tightest quota of all ancestors allows; 0 where there is none. */
double cgroup_cpus(void);

/* For how long a quota of CPU held back threads of this process's cgroup or of an ancestor (the
 * most of them; each processor counts), since the cgroup was made; 0 where there is no quota. */
uint64_t cgroup_throttled_us(void);

/* The same with every path looked up below `root` ("" for the machine itself): for tests. */
void cgroup_memory_read_at(const char *root, struct cgroup_memory *ret);
double cgroup_cpus_at(const char *root);
uint64_t cgroup_throttled_us_at(const char *root);

/* ---- views: another process's cgroup, read again and again ---- */

/* A process's folder in one hierarchy, and how much of that path is the highest visible level. */
struct cgroup_place {
	char dir[4096];
	size_t top;
	bool v2;
};

/* Where a process is accounted for. It is looked up once; what is read through it afterwards takes
 * a few small files and no allocation, and the folders may be gone. */
struct cgroup_view {
	struct cgroup_place memory; /* of the memory controller, v1 or v2 */
	struct cgroup_place unified; /* of the v2 hierarchy: PSI is there */
	bool has_memory, has_unified;
	char path[192]; /* of the memory controller's, as /proc/PID/cgroup has it; cut */
};

struct cgroup_usage {
	uint64_t used, limit; /* bytes, by the tightest limit of all levels; without any
				 (UINT64_MAX) of the process's own. UINT64_MAX: not known */
	uint64_t oom_kills; /* see cgroup_oom_kills */
};

/* `pid` 0: this process. A process of another container has no place that is visible from here. */
void cgroup_view_at(const char *root, int pid, struct cgroup_view *ret);
void cgroup_usage_read(const struct cgroup_view *view, struct cgroup_usage *ret);

/* Processes of that cgroup (v2: and of those below it) that the OOM killer has ended, ever,
 * whichever level's limit it was that they met. UINT64_MAX: the kernel does not say. */
uint64_t cgroup_oom_kills(const struct cgroup_view *view);

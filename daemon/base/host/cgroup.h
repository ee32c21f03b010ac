/* cgroup: how much memory and processor time the cgroup leaves to this process.
 *
 * A map of this folder:
 *   cgroup.[ch]    this file
 *   cpu.[ch]       how many processors this process may use
 *   ledger.[ch]    the memory budget, and which part of the daemon holds how much of it
 *   limits.[ch]    resource limits, checked at start
 *   numa.[ch]      NUMA nodes, and placing threads and memory on them
 *   procfile.[ch]  small files of /proc and /sys
 *   roots.[ch]     the folders that datasets may be read from
 *   spill.[ch]     unlinked files for what a rare sample needs beyond the memory budget
 *
 * The code reads /proc/self/cgroup, finds the mounts in /proc/self/mountinfo, and walks up to the
 * root: beyond any ancestor's limit the kernel kills instead of refusing, so the tightest limit
 * counts. It handles v1 and v2, also where a container sees its own cgroup as the root. Any thread.
 * A call reads a few dozen small files, so none of them belongs in a hot path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroup_memory {
	/* Bytes: the tightest limit of all ancestors, or MemTotal where there is none. */
	uint64_t limit;
	uint64_t used; /* bytes charged to that cgroup, page cache included */
	uint64_t reclaimable; /* bytes of it that are file cache and can be dropped */
	/* Bytes that the process may still take: at most limit - used + reclaimable of every
	 * ancestor, and at most MemAvailable. */
	uint64_t available;
	char source[192]; /* where the limit was read: "/sys/fs/cgroup/memory.max" or "MemTotal" */
};

/* Never fails: for values that cannot be read it uses /proc/meminfo. */
void cgroup_memory_read(struct cgroup_memory *ret);

/* The path of a file in this process's own memory cgroup: `v1` in a hierarchy of that version, else
 * `v2`. False where there is no such file: in v2 the root has no usage. */
bool cgroup_memory_file(const char *v2, const char *v1, char *ret_path, size_t room);

/* CPUs that the tightest quota of all ancestors allows; 0 where there is no quota. */
double cgroup_cpus(void);

/* How long CPU quotas have held back the threads of this process's cgroup or of an ancestor (the
 * longest of them), summed over processors, since the cgroup was made; 0 where there is no
 * quota. */
uint64_t cgroup_throttled_us(void);

/* The same with every path looked up below `root` ("" for the machine itself): for tests. */
void cgroup_memory_read_at(const char *root, struct cgroup_memory *ret);
double cgroup_cpus_at(const char *root);
uint64_t cgroup_throttled_us_at(const char *root);

/* ---- views: another process's cgroup, read repeatedly ---- */

/* A process's folder in one hierarchy. The first `top` bytes are the highest visible level. */
struct cgroup_place {
	char dir[4096];
	size_t top;
	bool v2;
};

/* Where the kernel accounts for a process. It is looked up once. Later calls read a few small files
 * and allocate nothing; the folders may be gone by then. */
struct cgroup_view {
	struct cgroup_place memory; /* of the memory controller, v1 or v2 */
	struct cgroup_place unified; /* of the v2 hierarchy, which has PSI */
	bool has_memory, has_unified;
	char path[192]; /* the memory controller's, as in /proc/PID/cgroup; may be cut */
};

struct cgroup_usage {
	/* Bytes, of the level with the tightest limit; where no level has a limit (`limit` is
	 * UINT64_MAX), of the process's own level. UINT64_MAX: not known. */
	uint64_t used, limit;
	uint64_t oom_kills; /* see cgroup_oom_kills */
};

/* `pid` 0: this process. A process of another container has no place that is visible from here. */
void cgroup_view_at(const char *root, int pid, struct cgroup_view *ret);
void cgroup_usage_read(const struct cgroup_view *view, struct cgroup_usage *ret);

/* How many processes of that cgroup (in v2: and of those below it) the OOM killer has ended since
 * the cgroup was made, whichever level's limit was reached. UINT64_MAX: the kernel does not report
 * it. */
uint64_t cgroup_oom_kills(const struct cgroup_view *view);

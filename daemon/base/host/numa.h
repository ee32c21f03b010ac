/* numa: the NUMA nodes whose CPUs this process may use, and placing threads and memory on them.
 *
 * The nodes are read once, at start, from /sys/devices/system/node and the affinity mask of the
 * calling thread, which the cpuset limits. With fewer than two nodes there is nothing to place. No
 * libnuma: the few calls are made directly. Any thread; no state. */
#pragma once

#include "base/fault.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/types.h>

/* The kernel is built for at most 8192 CPUs. */
enum { NUMA_NODES = 64, NUMA_NUMBERS = 1024, NUMA_CPUS = 8192 };

struct numa_set {
	cpu_set_t part[NUMA_CPUS / CPU_SETSIZE];
};

struct numa {
	unsigned count; /* of nodes; 0: threads and memory are not placed */
	unsigned cpus; /* of all nodes */
	struct numa_node {
		unsigned number; /* the kernel's */
		unsigned cpus; /* at least 1 */
		struct numa_set set;
	} node[NUMA_NODES];
};

/* Parses a list such as "0-3,8" and "" (none). 0 or -EINVAL. Pure. */
int numa_parse(const char *text, struct numa_set *ret);
unsigned numa_set_count(const struct numa_set *set);

/* The folder with the topology: /sys/devices/system/node, or, in tests, $PENSTOCK_NUMA_FOLDER. */
const char *numa_folder(void);

/* Reads the nodes. Nodes without CPUs that this process may use are left out. 0, also where the
 * kernel reports no nodes; -EINVAL with a fault, and no nodes, where a file cannot be understood.
 */
int numa_read(const char *folder, struct numa *ret, struct fault *fault);

/* On which node thread `i` of `count` belongs (an index of `node`), so that each node has as many
 * threads as it has of the CPUs. Pure. */
unsigned numa_share(const struct numa *numa, unsigned i, unsigned count);

/* Binds a thread to a node's CPUs. 0 or negative errno. Not once the daemon is confined. */
int numa_bind(const struct numa *numa, unsigned node, pthread_t thread);

/* The only node on whose CPUs a process may run, as an index; -1: several, none, or the process
 * cannot be looked at. */
int numa_of_process(const struct numa *numa, pid_t pid);

/* Makes the calling thread take new memory from a node as long as the node has some. 0 or negative
 * errno. */
int numa_prefer(const struct numa *numa, unsigned node);

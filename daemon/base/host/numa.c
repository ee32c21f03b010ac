/* numa: see numa.h. File formats: the kernel's Documentation/ABI/stable/sysfs-devices-node, and
 * proc(5) for Cpus_allowed_list. */
#include "base/host/numa.h"

#include "base/host/procfile.h"
#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUMA_FOLDER "/sys/devices/system/node"

static bool set_has(const struct numa_set *set, unsigned cpu)
{
	return CPU_ISSET_S(cpu, sizeof *set, set->part);
}

unsigned numa_set_count(const struct numa_set *set)
{
	return (unsigned)CPU_COUNT_S(sizeof *set, set->part);
}

static bool set_overlaps(const struct numa_set *a, const struct numa_set *b)
{
	struct numa_set both;
	CPU_AND_S(sizeof both, both.part, a->part, b->part);
	return numa_set_count(&both) > 0;
}

/* Reads a number below NUMA_CPUS and moves past it. */
static bool parse_number(const char **text, unsigned *ret)
{
	unsigned value = 0;
	const char *at = *text;
	for (; isdigit((unsigned char)*at); at++) {
		value = value * 10 + (unsigned)(*at - '0');
		if (value >= NUMA_CPUS)
			return false;
	}
	bool some = at != *text;
	*text = at;
	*ret = value;
	return some;
}

int numa_parse(const char *text, struct numa_set *ret)
{
	struct numa_set set;
	CPU_ZERO_S(sizeof set, set.part);
	const char *at = text + strspn(text, " \t\n");
	while (*at) {
		unsigned first, last;
		if (!parse_number(&at, &first))
			return -EINVAL;
		last = first;
		if (*at == '-') {
			at++;
			if (!parse_number(&at, &last) || last < first)
				return -EINVAL;
		}
		for (unsigned cpu = first; cpu <= last; cpu++)
			CPU_SET_S(cpu, sizeof set, set.part);
		if (*at == ',' && isdigit((unsigned char)at[1]))
			at++;
		else if (at[strspn(at, " \t\n")])
			return -EINVAL;
		else
			break;
	}
	*ret = set;
	return 0;
}

const char *numa_folder(void)
{
	const char *folder = getenv("PENSTOCK_NUMA_FOLDER");
	return folder && folder[0] ? folder : NUMA_FOLDER;
}

/* Reads a file with a list. -ENOENT and the like where there is none; -EINVAL with a fault. */
static int numa_read_list(
	const char *folder, const char *path, struct numa_set *ret, struct fault *fault)
{
	char text[PROCFILE_ROOM];
	ssize_t size = procfile_read(folder, path, text, sizeof text);
	if (size < 0)
		return (int)size;
	if (size < PROCFILE_ROOM - 1 && strlen(text) == (size_t)size && numa_parse(text, ret) == 0)
		return 0;
	text[strcspn(text, "\n")] = 0;
	return fault_set(fault, -EINVAL,
		"%s%s: expected a list of numbers below %d, such as 0-3,8, got \"%.60s\": threads "
		"and memory are not placed by NUMA node; set `numa: off` if that is intended",
		folder, path, NUMA_CPUS, text);
}

/* Adds the node unless this process may use none of its CPUs. */
static int numa_add(struct numa *numa, const char *folder, unsigned number,
	const struct numa_set *allowed, struct fault *fault)
{
	char path[32];
	struct numa_set set;
	(void)snprintf(path, sizeof path, "/node%u/cpulist", number);
	int result = numa_read_list(folder, path, &set, fault);
	if (result < 0)
		return result;
	CPU_AND_S(sizeof set, set.part, set.part, allowed->part);
	unsigned cpus = numa_set_count(&set);
	if (!cpus)
		return 0;
	for (unsigned i = 0; i < numa->count; i++)
		if (set_overlaps(&set, &numa->node[i].set))
			return fault_set(fault, -EINVAL,
				"%s: the nodes %u and %u have CPUs in common: threads and memory "
				"are not placed by NUMA node; set `numa: off` if that is intended",
				folder, numa->node[i].number, number);
	if (numa->count == NUMA_NODES)
		return fault_set(fault, -EINVAL,
			"%s: expected at most %d nodes with CPUs: threads and memory are not "
			"placed "
			"by NUMA node; set `numa: off` if that is intended",
			folder, NUMA_NODES);
	numa->node[numa->count++] = (struct numa_node){number, cpus, set};
	numa->cpus += cpus;
	return 0;
}

int numa_read(const char *folder, struct numa *ret, struct fault *fault)
{
	struct numa_set online, allowed;
	ret->count = ret->cpus = 0;
	CPU_ZERO_S(sizeof allowed, allowed.part);
	int result = numa_read_list(folder, "/online", &online, fault);
	if (!result && sched_getaffinity(0, sizeof allowed, allowed.part) < 0)
		result = -errno;
	for (unsigned number = 0; !result && number < NUMA_NUMBERS; number++)
		if (set_has(&online, number))
			result = numa_add(ret, folder, number, &allowed, fault);
	if (result || ret->count < 2)
		ret->count = ret->cpus = 0;
	/* Without these files the kernel has no NUMA, or a sandbox hides it. */
	return result == -EINVAL ? result : 0;
}

unsigned numa_share(const struct numa *numa, unsigned i, unsigned count)
{
	/* The middle of thread i's part of all CPUs. */
	const uint64_t at = (2 * (uint64_t)i + 1) * numa->cpus;
	uint64_t end = 0;
	unsigned node = 0;
	for (; node + 1 < numa->count; node++) {
		end += numa->node[node].cpus;
		if (at < 2 * (uint64_t)count * end)
			break;
	}
	return node;
}

int numa_bind(const struct numa *numa, unsigned node, pthread_t thread)
{
	const struct numa_set *set = &numa->node[node].set;
	return -pthread_setaffinity_np(thread, sizeof *set, set->part);
}

int numa_of_process(const struct numa *numa, pid_t pid)
{
	char path[32], text[PROCFILE_ROOM];
	struct numa_set set;
	int found = -1;
	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (pid <= 0 || procfile_read("", path, text, sizeof text) <= 0)
		return -1;
	char *list = strstr(text, "\nCpus_allowed_list:");
	if (!list)
		return -1;
	list += strlen("\nCpus_allowed_list:");
	list[strcspn(list, "\n")] = 0;
	if (numa_parse(list, &set) < 0)
		return -1;
	for (unsigned i = 0; i < numa->count; i++) {
		if (!set_overlaps(&set, &numa->node[i].set))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

int numa_prefer(const struct numa *numa, unsigned node)
{
	enum { BITS = sizeof(unsigned long) * CHAR_BIT };
	unsigned long mask[NUMA_NUMBERS / BITS] = {0};
	const unsigned number = numa->node[node].number;
	mask[number / BITS] = 1ul << number % BITS;
	/* The kernel reads one bit less than it is told of. */
	long result = syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask, NUMA_NUMBERS + 1ul);
	return result < 0 ? -errno : 0;
}

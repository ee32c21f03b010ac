/* probe: what the kernel reports of a process, a cgroup and the machine at this moment.
 *
 * Each function reads a few small files and allocates nothing. A value that a file does not have is
 * "not known", never an error. Every function looks below `root` ("" for this machine; tests have
 * others). The witness's only thread. */
#pragma once

#include "base/host/cgroup.h"
#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From /proc/PID/stat; proc(5) numbers the fields. */
struct probe_process {
	int32_t parent;
	uint64_t start_ticks, cpu_ticks; /* clock ticks: since boot; user and system time */
	bool ended; /* a zombie: `status` is what its parent will get from waitpid */
	int32_t status;
};

/* False when the process does not exist. */
bool probe_process_at(const char *root, int pid, struct probe_process *ret);

/* From /proc/PID/status. */
void probe_memory_at(const char *root, int pid, struct record_memory *ret);

/* The command line, or, where it is empty, the process's name in brackets; "" when the process does
 * not exist. Always one line. */
void probe_command_at(const char *root, int pid, char *buffer, size_t room);

/* SLURM_JOB_END_TIME of its environment, a Unix time; 0 where it is not set or cannot be read. */
int64_t probe_deadline_at(const char *root, int pid);

/* The soft limit of CPU seconds; UINT64_MAX: none, or not known. */
uint64_t probe_cpu_limit_at(const char *root, int pid);

void probe_cgroup(const struct cgroup_view *view, struct record_cgroup *ret);

/* OOM kills of the machine, ever; UINT64_MAX: the kernel does not count them (before 4.13). */
uint64_t probe_oom_kills_at(const char *root);

/* `folder`: sets disk_free to the free bytes of its file system; NULL: not known. */
void probe_machine_at(const char *root, const struct cgroup_view *view, const char *folder,
	struct record_machine *ret);

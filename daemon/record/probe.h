/* sample: what the kernel says of a process, a cgroup and the machine, now.
 *
 * No allocation, a few small files each; what a file does not say is "not known", never an error.
 * Every function looks below `root` ("" for the machine itself; tests have others). The witness's
 * only thread. */
#pragma once

#include "base/host/cgroup.h"
#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of /proc/PID/stat; proc(5) counts the fields. */
struct probe_process {
	int32_t parent;
	uint64_t start_ticks, cpu_ticks; /* clock ticks: since boot; user and system time */
	bool ended; /* a zombie: `status` is what its parent will get from waitpid */
	int32_t status;
};

/* False when there is no such process. */
bool probe_process_at(const char *root, int pid, struct probe_process *ret);

/* Of /proc/PID/status. */
void probe_memory_at(const char *root, int pid, struct record_memory *ret);

/* The words of the command line, or, where there are none, its name in brackets; "" when there is
 * no such process. Always one line. */
void probe_command_at(const char *root, int pid, char *buffer, size_t room);

/* SLURM_JOB_END_TIME of its environment: Unix time; 0 where there is none or it may not be read. */
int64_t probe_deadline_at(const char *root, int pid);

/* The soft limit of CPU seconds; UINT64_MAX: none, or not known. */
uint64_t probe_cpu_limit_at(const char *root, int pid);

void probe_cgroup(const struct cgroup_view *view, struct record_cgroup *ret);

/* Of the machine, ever; UINT64_MAX: the kernel does not say (before 4.13). */
uint64_t probe_oom_kills_at(const char *root);

/* `folder`: whose file system's free bytes are told; NULL: none. */
void probe_machine_at(const char *root, const struct cgroup_view *view, const char *folder,
	struct record_machine *ret);

/* monitor: looks at a daemon and its trainers from outside while they are measured: memory,
 * processor time, bytes read from storage, waits.
 *
 * Memory is the sum of the proportional set sizes of the daemon, of the processes that it forked
 * (its flight recorder) and of the trainers, so that shared pages count once. In addition it
 * notes what the kernel charges to this process's cgroup, which includes the page cache and
 * everything else in the cgroup. To compute a set size the kernel walks all pages of a process,
 * so memory is sampled less often if that takes long: measuring must not slow down what is
 * measured. Main thread; keeps two files of the cgroup open. */
#pragma once

#include "client/cli/bench/series.h"
#include "client/cli/bench/trainer.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sums since the start of the run. */
struct monitor_seen {
	uint64_t ns, waited_ns, cpu_ns, bytes_read;
	uint64_t images; /* in the windows */
};

struct monitor {
	const struct trainer_board *board;
	const pid_t *pid;
	unsigned trainers;
	uint64_t begin_ns; /* of the first window; 0: no window has begun */
	struct monitor_seen seen;
	struct series series;
	uint64_t peak_memory; /* the highest sum so far */
	bool memory_known; /* false if the daemon belongs to another user */
	uint64_t memory, memory_due_ns; /* the last sample; when the next is due */
	/* The cgroup: its files (-1: the kernel does not tell), its high-water mark at the
	 * start, the highest use seen since. */
	int used_fd, peak_fd;
	uint64_t cgroup_before, cgroup_seen;
};

/* `board` and `pid` are borrowed. */
void monitor_begin(struct monitor *monitor, const struct trainer_board *board, const pid_t *pid,
	unsigned trainers);

/* Call it ten times a second, and once after all windows have ended. */
void monitor_look(struct monitor *monitor);

/* The most that was charged to the cgroup during the run; 0: not known. Exact if the kernel's own
 * mark rose during the run, otherwise the highest sample. */
uint64_t monitor_cgroup_peak(const struct monitor *monitor, bool *ret_exact);

/* A monitor that never began has -1 for both descriptors. */
void monitor_end(struct monitor *monitor);

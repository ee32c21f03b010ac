/* watch: looks at a daemon and its trainers from outside while they are measured: memory, processor
 * time, what is read from storage, who waits.
 *
 * Memory is the sum of proportional set sizes of the daemon, of the processes that it forked (its
 * flight recorder), and of the trainers: what they share is counted once. Beside it stands what the
 * kernel charges to this process's cgroup, where it tells: page cache included, and whatever else
 * runs in it. The kernel walks all pages of a process to tell its share, so that large ones are
 * looked at less often: what is measured must not be slowed by who measures. Main thread; nothing
 * is kept open but two files of the cgroup. */
#pragma once

#include "client/cli/bench/series.h"
#include "client/cli/bench/trainer.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Sums since the run began, at one look. */
struct watch_seen {
	uint64_t ns, waited_ns, cpu_ns, bytes_read;
	uint64_t images; /* of the windows */
};

struct watch {
	const struct trainer_board *board;
	const pid_t *pid;
	unsigned trainers;
	uint64_t begin_ns; /* of the first window; 0: none has begun */
	struct watch_seen seen;
	struct series series;
	uint64_t peak_memory; /* the highest sum that was seen */
	bool memory_known; /* false where the daemon is another user's */
	uint64_t memory, memory_due_ns; /* at the last look at it; when the next is due */
	/* Of the cgroup: its files (-1: the kernel does not tell), its highest use ever when this
	 * began, the highest that was seen since. */
	int used_fd, peak_fd;
	uint64_t cgroup_before, cgroup_seen;
};

/* `board` and `pid` are borrowed. */
void watch_begin(struct watch *watch, const struct trainer_board *board, const pid_t *pid,
	unsigned trainers);

/* To be called ten times a second, and once after all windows have ended. */
void watch_look(struct watch *watch);

/* The most that was charged to the cgroup during the run; 0: not known. Exact where the kernel's
 * own mark rose, else the highest of all looks. */
uint64_t watch_cgroup_peak(const struct watch *watch, bool *ret_exact);

/* One that never began has -1 for both descriptors. */
void watch_end(struct watch *watch);

/* monitor: see monitor.h. */
#include "client/cli/bench/monitor.h"

#include "base/clock.h"
#include "base/host/cgroup.h"
#include "base/util.h"
#include "client/cli/process.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	MONITOR_CHILDREN = 16,
	MONITOR_COST = 100, /* sampling memory takes at most a hundredth of the time, */
	MONITOR_PATIENCE_NS = 2000000000, /* but happens at least this often */
};

static enum trainer_state monitor_state(const struct monitor *monitor, unsigned i)
{
	return (enum trainer_state)atomic_load_explicit(
		&monitor->board[i].state, memory_order_acquire);
}

/* 0 if it is not known, or not yet. */
static pid_t monitor_daemon(const struct monitor *monitor)
{
	return monitor_state(monitor, 0) == TRAINER_OPENING ? 0
							    : UTIL_MAX(monitor->board[0].daemon, 0);
}

static int monitor_open(const char *v2, const char *v1)
{
	char path[PATH_MAX];
	return cgroup_memory_file(v2, v1, path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC)
							     : -1;
}

static uint64_t monitor_number(int fd)
{
	char text[32];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return strtoull(text, NULL, 10);
}

void monitor_begin(struct monitor *monitor, const struct trainer_board *board, const pid_t *pid,
	unsigned trainers)
{
	*monitor = (struct monitor){.board = board, .pid = pid, .trainers = trainers};
	monitor->seen.ns = clock_ns();
	monitor->used_fd = monitor_open("memory.current", "memory.usage_in_bytes");
	monitor->peak_fd = monitor_open("memory.peak", "memory.max_usage_in_bytes");
	monitor->cgroup_before = monitor_number(monitor->peak_fd);
}

/* 0: not known. */
static uint64_t monitor_memory(const struct monitor *monitor, pid_t daemon)
{
	pid_t child[MONITOR_CHILDREN];
	uint64_t bytes, sum = 0;
	if (daemon == 0 || process_pss(daemon, &sum) < 0)
		return 0;
	unsigned children = process_children(daemon, child, MONITOR_CHILDREN);
	for (unsigned i = 0; i < children; i++)
		if (process_pss(child[i], &bytes) == 0)
			sum += bytes;
	for (unsigned i = 0; i < monitor->trainers; i++)
		if (process_pss(monitor->pid[i], &bytes) == 0)
			sum += bytes;
	return sum;
}

/* Not clock_ns: on a busy machine that also counts the time in which others ran. */
static uint64_t monitor_spent_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Samples memory if it is time. */
static void monitor_look_at_memory(struct monitor *monitor, pid_t daemon)
{
	uint64_t now_ns = clock_ns(), before_ns = monitor_spent_ns();
	if (now_ns < monitor->memory_due_ns)
		return;
	monitor->memory = monitor_memory(monitor, daemon);
	monitor->memory_known |= monitor->memory != 0;
	monitor->peak_memory = UTIL_MAX(monitor->peak_memory, monitor->memory);
	monitor->memory_due_ns = now_ns + UTIL_MIN((monitor_spent_ns() - before_ns) * MONITOR_COST,
						  (uint64_t)MONITOR_PATIENCE_NS);
}

/* How long trainer `i` has waited so far, including the current wait. */
static uint64_t monitor_waited(const struct monitor *monitor, unsigned i, uint64_t now_ns)
{
	const struct trainer_board *board = &monitor->board[i];
	uint64_t waited_ns = atomic_load_explicit(&board->waited_ns, memory_order_relaxed),
		 asked_ns = atomic_load_explicit(&board->asked_ns, memory_order_relaxed);
	return waited_ns + (asked_ns && now_ns > asked_ns ? now_ns - asked_ns : 0);
}

/* A number that cannot be read stays as it was. */
static void monitor_count(const struct monitor *monitor, pid_t daemon, struct monitor_seen *seen)
{
	uint64_t waited_ns = 0;
	seen->ns = clock_ns();
	seen->images = 0;
	for (unsigned i = 0; i < monitor->trainers; i++) {
		seen->images +=
			atomic_load_explicit(&monitor->board[i].images, memory_order_relaxed);
		waited_ns += monitor_waited(monitor, i, seen->ns);
	}
	/* A wait that ends between the two loads is missed until the next look. */
	seen->waited_ns = UTIL_MAX(seen->waited_ns, waited_ns);
	if (daemon)
		(void)process_cpu_ns(daemon, &seen->cpu_ns);
	if (daemon)
		(void)process_bytes_read(daemon, &seen->bytes_read);
}

/* When the first window began (0: none has), and when the last one ended (0: one has not). */
static void monitor_windows(
	const struct monitor *monitor, uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
	uint64_t begin_ns = 0, end_ns = 0;
	bool done = true;
	for (unsigned i = 0; i < monitor->trainers; i++) {
		enum trainer_state state = monitor_state(monitor, i);
		const struct trainer_board *board = &monitor->board[i];
		if (state == TRAINER_MEASURING || state == TRAINER_DONE)
			begin_ns = begin_ns ? UTIL_MIN(begin_ns, board->begin_ns) : board->begin_ns;
		if (state == TRAINER_DONE)
			end_ns = UTIL_MAX(end_ns, board->end_ns);
		else
			done = false;
	}
	*ret_begin_ns = begin_ns;
	*ret_end_ns = done ? end_ns : 0;
}

/* Adds a sample to the series: from the previous look to this one, or to the end of the windows. */
static void monitor_note(
	struct monitor *monitor, const struct monitor_seen *seen, uint64_t until_ns, bool cpu_known)
{
	const struct monitor_seen *before = &monitor->seen;
	double looked_ns = (double)(seen->ns - before->ns);
	struct series_sample sample = {
		.t_s = (double)(until_ns - monitor->begin_ns) / 1e9,
		.images = (double)(seen->images - before->images) / monitor->trainers,
		.waits = UTIL_MIN((double)(seen->waited_ns - before->waited_ns) / looked_ns /
					  monitor->trainers,
			1.0),
		.cpu = cpu_known ? (double)(seen->cpu_ns - before->cpu_ns) / looked_ns : -1,
		.memory = monitor->memory,
		.bytes_read = seen->bytes_read - before->bytes_read,
	};
	series_add(&monitor->series, &sample);
}

void monitor_look(struct monitor *monitor)
{
	pid_t daemon = monitor_daemon(monitor);
	uint64_t begin_ns, end_ns;
	monitor_look_at_memory(monitor, daemon);
	struct monitor_seen seen = monitor->seen;
	monitor_windows(monitor, &begin_ns, &end_ns);
	monitor_count(monitor, daemon, &seen);
	monitor->cgroup_seen = UTIL_MAX(monitor->cgroup_seen, monitor_number(monitor->used_fd));
	monitor->begin_ns = monitor->begin_ns ? UTIL_MIN(begin_ns, monitor->begin_ns) : begin_ns;
	if (begin_ns)
		monitor_note(monitor, &seen, end_ns ? end_ns : seen.ns, seen.cpu_ns != 0);
	monitor->seen = seen;
}

uint64_t monitor_cgroup_peak(const struct monitor *monitor, bool *ret_exact)
{
	uint64_t peak = monitor_number(monitor->peak_fd);
	*ret_exact = peak > monitor->cgroup_before;
	return *ret_exact ? peak : monitor->cgroup_seen;
}

void monitor_end(struct monitor *monitor)
{
	if (monitor->used_fd >= 0)
		(void)close(monitor->used_fd);
	if (monitor->peak_fd >= 0)
		(void)close(monitor->peak_fd);
	monitor->used_fd = monitor->peak_fd = -1;
}

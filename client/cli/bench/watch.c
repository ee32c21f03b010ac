/* watch: see watch.h. */
#include "client/cli/bench/watch.h"

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
	WATCH_CHILDREN = 16,
	WATCH_COST = 100, /* sampling memory takes at most a hundredth of the time, */
	WATCH_PATIENCE_NS = 2000000000, /* but happens at least this often */
};

static enum trainer_state watch_state(const struct watch *watch, unsigned i)
{
	return (enum trainer_state)atomic_load_explicit(
		&watch->board[i].state, memory_order_acquire);
}

/* 0 if it is not known, or not yet. */
static pid_t watch_daemon(const struct watch *watch)
{
	return watch_state(watch, 0) == TRAINER_OPENING ? 0 : UTIL_MAX(watch->board[0].daemon, 0);
}

static int watch_open(const char *v2, const char *v1)
{
	char path[PATH_MAX];
	return cgroup_memory_file(v2, v1, path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC)
							     : -1;
}

static uint64_t watch_number(int fd)
{
	char text[32];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	return strtoull(text, NULL, 10);
}

void watch_begin(
	struct watch *watch, const struct trainer_board *board, const pid_t *pid, unsigned trainers)
{
	*watch = (struct watch){.board = board, .pid = pid, .trainers = trainers};
	watch->seen.ns = clock_ns();
	watch->used_fd = watch_open("memory.current", "memory.usage_in_bytes");
	watch->peak_fd = watch_open("memory.peak", "memory.max_usage_in_bytes");
	watch->cgroup_before = watch_number(watch->peak_fd);
}

/* 0: not known. */
static uint64_t watch_memory(const struct watch *watch, pid_t daemon)
{
	pid_t child[WATCH_CHILDREN];
	uint64_t bytes, sum = 0;
	if (daemon == 0 || process_pss(daemon, &sum) < 0)
		return 0;
	unsigned children = process_children(daemon, child, WATCH_CHILDREN);
	for (unsigned i = 0; i < children; i++)
		if (process_pss(child[i], &bytes) == 0)
			sum += bytes;
	for (unsigned i = 0; i < watch->trainers; i++)
		if (process_pss(watch->pid[i], &bytes) == 0)
			sum += bytes;
	return sum;
}

/* Not clock_ns: on a busy machine that also counts the time in which others ran. */
static uint64_t watch_spent_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Samples memory if it is time. */
static void watch_look_at_memory(struct watch *watch, pid_t daemon)
{
	uint64_t now_ns = clock_ns(), before_ns = watch_spent_ns();
	if (now_ns < watch->memory_due_ns)
		return;
	watch->memory = watch_memory(watch, daemon);
	watch->memory_known |= watch->memory != 0;
	watch->peak_memory = UTIL_MAX(watch->peak_memory, watch->memory);
	watch->memory_due_ns = now_ns + UTIL_MIN((watch_spent_ns() - before_ns) * WATCH_COST,
						(uint64_t)WATCH_PATIENCE_NS);
}

/* How long trainer `i` has waited so far, including the current wait. */
static uint64_t watch_waited(const struct watch *watch, unsigned i, uint64_t now_ns)
{
	const struct trainer_board *board = &watch->board[i];
	uint64_t waited_ns = atomic_load_explicit(&board->waited_ns, memory_order_relaxed),
		 asked_ns = atomic_load_explicit(&board->asked_ns, memory_order_relaxed);
	return waited_ns + (asked_ns && now_ns > asked_ns ? now_ns - asked_ns : 0);
}

/* A number that cannot be read stays as it was. */
static void watch_count(const struct watch *watch, pid_t daemon, struct watch_seen *seen)
{
	uint64_t waited_ns = 0;
	seen->ns = clock_ns();
	seen->images = 0;
	for (unsigned i = 0; i < watch->trainers; i++) {
		seen->images += atomic_load_explicit(&watch->board[i].images, memory_order_relaxed);
		waited_ns += watch_waited(watch, i, seen->ns);
	}
	/* A wait that ends between the two loads is missed until the next look. */
	seen->waited_ns = UTIL_MAX(seen->waited_ns, waited_ns);
	if (daemon)
		(void)process_cpu_ns(daemon, &seen->cpu_ns);
	if (daemon)
		(void)process_bytes_read(daemon, &seen->bytes_read);
}

/* When the first window began (0: none has), and when the last one ended (0: one has not). */
static void watch_windows(const struct watch *watch, uint64_t *ret_begin_ns, uint64_t *ret_end_ns)
{
	uint64_t begin_ns = 0, end_ns = 0;
	bool done = true;
	for (unsigned i = 0; i < watch->trainers; i++) {
		enum trainer_state state = watch_state(watch, i);
		const struct trainer_board *board = &watch->board[i];
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
static void watch_note(
	struct watch *watch, const struct watch_seen *seen, uint64_t until_ns, bool cpu_known)
{
	const struct watch_seen *before = &watch->seen;
	double looked_ns = (double)(seen->ns - before->ns);
	struct series_sample sample = {
		.t_s = (double)(until_ns - watch->begin_ns) / 1e9,
		.images = (double)(seen->images - before->images) / watch->trainers,
		.waits = UTIL_MIN(
			(double)(seen->waited_ns - before->waited_ns) / looked_ns / watch->trainers,
			1.0),
		.cpu = cpu_known ? (double)(seen->cpu_ns - before->cpu_ns) / looked_ns : -1,
		.memory = watch->memory,
		.bytes_read = seen->bytes_read - before->bytes_read,
	};
	series_add(&watch->series, &sample);
}

void watch_look(struct watch *watch)
{
	pid_t daemon = watch_daemon(watch);
	uint64_t begin_ns, end_ns;
	watch_look_at_memory(watch, daemon);
	struct watch_seen seen = watch->seen;
	watch_windows(watch, &begin_ns, &end_ns);
	watch_count(watch, daemon, &seen);
	watch->cgroup_seen = UTIL_MAX(watch->cgroup_seen, watch_number(watch->used_fd));
	watch->begin_ns = watch->begin_ns ? UTIL_MIN(begin_ns, watch->begin_ns) : begin_ns;
	if (begin_ns)
		watch_note(watch, &seen, end_ns ? end_ns : seen.ns, seen.cpu_ns != 0);
	watch->seen = seen;
}

uint64_t watch_cgroup_peak(const struct watch *watch, bool *ret_exact)
{
	uint64_t peak = watch_number(watch->peak_fd);
	*ret_exact = peak > watch->cgroup_before;
	return *ret_exact ? peak : watch->cgroup_seen;
}

void watch_end(struct watch *watch)
{
	if (watch->used_fd >= 0)
		(void)close(watch->used_fd);
	if (watch->peak_fd >= 0)
		(void)close(watch->peak_fd);
	watch->used_fd = watch->peak_fd = -1;
}

/* spawn: see spawn.h.
 *
 * The caller is a training process: many threads, much memory, libraries with fork handlers. fork()
 * would copy its page tables (a second for a large process) and run those handlers. So both
 * generations are made by clone(CLONE_VM | CLONE_VFORK), as in posix_spawn: they use the caller's
 * memory while it waits, and exec soon. posix_spawn itself can neither make the second generation
 * nor set the CPU affinity. Rules that follow, for all functions named spawn_child_*:
 *
 * - They make only system calls, by number: nothing that takes a lock, and nothing that a sanitizer
 *   or a library has wrapped, whose bookkeeping would be the caller's.
 * - All signals stay blocked until no handler of the caller is left, since a handler would run on
 *   the caller's memory.
 * - They write only to the plan's `error` and to the stacks made here.
 *
 * The first generation is cloned without an exit signal: the application's SIGCHLD handler does not
 * run, and its wait() does not find the child (__WALL does).
 *
 * Thread: the caller's; other threads continue. */
#include "client/lib/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPAWN_BARE __attribute__((no_sanitize("address", "thread", "undefined")))

enum {
	SPAWN_STACK = 32768, /* of each generation */
	SPAWN_HIGH_FD = 10, /* above every number that the process gets */
	SPAWN_FDS_MAX = 65536, /* closed one by one where close_range is missing (before 5.9) */
	SPAWN_SIGNALS = 64, /* as the kernel counts, not the library */
	SPAWN_CPUS = 8192,
};

/* ThreadSanitizer wraps clone() as if it were fork(); its bookkeeping in the child would be the
 * caller's. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPAWN_BARE_CLONE
#endif
#endif
#if defined(SPAWN_BARE_CLONE) || defined(__SANITIZE_THREAD__)
extern int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...);
#define spawn_clone __clone
#else
#define spawn_clone clone
#endif

extern char **environ;

struct spawn_plan {
	const char *program;
	char *const *argv;
	char *const *environment;
	int null_fd, log_fd, ready_fd; /* all above SPAWN_HIGH_FD */
	unsigned fd_limit;
	char *second_stack;
	int error;
	uint64_t no_signals;
	unsigned long no_action[8]; /* a kernel sigaction with SIG_DFL, on every machine */
	unsigned long all_cpus[SPAWN_CPUS / (8 * sizeof(long))];
};

/* An exec resets handlers, but keeps the mask and the signals that are ignored, such as SIGPIPE in
 * every Python process. */
SPAWN_BARE static void spawn_child_reset_signals(struct spawn_plan *plan)
{
	for (int number = 1; number <= SPAWN_SIGNALS; number++)
		(void)syscall(
			SYS_rt_sigaction, number, plan->no_action, NULL, sizeof plan->no_signals);
	(void)syscall(
		SYS_rt_sigprocmask, SIG_SETMASK, &plan->no_signals, NULL, sizeof plan->no_signals);
}

/* A rank is often pinned to the CPUs and the memory of one node. A daemon for all ranks must not
 * be. */
SPAWN_BARE static void spawn_child_unpin(struct spawn_plan *plan)
{
	(void)syscall(SYS_sched_setaffinity, 0, sizeof plan->all_cpus, plan->all_cpus);
	(void)syscall(SYS_set_mempolicy, 0, NULL, 0);
}

SPAWN_BARE static long spawn_child_place_fds(struct spawn_plan *plan)
{
	if (syscall(SYS_dup3, plan->null_fd, STDIN_FILENO, 0) < 0 ||
		syscall(SYS_dup3, plan->log_fd, STDOUT_FILENO, 0) < 0 ||
		syscall(SYS_dup3, plan->log_fd, STDERR_FILENO, 0) < 0 ||
		syscall(SYS_dup3, plan->ready_fd, SPAWN_READY_FD, 0) < 0)
		return -1;
	if (syscall(SYS_close_range, SPAWN_READY_FD + 1, ~0u, 0) < 0) {
		for (unsigned fd = SPAWN_READY_FD + 1; fd < plan->fd_limit; fd++)
			(void)syscall(SYS_close, fd);
	}
	return 0;
}

/* Second generation: becomes the program. */
SPAWN_BARE static int spawn_child_become(void *argument)
{
	struct spawn_plan *plan = argument;
	spawn_child_unpin(plan);
	if (spawn_child_place_fds(plan) == 0 && syscall(SYS_chdir, "/") == 0) {
		spawn_child_reset_signals(plan);
		(void)syscall(SYS_execve, plan->program, plan->argv, plan->environment);
	}
	plan->error = errno;
	return 127;
}

/* First generation: leaves the terminal, makes the second and ends, which orphans the second. */
SPAWN_BARE static int spawn_child_detach(void *argument)
{
	struct spawn_plan *plan = argument;
	(void)syscall(SYS_setsid);
	if (spawn_clone(spawn_child_become, plan->second_stack + SPAWN_STACK,
		    CLONE_VM | CLONE_VFORK, plan) < 0)
		plan->error = errno;
	return 0;
}

/* Runs both generations; `plan->error` says how that ended. */
static void spawn_run(struct spawn_plan *plan, char *first_stack)
{
	uint64_t all = ~(uint64_t)0, old;
	/* By number: the library's function leaves two signals of its own unblocked, whose handlers
	 * must not run in a child either. */
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof old);
	int pid = spawn_clone(
		spawn_child_detach, first_stack + SPAWN_STACK, CLONE_VM | CLONE_VFORK, plan);
	if (pid < 0)
		plan->error = errno;
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		continue;
}

static unsigned spawn_fd_limit(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > SPAWN_FDS_MAX)
		return SPAWN_FDS_MAX;
	return (unsigned)limit.rlim_cur;
}

int spawn_detached(const char *program, char *const argv[], int log_fd, int ready_fd)
{
	struct spawn_plan plan = {.program = program,
		.argv = argv,
		.environment = environ,
		.fd_limit = spawn_fd_limit()};
	memset(plan.all_cpus, 0xff, sizeof plan.all_cpus);
	char *stacks = mmap(NULL, 2 * SPAWN_STACK, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return -errno;
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	plan.null_fd = null_fd < 0 ? -1 : fcntl(null_fd, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD);
	plan.log_fd = fcntl(log_fd, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD);
	plan.ready_fd = fcntl(ready_fd, F_DUPFD_CLOEXEC, SPAWN_HIGH_FD);
	plan.second_stack = stacks + SPAWN_STACK;
	if (plan.null_fd < 0 || plan.log_fd < 0 || plan.ready_fd < 0)
		plan.error = errno;
	else
		spawn_run(&plan, stacks);
	const int mine[] = {null_fd, plan.null_fd, plan.log_fd, plan.ready_fd};
	for (unsigned i = 0; i < sizeof mine / sizeof *mine; i++) {
		if (mine[i] >= 0)
			(void)close(mine[i]);
	}
	(void)munmap(stacks, 2 * SPAWN_STACK);
	return -plan.error;
}

/* chain_process: credentials that a program prints (credential_process). See chain.h.
 *
 * The program is given no standard input, and what it writes to standard error goes where the
 * daemon's goes. A program that has not ended after its time, or when penstock is told to stop, is
 * killed with all that it started. */
#include "remote/auth/chain.h"

#include "base/clock.h"
#include "base/util.h"
#include "remote/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { PROCESS_PAUSE_MS = 10 /* between two looks whether a program has ended */ };

/* Until when a program may run. */
struct deadline {
	uint64_t end_ns;
	unsigned limit_ms;
};

extern char **environ;

static int start(const char *command, int fd, pid_t *ret)
{
	char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, strdup(command), NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	if (!argv[2])
		return -ENOMEM;
	(void)sigemptyset(&none);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawnattr_init(&attributes);
	int rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
	/* A group of its own, so that what it starts can be ended with it. */
	if (!rc)
		rc = posix_spawnattr_setflags(
			&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	if (!rc)
		rc = posix_spawnattr_setsigmask(&attributes, &none);
	if (!rc)
		rc = posix_spawn(ret, "/bin/sh", &actions, &attributes, argv, environ);
	(void)posix_spawnattr_destroy(&attributes);
	(void)posix_spawn_file_actions_destroy(&actions);
	free(argv[2]);
	return -rc;
}

/* Whether the thread is interrupted, or the process is told to end while it starts: it has blocked
 * the signals then, and does not take them before it has started. */
static bool is_unwanted(void)
{
	sigset_t pending;
	return interrupt_wanted() ||
	       (sigpending(&pending) == 0 &&
		       (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1));
}

/* 0; -ETIMEDOUT; -ECANCELED. */
static int deadline_check(const struct deadline *deadline)
{
	if (clock_ns() >= deadline->end_ns)
		return -ETIMEDOUT;
	return is_unwanted() ? -ECANCELED : 0;
}

/* Reads until the end, the bound or the time limit. */
static ssize_t read_all(int fd, char *to, size_t room, const struct deadline *deadline)
{
	size_t used = 0;
	while (used < room) {
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		const int code = deadline_check(deadline);
		if (code < 0)
			return code;
		if (poll(&ready, 1, INTERRUPT_MS) <= 0)
			continue;
		ssize_t got = read(fd, to + used, room - used);
		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			return (ssize_t)used;
		used += got > 0 ? (size_t)got : 0;
	}
	return -EFBIG;
}

/* Waits for the program, which has closed its output, until the time limit. 0 or a negative
 * errno. */
static int end_wait(pid_t pid, int *ret_status, const struct deadline *deadline)
{
	for (;;) {
		const pid_t ended = waitpid(pid, ret_status, WNOHANG);
		if (ended == pid)
			return 0;
		if (ended < 0 && errno != EINTR)
			return -errno;
		const int code = deadline_check(deadline);
		if (code < 0)
			return code;
		(void)nanosleep(&(struct timespec){.tv_nsec = PROCESS_PAUSE_MS * 1000000L}, NULL);
	}
}

static int fail(int code, const struct deadline *deadline, struct fault *fault)
{
	if (code == -ETIMEDOUT)
		return fault_set(fault, code,
			"credential_process: it did not end within %u s and was killed; run it by "
			"hand to see what it waits for",
			(deadline->limit_ms + 999) / 1000);
	return fault_set(fault, code, "credential_process: %s",
		code == -EFBIG       ? "it printed more than 64 KiB"
		: code == -ECANCELED ? "penstock is stopping"
				     : strerror(-code));
}

static int finish(pid_t pid, ssize_t size, const struct deadline *deadline, struct fault *fault)
{
	int status = 0;
	int code = size < 0 ? (int)size : end_wait(pid, &status, deadline);
	if (code < 0) {
		(void)kill(-pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		return fail(code, deadline, fault);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return fault_set(fault, -EIO,
		"credential_process: it ended with %s %d; run it by hand to see why",
		WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int chain_process(
	const char *command, unsigned limit_ms, struct credentials *ret, struct fault *fault)
{
	const struct deadline deadline = {
		.end_ns = clock_ns() + (uint64_t)limit_ms * 1000000, .limit_ms = limit_ms};
	int ends[2];
	pid_t pid = 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fault_set(fault, -errno, "credential_process: %s", strerror(errno));
	int rc = start(command, ends[1], &pid);
	(void)close(ends[1]);
	if (rc < 0) {
		(void)close(ends[0]);
		if (rc == -EPERM || rc == -ENOSYS || rc == -EACCES)
			return fault_set(fault, -EPERM,
				"credential_process: a confined penstockd runs no programs, and "
				"what it ran before it was confined has expired: use credentials "
				"that can be refreshed without a program (a role, web identity, "
				"the machine's), or set `seccomp: off`");
		return fault_set(fault, rc, "credential_process: %s", strerror(-rc));
	}
	char *text = calloc(1, CREDENTIALS_BODY + 1);
	ssize_t size = text ? read_all(ends[0], text, CREDENTIALS_BODY, &deadline) : -ENOMEM;
	(void)close(ends[0]);
	rc = finish(pid, size, &deadline, fault);
	if (rc == 0)
		rc = credentials_from_json(ret, "credential_process", text, (size_t)size, fault);
	if (text)
		explicit_bzero(text, CREDENTIALS_BODY);
	free(text);
	return rc;
}

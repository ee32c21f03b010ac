/* chain_process: credentials that a program prints (credential_process). See chain.h.
 *
 * The program is given no standard input, and what it writes to standard error goes where the
 * daemon's goes. It has a minute. */
#include "remote/auth/chain.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

enum { PROCESS_TIMEOUT_MS = 60000 };

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

/* Reads until the end, the bound or the time limit. */
static ssize_t read_all(int fd, char *to, size_t room)
{
	const uint64_t end_ns = clock_ns() + (uint64_t)PROCESS_TIMEOUT_MS * 1000000;
	size_t used = 0;
	while (used < room) {
		uint64_t now = clock_ns();
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (now >= end_ns)
			return -ETIMEDOUT;
		int n = poll(&ready, 1, (int)((end_ns - now) / 1000000) + 1);
		if (n <= 0)
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

static int finish(pid_t pid, ssize_t size, struct fault *fault)
{
	int status = 0;
	if (size < 0)
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (size < 0)
		return fault_set(fault, (int)size, "credential_process: %s",
			size == -ETIMEDOUT ? "it did not end within a minute"
			: size == -EFBIG   ? "it printed more than 64 KiB"
					   : strerror((int)-size));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return fault_set(fault, -EIO,
		"credential_process: it ended with %s %d; run it by hand to see why",
		WIFEXITED(status) ? "status" : "signal",
		WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int chain_process(const char *command, struct credentials *ret, struct fault *fault)
{
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
	ssize_t size = text ? read_all(ends[0], text, CREDENTIALS_BODY) : -ENOMEM;
	(void)close(ends[0]);
	rc = finish(pid, size, fault);
	if (rc == 0)
		rc = credentials_from_json(ret, "credential_process", text, (size_t)size, fault);
	if (text)
		explicit_bzero(text, CREDENTIALS_BODY);
	free(text);
	return rc;
}

/* fake_penstockd: the tests of the private daemon start this in place of penstockd. It takes the
 * same options, notes its arguments and environment, and serves correctly. FAKE_MODE in the
 * environment makes it fail. */
#include "client/fake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *option(char **argv, const char *name)
{
	for (; *argv; argv++) {
		if (strcmp(*argv, name) == 0)
			return argv[1];
	}
	return NULL;
}

static int count_signals(bool ignored)
{
	int n = 0;
	sigset_t blocked;
	struct sigaction action;
	(void)sigprocmask(SIG_SETMASK, NULL, &blocked);
	for (int number = 1; number < 32; number++) {
		if (ignored && sigaction(number, NULL, &action) == 0)
			n += action.sa_handler == SIG_IGN;
		else if (!ignored)
			n += sigismember(&blocked, number) == 1;
	}
	return n;
}

static int highest_fd(void)
{
	int highest = -1;
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	while (folder && (entry = readdir(folder))) {
		int fd = atoi(entry->d_name);
		if (fd > highest && fd != dirfd(folder))
			highest = fd;
	}
	if (folder)
		(void)closedir(folder);
	return highest;
}

/* One line of facts per start, beside the socket. */
static void write_facts(char **argv, const char *socket)
{
	char path[200], cwd[200] = "";
	cpu_set_t cpus;
	(void)snprintf(path, sizeof path, "%s.facts", socket);
	int highest = highest_fd();
	FILE *facts = fopen(path, "ae");
	if (!facts || !getcwd(cwd, sizeof cwd))
		exit(3);
	CPU_ZERO(&cpus);
	(void)sched_getaffinity(0, sizeof cpus, &cpus);
	(void)fprintf(facts,
		"pid=%d ppid=%d sid=%d leader=%d cwd=%s fds=%d blocked=%d ignored=%d cpus=%d "
		"stdin=%d argv=",
		(int)getpid(), (int)getppid(), (int)getsid(0), getsid(0) == getpid(), cwd, highest,
		count_signals(false), count_signals(true), CPU_COUNT(&cpus), (int)read(0, path, 1));
	for (char **a = argv + 1; *a; a++)
		(void)fprintf(facts, "%s ", *a);
	(void)fprintf(facts, "\n");
	(void)fclose(facts);
}

/* As penstockd does; the lock is held to the process's end. */
static bool takes_instance(const char *socket)
{
	char path[200];
	(void)snprintf(path, sizeof path, "%s.lock", socket);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	(void)fprintf(stderr, "another penstockd already serves %s\n", socket);
	return false;
}

/* Dies at the first stream that it must open, and its socket stays. A file beside it counts down
 * how often. */
static void die_opening(int listener, const char *socket)
{
	char path[200];
	unsigned left = 0;
	(void)snprintf(path, sizeof path, "%s.deaths", socket);
	FILE *file = fopen(path, "r+e");
	if (!file || fscanf(file, "%u", &left) != 1 || left == 0)
		return;
	rewind(file);
	(void)fprintf(file, "%u\n", left - 1);
	(void)fclose(file);
	struct pollfd ready = {.fd = listener, .events = POLLIN};
	(void)poll(&ready, 1, -1);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	fake_welcome(fd);
	(void)fake_expect(fd, WIRE_OPEN);
	(void)raise(SIGKILL);
}

static void serve(int listener)
{
	static const struct fake_shape shape = FAKE_SHAPE;
	(void)alarm(30);
	for (;;) {
		struct pollfd ready = {.fd = listener, .events = POLLIN};
		(void)poll(&ready, 1, -1);
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		pid_t pid = fork();
		if (pid == 0) {
			fake_serve_well(fd, &shape);
			_exit(0);
		}
		(void)close(fd);
	}
}

int main(int argc, char **argv)
{
	(void)argc;
	const char *mode = getenv("FAKE_MODE"), *socket = option(argv, "--socket"),
		   *ready = option(argv, "--ready-fd");
	int listener;
	if (!socket || !ready || !option(argv, "--idle-exit") || !option(argv, "--log-file"))
		return 2;
	write_facts(argv, socket);
	if (mode && strcmp(mode, "dies") == 0) {
		(void)fprintf(stderr, "first line\npenstockd: config.yaml:3:1: unknown key "
				      "`memroy`; did you mean memory?\n");
		return 2;
	}
	if (mode && strcmp(mode, "mute") == 0)
		return 1;
	if (mode && strcmp(mode, "stuck") == 0) {
		(void)alarm(30);
		(void)pause();
	}
	if (mode && strcmp(mode, "killed") == 0)
		(void)raise(SIGKILL);
	if (mode && strcmp(mode, "locks") == 0 && !takes_instance(socket))
		return 1;
	if (conn_listen(socket, &listener) < 0)
		return 1;
	if (mode && strcmp(mode, "slow") == 0)
		(void)usleep(300000);
	if (write(atoi(ready), "", 1) != 1)
		return 1;
	(void)close(atoi(ready));
	if (mode && strcmp(mode, "says") == 0)
		(void)fprintf(stderr, "fake: serving\n");
	if (mode && strcmp(mode, "opening") == 0)
		die_opening(listener, socket);
	(void)signal(SIGCHLD, SIG_IGN);
	serve(listener);
	return 0;
}

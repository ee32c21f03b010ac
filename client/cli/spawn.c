/* spawn: see spawn.h. The main thread starts and stops; the signal thread also stops. Each does so
 * under the lock. */
#include "client/cli/spawn.h"

#include "base/clock.h"
#include "base/host/limits.h"
#include "base/util.h"
#include "client/cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
	SPAWN_READY_MS = 15000,
	SPAWN_END_MS = 5000, /* then the daemon is killed */
	SPAWN_CHILDREN = 1024,
	SPAWN_ARGS = 32,
	SPAWN_NUMBER = 24,
	SPAWN_LOG_LINES = 6,
};

static struct {
	pthread_mutex_t lock;
	pid_t daemon;
	pid_t child[SPAWN_CHILDREN];
	unsigned children;
	char folder[PATH_MAX];
	char socket[sizeof((struct sockaddr_un *)0)->sun_path];
	char log[PATH_MAX + 16];
	sigset_t before, ours;
	bool blocked;
} spawned = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* access() says of a folder, too, that it can be executed. */
static bool spawn_is_program(const char *path)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return false;
	}
	return access(path, X_OK) == 0;
}

static int spawn_find_beside(char *buffer, size_t room)
{
	ssize_t n = readlink("/proc/self/exe", buffer, room - 1);
	if (n < 0)
		return -errno;
	buffer[n] = 0;
	char *slash = strrchr(buffer, '/');
	if (!slash || (size_t)(slash - buffer) + sizeof "/penstockd" > room)
		return -ENOENT;
	memcpy(slash, "/penstockd", sizeof "/penstockd");
	return spawn_is_program(buffer) ? 0 : -ENOENT;
}

static int spawn_find_in_path(char *buffer, size_t room)
{
	const char *path = getenv("PATH");
	while (path && *path) {
		int size = (int)strcspn(path, ":");
		int n = snprintf(buffer, room, "%.*s/penstockd", size, path);
		if (size && n > 0 && (size_t)n < room && spawn_is_program(buffer))
			return 0;
		path += size;
		path += *path == ':';
	}
	return -ENOENT;
}

static int spawn_find(char *buffer, size_t room)
{
	const char *named = getenv("PENSTOCKD");
	if (named && *named) {
		if (!spawn_is_program(named))
			return cli_fail(CLI_USAGE, "PENSTOCKD names %s, which cannot be run: %s",
				named, strerror(errno));
		(void)snprintf(buffer, room, "%s", named);
		return CLI_OK;
	}
	if (spawn_find_beside(buffer, room) == 0 || spawn_find_in_path(buffer, room) == 0)
		return CLI_OK;
	return cli_fail(CLI_USAGE, "there is no penstockd beside this command or in PATH; build or "
				   "install it, or set PENSTOCKD to its path");
}

/* The runtime folder is in memory, belongs to the user and is emptied at logout. The path must fit
 * into a sockaddr_un. False, with errno: no place will do. Called under the lock, or a signal could
 * leave a folder that the signal thread does not know. */
static bool spawn_try_folder(void)
{
	const char *places[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};
	static const char name[] = "/penstock-own-XXXXXX", file[] = "/penstock.sock";
	for (size_t i = 0; i < UTIL_COUNT(places); i++) {
		const char *place = places[i];
		if (!place || place[0] != '/' ||
			strlen(place) + sizeof name + sizeof file > sizeof spawned.socket)
			continue;
		char folder[sizeof spawned.socket];
		(void)snprintf(folder, sizeof folder, "%s%s", place, name);
		if (!mkdtemp(folder))
			continue;
		(void)snprintf(spawned.folder, sizeof spawned.folder, "%s", folder);
		(void)snprintf(spawned.socket, sizeof spawned.socket, "%.80s%s", folder, file);
		(void)snprintf(spawned.log, sizeof spawned.log, "%s/penstockd.log", spawned.folder);
		return true;
	}
	return false;
}

static int spawn_make_folder(void)
{
	(void)pthread_mutex_lock(&spawned.lock);
	bool made = spawn_try_folder();
	(void)pthread_mutex_unlock(&spawned.lock);
	if (made)
		return CLI_OK;
	return cli_fail(CLI_FAILED,
		"cannot make a temporary folder for the daemon's socket in XDG_RUNTIME_DIR, TMPDIR "
		"or /tmp: %s",
		strerror(errno));
}

static void spawn_remove_folder(void)
{
	DIR *dir = opendir(spawned.folder);
	if (dir) {
		for (const struct dirent *entry; (entry = readdir(dir));)
			if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
				(void)unlinkat(dirfd(dir), entry->d_name, 0);
		(void)closedir(dir);
	}
	(void)rmdir(spawned.folder);
	spawned.folder[0] = 0;
}

/* Waits for a child to end; false if that takes longer than `limit_ms`. */
static bool spawn_reap(pid_t pid, int limit_ms)
{
	uint64_t end_ns = clock_ns() + (uint64_t)limit_ms * 1000000;
	for (;;) {
		pid_t r = waitpid(pid, NULL, WNOHANG);
		if (r == pid || (r < 0 && errno == ECHILD))
			return true;
		if (clock_ns() > end_ns)
			return false;
		(void)usleep(2000);
	}
}

/* Under the lock. */
static void spawn_end(void)
{
	/* Trainers first: the daemon waits for the batches that they hold. */
	for (unsigned i = 0; i < spawned.children; i++) {
		(void)kill(spawned.child[i], SIGKILL);
		(void)spawn_reap(spawned.child[i], SPAWN_END_MS);
	}
	spawned.children = 0;
	if (spawned.daemon > 0) {
		(void)kill(spawned.daemon, SIGTERM);
		if (!spawn_reap(spawned.daemon, SPAWN_END_MS)) {
			(void)kill(spawned.daemon, SIGKILL);
			(void)spawn_reap(spawned.daemon, SPAWN_END_MS);
		}
		spawned.daemon = 0;
	}
	if (spawned.folder[0])
		spawn_remove_folder();
}

void spawn_stop(void)
{
	(void)pthread_mutex_lock(&spawned.lock);
	spawn_end();
	(void)pthread_mutex_unlock(&spawned.lock);
}

void spawn_yield(void)
{
	(void)pthread_mutex_lock(&spawned.lock);
	(void)pthread_mutex_unlock(&spawned.lock);
}

static void *spawn_signals(void *unused)
{
	(void)unused;
	int signal_number;
	while (sigwait(&spawned.ours, &signal_number) != 0)
		;
	/* Never unlocked: the main thread stops at the lock, whatever it was about to do or say. */
	(void)pthread_mutex_lock(&spawned.lock);
	if (isatty(STDERR_FILENO))
		(void)!write(STDERR_FILENO, "\r\033[K", 4);
	spawn_end();
	(void)signal(signal_number, SIG_DFL);
	(void)kill(getpid(), signal_number);
	(void)pthread_sigmask(SIG_UNBLOCK, &spawned.ours, NULL);
	_exit(128 + signal_number);
}

/* Once for the process, however many daemons follow each other. */
static int spawn_watch_signals(void)
{
	if (spawned.blocked)
		return CLI_OK;
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	(void)sigemptyset(&spawned.ours);
	for (size_t i = 0; i < UTIL_COUNT(numbers); i++)
		(void)sigaddset(&spawned.ours, numbers[i]);
	(void)pthread_sigmask(SIG_BLOCK, &spawned.ours, &spawned.before);
	spawned.blocked = true;
	pthread_t thread;
	int r = pthread_create(&thread, NULL, spawn_signals, NULL);
	if (r)
		return cli_fail(CLI_FAILED, "cannot start a thread: %s%s", strerror(r),
			limits_thread_hint(r));
	(void)pthread_detach(thread);
	return CLI_OK;
}

struct spawn_command {
	char *arg[SPAWN_ARGS];
	char memory[SPAWN_NUMBER], threads[SPAWN_NUMBER], ready[SPAWN_NUMBER];
	unsigned args;
};

static void spawn_add(struct spawn_command *command, const char *name, char *value)
{
	command->arg[command->args++] = (char *)name;
	if (value)
		command->arg[command->args++] = value;
	command->arg[command->args] = NULL;
}

static void spawn_add_number(
	struct spawn_command *command, const char *name, uint64_t number, char value[SPAWN_NUMBER])
{
	(void)snprintf(value, SPAWN_NUMBER, "%" PRIu64, number);
	spawn_add(command, name, value);
}

static void spawn_compose(const char *program, const struct recipe_daemon *options, int ready_fd,
	struct spawn_command *ret)
{
	*ret = (struct spawn_command){.args = 0};
	spawn_add(ret, program, NULL);
	spawn_add(ret, "--socket", spawned.socket);
	if (options->memory)
		spawn_add_number(ret, "--memory", options->memory, ret->memory);
	if (options->threads)
		spawn_add_number(ret, "--threads", options->threads, ret->threads);
	spawn_add(ret, "--io", (char *)options->io);
	spawn_add(ret, "--reader", (char *)options->reader);
	spawn_add(ret, "--cache", (char *)options->cache);
	if (options->no_entry_points)
		spawn_add(ret, "--no-entry-points", NULL);
	spawn_add(ret, "--http", "off");
	spawn_add(ret, "--recorder", "off");
	spawn_add(ret, "--idle-exit", "10");
	spawn_add_number(ret, "--ready-fd", (uint64_t)ready_fd, ret->ready);
	spawn_add(ret, "--log-file", spawned.log);
	spawn_add(ret, "--log-level", "info");
}

void spawn_child_setup(pid_t parent)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(CLI_FAILED);
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGQUIT, SIG_IGN);
	if (spawned.blocked)
		(void)pthread_sigmask(SIG_SETMASK, &spawned.before, NULL);
}

/* Between fork and exec: calls only what is safe there. */
static _Noreturn void spawn_exec(const struct spawn_command *command, int ready_fd, int log_fd)
{
	(void)setsid();
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &spawned.before, NULL);
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)dup2(null_fd, STDIN_FILENO);
	(void)dup2(log_fd, STDOUT_FILENO);
	(void)dup2(log_fd, STDERR_FILENO);
	(void)fcntl(ready_fd, F_SETFD, 0);
	(void)execv(command->arg[0], command->arg);
	(void)dprintf(STDERR_FILENO, "%s: %s\n", command->arg[0], strerror(errno));
	_exit(127);
}

/* The daemon ended before it was ready. */
static int spawn_report_death(const char *program)
{
	siginfo_t info = {.si_pid = 0};
	uint64_t end_ns = clock_ns() + SPAWN_END_MS * 1000000ull;
	/* WNOWAIT: spawn_end reaps the daemon. Otherwise the signal thread could kill another
	 * process with the same number. */
	while (waitid(P_PID, (id_t)spawned.daemon, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		info.si_pid == 0 && clock_ns() < end_ns)
		(void)usleep(2000);
	spawn_yield();
	if (info.si_pid && info.si_code != CLD_EXITED)
		cli_note("%s was ended by signal %d (%s) before it was ready; its log ends with:",
			program, info.si_status, strsignal(info.si_status));
	else
		cli_note("%s ended with %d before it was ready; its log ends with:", program,
			info.si_status);
	spawn_show_log();
	return info.si_pid && info.si_code == CLD_EXITED && info.si_status == CLI_USAGE
		       ? CLI_USAGE
		       : CLI_FAILED;
}

static int spawn_wait_ready(int fd, const char *program)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	uint64_t end_ns = clock_ns() + SPAWN_READY_MS * 1000000ull;
	for (;;) {
		uint64_t now_ns = clock_ns();
		int r = now_ns < end_ns ? poll(&poll_fd, 1, (int)((end_ns - now_ns) / 1000000) + 1)
					: 0;
		if (r < 0 && errno == EINTR)
			continue;
		char byte;
		ssize_t n = r > 0 ? read(fd, &byte, 1) : -1;
		if (n > 0)
			return CLI_OK;
		if (n == 0)
			return spawn_report_death(program);
		cli_note("penstockd was not ready within %d s; its log ends with:",
			SPAWN_READY_MS / 1000);
		spawn_show_log();
		return CLI_FAILED;
	}
}

/* Starts the program, which writes a byte into `child_fd` when it listens. */
static int spawn_launch(const struct recipe_daemon *options, const char *program, int child_fd)
{
	struct spawn_command command;
	spawn_compose(program, options, child_fd, &command);
	/* Under the lock: a signal in between could leave a daemon that the signal thread does not
	 * know, or a log in a folder that is being removed. */
	(void)pthread_mutex_lock(&spawned.lock);
	cleanup(close_fd) int log_fd =
		open(spawned.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	pid_t pid = log_fd < 0 ? -1 : fork();
	if (pid == 0)
		spawn_exec(&command, child_fd, log_fd);
	spawned.daemon = UTIL_MAX(pid, 0);
	(void)pthread_mutex_unlock(&spawned.lock);
	if (log_fd < 0)
		return cli_fail(CLI_FAILED, "cannot write %s: %s", spawned.log, strerror(errno));
	if (pid < 0)
		return cli_fail(CLI_FAILED, "cannot start a process: %s%s", strerror(errno),
			limits_thread_hint(errno));
	return CLI_OK;
}

static int spawn_run(const struct recipe_daemon *options, const char *program)
{
	int pipe_fd[2];
	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return cli_fail(CLI_FAILED, "cannot make a pipe: %s", strerror(errno));
	cleanup(close_fd) int ready_fd = pipe_fd[0];
	int code = spawn_launch(options, program, pipe_fd[1]);
	/* With this end open, the pipe would not end when the daemon does. */
	(void)close(pipe_fd[1]);
	return code == CLI_OK ? spawn_wait_ready(ready_fd, program) : code;
}

int spawn_start(const struct recipe_daemon *options)
{
	char program[PATH_MAX];
	int code = spawn_find(program, sizeof program);
	if (code == CLI_OK)
		code = spawn_watch_signals();
	if (code == CLI_OK)
		code = spawn_make_folder();
	if (code == CLI_OK)
		code = spawn_run(options, program);
	if (code != CLI_OK)
		spawn_stop();
	return code;
}

const char *spawn_socket(void)
{
	return spawned.daemon > 0 ? spawned.socket : NULL;
}

void spawn_adopt(pid_t child)
{
	(void)pthread_mutex_lock(&spawned.lock);
	if (spawned.children < SPAWN_CHILDREN)
		spawned.child[spawned.children++] = child;
	(void)pthread_mutex_unlock(&spawned.lock);
}

int spawn_fail(enum cli_exit code, const char *why)
{
	static const char advice[] = "start penstockd with --memory ";
	const char *at = spawn_socket() ? strstr(why, advice) : NULL;
	if (!at)
		return cli_fail(code, "%s", why);
	return cli_fail(code, "%.*sgive --memory %s", (int)(at - why), why, at + strlen(advice));
}

void spawn_show_log(void)
{
	cleanup(close_fd) int fd = open(spawned.log, O_RDONLY | O_CLOEXEC);
	cli_show_tail(fd, SPAWN_LOG_LINES);
}

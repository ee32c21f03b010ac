/* private: see private.h.
 *
 * Eight ranks of a job start at the same moment, and only one daemon must result. spawn.lock in the
 * socket's folder, an flock that the kernel takes back from dead processes, lets one rank try at a
 * time. The rank that gets it looks first whether a daemon listens by now.
 *
 * The daemon writes a byte into a pipe when it listens. If the pipe ends without a byte, the daemon
 * has ended, and the user is shown the last line of its log as the reason.
 *
 * Thread: that of penstock_stream_open. */
#include "client/lib/private.h"

#include "client/lib/error.h"
#include "client/lib/spawn.h"
#include "proto/folder.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PRIVATE_PROGRAM "penstockd"
#define PRIVATE_IDLE_EXIT_S "10"

enum {
	PRIVATE_LOCK_MS =
		60000, /* longer than a start takes, so that a rank can try after it failed */
	PRIVATE_LOOK_MS = 10,
	PRIVATE_START_MS = 30000,
	/* Before the second and last try: an ending daemon may still hold the instance's lock. */
	PRIVATE_AGAIN_MS = 300,
	PRIVATE_OTHER_MS = 10000, /* the most that another daemon takes to start or to end */
	PRIVATE_TAIL = 2048,
};

/* ---- finding the program ---- */

struct private_search {
	char *found;
	size_t room;
	char looked[512]; /* places that do not have it, for the sentence */
};

/* access() says that a folder can be executed, too. */
static bool private_is_program(const char *path)
{
	struct stat status;
	return access(path, X_OK) == 0 && stat(path, &status) == 0 && !S_ISDIR(status.st_mode);
}

/* The folders of the program, of the library and of PATH are often one. */
static bool private_has_looked(const struct private_search *search)
{
	size_t n = strlen(search->found);
	for (const char *at = search->looked; *at; at += strspn(at, ", ")) {
		size_t length = strcspn(at, ",");
		if (length == n && memcmp(at, search->found, n) == 0)
			return true;
		at += length;
	}
	return false;
}

static bool private_try(
	struct private_search *search, const char *folder, size_t folder_bytes, const char *below)
{
	int n = snprintf(search->found, search->room, "%.*s%s/%s", (int)folder_bytes, folder, below,
		PRIVATE_PROGRAM);
	if (n < 0 || (size_t)n >= search->room)
		return false;
	if (private_is_program(search->found))
		return true;
	if (private_has_looked(search))
		return false;
	size_t used = strlen(search->looked);
	(void)snprintf(search->looked + used, sizeof search->looked - used, "%s%s",
		used ? ", " : "", search->found);
	return false;
}

static bool private_try_beside_program(struct private_search *search)
{
	char program[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof program);
	while (n > 0 && program[n - 1] != '/')
		n--;
	return n > 1 && private_try(search, program, (size_t)n - 1, "");
}

/* The length of the folder's part of a path; 0: the root. */
static size_t private_folder(const char *path, size_t bytes)
{
	while (bytes && path[--bytes] != '/')
		continue;
	return bytes;
}

/* The Python package has its penstockd beside the extension. That comes before the folder of the
 * running program: the penstockd beside python is the package's script, or of another release.
 * lib/libpenstock.so is beside bin/penstockd, both installed and in the build tree; Debian's
 * lib/TRIPLET is one folder deeper. */
static bool private_try_installed(struct private_search *search)
{
	Dl_info info;
	char library[PATH_MAX];
	if (!dladdr((const void *)(uintptr_t)&private_find_program, &info) || !info.dli_fname ||
		!realpath(info.dli_fname, library))
		return private_try_beside_program(search);
	size_t n = private_folder(library, strlen(library));
	if (private_try(search, library, n, "") || private_try_beside_program(search))
		return true;
	n = private_folder(library, n);
	return private_try(search, library, n, "/bin") ||
	       private_try(search, library, private_folder(library, n), "/bin");
}

static bool private_try_path(struct private_search *search)
{
	const char *path = getenv("PATH");
	while (path && *path) {
		size_t n = strcspn(path, ":");
		/* The daemon would look up a relative entry from its own folder. */
		if (path[0] == '/' && private_try(search, path, n, ""))
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

int private_find_program(char *buffer, size_t room)
{
	struct private_search search = {.found = buffer, .room = room};
	const char *named = getenv("PENSTOCKD");
	if (named && *named) {
		char full[PATH_MAX];
		if (realpath(named, full) && private_is_program(full) && strlen(full) < room) {
			memcpy(buffer, full, strlen(full) + 1);
			return 0;
		}
		return error_set(-ENOENT,
			"PENSTOCKD names %s, which does not exist or cannot be executed", named);
	}
	if (private_try_installed(&search) || private_try_path(&search))
		return 0;
	return error_set(-ENOENT,
		"no daemon is running, and penstockd was not found to start one (looked at %s): "
		"install it, or set PENSTOCKD to its path",
		search.looked);
}

/* ---- its log ---- */

static int private_open_log(const char *path, off_t *ret_start)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(-errno, "the log of a private daemon, %s, cannot be written: %s",
			path, strerror(errno));
	*ret_start = lseek(fd, 0, SEEK_END);
	return fd;
}

/* The last line that the daemon wrote; `start` is where the log ended before. */
static void private_last_line(const char *path, off_t start, char *ret_line, size_t room)
{
	char tail[PRIVATE_TAIL];
	ret_line[0] = '\0';
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	off_t end = lseek(fd, 0, SEEK_END);
	off_t from = end - (off_t)sizeof tail > start ? end - (off_t)sizeof tail : start;
	ssize_t n = end > from ? pread(fd, tail, (size_t)(end - from), from) : 0;
	(void)close(fd);
	while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' '))
		n--;
	ssize_t first = n;
	while (first > 0 && tail[first - 1] != '\n')
		first--;
	if (n > first)
		(void)snprintf(ret_line, room, "%.*s", (int)(n - first), tail + first);
}

/* Why nothing may have been written to a log. */
static const char *private_silence(const struct private_start *start)
{
	struct statvfs disk;
	struct rlimit limit;
	if (statvfs(start->log, &disk) == 0 && disk.f_bavail == 0)
		return ", whose disk has no space left";
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur <= (rlim_t)start->log_start)
		return ", which may not grow: raise the limit on the size of files (RLIMIT_FSIZE, "
		       "ulimit -f)";
	return "";
}

void private_last_word(const struct private_start *start, char ret_line[PRIVATE_LINE])
{
	private_last_line(start->log, start->log_start, ret_line, PRIVATE_LINE);
	if (!*ret_line)
		(void)snprintf(ret_line, PRIVATE_LINE, "it wrote nothing to its log%s",
			private_silence(start));
}

/* ---- starting ---- */

static int private_await_ready(const struct private_start *start)
{
	int64_t deadline_ns = wait_deadline(PRIVATE_START_MS);
	int result;
	do {
		result = wait_poll(start->wait, start->ready_fd, POLLIN, deadline_ns);
	} while (result == 0 && wait_left_ms(deadline_ns, 1));
	if (result == 0)
		return error_set(-ETIMEDOUT,
			"the private daemon %s did not get ready within %d s; its log is %s",
			start->program, PRIVATE_START_MS / 1000, start->log);
	return result > 0 ? 0 : result;
}

int private_end(struct private_start *start)
{
	char line[PRIVATE_LINE], byte;
	ssize_t n = read(start->ready_fd, &byte, 1);
	(void)close(start->ready_fd);
	start->ready_fd = -1;
	if (n == 1)
		return 0;
	private_last_word(start, line);
	return error_set(-ECONNREFUSED, "the private daemon %s ended at once: %s (its log is %s)",
		start->program, line, start->log);
}

static const char *private_hint(int result)
{
	if (result == -EAGAIN)
		return "; raise the limit on processes (pids.max, or RLIMIT_NPROC, ulimit -u)";
	/* EINVAL: the numbers of the descriptors' copies would be above the limit. */
	if (result == -EMFILE || result == -ENFILE || result == -EINVAL)
		return "; raise the limit on open files (RLIMIT_NOFILE, ulimit -n)";
	return "";
}

static int private_exec(const struct private_start *start, int log_fd, int ready_fd)
{
	char threads[16], ready[16];
	(void)snprintf(threads, sizeof threads, "%u", start->threads);
	(void)snprintf(ready, sizeof ready, "%d", SPAWN_READY_FD);
	const char *argv[16] = {PRIVATE_PROGRAM, "--socket", socket_path_own(start->place),
		"--idle-exit", PRIVATE_IDLE_EXIT_S, "--log-file", start->log, "--ready-fd", ready};
	unsigned n = 9;
	if (start->memory) {
		argv[n++] = "--memory";
		argv[n++] = start->memory;
	}
	if (start->threads) {
		argv[n++] = "--threads";
		argv[n++] = threads;
	}
	/* exec takes pointers to non-const for the sake of old programs; it copies the strings. */
	int result =
		spawn_detached(start->program, (char *const *)(uintptr_t)argv, log_fd, ready_fd);
	if (result < 0 && access("/dev/null", R_OK | W_OK) < 0)
		return error_set(result,
			"/dev/null, which a private daemon needs, cannot be opened: %s; mount "
			"/dev in this container, or start penstockd yourself",
			strerror(-result));
	return result < 0 ? error_set(result, "starting %s failed: %s%s", start->program,
				    strerror(-result), private_hint(result))
			  : 0;
}

bool private_is_taken(const struct private_start *start)
{
	return folder_is_taken(socket_path_own(start->place));
}

bool private_was_refused(const struct private_start *start)
{
	return start->was_taken || private_is_taken(start);
}

int private_begin(struct private_start *start)
{
	int ready[2];
	socket_path_tidy(start->place);
	start->was_taken = private_is_taken(start);
	int log_fd = private_open_log(start->log, &start->log_start);
	if (log_fd < 0)
		return log_fd;
	if (pipe2(ready, O_CLOEXEC) < 0) {
		int error = errno;
		(void)close(log_fd);
		return error_set(-error, "no pipe for starting a daemon: %s", strerror(error));
	}
	int result = private_exec(start, log_fd, ready[1]);
	/* Only the daemon's copy may keep the pipe open, or its end would not be seen. */
	(void)close(ready[1]);
	(void)close(log_fd);
	if (result < 0)
		(void)close(ready[0]);
	else
		start->ready_fd = ready[0];
	return result;
}

/* The setting that chooses the socket: the option if it has chosen this one. */
static const char *private_setting(const struct socket_path *place)
{
	return place->given ? "options.socket" : "PENSTOCK_SOCKET";
}

/* Does not advise chmod: the folder may be /tmp. */
static int private_refuse_folder(
	const struct socket_path *place, const char *socket, int folder_bytes)
{
	char own[64];
	int n = snprintf(own, sizeof own, "/tmp/penstock-%lu", (unsigned long)geteuid());
	bool same = n == folder_bytes && strncmp(own, socket, (size_t)n) == 0;
	return error_set(-EPERM,
		"the socket's folder %.*s is open to others, or not yours: set %s to a socket "
		"in a folder of its own, such as %s%s/penstock.sock",
		folder_bytes ? folder_bytes : 1, socket, private_setting(place), own,
		same ? "-own" : "");
}

static int private_make_folder(const struct socket_path *place, const char *socket)
{
	int folder_bytes = (int)(strrchr(socket, '/') - socket);
	int result = conn_make_folder(socket);
	if (result == -EPERM)
		return private_refuse_folder(place, socket, folder_bytes);
	if (result == -EROFS)
		return error_set(result,
			"no penstockd is running at %s, and none can be started here, because the "
			"file system of the socket's folder %.*s is read-only: start the daemon "
			"first, or set %s to another path",
			socket, folder_bytes, socket, private_setting(place));
	if (result < 0)
		return error_set(result,
			"the socket's folder %.*s cannot be made: %s; set %s to another path%s",
			folder_bytes, socket, strerror(-result), private_setting(place),
			place->named ? "" : ", or XDG_RUNTIME_DIR to another folder");
	return 0;
}

/* The job's folder is in the common socket's, and may be removed while it is made. */
static int private_make_folders(const struct socket_path *place)
{
	int result = private_make_folder(place, place->common);
	if (result < 0 || !*place->job)
		return result;
	result = private_make_folder(place, place->job);
	return result == -ENOENT ? -EAGAIN : result;
}

static int private_prepare(struct private_start *start)
{
	const char *socket = socket_path_own(start->place);
	if (start->place->too_long)
		return error_set(-ENAMETOOLONG,
			"the socket of this job's private daemon belongs in a folder beside %s, "
			"where its path would be too long (at most %d bytes): set XDG_RUNTIME_DIR "
			"or TMPDIR to a shorter folder, or set PENSTOCK_SOCKET",
			start->place->common, CONNECTION_PATH - 1);
	(void)snprintf(start->log, sizeof start->log, "%.*s/penstockd.log",
		(int)(strrchr(socket, '/') - socket), socket);
	return private_find_program(start->program, sizeof start->program);
}

void private_init(struct private_start *start, const struct socket_path *place, const char *memory,
	uint32_t threads)
{
	*start = (struct private_start){.place = place,
		.memory = memory,
		.threads = threads,
		.lock_fd = -1,
		.ready_fd = -1};
}

static int private_start_daemon(struct private_start *start)
{
	int result = private_begin(start);
	if (result == 0)
		result = private_await_ready(start);
	if (result == 0)
		return private_end(start);
	if (start->ready_fd >= 0)
		(void)close(start->ready_fd);
	start->ready_fd = -1;
	return result;
}

static int private_await_other(struct connection *connection, const struct private_start *start)
{
	int64_t deadline_ns = wait_deadline(PRIVATE_OTHER_MS);
	int result = socket_path_open(connection, start->place);
	while (result == CONNECTION_E_ABSENT && private_is_taken(start) &&
		wait_deadline(0) < deadline_ns) {
		result = wait_pause(start->wait, PRIVATE_LOOK_MS);
		if (result == 0)
			result = socket_path_open(connection, start->place);
	}
	return result;
}

/* With the lock held: connects to a daemon that another process has started meanwhile, or to one
 * started here. */
static int private_open_locked(struct connection *connection, struct private_start *start)
{
	int result = socket_path_open(connection, start->place);
	for (int attempt = 0; attempt < 2 && result == CONNECTION_E_ABSENT; attempt++) {
		int started = attempt > 0 ? wait_pause(start->wait, PRIVATE_AGAIN_MS) : 0;
		if (started == 0)
			started = private_start_daemon(start);
		if (started < 0 && started != -ECONNREFUSED)
			return started;
		/* Tries even if ours ended: another daemon may be the reason. If there is none, the
		 * sentence of the start stays. */
		char sentence[ERROR_TEXT];
		(void)snprintf(sentence, sizeof sentence, "%s", error_text());
		result = started < 0 ? private_await_other(connection, start)
				     : socket_path_open(connection, start->place);
		if (started < 0 && result == CONNECTION_E_ABSENT)
			error_set(result, "%s", sentence);
	}
	return result == CONNECTION_E_ABSENT ? -ECONNREFUSED : result;
}

/* At each try: the folder that was made for the last one may have been removed since. */
static int private_lock_folder(struct private_start *start)
{
	const char *socket = socket_path_own(start->place);
	int result = private_make_folders(start->place);
	if (result < 0)
		return result;
	result = folder_lock(socket, &start->lock_fd);
	if (result == -EWOULDBLOCK || result == -ENOENT)
		return error_set(-EAGAIN, "another process is starting a daemon for %s", socket);
	if (result == -EROFS)
		return error_set(result,
			"no penstockd is running at %s, and none can be started here, because its "
			"folder is read-only: start the daemon first",
			socket);
	return result < 0 ? error_set(result, "spawn.lock beside %s cannot be locked: %s", socket,
				    strerror(-result))
			  : 0;
}

int private_lock(struct private_start *start)
{
	int result = *start->program ? 0 : private_prepare(start);
	return result < 0 ? result : private_lock_folder(start);
}

void private_unlock(struct private_start *start)
{
	if (start->lock_fd >= 0)
		folder_unlock(start->lock_fd);
	start->lock_fd = -1;
}

static int private_await_lock(struct private_start *start)
{
	int64_t deadline_ns = wait_deadline(PRIVATE_LOCK_MS);
	int result = private_lock(start);
	while (result == -EAGAIN && wait_deadline(0) < deadline_ns) {
		result = wait_pause(start->wait, PRIVATE_LOOK_MS);
		if (result == 0)
			result = private_lock(start);
	}
	if (result == -EAGAIN)
		return error_set(-ETIMEDOUT,
			"another process has been starting a daemon for %s for %d s",
			socket_path_own(start->place), PRIVATE_LOCK_MS / 1000);
	return result;
}

int private_open(struct connection *connection, const struct socket_path *place, const char *memory,
	uint32_t threads)
{
	struct private_start start;
	private_init(&start, place, memory, threads);
	start.wait = connection->wait;
	int result = private_await_lock(&start);
	if (result == 0)
		result = private_open_locked(connection, &start);
	private_unlock(&start);
	return result;
}

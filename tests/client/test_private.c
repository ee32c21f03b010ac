/* The private daemon: streams find it; it starts once for many; it does not depend on its maker;
 * and the sentence explains why it does not start. */
#include "client/fake.h"
#include "client/lib/private.h"
#include "client/place.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static long fact(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	FAKE_WANT(at);
	return strtol(at + strlen(name), NULL, 10);
}

/* How many daemons were started. */
static unsigned starts(void)
{
	pid_t last;
	return place_starts(&last);
}

static int open_stream(struct penstock_stream **ret_stream)
{
	struct penstock_options options = place_options();
	options.daemon_memory = "96M";
	options.daemon_threads = 3;
	return penstock_stream_open(&options, ret_stream);
}

static void want_open(struct penstock_stream **ret_stream)
{
	struct penstock_batch batch;
	int result = open_stream(ret_stream);
	if (result < 0)
		(void)fprintf(stderr, "open: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0);
	FAKE_WANT(penstock_stream_next(*ret_stream, &batch, 5000) == 0);
	FAKE_WANT(batch.labels[1] == fake_label(0, 1));
	FAKE_WANT(penstock_batch_release(*ret_stream, &batch) == 0);
}

static volatile sig_atomic_t children;

static void on_child(int number)
{
	(void)number;
	children++;
}

/* What the daemon was started with, from an awkward process: pinned to a CPU, with signals blocked,
 * without standard streams, with descriptors of its own. */
FAKE_TEST(start)
{
	char text[8192], wanted[512];
	struct penstock_stream *stream;
	struct sigaction action = {.sa_handler = on_child};
	struct stat status;
	cpu_set_t all, one;
	sigset_t blocked, now;
	place_make();
	FAKE_WANT(sched_getaffinity(0, sizeof all, &all) == 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	}
	FAKE_WANT(sched_setaffinity(0, sizeof one, &one) == 0);
	(void)sigfillset(&blocked);
	(void)sigdelset(&blocked, SIGALRM);
	(void)sigdelset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
	(void)sigaction(SIGCHLD, &action, NULL);
	int inherited =
		fcntl(1, F_DUPFD, 30); /* not CLOEXEC: must not reach the daemon all the same */
	int input = fcntl(0, F_DUPFD_CLOEXEC, 30);
	(void)close(0);
	want_open(&stream);
	(void)close(inherited);

	FAKE_WANT(children == 0 && waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	(void)sigprocmask(SIG_SETMASK, NULL, &now);
	FAKE_WANT(sigismember(&now, SIGTERM) == 1 && sigismember(&now, SIGALRM) == 0);

	place_read(text);
	FAKE_WANT(starts() == 1);
	FAKE_WANT(
		fact(text, "pid=") == penstock_stream_daemon_pid(stream) || fact(text, "pid=") > 1);
	FAKE_WANT(fact(text, "ppid=") != getpid());
	FAKE_WANT(fact(text, "sid=") != getsid(0) && fact(text, "leader=") == 0);
	FAKE_WANT(strstr(text, "cwd=/ "));
	FAKE_WANT(fact(text, "fds=") == 3); /* stdio and the ready pipe, nothing else */
	FAKE_WANT(fact(text, "blocked=") == 0 && fact(text, "ignored=") == 0);
	FAKE_WANT(fact(text, "cpus=") == CPU_COUNT(&all));
	FAKE_WANT(fact(text, "stdin=") == 0); /* the end of a file */
	(void)snprintf(wanted, sizeof wanted,
		"argv=--socket %s --idle-exit 10 --log-file %s/penstockd.log --ready-fd 3 --memory "
		"96M --threads 3 \n",
		place.socket, place.run);
	FAKE_WANT(strstr(text, wanted));
	FAKE_WANT(stat(place.run, &status) == 0 && (status.st_mode & 0777) == 0700);

	char found[108], small[3];
	FAKE_WANT(penstock_daemon_socket(place.socket, found, sizeof found) == 0);
	FAKE_WANT(strcmp(found, place.socket) == 0);
	FAKE_WANT(penstock_daemon_socket(place.socket, small, sizeof small) == -ENOSPC);
	FAKE_WANT(strstr(penstock_error(), "108 are always enough"));

	/* The next one finds it running. */
	struct penstock_stream *second;
	want_open(&second);
	FAKE_WANT(starts() == 1);
	penstock_stream_close(second);
	penstock_stream_close(stream);
	FAKE_WANT(dup2(input, 0) == 0); /* the streams had the number meanwhile */
	(void)close(input);
	(void)signal(SIGCHLD, SIG_DFL);
	place_remove();
}

/* Eight ranks at once and a slow daemon: one daemon starts and serves all. */
FAKE_TEST(race)
{
	enum { RANKS = 8 };
	int go[2], status;
	pid_t rank[RANKS];
	place_make();
	(void)setenv("FAKE_MODE", "slow", 1);
	FAKE_WANT(pipe(go) == 0);
	for (int i = 0; i < RANKS; i++) {
		rank[i] = fork();
		if (rank[i] == 0) {
			char byte;
			struct penstock_stream *stream;
			(void)alarm(30);
			(void)close(go[1]);
			FAKE_WANT(read(go[0], &byte, 1) == 0);
			want_open(&stream);
			penstock_stream_close(stream);
			exit(0);
		}
	}
	(void)close(go[0]);
	(void)close(go[1]);
	for (int i = 0; i < RANKS; i++)
		FAKE_WANT(waitpid(rank[i], &status, 0) == rank[i] && status == 0);
	FAKE_WANT(starts() == 1);
	place_remove();
}

/* The maker dies and its process group is killed: the daemon continues. */
FAKE_TEST(outlives)
{
	struct penstock_stream *stream;
	char text[8192];
	int status;
	place_make();
	pid_t maker = fork();
	if (maker == 0) {
		(void)setpgid(0, 0);
		want_open(&stream);
		(void)kill(0, SIGKILL);
	}
	FAKE_WANT(waitpid(maker, &status, 0) == maker && WIFSIGNALED(status));
	place_read(text);
	FAKE_WANT(kill((pid_t)fact(text, "pid="), 0) == 0);
	want_open(&stream);
	penstock_stream_close(stream);
	FAKE_WANT(starts() == 1);
	place_remove();
}

static pid_t last_daemon(void)
{
	pid_t last = 0;
	(void)place_starts(&last);
	return last;
}

static void want_batch(struct penstock_stream *stream, uint64_t ordinal)
{
	struct penstock_batch batch;
	int result = penstock_stream_next(stream, &batch, 20000);
	if (result != 0)
		(void)fprintf(stderr, "next: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0 && batch.labels[1] == fake_label(ordinal, 1));
	FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
}

/* Killed twice under two streams of one process: the stream that notices first starts another
 * daemon with the same options, and both go on where they were. */
FAKE_TEST(reconnect)
{
	struct penstock_stream *stream[2];
	struct penstock_options options;
	char text[8192];
	place_make();
	penstock_options_init(&options);
	options.source = "/data";
	char socket[sizeof place.socket], memory[] = "96M";
	memcpy(socket, place.socket, sizeof socket);
	options.socket = socket;
	options.daemon_memory = memory;
	options.daemon_threads = 3;
	options.reconnect_ms = 20000;
	for (int i = 0; i < 2; i++) {
		FAKE_WANT(penstock_stream_open(&options, &stream[i]) == 0);
		want_batch(stream[i], 0);
	}
	memset(socket, 'x', sizeof socket - 1); /* the library has a copy of its own */
	memset(memory, 'x', sizeof memory - 1);
	for (uint64_t round = 0; round < 2; round++) {
		place_kill(stream, 2);
		/* More than could have come before it died. */
		for (uint64_t i = 0; i < 8; i++) {
			want_batch(stream[0], 1 + round * 8 + i);
			want_batch(stream[1], 1 + round * 8 + i);
		}
	}
	place_read(text);
	FAKE_WANT(starts() == 3);
	const char *last = strrchr(text, '='); /* argv= */
	FAKE_WANT(strstr(last, place.socket) && strstr(last, "--memory 96M --threads 3"));
	penstock_stream_close(stream[0]);
	penstock_stream_close(stream[1]);
	FAKE_WANT(kill(last_daemon(), SIGKILL) == 0);
	(void)unlink(place.facts);
	place_remove();
}

/* A daemon that cannot start does not end the stream while there is time: each timeout names the
 * reason, and so does the end. */
FAKE_TEST(reconnect_in_vain)
{
	struct penstock_stream *stream;
	struct penstock_options options;
	struct penstock_batch batch;
	place_make();
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = place.socket;
	options.reconnect_ms = 3000;
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	want_batch(stream, 0);
	(void)setenv("FAKE_MODE", "dies", 1);
	place_kill(&stream, 1);
	int result;
	do { /* what had come before it died; then the tries */
		result = penstock_stream_next(stream, &batch, 100);
		FAKE_WANT(result == 0 || result == -ETIMEDOUT);
	} while (result == 0 || !strstr(penstock_error(), "unknown key `memroy`"));
	FAKE_WANT(penstock_stream_next(stream, &batch, 20000) == -EPIPE);
	FAKE_WANT(strstr(penstock_error(), "within the 3.0 s of options.reconnect_ms"));
	FAKE_WANT(strstr(penstock_error(), "unknown key `memroy`"));
	penstock_stream_close(stream);
	(void)unlink(place.facts); /* all dead */
	place_remove();
}

/* Slow to start: the call returns in time, others may start a daemon meanwhile, and the stream
 * finds it when it listens. */
FAKE_TEST(reconnect_slowly)
{
	struct penstock_stream *stream;
	struct penstock_options options;
	struct penstock_batch batch;
	char lock[128];
	place_make();
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = place.socket;
	options.reconnect_ms = 20000;
	FAKE_WANT(penstock_stream_open(&options, &stream) == 0);
	for (uint64_t i = 0; i < 2; i++)
		want_batch(stream, i);
	(void)setenv("FAKE_MODE", "slow", 1);
	place_kill(&stream, 1);
	uint64_t ordinal = 2;
	unsigned waits = 0;
	(void)snprintf(lock, sizeof lock, "%s/spawn.lock", place.run);
	while (ordinal < 12) {
		int result = penstock_stream_next(stream, &batch, 0);
		FAKE_WANT(result == 0 || result == -EAGAIN);
		if (result == -EAGAIN) {
			waits += strstr(penstock_error(), "another one is being started") != NULL;
			int fd = open(lock, O_RDWR | O_CLOEXEC);
			FAKE_WANT(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
			(void)close(fd);
			struct pollfd ready = {.fd = penstock_stream_fd(stream), .events = POLLIN};
			FAKE_WANT(poll(&ready, 1, 20000) == 1);
			continue;
		}
		FAKE_WANT(batch.labels[1] == fake_label(ordinal++, 1));
		FAKE_WANT(penstock_batch_release(stream, &batch) == 0);
	}
	FAKE_WANT(waits > 0);
	FAKE_WANT(starts() == 2);
	penstock_stream_close(stream);
	FAKE_WANT(kill(last_daemon(), SIGKILL) == 0);
	(void)unlink(place.facts);
	place_remove();
}

/* ---- failures ---- */

static void want_refusal(int wanted, const char *sentence)
{
	struct penstock_stream *stream = NULL;
	int result = open_stream(&stream);
	if (result != wanted || !strstr(penstock_error(), sentence))
		(void)fprintf(stderr, "open: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == wanted && !stream);
	FAKE_WANT(strstr(penstock_error(), sentence));
}

FAKE_TEST(dies)
{
	place_make();
	/* Older lines of the log are not the reason. */
	char log[128];
	FAKE_WANT(mkdir(place.run, 0700) == 0);
	(void)snprintf(log, sizeof log, "%s/penstockd.log", place.run);
	int fd = open(log, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	FAKE_WANT(write(fd, "old reason\n", 11) == 11);
	(void)close(fd);

	(void)setenv("FAKE_MODE", "mute", 1);
	want_refusal(-ECONNREFUSED, "wrote nothing to its log");
	FAKE_WANT(strstr(penstock_error(), log));
	(void)setenv("FAKE_MODE", "dies", 1);
	want_refusal(-ECONNREFUSED, "ended at once: penstockd: config.yaml:3:1: unknown key "
				    "`memroy`; did you mean memory? (");
	(void)setenv("FAKE_MODE", "killed", 1);
	want_refusal(-ECONNREFUSED, "wrote nothing to its log");
	struct penstock_stream *stream;
	(void)unsetenv("FAKE_MODE");
	want_open(&stream); /* and nothing was left that would hinder a good start */
	penstock_stream_close(stream);
	/* The dead are in the facts as well; their numbers are nobody's by now or were reaped by
	 * init. */
	FAKE_WANT(kill(last_daemon(), SIGKILL) == 0);
	(void)unlink(place.facts);
	place_remove();
}

FAKE_TEST(not_found)
{
	place_make();
	(void)setenv("PENSTOCKD", "/no/such/penstockd", 1);
	want_refusal(-ENOENT, "PENSTOCKD names /no/such/penstockd");
	(void)setenv("PENSTOCKD", "/tmp", 1); /* a folder can be entered, not executed */
	want_refusal(-ENOENT, "PENSTOCKD names /tmp,");
	/* A file that can be executed but is not a program. */
	char script[128];
	(void)snprintf(script, sizeof script, "%s/broken", place.folder);
	int fd = open(script, O_CREAT | O_WRONLY | O_CLOEXEC, 0700);
	FAKE_WANT(write(fd, "nothing\n", 8) == 8);
	(void)close(fd);
	(void)setenv("PENSTOCKD", script, 1);
	want_refusal(-ENOEXEC, "Exec format error");
	place_remove();
}

FAKE_TEST(places)
{
	char found[4096], tool[128], path[256];
	place_make();
	(void)unsetenv("PENSTOCKD");
	(void)snprintf(tool, sizeof tool, "%s/penstockd", place.folder);
	(void)snprintf(path, sizeof path, "relative:/no/such/folder::%s:/usr/bin:%s", place.folder,
		place.folder);
	(void)setenv("PATH", path, 1);
	int result = private_find_program(found, sizeof found);
	if (result == 0) {
		/* The build tree's own stands beside this test: found before PATH. */
		FAKE_WANT(strstr(found, "/penstockd"));
	} else {
		FAKE_WANT(result == -ENOENT && strstr(penstock_error(), "looked at ") &&
			  strstr(penstock_error(), tool));
		FAKE_WANT(!strstr(penstock_error(), "relative"));
		FAKE_WANT(!strstr(penstock_error(), ".."));
		const char *once = strstr(penstock_error(), tool);
		FAKE_WANT(!strstr(once + 1, tool));
		FAKE_WANT(symlink(FAKE_PENSTOCKD, tool) == 0);
		FAKE_WANT(
			private_find_program(found, sizeof found) == 0 && strcmp(found, tool) == 0);
	}
	(void)setenv("PATH", "/usr/bin:/bin", 1);
	place_remove();
}

FAKE_TEST(refused_places)
{
	struct penstock_stream *stream;
	struct penstock_options options;
	char long_path[200];
	place_make();
	FAKE_WANT(mkdir(place.run, 0755) == 0);
	want_refusal(-EPERM, "is open to others, or not yours: set options.socket to a socket in "
			     "a folder of its own");
	FAKE_WANT(!strstr(penstock_error(), "chmod"));
	(void)setenv("PENSTOCK_SOCKET", place.socket, 1);
	options = place_options();
	options.socket = NULL;
	FAKE_WANT(penstock_stream_open(&options, &stream) == -EPERM);
	FAKE_WANT(strstr(penstock_error(), "set PENSTOCK_SOCKET to a socket in a folder of its"));
	(void)unsetenv("PENSTOCK_SOCKET");
	FAKE_WANT(rmdir(place.run) == 0);
	FAKE_WANT(chmod(place.folder, 0500) == 0);
	if (geteuid() != 0)
		want_refusal(-EACCES, "Permission denied; set options.socket to another path");
	FAKE_WANT(chmod(place.folder, 0700) == 0);
	penstock_options_init(&options);
	options.source = "/data";
	memset(long_path, 'x', sizeof long_path);
	long_path[0] = '/';
	long_path[150] = '\0';
	options.socket = long_path;
	FAKE_WANT(penstock_stream_open(&options, &stream) == -ENAMETOOLONG);
	FAKE_WANT(strstr(penstock_error(), "x is too long (at most 107 bytes): choose a shorter"));
	options.socket = NULL;
	(void)setenv("PENSTOCK_SOCKET", long_path, 1);
	FAKE_WANT(penstock_stream_open(&options, &stream) == -ENAMETOOLONG);
	FAKE_WANT(strstr(penstock_error(), "the socket's path in PENSTOCK_SOCKET, /xxx"));
	FAKE_WANT(strstr(penstock_error(), "set the variable to a shorter one"));
	(void)unsetenv("PENSTOCK_SOCKET");
	(void)unsetenv("XDG_RUNTIME_DIR");
	(void)setenv("TMPDIR", long_path, 1);
	FAKE_WANT(penstock_stream_open(&options, &stream) == -ENAMETOOLONG);
	FAKE_WANT(strstr(penstock_error(), "the socket's default path is too long"));
	(void)unsetenv("TMPDIR");
	options.socket = place.socket;
	options.private_daemon = 0;
	FAKE_WANT(penstock_stream_open(&options, &stream) == -ECONNREFUSED);
	FAKE_WANT(strstr(penstock_error(), "no penstockd is running"));
	char start[1024];
	(void)snprintf(start, sizeof start,
		"(start one: penstockd --socket %s; how the last one ended: penstock why)",
		place.socket);
	FAKE_WANT(strstr(penstock_error(), start));
	FAKE_WANT(
		penstock_daemon_socket(place.socket, long_path, sizeof long_path) == -ECONNREFUSED);
	FAKE_WANT(penstock_daemon_stop(place.socket) == -ECONNREFUSED);
	FAKE_WANT(strstr(penstock_error(), "nothing to stop: no penstockd is running at "));
	FAKE_WANT(strstr(penstock_error(), place.socket));
	FAKE_WANT(access(place.run, F_OK) < 0); /* the search left nothing behind */
	place_remove();
}

/* A socket whose path is relative: the daemon works in another folder and must be told an absolute
 * one. */
FAKE_TEST(relative)
{
	char text[8192], whole[128];
	struct penstock_stream *stream;
	place_make();
	FAKE_WANT(chdir(place.folder) == 0);
	(void)snprintf(whole, sizeof whole, "--socket %s ", place.socket);
	char absolute[96];
	memcpy(absolute, place.socket, sizeof absolute);
	(void)snprintf(place.socket, sizeof place.socket, "run/p.sock");
	want_open(&stream);
	penstock_stream_close(stream);
	place_read(text);
	FAKE_WANT(strstr(text, whole));
	place_remove();
}

/* The daemon before it still has the instance's lock, but no longer listens. */
FAKE_TEST(ending)
{
	place_make();
	char lock[128], byte;
	int ready[2], status;
	struct penstock_stream *stream;
	FAKE_WANT(mkdir(place.run, 0700) == 0 && pipe(ready) == 0);
	(void)snprintf(lock, sizeof lock, "%s.lock", place.socket);
	pid_t ending = fork();
	if (ending == 0) {
		int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		FAKE_WANT(fd >= 0 && flock(fd, LOCK_EX) == 0 && write(ready[1], "", 1) == 1);
		(void)usleep(2000000);
		_exit(0);
	}
	FAKE_WANT(ending > 0 && read(ready[0], &byte, 1) == 1);
	(void)setenv("FAKE_MODE", "locks", 1);
	want_open(&stream);
	penstock_stream_close(stream);
	(void)unsetenv("FAKE_MODE");
	FAKE_WANT(waitpid(ending, &status, 0) == ending && status == 0);
	(void)close(ready[0]);
	(void)close(ready[1]);
	FAKE_WANT(kill(last_daemon(), SIGKILL) == 0);
	(void)unlink(place.facts); /* the refused one is in it too */
	place_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_race),
		cmocka_unit_test(test_outlives),
		cmocka_unit_test(test_reconnect),
		cmocka_unit_test(test_reconnect_in_vain),
		cmocka_unit_test(test_reconnect_slowly),
		cmocka_unit_test(test_dies),
		cmocka_unit_test(test_ending),
		cmocka_unit_test(test_not_found),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_refused_places),
		cmocka_unit_test(test_relative),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

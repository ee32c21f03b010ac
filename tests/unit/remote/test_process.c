/* process: credential_process: a program that does not end is killed with all that it started, and
 * holds up nobody who is told to stop. */
#include "remote/auth/chain.h"
#include "remote/interrupt.h"
#include "unit/folder_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SHORT_MS = 300, LONG_MS = 600000, ALARM_S = 60 };

static int run(const char *command, unsigned limit_ms, struct fault *fault)
{
	struct credentials found;
	/* Ends the test where the program is waited for. */
	(void)alarm(ALARM_S);
	const int code = chain_process(command, limit_ms, &found, fault);
	(void)alarm(0);
	return code;
}

static void test_it_prints(void **state)
{
	struct fault fault;
	assert_int_equal(run("echo '{\"Version\": 1, \"AccessKeyId\": \"a\", "
			     "\"SecretAccessKey\": \"b\"}'",
				 LONG_MS, &fault),
		0);
	assert_int_equal(run("exit 3", LONG_MS, &fault), -EIO);
}

/* One that prints nothing, and one that has closed its output. */
static void test_it_hangs(void **state)
{
	static const char *const commands[] = {"exec sleep 1000", "exec >&-; exec sleep 1000"};
	struct fault fault;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(run(commands[i], SHORT_MS, &fault), -ETIMEDOUT);
		assert_non_null(strstr(fault.text,
			"credential_process: it did not end within 1 s and was killed"));
	}
}

/* What the program started goes with it. */
static void test_its_group_ends(void **state)
{
	char *folder = fixture_folder(), command[1024], text[32] = {0};
	struct fault fault;
	(void)snprintf(command, sizeof command, "sleep 1000 & echo $! > '%s/pid'; wait", folder);
	assert_int_equal(run(command, SHORT_MS, &fault), -ETIMEDOUT);
	(void)snprintf(command, sizeof command, "%s/pid", folder);
	const int fd = open(command, O_RDONLY);
	assert_true(read(fd, text, sizeof text - 1) > 0);
	(void)close(fd);
	const pid_t pid = (pid_t)strtol(text, NULL, 10);
	assert_true(pid > 1);
	/* Its new parent may not have waited for it yet: then its state is Z. */
	for (int i = 0; i < 10000; i++) {
		char path[64], line[512] = {0};
		(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
		const int stat_fd = open(path, O_RDONLY);
		const ssize_t n = stat_fd >= 0 ? read(stat_fd, line, sizeof line - 1) : 0;
		if (stat_fd >= 0)
			(void)close(stat_fd);
		if (n <= 0 || strstr(line, ") Z "))
			break;
		assert_true(i < 9999);
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	fixture_remove(folder);
}

static atomic_bool flag;

static void *set_later(void *context)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
	atomic_store(&flag, true);
	return context;
}

static void test_interrupted(void **state)
{
	static const char *const commands[] = {"exec sleep 1000", "exec >&-; exec sleep 1000"};
	struct fault fault;
	for (int i = 0; i < 2; i++) {
		pthread_t thread;
		atomic_store(&flag, false);
		(void)interrupt_set(&flag);
		assert_int_equal(pthread_create(&thread, NULL, set_later, NULL), 0);
		assert_int_equal(run(commands[i], LONG_MS, &fault), -ECANCELED);
		assert_non_null(strstr(fault.text, "credential_process: penstock is stopping"));
		(void)interrupt_set(NULL);
		(void)pthread_join(thread, NULL);
	}
}

/* A daemon that starts has blocked its signals, and takes them when it has started. */
static void test_told_to_end(void **state)
{
	sigset_t set, before;
	struct fault fault;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	assert_int_equal(sigprocmask(SIG_BLOCK, &set, &before), 0);
	(void)raise(SIGTERM);
	assert_int_equal(run("exec sleep 1000", LONG_MS, &fault), -ECANCELED);
	assert_int_equal(sigtimedwait(&set, NULL, &(struct timespec){.tv_sec = 10}), SIGTERM);
	assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_prints),
		cmocka_unit_test(test_it_hangs),
		cmocka_unit_test(test_its_group_ends),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_told_to_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

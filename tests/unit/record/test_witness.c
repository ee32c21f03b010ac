/* witness: its process at limits that the daemon's other tests do not reach. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "record/witness.h"
#include "unit/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FILES = 64, TRAINERS = 2 * FILES, PATIENCE_S = 60 };

/* The next record that comes back. */
static struct record hear(struct witness *witness)
{
	struct record record;
	while (!witness_hear(witness, &record)) {
		struct pollfd fd = {.fd = witness_fd(witness), .events = POLLIN};
		char how[64] = "lives";
		assert_int_equal(poll(&fd, 1, PATIENCE_S * 1000), 1);
		if (witness_gone(witness, how, sizeof how))
			fail_msg("the witness %s", how);
	}
	return record;
}

/* A witness outlives its end: it stays until its daemon, this process, has ended. Nothing appears
 * in its folder once it is killed. */
static void end_and_kill(struct witness *witness)
{
	const pid_t pid = witness_pid(witness);
	witness_end(witness, "asked: by a test");
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* With more trainers than it may open files, it says so once and goes on with the others. */
static void more_trainers_than_files_are_reported(void **state)
{
	const struct machine *m = *state;
	const struct witness_options options = {.folder = m->root, .bytes = 1 << 20, .keep = 2};
	struct rlimit few = {FILES, FILES};
	struct witness *witness;
	struct fault fault;
	unsigned told = 0, machines = 0;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(witness_start(&options, &witness, &fault), 0);
	for (uint64_t i = 1; i <= TRAINERS; i++) {
		struct record record = {.kind = RECORD_ATTACH, .bytes = sizeof record.body.attach};
		record.body.attach = (struct record_attach){.trainer = i, .pid = getpid()};
		witness_tell(witness, &record, pidfd);
		do {
			record = hear(witness);
			told += record.kind == RECORD_NOTE &&
				strstr(record.body.note.text, "as many trainers as it can");
		} while (record.kind != RECORD_ATTACH);
		assert_int_equal(record.body.attach.trainer, i);
	}
	assert_int_equal(told, 1);
	while (machines < 2) /* it still samples */
		machines += hear(witness).kind == RECORD_MACHINE;
	end_and_kill(witness);
	assert_int_equal(close(pidfd), 0);
}

/* A lock that the daemon took before it forked the witness is free once the daemon has gone. */
static void keeps_no_lock(void **state)
{
	const struct machine *m = *state;
	const struct witness_options options = {.folder = m->root, .bytes = 1 << 20, .keep = 2};
	char path[sizeof m->root + 8];
	(void)snprintf(path, sizeof path, "%s/lock", m->root);
	for (int i = 0; i < 20; i++) {
		struct witness *witness;
		struct fault fault;
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
		assert_int_equal(witness_start(&options, &witness, &fault), 0);
		assert_int_equal(close(fd), 0);
		fd = open(path, O_RDWR | O_CLOEXEC);
		assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
		assert_int_equal(close(fd), 0);
		end_and_kill(witness);
	}
}

int main(void)
{
#define WITNESS_TEST(name) cmocka_unit_test_setup_teardown(name, machine_init, machine_deinit)
	const struct CMUnitTest tests[] = {
		WITNESS_TEST(keeps_no_lock),
		WITNESS_TEST(more_trainers_than_files_are_reported),
	};
	return cmocka_run_group_tests_name("witness", tests, NULL, NULL);
}

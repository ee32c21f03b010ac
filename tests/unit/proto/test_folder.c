/* Folders of jobs: their names; only one process at a time holds the lock, also while others
 * remove the folder; a folder is removed only when no process uses it and it holds only a
 * daemon's files. */
#include "proto/folder.h"

#include <errno.h>
#include <fcntl.h>
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

enum { HASH = 0xbeef, LOCKERS = 3, ROUNDS = 400 };

static char base[64], common[108], job_socket[108], job_folder[108];

static int make_base(void **state)
{
	(void)state;
	(void)snprintf(base, sizeof base, "/tmp/penstock-folder-XXXXXX");
	if (!mkdtemp(base))
		return -1;
	(void)snprintf(common, sizeof common, "%s/penstock.sock", base);
	(void)snprintf(job_folder, sizeof job_folder, "%s/job-%016x", base, HASH);
	return folder_job_socket(common, HASH, job_socket, sizeof job_socket);
}

static int remove_base(void **state)
{
	(void)state;
	char command[128];
	(void)snprintf(command, sizeof command, "rm -rf %s", base);
	return system(command);
}

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
}

static void make_beside(const char *socket, const char *name)
{
	char path[256];
	(void)snprintf(
		path, sizeof path, "%.*s/%s", (int)(strrchr(socket, '/') - socket), socket, name);
	make_file(path);
}

static int lock_socket(const char *socket)
{
	char path[256];
	(void)snprintf(path, sizeof path, "%s.lock", socket);
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	return fd;
}

static void test_names(void **state)
{
	(void)state;
	char path[108], wanted[108];
	(void)snprintf(wanted, sizeof wanted, "%s/job-000000000000beef/penstock.sock", base);
	assert_string_equal(job_socket, wanted);
	assert_int_equal(folder_job_socket(common, HASH, path, strlen(wanted) + 1), 0);
	assert_int_equal(folder_job_socket(common, HASH, path, strlen(wanted)), -ENAMETOOLONG);
	assert_int_equal(folder_job_socket("/penstock.sock", UINT64_MAX, path, sizeof path), 0);
	assert_string_equal(path, "/job-ffffffffffffffff/penstock.sock");
}

/* A folder that is not a job's folder stays, whatever files it has. */
static void test_not_a_job(void **state)
{
	(void)state;
	static const char *const names[] = {"penstock.sock", "job-/penstock.sock",
		"job-000000000000bee/penstock.sock", "job-000000000000beeF/penstock.sock",
		"job-000000000000beef0/penstock.sock", "bob-000000000000beef/penstock.sock",
		"job-000000000000beef/other.sock", "job-000000000000beef"};
	char path[128];
	assert_int_equal(mkdir(job_folder, 0700), 0);
	make_beside(job_socket, "spawn.lock");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", base, names[i]);
		assert_int_equal(folder_remove_job(path), -EINVAL);
	}
	assert_int_equal(folder_remove_job("penstock.sock"), -EINVAL);
	assert_int_equal(folder_remove_job("job-000000000000beef/penstock.sock"), -EINVAL);
	assert_int_equal(access(job_folder, F_OK), 0);
}

static void test_removing(void **state)
{
	(void)state;
	static const char *const left[] = {
		"penstock.sock", "penstock.sock.lock", "http.sock", "penstockd.log", "spawn.lock"};
	int lock;
	assert_int_equal(folder_remove_job(job_socket), -ENOENT);
	assert_int_equal(mkdir(job_folder, 0700), 0);
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		make_beside(job_socket, left[i]);

	int daemon = lock_socket(job_socket);
	assert_true(folder_is_taken(job_socket));
	assert_int_equal(folder_remove_job(job_socket), -EBUSY);
	(void)close(daemon);
	assert_false(folder_is_taken(job_socket));

	assert_int_equal(folder_lock(job_socket, &lock), 0);
	assert_int_equal(folder_remove_job(job_socket), -EBUSY);
	int second;
	assert_int_equal(folder_lock(job_socket, &second), -EWOULDBLOCK);
	folder_unlock(lock);

	assert_int_equal(access(job_folder, F_OK), 0);
	assert_int_equal(folder_remove_job(job_socket), 0);
	assert_int_equal(access(job_folder, F_OK), -1);
	assert_int_equal(folder_lock(job_socket, &lock), -ENOENT);
	assert_false(folder_is_taken(job_socket));
}

static void test_somebody_elses_file(void **state)
{
	(void)state;
	char path[128];
	assert_int_equal(mkdir(job_folder, 0700), 0);
	make_beside(job_socket, "notes.txt");
	assert_int_equal(folder_remove_job(job_socket), -ENOTEMPTY);
	(void)snprintf(path, sizeof path, "%s/notes.txt", job_folder);
	assert_int_equal(access(path, F_OK), 0);
	/* A folder with the name of one of our files is not emptied. */
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof path, "%s/penstockd.log", job_folder);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(folder_remove_job(job_socket), -ENOTEMPTY);
	/* Neither the lock nor the removal follows a link. */
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(symlink(common, path), 0);
	make_file(common);
	assert_int_equal(folder_remove_job(job_socket), 0);
	assert_int_equal(access(common, F_OK), 0);
	assert_int_equal(mkdir(job_folder, 0700), 0);
	(void)snprintf(path, sizeof path, "%s/spawn.lock", job_folder);
	assert_int_equal(symlink(common, path), 0);
	assert_int_equal(folder_remove_job(job_socket), -ELOOP);
}

struct visited {
	unsigned count, stop_at;
	char last[108];
};

static int visit(const char *socket, void *data)
{
	struct visited *visited = data;
	(void)snprintf(visited->last, sizeof visited->last, "%s", socket);
	return ++visited->count == visited->stop_at ? 7 : 0;
}

static void test_visiting(void **state)
{
	(void)state;
	static const char *const names[] = {
		"job-000000000000beef", "job-000000000000bee1", "job-12", "other", "job-notes"};
	char path[128];
	struct visited visited = {0};
	assert_int_equal(folder_visit_jobs("/no/such/folder/penstock.sock", visit, &visited), 0);
	assert_int_equal(folder_visit_jobs(common, visit, &visited), 0);
	assert_int_equal(visited.count, 0);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", base, names[i]);
		assert_int_equal(mkdir(path, 0700), 0);
		if (i == 0) {
			assert_int_equal(folder_visit_jobs(common, visit, &visited), 0);
			assert_string_equal(visited.last, job_socket);
		}
	}
	visited = (struct visited){0};
	assert_int_equal(folder_visit_jobs(common, visit, &visited), 0);
	assert_int_equal(visited.count, 2);
	visited = (struct visited){.stop_at = 1};
	assert_int_equal(folder_visit_jobs(common, visit, &visited), 7);
	assert_int_equal(visited.count, 1);
}

/* ---- locking while others remove ---- */

/* The process that holds the lock is the only one; otherwise the file of this name would exist. */
static int be_alone(const char *token)
{
	int lock, fd;
	do {
		(void)mkdir(job_folder, 0700);
	} while (folder_lock(job_socket, &lock) < 0);
	fd = open(token, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	(void)close(fd);
	if (unlink(token) < 0)
		return -1;
	folder_unlock(lock);
	return 0;
}

static int lock_often(const char *token)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (be_alone(token) < 0)
			return 1;
	}
	return 0;
}

static void test_locking_while_removing(void **state)
{
	(void)state;
	char token[128];
	pid_t locker[LOCKERS];
	int status;
	unsigned removed = 0;
	(void)snprintf(token, sizeof token, "%s/token", base);
	for (int i = 0; i < LOCKERS; i++) {
		locker[i] = fork();
		if (locker[i] == 0) {
			(void)alarm(60);
			_exit(lock_often(token));
		}
		assert_true(locker[i] > 0);
	}
	for (int alive = LOCKERS; alive;) {
		removed += folder_remove_job(job_socket) == 0;
		for (int i = 0; i < LOCKERS; i++) {
			if (locker[i] == 0 || waitpid(locker[i], &status, WNOHANG) == 0)
				continue;
			assert_int_equal(status, 0);
			locker[i] = 0;
			alive--;
		}
	}
	assert_true(removed > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_not_a_job, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_removing, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_somebody_elses_file, make_base, remove_base),
		cmocka_unit_test_setup_teardown(test_visiting, make_base, remove_base),
		cmocka_unit_test_setup_teardown(
			test_locking_while_removing, make_base, remove_base),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

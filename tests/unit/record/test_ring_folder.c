/* ring_folder: where the folder is, what it must be like, and which files stay in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "record/ring_folder.h"
#include "unit/machine.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>

static char folder[PATH_MAX];

static int init(void **state)
{
	int result = machine_init(state);
	(void)snprintf(folder, sizeof folder, "%s/a/b", ((struct machine *)*state)->root);
	return result;
}

static void the_folder_is_found(void **state)
{
	char path[PATH_MAX];
	struct fault fault;
	(void)state;
	assert_int_equal(ring_folder_resolve("/given", path, sizeof path, &fault), 0);
	assert_string_equal(path, "/given");
	assert_int_equal(ring_folder_resolve("given", path, sizeof path, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "got \"given\""));
	assert_int_equal(setenv("HOME", "/h", 1), 0);
	assert_int_equal(setenv("XDG_STATE_HOME", "/s", 1), 0);
	assert_int_equal(ring_folder_resolve(NULL, path, sizeof path, &fault), 0);
	assert_string_equal(path, "/s/penstock");
	assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0); /* to be passed over */
	assert_int_equal(ring_folder_resolve(NULL, path, sizeof path, &fault), 0);
	assert_string_equal(path, "/h/.local/state/penstock");
	assert_int_equal(setenv("HOME", "/", 1), 0);
	assert_int_equal(ring_folder_resolve(NULL, path, sizeof path, &fault), 0);
	assert_string_equal(path, "/.local/state/penstock");
	assert_int_equal(setenv("HOME", "/h", 1), 0);
	assert_int_equal(ring_folder_resolve(NULL, path, 70, &fault), -ENAMETOOLONG);
	assert_int_equal(unsetenv("HOME"), 0);
	assert_int_equal(ring_folder_resolve(NULL, path, sizeof path, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, "XDG_STATE_HOME or HOME"));
}

static void it_is_made_for_us_alone(void **state)
{
	struct machine *m = *state;
	struct fault fault;
	struct stat s;
	char other[PATH_MAX];
	assert_int_equal(ring_folder_make(folder, &fault), 0);
	assert_int_equal(ring_folder_make(folder, &fault), 0);
	assert_int_equal(stat(folder, &s), 0);
	assert_int_equal(s.st_mode & 07777, 0700);
	assert_int_equal(chmod(folder, 0720), 0);
	assert_int_equal(ring_folder_make(folder, &fault), -EPERM);
	assert_non_null(strstr(fault.text, folder));
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(ring_folder_make(folder, &fault), 0);
	(void)snprintf(other, sizeof other, "%s/link", m->root);
	assert_int_equal(symlink(folder, other), 0);
	assert_int_equal(ring_folder_make(other, &fault), -EPERM);
	put(m, "/file", "x");
	(void)snprintf(other, sizeof other, "%s/file", m->root);
	assert_int_equal(ring_folder_make(other, &fault), -EPERM);
	(void)snprintf(other, sizeof other, "%s/file/below", m->root);
	assert_int_equal(ring_folder_make(other, &fault), -ENOTDIR);
	assert_non_null(strstr(fault.text, "cannot create"));
}

static void names_sort_by_time(void **state)
{
	char name[64];
	(void)state;
	ring_folder_name(4121, name, sizeof name);
	int end = 0;
	assert_int_equal(sscanf(name, "recorder-%*8[0-9]T%*6[0-9]Z-4121.ring%n", &end), 0);
	assert_int_equal(end, strlen(name));
}

static bool there(const struct machine *m, const char *name)
{
	char path[PATH_MAX];
	struct stat s;
	(void)snprintf(path, sizeof path, "%s/%s", m->root, name);
	return lstat(path, &s) == 0;
}

static void the_oldest_go(void **state)
{
	struct machine *m = *state;
	char path[PATH_MAX];
	static const char *const plain[] = {"/recorder-1-1.ring", "/recorder-2-1.ring",
		"/recorder-3-1.ring", "/recorder-4-1.ring", "/recorder-1.ring.part",
		"/ecorder-1.ring", "/other"};
	for (size_t i = 0; i < UTIL_COUNT(plain); i++)
		put(m, plain[i], "x");
	(void)snprintf(path, sizeof path, "%s/recorder-0-1.ring", m->root);
	assert_int_equal(symlink(m->root, path), 0);
	(void)snprintf(path, sizeof path, "%s/recorder-0-2.ring", m->root);
	assert_int_equal(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof path, "%s/recorder-1-1.ring", m->root);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);

	ring_folder_tidy(m->root, 100);
	assert_true(there(m, "recorder-2-1.ring"));
	/* Six have such a name; the link, the folder and the file in use stay. */
	ring_folder_tidy(m->root, 4);
	assert_true(there(m, "recorder-0-1.ring") && there(m, "recorder-0-2.ring"));
	assert_true(there(m, "recorder-1-1.ring"));
	assert_false(there(m, "recorder-2-1.ring") || there(m, "recorder-3-1.ring"));
	assert_true(there(m, "recorder-4-1.ring"));
	ring_folder_tidy(m->root, 0);
	assert_false(there(m, "recorder-4-1.ring"));
	assert_true(there(m, "recorder-1.ring.part") && there(m, "ecorder-1.ring"));
	assert_true(there(m, "other"));
	assert_int_equal(close(fd), 0);
	ring_folder_tidy(m->root, 0);
	assert_false(there(m, "recorder-1-1.ring"));
	ring_folder_tidy("/nonexistent", 0);
}

int main(void)
{
#define RING_FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, init, machine_deinit)
	const struct CMUnitTest tests[] = {
		RING_FOLDER_TEST(the_folder_is_found),
		RING_FOLDER_TEST(it_is_made_for_us_alone),
		RING_FOLDER_TEST(names_sort_by_time),
		RING_FOLDER_TEST(the_oldest_go),
	};
	return cmocka_run_group_tests_name("ring_folder", tests, NULL, NULL);
}

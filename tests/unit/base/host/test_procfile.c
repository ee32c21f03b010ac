/* procfile: small files below a made-up root, and keys that only look like the wanted one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/host/procfile.h"
#include "unit/machine.h"

static void reads_whole_files_or_cuts_them(void **state)
{
	struct machine *m = *state;
	char text[8], long_path[PATH_MAX];
	put(m, "/proc/x", "abcdef\n");
	assert_int_equal(procfile_read(m->root, "/proc/x", text, sizeof text), 7);
	assert_string_equal(text, "abcdef\n");
	assert_int_equal(procfile_read(m->root, "/proc/x", text, 4), 3);
	assert_string_equal(text, "abc");
	put(m, "/proc/empty", "");
	assert_int_equal(procfile_read(m->root, "/proc/empty", text, sizeof text), 0);
	assert_string_equal(text, "");
	strcpy(text, "old");
	assert_int_equal(procfile_read(m->root, "/proc/none", text, sizeof text), -ENOENT);
	assert_string_equal(text, "");
	assert_int_equal(procfile_read(m->root, "/proc", text, sizeof text), -EISDIR);
	memset(long_path, 'x', sizeof long_path - 1);
	long_path[sizeof long_path - 1] = 0;
	assert_int_equal(procfile_read(m->root, long_path, text, sizeof text), -ENAMETOOLONG);
}

static void finds_values_of_whole_keys(void **state)
{
	static const char text[] = "oom_kill_disable 1\nVmRSSx: 7\nVmRSS:\t  512 kB\noom_kill 3\n"
				   "limit max\nlast: 18446744073709551615";
	uint64_t value = 99;
	(void)state;
	assert_true(procfile_value(text, "oom_kill", &value));
	assert_int_equal(value, 3);
	assert_true(procfile_value(text, "VmRSS", &value));
	assert_int_equal(value, 512);
	assert_true(procfile_value(text, "last", &value));
	assert_true(value == UINT64_MAX);
	value = 99;
	assert_false(procfile_value(text, "limit", &value));
	assert_false(procfile_value(text, "kill", &value));
	assert_false(procfile_value(text, "oom", &value));
	assert_false(procfile_value("", "oom", &value));
	assert_false(procfile_value("oom", "oom", &value));
	assert_int_equal(value, 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			reads_whole_files_or_cuts_them, machine_init, machine_deinit),
		cmocka_unit_test(finds_values_of_whole_keys),
	};
	return cmocka_run_group_tests_name("procfile", tests, NULL, NULL);
}

/* log: one line per call whatever is in it, cut where it is too long, nothing below the level asked
 * for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What a call writes to stderr: the text behind "... penstockd LEVEL: ". */
static size_t logged(enum log_level level, const char *text, char *ret, size_t room)
{
	int ends[2], saved = dup(STDERR_FILENO);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	errno = ERANGE;
	log_write(level, "%s", text);
	int after = errno;
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(after, ERANGE);
	ssize_t n = read(ends[0], ret, room - 1);
	(void)close(ends[0]), (void)close(ends[1]), (void)close(saved);
	ret[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static void writes_one_tame_line(void **state)
{
	char line[4096];
	(void)state;
	assert_true(logged(LOG_WARNING, "a\nb\t\x1b[1m\x7f\xc3\xa9", line, sizeof line) > 0);
	assert_non_null(strstr(line, "Z penstockd warning: a?b??[1m?\xc3\xa9\n"));
	assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

static void cuts_a_long_line(void **state)
{
	char text[5000], line[8192];
	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	size_t n = logged(LOG_ERROR, text, line, sizeof line);
	assert_in_range(n, 2000, 2048);
	assert_string_equal(line + n - 3, "xx\n");
}

static void keeps_to_its_level(void **state)
{
	char line[4096];
	(void)state;
	assert_int_equal(logged(LOG_DEBUG, "quiet", line, sizeof line), 0);
	log_set_level(LOG_DEBUG);
	assert_true(logged(LOG_DEBUG, "loud", line, sizeof line) > 0);
	log_set_level(LOG_ERROR);
	assert_int_equal(logged(LOG_WARNING, "quiet", line, sizeof line), 0);
	log_set_level(LOG_INFO);
	assert_int_equal(log_level_parse("warning"), LOG_WARNING);
	assert_int_equal(log_level_parse("debug"), LOG_DEBUG);
	assert_int_equal(log_level_parse("Debug"), -1);
	assert_int_equal(log_level_parse(""), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_one_tame_line),
		cmocka_unit_test(cuts_a_long_line),
		cmocka_unit_test(keeps_to_its_level),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

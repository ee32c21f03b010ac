/* log: one line for each call, whatever the text contains, cut if it is too long; nothing beyond
 * the configured level; as text, as JSON, to the journal; a write never waits for a reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void set_level(enum log_level level)
{
	struct log_levels levels;
	for (int i = 0; i < LOG_TOPICS; i++)
		levels.of[i] = level;
	log_set_levels(&levels);
}

/* The bytes that a call writes to stderr. */
static size_t logged_of(
	enum log_level level, enum log_topic topic, const char *text, char *ret, size_t room)
{
	int ends[2], saved = dup(STDERR_FILENO);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	errno = ERANGE;
	log_write(level, topic, "%s", text);
	int after = errno;
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(after, ERANGE);
	ssize_t n = read(ends[0], ret, room - 1);
	(void)close(ends[0]), (void)close(ends[1]), (void)close(saved);
	ret[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static size_t logged(enum log_level level, const char *text, char *ret, size_t room)
{
	return logged_of(level, LOG_DAEMON, text, ret, room);
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
	assert_in_range(n, 2000, 2060);
	assert_string_equal(line + n - 3, "xx\n");
}

static void keeps_to_its_level(void **state)
{
	char line[4096];
	(void)state;
	assert_int_equal(logged(LOG_DEBUG, "quiet", line, sizeof line), 0);
	set_level(LOG_DEBUG);
	assert_true(logged(LOG_DEBUG, "loud", line, sizeof line) > 0);
	set_level(LOG_ERROR);
	assert_int_equal(logged(LOG_WARNING, "quiet", line, sizeof line), 0);
	set_level(LOG_INFO);
}

static void has_a_level_for_each_topic(void **state)
{
	struct log_levels levels;
	struct fault fault;
	char line[4096];
	(void)state;
	assert_int_equal(log_levels_parse("warning, trainer=debug,http=error", &levels, &fault), 0);
	log_set_levels(&levels);
	assert_int_equal(logged_of(LOG_INFO, LOG_STREAM, "quiet", line, sizeof line), 0);
	assert_true(logged_of(LOG_DEBUG, LOG_TRAINER, "loud", line, sizeof line) > 0);
	assert_int_equal(logged_of(LOG_WARNING, LOG_HTTP, "quiet", line, sizeof line), 0);
	assert_int_equal(log_levels_parse("stream=debug", &levels, &fault), 0);
	assert_int_equal(levels.of[LOG_STREAM], LOG_DEBUG);
	assert_int_equal(levels.of[LOG_READER], LOG_INFO);
	set_level(LOG_INFO);
}

static void refuses_levels_that_are_none(void **state)
{
	static const char *const bad[][2] = {{"", "got \"\""}, {"Debug", "got \"Debug\""},
		{"info,", "got \"\""}, {"info,debug", "expected topic=level"},
		{"train=debug", "expected a topic (daemon, memory, reader, stream, trainer, http, "
				"recorder), got \"train\""},
		{"trainer=", "expected error, warning, info or debug, got \"\""},
		{"trainer=loud", "got \"loud\""}, {"=info", "expected a topic"},
		{"trainer=info=debug", "got \"info=debug\""}};
	struct log_levels levels, before;
	struct fault fault;
	(void)state;
	assert_int_equal(log_levels_parse("error", &before, &fault), 0);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		levels = before;
		assert_int_equal(log_levels_parse(bad[i][0], &levels, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, bad[i][1]));
		assert_memory_equal(&levels, &before, sizeof levels);
	}
}

static void writes_json(void **state)
{
	char line[8192], text[5000];
	struct fault fault;
	(void)state;
	assert_int_equal(log_set_target(LOG_STDERR, LOG_JSON, NULL, &fault), 0);
	(void)logged_of(LOG_WARNING, LOG_STREAM, "say \"a\\b\"\n\xff\xc3\xa9\xed\xa0\x80", line,
		sizeof line);
	assert_int_equal(line[0], '{');
	assert_non_null(strstr(line, "\"level\":\"warning\",\"topic\":\"stream\",\"pid\":"));
	assert_non_null(strstr(line, "\"message\":\"say \\\"a\\\\b\\\"??\xc3\xa9???\"}\n"));
	memset(text, '"', sizeof text - 1);
	text[sizeof text - 1] = 0;
	size_t n = logged(LOG_ERROR, text, line, sizeof line);
	assert_in_range(n, 3000, 4096);
	assert_string_equal(line + n - 4, "\"\"}\n");
	assert_int_equal(log_set_target(LOG_STDERR, LOG_HUMAN, NULL, &fault), 0);
}

/* A pipe that nobody reads: lines are lost, nothing blocks, and the next line that fits reports
 * it. */
static void never_waits(void **state)
{
	int ends[2], saved = dup(STDERR_FILENO);
	char filler[4096] = {0}, *all = calloc(1, 1 << 20);
	size_t got = 0;
	ssize_t n;
	(void)state;
	assert_non_null(all);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(fcntl(ends[1], F_SETPIPE_SZ, 8192) > 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	for (int i = 0; i < 500; i++)
		log_write(LOG_INFO, LOG_DAEMON, "a line that fills the pipe, after a while");
	assert_true(read(ends[0], filler, sizeof filler) > 0);
	assert_true(read(ends[0], filler, sizeof filler) > 0);
	log_write(LOG_INFO, LOG_DAEMON, "the last");
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	(void)close(ends[1]), (void)close(saved);
	while ((n = read(ends[0], all + got, (1 << 20) - 1 - got)) > 0)
		got += (size_t)n;
	(void)close(ends[0]);
	const char *lost = strstr(all, " lines of this log could not be written\n");
	assert_non_null(lost);
	assert_non_null(strstr(lost, "penstockd info: the last\n"));
	free(all);
}

static int journal_at(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)address, sizeof *address), 0);
	return fd;
}

static void speaks_to_the_journal(void **state)
{
	char folder[] = "/tmp/penstock-log-XXXXXX", got[4096], line[4096];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct fault fault;
	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
	assert_int_equal(log_set_target(LOG_JOURNAL, LOG_HUMAN, address.sun_path, &fault), -ENOENT);
	assert_non_null(strstr(fault.text, address.sun_path));
	int fd = journal_at(&address);
	assert_int_equal(log_set_target(LOG_JOURNAL, LOG_HUMAN, address.sun_path, &fault), 0);
	assert_int_equal(logged_of(LOG_WARNING, LOG_TRAINER, "a\nb", line, sizeof line), 0);
	ssize_t n = recv(fd, got, sizeof got - 1, 0);
	assert_true(n > 0);
	got[n] = 0;
	assert_string_equal(got, "PRIORITY=4\nSYSLOG_IDENTIFIER=penstockd\n"
				 "PENSTOCK_TOPIC=trainer\nMESSAGE=a?b\n");
	/* A journal that is gone, or no longer reads: the line goes to stderr. */
	while (logged(LOG_INFO, "more", line, sizeof line) == 0)
		;
	assert_non_null(strstr(line, "penstockd info: more\n"));
	(void)close(fd);
	assert_true(logged(LOG_INFO, "gone", line, sizeof line) > 0);
	assert_true(logged(LOG_INFO, "still gone", line, sizeof line) > 0);
	/* Another journal has taken its place, as after a restart. */
	assert_int_equal(unlink(address.sun_path), 0);
	fd = journal_at(&address);
	assert_int_equal(logged(LOG_INFO, "again", line, sizeof line), 0);
	assert_true((n = recv(fd, got, sizeof got - 1, 0)) > 0);
	got[n] = 0;
	assert_non_null(strstr(got, "MESSAGE=again\n"));
	(void)close(fd);
	assert_int_equal(log_set_target(LOG_STDERR, LOG_HUMAN, NULL, &fault), 0);
	(void)unlink(address.sun_path), (void)rmdir(folder);
}

/* `auto` is the journal only where stderr is what JOURNAL_STREAM names. */
static void finds_the_journal(void **state)
{
	char folder[] = "/tmp/penstock-log-XXXXXX", name[64], line[4096], got[16];
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct fault fault;
	struct stat st;
	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
	int fd = journal_at(&address);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	(void)snprintf(
		name, sizeof name, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino + 1);
	assert_int_equal(setenv("JOURNAL_STREAM", name, 1), 0);
	assert_int_equal(log_set_target(LOG_AUTO, LOG_HUMAN, address.sun_path, &fault), 0);
	assert_true(logged(LOG_INFO, "here", line, sizeof line) > 0);
	(void)snprintf(name, sizeof name, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", name, 1), 0);
	assert_int_equal(log_set_target(LOG_AUTO, LOG_HUMAN, address.sun_path, &fault), 0);
	assert_int_equal(logged(LOG_INFO, "there", line, sizeof line), 0);
	assert_true(recv(fd, got, sizeof got, 0) > 0);
	assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
	assert_int_equal(log_set_target(LOG_STDERR, LOG_HUMAN, NULL, &fault), 0);
	(void)close(fd), (void)unlink(address.sun_path), (void)rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_one_tame_line),
		cmocka_unit_test(cuts_a_long_line),
		cmocka_unit_test(keeps_to_its_level),
		cmocka_unit_test(has_a_level_for_each_topic),
		cmocka_unit_test(refuses_levels_that_are_none),
		cmocka_unit_test(writes_json),
		cmocka_unit_test(never_waits),
		cmocka_unit_test(speaks_to_the_journal),
		cmocka_unit_test(finds_the_journal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

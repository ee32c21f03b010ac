/* cli: see cli.h. How a subcommand says what it has to say, and when it all began. */
#include "client/cli/cli.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/process.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static uint64_t started_ns;

void cli_begin(void)
{
	started_ns = clock_ns() - process_age_ns();
}

uint64_t cli_started_ns(void)
{
	return started_ns;
}

char *cli_tame(char *text)
{
	for (unsigned char *c = (unsigned char *)text; *c; c++) {
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
		/* U+0080 to U+009f: terminals take them for what ESC begins. */
		else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = '?';
	}
	return text;
}

__attribute__((format(printf, 1, 0))) static void cli_say(const char *format, va_list args)
{
	char text[2048];
	(void)vsnprintf(text, sizeof text, format, args);
	(void)fprintf(stderr, "penstock: %s\n", cli_tame(text));
}

int cli_fail(enum cli_exit code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	cli_say(format, args);
	va_end(args);
	return (int)code;
}

void cli_show_tail(int fd, int lines)
{
	enum { CLI_TAIL = 4096 };
	char text[CLI_TAIL + 1];
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n = size > 0 ? pread(fd, text, CLI_TAIL, UTIL_MAX(size - CLI_TAIL, 0)) : 0;
	while (n > 0 && text[n - 1] == '\n')
		n--;
	if (n <= 0) {
		(void)fprintf(stderr, "  (nothing)\n");
		return;
	}
	text[n] = 0;
	char *rest = text + n;
	while (rest > text && (rest[-1] != '\n' || --lines > 0))
		rest--;
	for (char *line; (line = strsep(&rest, "\n"));)
		(void)fprintf(stderr, "  %s\n", cli_tame(line));
}

int cli_print_json(struct jsontext *json)
{
	int code = CLI_OK;
	if (json->text.failed)
		code = cli_fail(CLI_FAILED, "no memory for the report");
	else
		(void)printf("%s\n", json->text.bytes);
	jsontext_free(json);
	return code;
}

void cli_note(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	cli_say(format, args);
	va_end(args);
}

enum cli_exit cli_exit_code(int error)
{
	switch (-error) {
	case EINVAL: /* an option, or no dataset */
	case ENOENT: /* nothing there */
	case ENOTDIR:
	case ENOMEM: /* does not fit the memory that was given */
	case ENAMETOOLONG:
		return CLI_USAGE;
	default:
		return CLI_FAILED;
	}
}

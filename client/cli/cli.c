/* cli: see cli.h. How a subcommand says what it has to say, and when it all began. */
#include "client/cli/cli.h"

#include "base/clock.h"
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

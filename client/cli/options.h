/* options: reads the command line of a subcommand by one table, which also prints its help.
 *
 * Options may come before, between and after the operands; `--name value` and `--name=value`
 * mean the same; `--` ends them. An option that is unknown, lacks its value or is out of range
 * is refused with a sentence, which names the nearest known option. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
	OPTION_FLAG, /* bool *: true when given */
	OPTION_NUMBER, /* uint64_t *: decimal, min .. max */
	OPTION_SECONDS, /* double *: above 0, or at least min thousandths of one; at most max */
	OPTION_MILLISECONDS, /* the same, of thousandths */
	OPTION_SHARE, /* double *: above 0, at most 1 */
	OPTION_SIZE, /* uint64_t *: 128M, 4G; at least min */
	OPTION_TEXT, /* const char **: not empty */
	OPTION_LIST, /* struct option_list *: the same, which may be given several times */
	OPTION_CHOICE, /* const char **: one of the words of `value`, which are parted by | */
	/* struct stream_spec *: writes the key `min` of a definition (enum spec_key). Without
	 * `value` it takes none, and the key, a flag, becomes what it is not by default. */
	OPTION_KEY,
};

enum { OPTION_LIST_MAX = 8 };

struct option_list {
	const char *item[OPTION_LIST_MAX]; /* in the order of the command line */
	size_t count;
};

struct option {
	const char *name; /* without dashes */
	char letter; /* 0: none */
	enum option_kind kind;
	void *target;
	const char *value; /* what help calls it: "N"; for a choice, the words */
	const char *help;
	uint64_t min, max;
	bool *given; /* NULL, or set to true where the option appeared */
};

struct command {
	const char *name; /* "bench" */
	const char *operands; /* "SOURCE" */
	int min_operands, max_operands;
	const char *about; /* a paragraph for help, lines of at most 80 columns */
};

enum { OPTIONS_OPERANDS = 4 }; /* that commands with a fixed number take at most */

enum options_outcome {
	OPTIONS_OK = 0,
	OPTIONS_HELP = 1, /* help was asked for and printed: end with 0 */
};

/* Instead of reading a command line, options_parse hands the table to `reader` and returns
 * OPTIONS_HELP, until it is told NULL. */
typedef void options_reader(
	void *context, const struct command *command, const struct option *table, size_t count);
void options_read_tables(options_reader *reader, void *context);

/* Has `given` noted for an option out of a table that others share. */
void options_note_given(struct option *table, size_t count, const char *name, bool *given);

/* Reads argv[1 ..]; `ret_operands`, of max_operands, gets what is no option, and NULL behind it. 0,
 * OPTIONS_HELP, or -EINVAL after saying why on stderr. */
int options_parse(const struct command *command, const struct option *table, size_t count, int argc,
	char **argv, const char **ret_operands);

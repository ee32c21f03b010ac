/* options: see options.h. Main thread. */
#include "client/cli/options.h"

#include "base/nearest.h"
#include "base/renamed.h"
#include "base/size.h"
#include "base/util.h"
#include "client/cli/cli.h"
#include "definition/spec.h"
#include "definition/spec_keys.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { OPTIONS_WORD = 31, OPTIONS_COLUMNS = 80 };

static const struct option *options_find(
	const struct option *table, size_t count, const char *name, size_t size)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(table[i].name) == size && memcmp(table[i].name, name, size) == 0)
			return &table[i];
	return NULL;
}

void options_note_given(struct option *table, size_t count, const char *name, bool *given)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(table[i].name, name) == 0)
			table[i].given = given;
}

static const struct option *options_letter(const struct option *table, size_t count, char letter)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].letter && table[i].letter == letter)
			return &table[i];
	return NULL;
}

/* What other programs call an option. */
static const struct {
	const char *elsewhere, *here;
} options_called[] = {
	{"duration", "seconds"},
};

static const char *options_called_here(const struct option *table, size_t count, const char *name)
{
	for (size_t i = 0; i < UTIL_COUNT(options_called); i++) {
		const char *here = options_called[i].here;
		if (strcmp(name, options_called[i].elsewhere) == 0 &&
			options_find(table, count, here, strlen(here)))
			return here;
	}
	return NULL;
}

/* The option that was probably meant: few edits away, or one whose beginning was written. */
static const char *options_nearest(const struct option *table, size_t count, const char *name)
{
	const char *best = options_called_here(table, count, name);
	if (best)
		return best;
	struct nearest nearest = nearest_to(name);
	for (size_t i = 0; i < count; i++) {
		nearest_try(&nearest, table[i].name);
		if (!best && strlen(name) > 2 && strncmp(name, table[i].name, strlen(name)) == 0)
			best = table[i].name;
	}
	return best && nearest.distance > 1 ? best : nearest_found(&nearest);
}

static int options_unknown(
	const struct command *command, const struct option *table, size_t count, const char *arg)
{
	char name[OPTIONS_WORD + 1];
	(void)snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	const char *near = arg[1] == '-' ? options_nearest(table, count, name) : NULL;
	if (near)
		cli_note("%s has no option %s; did you mean --%s?", command->name, arg, near);
	else
		cli_note("%s has no option %s; `penstock %s --help` lists them", command->name, arg,
			command->name);
	return -EINVAL;
}

static int options_number(const struct option *option, const char *text)
{
	char *end = NULL;
	errno = 0;
	unsigned long long value = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
	if (!end || *end || errno || value < option->min || value > option->max) {
		if (option->max == UINT64_MAX)
			cli_note("--%s: expected a whole number of at least %llu, got \"%s\"",
				option->name, (unsigned long long)option->min, text);
		else
			cli_note("--%s: expected a whole number from %llu to %llu, got \"%s\"",
				option->name, (unsigned long long)option->min,
				(unsigned long long)option->max, text);
		return -EINVAL;
	}
	*(uint64_t *)option->target = value;
	return 0;
}

static int options_time(const struct option *option, const char *unit, const char *text)
{
	char *end = NULL;
	double value = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : 0;
	double least = (double)option->min / 1000;
	if (!end || *end || !(value > 0) || value < least || value > (double)option->max) {
		char from[32] = "more than 0 and at most";
		if (option->min)
			(void)snprintf(from, sizeof from, "from %g to", least);
		cli_note("--%s: expected %s, %s %llu, got \"%s\"", option->name, unit, from,
			(unsigned long long)option->max, text);
		return -EINVAL;
	}
	*(double *)option->target = value;
	return 0;
}

static int options_share(const struct option *option, const char *text)
{
	char *end = NULL;
	double value = isdigit((unsigned char)text[0]) || text[0] == '.' ? strtod(text, &end) : 0;
	if (!end || *end || !(value > 0) || value > 1) {
		cli_note("--%s: expected a share, more than 0 and at most 1, got \"%s\"",
			option->name, text);
		return -EINVAL;
	}
	*(double *)option->target = value;
	return 0;
}

static int options_size(const struct option *option, const char *text)
{
	uint64_t value;
	char least[16];
	if (size_parse(text, &value) < 0 || value < option->min) {
		cli_note("--%s: expected a size such as 128M or 4G, at least %s, got \"%s\"",
			option->name, size_format(option->min, least, sizeof least), text);
		return -EINVAL;
	}
	*(uint64_t *)option->target = value;
	return 0;
}

static int options_choice(const struct option *option, const char *text)
{
	size_t size = strlen(text);
	for (const char *word = option->value; *word;) {
		size_t length = strcspn(word, "|");
		if (length == size && memcmp(word, text, size) == 0) {
			*(const char **)option->target = text;
			return 0;
		}
		word += length + (word[length] == '|');
	}
	cli_note("--%s: expected one of %s, got \"%s\"", option->name, option->value, text);
	return -EINVAL;
}

static int options_text(const struct option *option, const char *text)
{
	if (!*text) {
		cli_note("--%s: expected %s, got an empty text", option->name, option->value);
		return -EINVAL;
	}
	*(const char **)option->target = text;
	return 0;
}

static int options_list(const struct option *option, const char *text)
{
	struct option_list *list = option->target;
	if (list->count == OPTION_LIST_MAX) {
		cli_note("--%s is given more than %d times", option->name, OPTION_LIST_MAX);
		return -EINVAL;
	}
	list->item[list->count++] = text;
	return 0;
}

static bool options_is_flag(const struct option *option)
{
	return option->kind == OPTION_FLAG || (option->kind == OPTION_KEY && !option->value);
}

static int options_key(const struct option *option, const char *text)
{
	char origin[OPTIONS_WORD + 3];
	struct fault fault;
	if (option->min == SPEC_KEY_image_size && text && text[0] == '{') {
		cli_note("--image-size: expected a whole number or [height, width], got \"%s\"; "
			 "for sizes by epoch "
			 "name a stream of the configuration (stream:NAME)",
			text);
		return -EINVAL;
	}
	(void)snprintf(origin, sizeof origin, "--%s", option->name);
	/* An option without a value is there to change a default. */
	const char *flag = spec_who[option->min].plain ? "false" : "true";
	int r = spec_set(
		option->target, (enum spec_key)option->min, text ? text : flag, origin, &fault);
	if (r < 0)
		cli_note("%s", fault.text);
	return r;
}

static int options_store(const struct option *option, const char *text)
{
	if (option->given)
		*option->given = true;
	switch (option->kind) {
	case OPTION_FLAG:
		*(bool *)option->target = true;
		return 0;
	case OPTION_NUMBER:
		return options_number(option, text);
	case OPTION_SECONDS:
		return options_time(option, "seconds", text);
	case OPTION_MILLISECONDS:
		return options_time(option, "milliseconds", text);
	case OPTION_SHARE:
		return options_share(option, text);
	case OPTION_SIZE:
		return options_size(option, text);
	case OPTION_CHOICE:
		return options_choice(option, text);
	case OPTION_TEXT:
		return options_text(option, text);
	case OPTION_LIST:
		return options_list(option, text);
	case OPTION_KEY:
		return options_key(option, text);
	}
	return -EINVAL;
}

/* Prints `text` from column `at` on, wrapped at 80 columns under its own beginning. */
static void options_wrap(const char *text, int at)
{
	int column = at;
	while (*text) {
		int length = (int)strcspn(text, " ");
		if (column > at && column + 1 + length > OPTIONS_COLUMNS) {
			(void)printf("\n%*s", at, "");
			column = at;
		}
		column += printf("%s%.*s", column > at ? " " : "", length, text);
		text += length;
		text += strspn(text, " ");
	}
	(void)printf("\n");
}

static void options_help_line(char letter, const char *name, const char *value, const char *help)
{
	enum { OPTIONS_HELP_COLUMN = 28 };
	int n = letter ? printf("  -%c, --%s", letter, name) : printf("      --%s", name);
	if (value)
		n += printf(" %s", value);
	if (n + 2 > OPTIONS_HELP_COLUMN) {
		(void)printf("\n");
		n = 0;
	}
	(void)printf("%*s", OPTIONS_HELP_COLUMN - n, "");
	options_wrap(help, OPTIONS_HELP_COLUMN);
}

static int options_help(const struct command *command, const struct option *table, size_t count)
{
	(void)printf("Usage: penstock %s%s%s [options]\n\n%s\n\n", command->name,
		*command->operands ? " " : "", command->operands, command->about);
	for (size_t i = 0; i < count; i++)
		options_help_line(table[i].letter, table[i].name, table[i].value, table[i].help);
	options_help_line('h', "help", NULL, "this text");
	return OPTIONS_HELP;
}

/* The option whose old name was written, of `size` bytes: says so. NULL: none; or, with
 * `ret_both`, its new name is given as well. */
static const struct option *options_renamed(const struct option *table, size_t count,
	const char *name, size_t size, int argc, char **argv, bool *ret_both)
{
	char old[OPTIONS_WORD + 1];
	struct fault said;
	(void)snprintf(old, sizeof old, "%.*s", (int)size, name);
	const char *now = renamed_name(renamed_options, old);
	const struct option *option = now ? options_find(table, count, now, strlen(now)) : NULL;
	*ret_both = option && renamed_beside(argc, argv, now);
	if (*ret_both)
		cli_note("--%s is the old name of --%s, and both are given: leave out --%s", old,
			now, old);
	else if (option)
		cli_note("%s", renamed_say("--", old, now, &said));
	return *ret_both ? NULL : option;
}

/* One option at argv[*at], its value perhaps behind it. */
static int options_take(const struct command *command, const struct option *table, size_t count,
	int argc, char **argv, int *at)
{
	const char *arg = argv[*at], *value = NULL;
	const struct option *option;
	bool both = false;
	if (arg[1] == '-') {
		size_t size = strcspn(arg + 2, "=");
		option = options_find(table, count, arg + 2, size);
		if (!option)
			option = options_renamed(table, count, arg + 2, size, argc, argv, &both);
		if (arg[2 + size])
			value = arg + 2 + size + 1;
	} else {
		option = options_letter(table, count, arg[1]);
		if (arg[2])
			value = arg + 2;
	}
	if (!option)
		return both ? -EINVAL : options_unknown(command, table, count, arg);
	if (options_is_flag(option) && value) {
		cli_note("--%s takes no value, so \"%s\" cannot be right", option->name, arg);
		return -EINVAL;
	}
	if (!options_is_flag(option) && !value) {
		if (*at + 1 >= argc) {
			cli_note("--%s: expected a value: --%s %s", option->name, option->name,
				option->value);
			return -EINVAL;
		}
		value = argv[++*at];
	}
	return options_store(option, value);
}

static int options_count_operands(const struct command *command, int operands, const char *extra)
{
	if (operands < command->min_operands)
		cli_note("%s: expected %s; see `penstock %s --help`", command->name,
			command->operands, command->name);
	else if (operands <= command->max_operands)
		return 0;
	else if (command->max_operands == 0)
		cli_note("%s takes no operand, so \"%s\" cannot be right", command->name, extra);
	else
		cli_note("%s takes %s%s, and \"%s\" is one more; quote a glob so that the shell "
			 "leaves it alone",
			command->name, command->max_operands == 1 ? "one " : "", command->operands,
			extra);
	return -EINVAL;
}

static struct {
	options_reader *read;
	void *context;
} tables;

void options_read_tables(options_reader *reader, void *context)
{
	tables.read = reader;
	tables.context = context;
}

int options_parse(const struct command *command, const struct option *table, size_t count, int argc,
	char **argv, const char **ret_operands)
{
	if (tables.read) {
		tables.read(tables.context, command, table, count);
		return OPTIONS_HELP;
	}
	size_t room = (size_t)UTIL_MAX(command->max_operands, 1);
	cleanup(free_ptr) const char **operand = calloc(room, sizeof *operand);
	const char *extra = "";
	if (!operand) {
		cli_note("no memory for %zu operands", room);
		return -EINVAL;
	}
	int operands = 0;
	bool only_operands = false;
	for (int i = 1; i < argc; i++) {
		const char *arg = argv[i];
		if (!only_operands && strcmp(arg, "--") == 0) {
			only_operands = true;
		} else if (!only_operands &&
			   (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) {
			return options_help(command, table, count);
		} else if (!only_operands && arg[0] == '-' && arg[1]) {
			int r = options_take(command, table, count, argc, argv, &i);
			if (r < 0)
				return r;
		} else {
			if (operands < command->max_operands)
				operand[operands] = arg;
			else if (operands == command->max_operands)
				extra = arg;
			operands++;
		}
	}
	int r = options_count_operands(command, operands, extra);
	if (r == 0)
		memcpy(ret_operands, operand, (size_t)command->max_operands * sizeof *operand);
	return r;
}

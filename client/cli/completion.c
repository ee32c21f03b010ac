/* completion: see completion.h. Main thread.
 *
 * Each shell has a dialect: what comes before all commands, what is printed of a command with its
 * options, and what comes after all. */
#include "client/cli/completion.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 256 };

struct completion {
	const struct cli_command *commands;
	size_t count;
};

struct dialect {
	const char *shell;
	void (*begin)(const struct completion *completion);
	options_reader *command;
	void (*end)(void);
};

/* --- what an option or an operand takes --- */

static bool takes_value(const struct option *option)
{
	return option->kind != OPTION_FLAG && option->value;
}

static bool takes_path(const struct option *option)
{
	static const char *const paths[] = {"DIR", "FILE", "PATH", "FILE.json"};
	for (size_t i = 0; i < UTIL_COUNT(paths) && option->value; i++)
		if (strcmp(option->value, paths[i]) == 0)
			return true;
	return false;
}

/* The lower-case words of "a|b" or "[show | verify] [URL]", with blanks between them. */
static const char *words_of(const char *text, char ret[WORDS])
{
	size_t size = 0;
	for (const char *at = text; *at && size + 2 < WORDS;) {
		const size_t length = strcspn(at, " |[]");
		bool lower = length > 0;
		for (size_t i = 0; i < length; i++)
			lower = lower && !isupper((unsigned char)at[i]);
		if (lower && size + length + 2 < WORDS) {
			size += (size_t)snprintf(ret + size, WORDS - size, "%s%.*s",
				size ? " " : "", (int)length, at);
		}
		at += length;
		at += strspn(at, " |[]");
	}
	ret[size] = 0;
	return ret;
}

static const char *choice_of(const struct option *option, char ret[WORDS])
{
	ret[0] = 0;
	const bool key = option->kind == OPTION_KEY && option->value && strchr(option->value, '|');
	return key || option->kind == OPTION_CHOICE ? words_of(option->value, ret) : ret;
}

/* Operands are files, words, or both. */
static bool takes_files(const struct command *command)
{
	static const char *const files[] = {"SOURCE", "FILE", "STATE", "OUT-"};
	for (size_t i = 0; i < UTIL_COUNT(files); i++)
		if (strstr(command->operands, files[i]))
			return true;
	return false;
}

/* Prints text within single quotes, with a backslash in front of each of `marked`, and `quote` for
 * a single quote. */
static void print_quoted(const char *text, const char *marked, const char *quote)
{
	for (; *text; text++) {
		if (*text == '\'')
			(void)fputs(quote, stdout);
		else
			(void)printf("%s%c", strchr(marked, *text) ? "\\" : "", *text);
	}
}

/* --- bash --- */

static void bash_begin(const struct completion *completion)
{
	(void)printf("# bash completion of penstock %s: source <(penstock completion bash)\n"
		     "_penstock_words() {\n"
		     "\tmapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\")\n"
		     "}\n"
		     "_penstock_files() {\n"
		     "\tcompopt -o filenames 2>/dev/null\n"
		     "\tmapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
		     "}\n"
		     "_penstock() {\n"
		     "\tlocal current=${COMP_WORDS[COMP_CWORD]} "
		     "previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
		     "\tCOMPREPLY=()\n"
		     "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n"
		     "\t\t_penstock_words \"",
		PENSTOCK_VERSION);
	for (size_t i = 0; i < completion->count; i++)
		(void)printf("%s ", completion->commands[i].name);
	(void)printf("--help --version\"\n"
		     "\t\treturn\n"
		     "\tfi\n"
		     "\tcase ${COMP_WORDS[1]} in\n");
}

static void bash_names(const struct option *option)
{
	(void)printf("--%s", option->name);
	if (option->letter)
		(void)printf(" | -%c", option->letter);
}

static void bash_value(const struct option *option)
{
	char words[WORDS];
	const char *const choice = choice_of(option, words);
	if (!takes_value(option) || (!*choice && !takes_path(option)))
		return;
	(void)printf("\t\t");
	bash_names(option);
	if (*choice)
		(void)printf(")\n\t\t\t_penstock_words \"%s\"\n", choice);
	else
		(void)printf(")\n\t\t\t_penstock_files\n");
	(void)printf("\t\t\treturn\n\t\t\t;;\n");
}

/* Options whose value cannot be completed. */
static void bash_free(const struct option *table, size_t count)
{
	char words[WORDS];
	const char *before = "\t\t";
	for (size_t i = 0; i < count; i++) {
		if (!takes_value(&table[i]) || *choice_of(&table[i], words) ||
			takes_path(&table[i]))
			continue;
		(void)fputs(before, stdout);
		bash_names(&table[i]);
		before = " | ";
	}
	if (*before == ' ')
		(void)printf(")\n\t\t\treturn\n\t\t\t;;\n");
}

static void bash_command(
	void *context, const struct command *command, const struct option *table, size_t count)
{
	char words[WORDS];
	(void)context;
	(void)printf("\t%s)\n\t\tcase $previous in\n", command->name);
	for (size_t i = 0; i < count; i++)
		bash_value(&table[i]);
	bash_free(table, count);
	(void)printf("\t\tesac\n\t\tcase $current in\n\t\t-*)\n\t\t\t_penstock_words \"");
	for (size_t i = 0; i < count; i++)
		(void)printf("--%s ", table[i].name);
	(void)printf("--help\"\n\t\t\t;;\n");
	if (*words_of(command->operands, words))
		(void)printf("\t\t*)\n\t\t\t_penstock_words \"%s\"\n\t\t\t;;\n", words);
	else if (takes_files(command))
		(void)printf("\t\t*)\n\t\t\t_penstock_files\n\t\t\t;;\n");
	(void)printf("\t\tesac\n\t\t;;\n");
}

static void bash_end(void)
{
	(void)printf("\tesac\n}\ncomplete -F _penstock penstock\n");
}

/* --- zsh --- */

static void zsh_quoted(const char *text)
{
	print_quoted(text, "[]:\\", "'\\''");
}

static void zsh_begin(const struct completion *completion)
{
	(void)printf("#compdef penstock\n"
		     "# zsh completion of penstock %s: source <(penstock completion zsh)\n"
		     "_penstock() {\n"
		     "\tlocal -a commands\n"
		     "\tcommands=(\n",
		PENSTOCK_VERSION);
	for (size_t i = 0; i < completion->count; i++) {
		(void)printf("\t\t'%s:", completion->commands[i].name);
		zsh_quoted(completion->commands[i].summary);
		(void)printf("'\n");
	}
	(void)printf("\t)\n"
		     "\tif ((CURRENT == 2)); then\n"
		     "\t\t_describe command commands\n"
		     "\t\treturn\n"
		     "\tfi\n"
		     "\tshift words\n"
		     "\t((CURRENT--))\n"
		     "\tcase $words[1] in\n");
}

static void zsh_option(const struct option *option)
{
	char words[WORDS];
	if (option->letter)
		(void)printf(" \\\n\t\t\t'(-%c --%s)'{-%c,--%s}'", option->letter, option->name,
			option->letter, option->name);
	else
		(void)printf(" \\\n\t\t\t'--%s", option->name);
	(void)printf("[");
	zsh_quoted(option->help);
	(void)printf("]");
	if (takes_value(option)) {
		(void)printf(":");
		zsh_quoted(option->value);
		if (*choice_of(option, words))
			(void)printf(":(%s)", words);
		else
			(void)printf(":%s", takes_path(option) ? "_files" : " ");
	}
	(void)printf("'");
}

static void zsh_command(
	void *context, const struct command *command, const struct option *table, size_t count)
{
	char words[WORDS];
	(void)context;
	(void)printf("\t%s)\n\t\t_arguments", command->name);
	for (size_t i = 0; i < count; i++)
		zsh_option(&table[i]);
	if (*words_of(command->operands, words))
		(void)printf(" \\\n\t\t\t'*:operand:(%s)'", words);
	else if (takes_files(command))
		(void)printf(" \\\n\t\t\t'*:file:_files'");
	(void)printf(" \\\n\t\t\t'(-h --help)'{-h,--help}'[this text]'\n\t\t;;\n");
}

static void zsh_end(void)
{
	(void)printf("\tesac\n"
		     "}\n"
		     "if [ \"$funcstack[1]\" = _penstock ]; then\n"
		     "\t_penstock \"$@\"\n"
		     "else\n"
		     "\tcompdef _penstock penstock\n"
		     "fi\n");
}

/* --- fish --- */

static void fish_quoted(const char *text)
{
	print_quoted(text, "\\", "\\'");
}

static void fish_begin(const struct completion *completion)
{
	(void)printf("# fish completion of penstock %s: penstock completion fish | source\n"
		     "complete -c penstock -f\n",
		PENSTOCK_VERSION);
	for (size_t i = 0; i < completion->count; i++) {
		(void)printf("complete -c penstock -n __fish_use_subcommand -a %s -d '",
			completion->commands[i].name);
		fish_quoted(completion->commands[i].summary);
		(void)printf("'\n");
	}
}

static void fish_option(const struct command *command, const struct option *option)
{
	char words[WORDS];
	(void)printf("complete -c penstock -n '__fish_seen_subcommand_from %s' -l %s",
		command->name, option->name);
	if (option->letter)
		(void)printf(" -s %c", option->letter);
	if (takes_value(option))
		(void)printf(takes_path(option) ? " -rF" : " -x");
	if (*choice_of(option, words))
		(void)printf(" -a '%s'", words);
	(void)printf(" -d '");
	fish_quoted(option->help);
	(void)printf("'\n");
}

static void fish_command(
	void *context, const struct command *command, const struct option *table, size_t count)
{
	char words[WORDS];
	(void)context;
	for (size_t i = 0; i < count; i++)
		fish_option(command, &table[i]);
	(void)printf("complete -c penstock -n '__fish_seen_subcommand_from %s' -s h -l help -d "
		     "'this text'\n",
		command->name);
	if (*words_of(command->operands, words))
		(void)printf("complete -c penstock -n '__fish_seen_subcommand_from %s' -a '%s'\n",
			command->name, words);
	else if (takes_files(command))
		(void)printf("complete -c penstock -n '__fish_seen_subcommand_from %s' -F\n",
			command->name);
}

static void fish_end(void)
{
}

static const struct dialect dialects[] = {
	{"bash", bash_begin, bash_command, bash_end},
	{"zsh", zsh_begin, zsh_command, zsh_end},
	{"fish", fish_begin, fish_command, fish_end},
};

static const struct command completion_command = {
	.name = "completion",
	.operands = "bash | zsh | fish",
	.min_operands = 1,
	.max_operands = 1,
	.about = "Prints a script that completes penstock's commands, options and files in a\n"
		 "shell. Put `source <(penstock completion bash)` into ~/.bashrc, the same with\n"
		 "zsh into ~/.zshrc, or `penstock completion fish | source` into config.fish.",
};

int completion_run(int argc, char **argv, const struct cli_command *commands, size_t count)
{
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&completion_command, NULL, 0, argc, argv, operand);
	if (r != OPTIONS_OK)
		return r == OPTIONS_HELP ? CLI_OK : CLI_USAGE;
	const struct dialect *dialect = NULL;
	for (size_t i = 0; i < UTIL_COUNT(dialects); i++)
		if (strcmp(operand[0], dialects[i].shell) == 0)
			dialect = &dialects[i];
	if (!dialect)
		return cli_fail(CLI_USAGE, "completion: expected bash, zsh or fish, got \"%s\"",
			operand[0]);
	const struct completion completion = {commands, count};
	dialect->begin(&completion);
	options_read_tables(dialect->command, NULL);
	for (size_t i = 0; i < count; i++) {
		char name[32];
		char *args[] = {name, NULL};
		(void)snprintf(name, sizeof name, "%s", commands[i].name);
		(void)commands[i].main(1, args);
	}
	options_read_tables(NULL, NULL);
	dialect->end();
	return CLI_OK;
}

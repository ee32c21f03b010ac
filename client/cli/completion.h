/* completion: prints a script that completes `penstock` in a shell: commands, options, their words
 * and files. It is made of the tables that the commands read their command lines with. */
#pragma once

#include <stddef.h>

struct cli_command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *summary;
};

/* The subcommand completion, given the subcommands. */
int completion_run(int argc, char **argv, const struct cli_command *commands, size_t count);

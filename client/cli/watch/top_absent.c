/* top_absent: replaces top_terminal.c and screen.c in a build without ncurses (PENSTOCK_TOP=OFF,
 * as in the portable Python package). See top_impl.h. */
#include "client/cli/watch/top_impl.h"

#include "client/cli/cli.h"

#include <unistd.h>

bool top_terminal_possible(void)
{
	if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1)
		cli_note("top: this command was built without ncurses (PENSTOCK_TOP=OFF), so it "
			 "prints text, as with --plain; --interval 1 repeats it every second");
	return false;
}

int top_terminal(struct top *top)
{
	(void)top;
	return cli_fail(CLI_FAILED, "top: this command was built without ncurses");
}

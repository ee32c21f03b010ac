/* find: see find.h.
 *
 * Asked anew each time, the library could give another one: when a second has come, or the first
 * has gone. */
#include "client/cli/find.h"

#include "client/cli/cli.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <string.h>

int find_daemon(char socket[FIND_SOCKET])
{
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", penstock_error()) : CLI_OK;
}

/* What the library advises when none runs is any daemon. */
int find_stream_daemon(const char *source, char socket[FIND_SOCKET])
{
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	const char *said = penstock_error(), *advice = strstr(said, " (start one: ");
	if (r != -ECONNREFUSED || !advice)
		return r < 0 ? cli_fail(cli_exit_code(r), "%s", said) : CLI_OK;
	return cli_fail(cli_exit_code(r),
		"%.*s (start the one that knows %s: penstockd --config FILE; how the last one "
		"ended: penstock why)",
		(int)(advice - said), said, source);
}

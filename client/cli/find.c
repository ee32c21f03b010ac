/* find: see find.h.
 *
 * The command looks for the daemon once and keeps the socket: the library could find another daemon
 * at the next call, because a second one has started or the first one has ended. */
#include "client/cli/find.h"

#include "client/cli/cli.h"
#include "penstock/penstock.h"

#include <errno.h>
#include <stdio.h>

int find_daemon(char socket[FIND_SOCKET])
{
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", penstock_error()) : CLI_OK;
}

int find_stream_daemon(const char *source, char socket[FIND_SOCKET])
{
	char why[256];
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	if (r != -ECONNREFUSED)
		return r < 0 ? cli_fail(cli_exit_code(r), "%s", penstock_error()) : CLI_OK;
	(void)snprintf(why, sizeof why, "%s", penstock_error());
	return cli_fail(cli_exit_code(r),
		"%s; start the one that knows %s: penstockd --config FILE", why, source);
}

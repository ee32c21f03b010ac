/* find: see find.h.
 *
 * Asked anew each time, the library could give another one: when a second has come, or the first
 * has gone. */
#include "client/cli/find.h"

#include "client/cli/cli.h"
#include "penstock/penstock.h"

int find_daemon(char socket[FIND_SOCKET])
{
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", penstock_error()) : CLI_OK;
}

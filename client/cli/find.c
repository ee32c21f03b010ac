/* find: see find.h.
 *
 * The command looks for the daemon once and keeps the socket: the library could find another daemon
 * at the next call, because a second one has started or the first one has ended. */
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

/* Any daemon will do, says the library. Here it must be the one that knows the stream. */
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

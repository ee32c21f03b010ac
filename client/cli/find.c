/* find: see find.h.
 *
 * The command looks for the daemon once and keeps the socket: the library could find another daemon
 * at the next call, because a second one has started or the first one has ended. */
#include "client/cli/find.h"

#include "client/cli/cli.h"
#include "penstock/penstock.h"

#include <errno.h>

int find_daemon(char socket[FIND_SOCKET])
{
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	return r < 0 ? cli_fail(cli_exit_code(r), "%s", penstock_error()) : CLI_OK;
}

int find_stream_daemon(const char *source, char socket[FIND_SOCKET])
{
	struct penstock_options options;
	struct penstock_stream *stream;
	int r = penstock_daemon_socket(NULL, socket, FIND_SOCKET);
	if (r != -ECONNREFUSED)
		return r < 0 ? cli_fail(cli_exit_code(r), "%s", penstock_error()) : CLI_OK;
	/* The library knows which daemon the stream needs, and says so when it is opened. */
	penstock_options_init(&options);
	options.source = source;
	options.private_daemon = 0;
	r = penstock_stream_open(&options, &stream);
	if (r < 0)
		return cli_fail(cli_exit_code(r), "%s", penstock_error());
	/* A daemon has come meanwhile. */
	penstock_stream_close(stream);
	return find_daemon(socket);
}

/* publish_absent: in publish.c's place where penstockd is built without HTTP (PENSTOCK_HTTP=OFF, as
 * in the portable Python package): nothing is published, and whoever asked for an address is told.
 * Event loop. */
#define LOG_TOPIC LOG_HTTP
#include "serve/serve_impl.h"

#include "base/log.h"

#include <errno.h>
#include <string.h>

void publish_start(struct server *server)
{
	const char *address = server->config->http;
	if (strcmp(address, "off") == 0 || strcmp(address, "auto") == 0)
		return;
	struct fault fault;
	(void)fault_set(&fault, -ENOTSUP,
		"http: %s: this penstockd was built without HTTP (PENSTOCK_HTTP=OFF), so there are "
		"no metrics and no page: take a full build for those, or say http: off",
		address);
	server_notice(server, fault.text);
}

void publish_tick(struct server *server)
{
	(void)server;
}

void publish_sheet(struct server *server)
{
	(void)server;
}

const char *publish_address(const struct server *server)
{
	(void)server;
	return "";
}

void publish_end(struct server *server)
{
	(void)server;
}

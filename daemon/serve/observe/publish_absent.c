/* publish_absent: in place of publish.c in a build without HTTP (PENSTOCK_HTTP=OFF), such as the
 * portable Python package. It publishes nothing, and says so where an address was asked for. */
#define LOG_TOPIC LOG_HTTP
#include "serve/observe/observe.h"

#include "base/log.h"
#include "serve/state.h"

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
		"no metrics and no page: install a full build, or set http: off",
		address);
	recorder_notice(server, fault.text);
}

void publish_tick(struct server *server)
{
	(void)server;
}

void publish_sheet(struct server *server)
{
	(void)server;
}

void publish_end(struct server *server)
{
	(void)server;
}

/* supervisor_absent: in place of supervisor.c in a build without libsystemd (PENSTOCK_SYSTEMD=OFF).
 * Where systemd waits to be told, the log says why it is not. */
#include "serve/observe/observe.h"

#include "base/log.h"

#include <stdlib.h>

void supervisor_start(struct server *server)
{
	(void)server;
	if (getenv("NOTIFY_SOCKET"))
		log_warning(
			"this penstockd was built without libsystemd (PENSTOCK_SYSTEMD=OFF) "
			"and cannot tell systemd that it is ready: use Type=simple in its service");
}

void supervisor_tick(struct server *server)
{
	(void)server;
}

void supervisor_reloading(void)
{
}

void supervisor_reloaded(void)
{
}

void supervisor_stopping(void)
{
}

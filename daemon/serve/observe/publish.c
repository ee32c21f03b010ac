/* publish: hands http what it serves. Event loop.
 *
 * Documents are made once a second whether anybody asks or not: that costs a thousandth of a
 * processor with 64 streams and a tenth of that with one (publish_ns, a metric itself), so there is
 * nothing to be gained by waiting until somebody does; and a request never waits for the loop. */
#define LOG_TOPIC LOG_HTTP
#include "serve/serve_impl.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/http.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void publish_wake(void *context)
{
	const struct stream_environment *environment = context;
	environment->wake(environment->wake_context);
}

/* Of the daemon's socket: an absolute path, also where the socket's is not. */
static void publish_folder(const struct server *server, char ret[PATH_MAX])
{
	char folder[sizeof server->socket];
	const char *slash = strrchr(server->socket, '/');
	size_t length = slash ? (size_t)(slash - server->socket) : 0;
	memcpy(folder, server->socket, length);
	folder[length] = 0;
	if (!realpath(length ? folder : slash ? "/" : ".", ret))
		memcpy(ret, folder, length + 1);
}

void publish_start(struct server *server)
{
	char folder[PATH_MAX];
	struct fault fault;
	publish_folder(server, folder);
	struct http_options options = {.address = server->config->http,
		.folder = folder,
		.wake = publish_wake,
		.wake_context = &server->environment};
	if (strcmp(server->config->http, "off") == 0)
		return;
	if (http_new(&options, &server->http, &fault)) {
		server->http = NULL;
		server_notice(server, fault.text);
		return;
	}
	publish_tick(server);
	log_info("metrics and the page: %s", http_address(server->http));
	if (http_is_open(server->http))
		server_notice(server,
			"the page shows images and names of files to whoever can reach its "
			"address: name 127.0.0.1 or a Unix socket (http, --http) where others can");
}

void publish_tick(struct server *server)
{
	if (!server->http)
		return;
	uint64_t begin = clock_thread_cpu_ns();
	char *status = status_server(server), *metrics = metrics_text(server);
	/* Without memory the old ones stay. */
	if (status)
		http_publish(server->http, HTTP_STATUS, status);
	if (metrics)
		http_publish(server->http, HTTP_METRICS, metrics);
	server->publish_ns = clock_thread_cpu_ns() - begin;
}

void publish_sheet(struct server *server)
{
	uint32_t stream;
	if (server->http && http_sheet_wanted(server->http, &stream))
		http_sheet_give(server->http, sheet_copy(server, stream));
}

const char *publish_address(const struct server *server)
{
	return server->http ? http_address(server->http) : "";
}

void publish_end(struct server *server)
{
	http_free(server->http);
}

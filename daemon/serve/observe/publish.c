/* publish: hands http what it serves.
 *
 * The documents are made once a second whether a client asks or not. That costs a thousandth of a
 * processor with 64 streams and a tenth of that with one (a metric of its own), so waiting for a
 * request would gain nothing; and a request never waits for the loop. */
#define LOG_TOPIC LOG_HTTP
#include "serve/observe/observe.h"

#include "base/clock.h"
#include "base/log.h"
#include "http/http.h"
#include "serve/state.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The folder of the daemon's socket: an absolute path, even where the socket's path is not. */
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
		.wake = loop_wake,
		.wake_context = &server->loop};
	if (strcmp(server->config->http, "off") == 0)
		return;
	if (http_new(&options, &server->publish.http, &fault)) {
		server->publish.http = NULL;
		recorder_notice(server, fault.text);
		return;
	}
	server->publish.address = http_address(server->publish.http);
	publish_tick(server);
	log_info("metrics and the page: %s", server->publish.address);
	if (http_is_open(server->publish.http))
		recorder_notice(server,
			"the page shows images and names of files to everyone who can reach its "
			"address: where others can, use 127.0.0.1 or a Unix socket (http, --http)");
}

void publish_tick(struct server *server)
{
	if (!server->publish.http)
		return;
	uint64_t begin = clock_thread_cpu_ns();
	char *status = status_server(server), *metrics = metrics_text(server);
	/* Without memory the old documents stay. */
	if (status)
		http_publish(server->publish.http, HTTP_STATUS, status);
	if (metrics)
		http_publish(server->publish.http, HTTP_METRICS, metrics);
	server->publish.cpu_ns = clock_thread_cpu_ns() - begin;
}

void publish_sheet(struct server *server)
{
	uint32_t stream;
	if (server->publish.http && http_sheet_wanted(server->publish.http, &stream))
		http_sheet_give(server->publish.http, sheet_copy(server, stream));
}

void publish_end(struct server *server)
{
	http_free(server->publish.http);
}

/* http: metrics, the page and the contact sheet, for browsers and Prometheus.
 *
 * A map of this folder:
 *   http.[ch]        this file: the server (libmicrohttpd, one thread) and its loop
 *   http_impl.h      what the files of the server share
 *   address.[ch]     where to listen, as people write it; whether a Host means this machine
 *   place.c          the connections: few, and each for a limited time
 *   answer.c         which request gets which answer
 *   document.c       a document that is served, with its header fields
 *   picture.c        contact sheets, from the request to the PNG
 *   exposition.[ch]  the two text formats of metrics
 *   sheet_png.[ch]   rows of a batch as a PNG and as JSON
 *   page.h           the page; page.cmake makes it from page/ when the daemon is built
 *   page/            HTML, style and script of the page
 *
 * The server knows nothing about streams. The event loop publishes whole documents once a second,
 * and this thread serves the newest, so no request, however slow, reaches the data path, and
 * neither do many of them. Only the contact sheet needs more: the event loop is woken, copies a few
 * rows and continues; a task here draws them. The server answers GET and HEAD for
 *
 *     /           the page
 *     /metrics    OpenMetrics text 1.0, or Prometheus text if the client asks for that
 *     /status     the JSON that `penstock status --json` prints
 *     /sheet      ?stream=NUMBER: the newest complete batch as a picture (PNG)
 *     /sheet.json what the rows of that picture are
 *     /healthz    200 while the event loop ticks, else 503
 *
 * and nothing else. It refuses a request whose Host is neither an address nor a name of this
 * machine, so that no web site can read from a visitor's daemon. There are at most HTTP_CONNECTIONS
 * connections, and each has HTTP_LIMIT_S for a request. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_CONNECTIONS = 64,
	HTTP_LIMIT_S = 10,
	HTTP_SHEET_ROWS = 36,
	HTTP_SHEET_BYTES = 4 << 20, /* of pixels that the event loop copies for one sheet */
};

struct http;

struct http_options {
	const char *address; /* as in address.h */
	const char *folder; /* of the daemon's socket: `auto` means http.sock in it */
	void (*wake)(void *context); /* called on any thread: http_sheet_wanted has news */
	void *wake_context;
};

enum http_document { HTTP_METRICS, HTTP_STATUS, HTTP_DOCUMENTS };

/* One row of a sheet: the caption that the page writes below it. */
struct http_sheet_row {
	uint64_t index;
	int64_t label;
	uint32_t flags; /* of its record */
	char class_name[64];
};

/* Some rows of a batch, copied: rows x height x width x 3 bytes, every `step`-th pixel of each. */
struct http_sheet {
	uint32_t stream, rows, height, width, step, batch_rows;
	uint64_t epoch, batch;
	uint8_t *pixels; /* in the same block as this (http_sheet_new, sheet_png.h) */
	struct http_sheet_row row[HTTP_SHEET_ROWS];
};

/* Listens and starts the thread. 0, or a negative errno with a fault that says where and what to
 * do: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EINVAL (not an address). The daemon can run without
 * the server. */
int http_new(const struct http_options *options, struct http **ret, struct fault *fault);

/* Where the server listens: "http://127.0.0.1:9470/" or "unix:/run/.../http.sock". */
const char *http_address(const struct http *http);
/* Whether clients on other machines can reach it. */
bool http_is_open(const struct http *http);

/* Takes over a malloc'ed text and serves it from now on. Event loop. */
void http_publish(struct http *http, enum http_document which, char *text);

/* Whether a client waits for a sheet, and of which stream (its place in /status). Event loop. */
bool http_sheet_wanted(struct http *http, uint32_t *ret_stream);
/* Takes over a sheet (http_sheet_new, sheet_png.h); NULL: the stream does not exist or has no batch
 * yet. Event loop. */
void http_sheet_give(struct http *http, struct http_sheet *sheet);

/* For the metrics: requests answered, requests refused by a limit, and open connections. */
struct http_stats {
	uint64_t requests, refused, connections;
};
void http_stats_read(struct http *http, struct http_stats *ret);

/* Ends the thread and every connection. NULL is allowed. */
void http_free(struct http *http);

/* For the configuration: 0 where `address` is an address or "off", else -EINVAL with a sentence.
 * Pure. */
int http_check_address(const char *address, struct fault *fault);

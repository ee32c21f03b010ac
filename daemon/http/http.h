/* http: metrics, the page and the contact sheet, for browsers and Prometheus.
 *
 * A map of this folder:
 *   http.[ch]        this door: the server (libmicrohttpd, one thread of its own)
 *   address.[ch]     where to listen, as people write it; whom a request means
 *   place.c          the connections: few, and none for ever
 *   answer.c         which request gets what
 *   picture.c        from the wish for a sheet to its PNG
 *   exposition.[ch]  the two texts of metrics
 *   sheet.[ch]       rows of a batch into a picture
 *   page.[ch]        the page, put together from page/ (HTML, style and script) when the daemon is
 *                    built; nothing is fetched from elsewhere
 *
 * It knows nothing of streams. The event loop publishes whole documents once a second and this
 * thread serves the newest, so that no request, slow or many, reaches the data path. Only the
 * contact sheet asks for something: the loop is woken, copies a few rows, and goes on; drawing them
 * is this thread's work. Answers GET and HEAD of
 *
 *     /           the page
 *     /metrics    OpenMetrics text 1.0, or Prometheus text where that is asked for
 *     /status     the JSON that `penstock status --json` prints
 *     /sheet      ?stream=NUMBER: the newest complete batch as a picture (PNG); what its rows are
 *                 is in /sheet.json
 *     /healthz    200 while the event loop ticks, else 503
 *
 * and nothing else. A request whose Host is neither an address nor the name of this machine is
 * refused, so that no web site can read from a visitor's daemon. Connections are few
 * (HTTP_CONNECTIONS) and have HTTP_LIMIT_S to say what they want. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_CONNECTIONS = 64,
	HTTP_LIMIT_S = 10,
	HTTP_SHEET_ROWS = 36,
	HTTP_SHEET_BYTES = 4 << 20, /* of pixels that the loop copies for one sheet */
};

struct http;

struct http_options {
	const char *address; /* as in address.h */
	const char *folder; /* of the daemon's socket: `auto` is http.sock there */
	void (*wake)(void *context); /* any thread: a sheet is wanted */
	void *wake_context;
};

enum http_document { HTTP_METRICS, HTTP_STATUS, HTTP_DOCUMENTS };

/* One row of a sheet: what the page writes below it. */
struct http_sheet_row {
	uint64_t index;
	int64_t label;
	uint32_t flags; /* of its record */
	char class_name[64];
};

/* A batch that was copied: rows x height x width x 3 bytes, each pixel the `step`-th of the row. */
struct http_sheet {
	uint32_t stream, rows, height, width, step, batch_rows;
	uint64_t epoch, batch;
	uint8_t *pixels; /* in the same block as this: http_sheet_new (sheet.h), free */
	struct http_sheet_row row[HTTP_SHEET_ROWS];
};

/* Listens and starts the thread. 0, or a negative errno with a fault that says where and what to
 * do: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES, -EINVAL for an address that is none. The daemon goes on
 * without it. */
int http_new(const struct http_options *options, struct http **ret, struct fault *fault);

/* Where it is to be found: "http://127.0.0.1:9470/" or "unix:/run/.../http.sock". */
const char *http_address(const struct http *http);
/* Whether others than the users of this machine may reach it. */
bool http_is_open(const struct http *http);

/* Takes a malloc'ed text and serves it from now on. Event loop. */
void http_publish(struct http *http, enum http_document which, char *text);

/* Whether somebody waits for a sheet, and of which stream (its place in /status). Event loop. */
bool http_sheet_wanted(struct http *http, uint32_t *ret_stream);
/* Takes the sheet, of http_sheet_new (sheet.h), and frees it (NULL: there is no such stream or no
 * batch yet). Event loop. */
void http_sheet_give(struct http *http, struct http_sheet *sheet);

/* Requests answered, refused (by limits), and the connections open now: for the metrics. */
struct http_stats {
	uint64_t requests, refused, connections;
};
void http_stats_read(struct http *http, struct http_stats *ret);

/* Ends the thread and every connection. NULL is nothing. */
void http_free(struct http *http);

/* Whether an address is one, or "off": 0, or -EINVAL with a sentence, for the configuration. Pure.
 */
int http_check_address(const char *address, struct fault *fault);

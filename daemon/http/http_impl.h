/* http_impl: what the files of the server share. Only this folder includes it.
 *
 * One thread (penstock-http) runs libmicrohttpd and everything here, in a loop of our own: so our
 * rules decide which connections are accepted and when they end. libmicrohttpd's only time limit is
 * one on silence. The lock protects what the event loop hands over. */
#pragma once

#include "base/task.h"
#include "http/address.h"
#include "http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
	HTTP_MEMORY = 16 << 10, /* of a connection, for the fields of its request and its answer */
	HTTP_ANSWER_S = 60, /* a client may read its answer for this long while places are free */
	HTTP_SEND_BYTES = 64 << 10, /* the send buffer of a socket */
	HTTP_HELD_BYTES = 8 << 20, /* answers that are outdated but still being sent */
	HTTP_ACCEPTS = 16, /* new connections in a row, before the others get their turn */
	HTTP_DEAF_MS = 1000, /* without descriptors, the pause before the next accept */
	HTTP_TICK_LATE_S = 5, /* the event loop publishes each second */
	HTTP_SHEET_FRESH_MS = 900, /* a sheet serves requests that come within this time */
	HTTP_SHEET_TURN_MS = 5, /* for libmicrohttpd to continue with resumed connections */
	HTTP_SHEET_WAIT_S = 5, /* for the event loop to copy rows */
	HTTP_SHEET_EVERY_MS = 200, /* between two requests to the event loop, of all streams */
	HTTP_SHEET_SHARE = 2, /* one place in this many may wait for a sheet */
	HTTP_NAMES = 4,
};

#define HTTP_MS_NS 1000000ull
#define HTTP_S_NS 1000000000ull

/* A document that is served, and kept for the next request. libmicrohttpd holds a reference of its
 * own while it sends it. */
struct document {
	struct MHD_Response *response; /* NULL: there is none */
	size_t bytes;
};

/* The place of a connection; free where fd is -1.
 *
 *   (accept) ──► waiting ──► asked ──► waiting ──► ...      waiting: for a whole request
 *                              └► suspended ─┘              suspended: for a sheet */
struct place {
	int fd;
	struct MHD_Connection *connection;
	bool asked; /* its request is complete and being answered */
	bool suspended, drawn; /* waits for a sheet; was resumed */
	bool doomed; /* shut down; libmicrohttpd has not noticed yet */
	uint32_t stream; /* the stream whose sheet it asks for */
	struct document answer; /* the one being sent; none for sentences */
	uint64_t since_ns; /* when it entered this state */
};

/* The sheet that was drawn last. It is kept because several browsers may show one stream, and each
 * asks for the picture and its text separately. */
struct picture {
	bool any; /* the stream existed and had a batch */
	uint32_t stream;
	uint64_t drawn_ns;
	struct document png, json;
};

/* A sheet in the making: requested, then copied by the event loop, then drawn by a task, so that a
 * scrape does not wait for the compression of a picture. */
struct drawing {
	bool asked;
	uint32_t stream;
	uint64_t asked_ns;
	struct http_sheet *sheet;
	struct task task; /* makes png and json of `sheet`: */
	uint8_t *png;
	size_t png_bytes;
	char *json;
};

struct http {
	void (*wake)(void *context);
	void *wake_context;
	struct address address;
	struct address_socket listener;
	char name[HTTP_NAMES][ADDRESS_HOST]; /* names of this machine that Host may have */
	int epoll_fd, wake_fd;
	pthread_t thread;
	bool thread_runs;
	struct MHD_Daemon *daemon;

	pthread_mutex_t lock; /* held for a few instructions */
	/* Under the lock: */
	bool stop;
	char *published[HTTP_DOCUMENTS]; /* newer than `served`; NULL: there is none */
	uint64_t published_ns;
	bool sheet_wanted, sheet_given;
	uint32_t sheet_stream;
	struct http_sheet *sheet;

	/* Only for the thread: */
	struct place place[HTTP_CONNECTIONS];
	unsigned places; /* how many of them may be used */
	uint64_t deaf_ns; /* no connection is accepted until then; 0: they are */
	bool complained; /* the log has the warning that no client can connect */
	char *text[HTTP_DOCUMENTS]; /* the text of `served`; metrics as OpenMetrics */
	struct document served[HTTP_DOCUMENTS], prometheus, page;
	struct picture picture;
	struct drawing drawing;

	_Atomic uint64_t requests, refused, connections; /* relaxed: counters */
};

static inline void http_count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* Wakes the thread, so that it looks at what has changed. Any thread; `context` is the struct
 * http. */
static inline void http_poke(void *context)
{
	const struct http *http = context;
	uint64_t one = 1;
	/* A full counter means that the thread is awake already. */
	ssize_t written = write(http->wake_fd, &one, sizeof one);
	(void)written;
}

/* http.c: one turn of the thread's loop, which waits at most this long (-1: without limit). Tests
 * call it without the thread. */
void http_turn(struct http *http, int timeout_ms);

/* place.c */
void place_accept(struct http *http);
/* Ends connections whose time is over, and those that the client has closed. */
void place_sweep(struct http *http);
/* How long nothing is due: milliseconds for epoll_wait, -1 without limit. */
int place_wait_ms(const struct http *http);
/* For libmicrohttpd: a connection has begun or ended. */
void place_notify(void *context, struct MHD_Connection *connection, void **socket_context,
	enum MHD_ConnectionNotificationCode code);
/* For libmicrohttpd: an answer is complete. */
void place_answered(void *context, struct MHD_Connection *connection, void **request,
	enum MHD_RequestTerminationCode code);

/* document.c: a response with the header fields that every answer has. With `owned`,
 * libmicrohttpd frees the bytes. NULL without memory. */
struct MHD_Response *document_response(
	const char *type, const void *bytes, size_t size, bool owned);
/* A document of these bytes; it has no response where memory ran out. */
struct document document_make(const char *type, const void *bytes, size_t size, bool owned);
void document_forget(struct document *document);

/* answer.c: for libmicrohttpd: a request has come. */
enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **request);
/* Finds the names of this machine that Host may have. */
void answer_learn_names(struct http *http);
void answer_deinit(struct http *http);

/* picture.c */
enum picture_outcome {
	PICTURE_HERE, /* here is the document; it has no response where there is no such sheet */
	PICTURE_LATER, /* the connection is suspended; answer_request is called again later */
	PICTURE_CROWDED, /* too many connections wait already */
};
/* The sheet of a stream, as a picture or its text. */
enum picture_outcome picture_of(
	struct http *http, struct place *place, uint32_t stream, bool json, struct document *ret);
/* Takes what the event loop or the task has finished, and gives up what took too long. True where
 * connections were resumed, so that MHD_run is due. */
bool picture_turn(struct http *http);
/* When picture_turn has something to do even without http_poke; UINT64_MAX: never. */
uint64_t picture_due_ns(const struct http *http);
void picture_deinit(struct http *http);

/* http_impl: what the files of the server share. Nobody else includes it.
 *
 * One thread (penstock-http) runs libmicrohttpd and everything here, in a loop of our own: so that
 * connections are taken, counted and ended by our rules and not by libmicrohttpd's, whose only
 * limit on time is one of silence. What the event loop hands over lies under the lock. */
#pragma once

#include "http/address.h"
#include "http/http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
	HTTP_MEMORY = 16 << 10, /* of a connection: its request's fields, and the answer's */
	HTTP_ANSWER_S = 60, /* for one that reads slowly, while nobody needs its place */
	HTTP_SEND_BYTES = 64 << 10, /* of an answer that the kernel takes before it is read */
	HTTP_HELD_BYTES = 8 << 20, /* of answers that newer ones have replaced, and that are read */
	HTTP_ACCEPTS = 16, /* taken at once, before those that are there are looked at */
	HTTP_DEAF_MS = 1000, /* without descriptors: until it is tried again */
	HTTP_TICK_LATE_S = 5, /* the event loop publishes each second */
	HTTP_SHEET_FRESH_MS = 900, /* a sheet is good for whoever asks within */
	HTTP_SHEET_TURN_MS = 5, /* for libmicrohttpd to come to those who go on */
	HTTP_SHEET_WAIT_S = 5, /* for the event loop to copy one */
	HTTP_SHEET_EVERY_MS = 200, /* the event loop is asked at most, of whichever stream */
	HTTP_SHEET_SHARE = 2, /* of the places: one in so many may wait for sheets */
	HTTP_NAMES = 4,
};

#define HTTP_MS_NS 1000000ull
#define HTTP_S_NS 1000000000ull

/* What is served: kept for who asks next. While it is being sent libmicrohttpd holds it too. */
struct document {
	struct MHD_Response *response; /* NULL: there is none */
	size_t bytes;
};

/* A connection's place. Free: fd is -1.
 *
 *   (accept) ──► waiting ──► asked ──► waiting ──► ...      waiting: for a whole request
 *                              └► suspended ─┘              suspended: for a sheet */
struct place {
	int fd;
	struct MHD_Connection *connection;
	bool asked; /* its request is complete and being answered */
	bool suspended, drawn; /* waits for a sheet; was waked */
	bool doomed; /* shut down; libmicrohttpd has yet to see it */
	uint32_t stream; /* that it wants a sheet of */
	struct document answer; /* that it is sent; none for sentences */
	uint64_t since_ns; /* when it got into this state */
};

/* The sheet drawn last: kept, since several may look at one stream, and its text is asked for
 * apart. */
struct picture {
	bool any; /* there was such a stream, with a batch */
	uint32_t stream;
	uint64_t drawn_ns;
	struct document png, json;
};

/* A sheet on its way: asked for, given by the event loop, drawn by a thread of its own, since a
 * scrape must not wait for a picture to be compressed. */
struct drawing {
	bool asked, started;
	uint32_t stream;
	uint64_t asked_ns;
	pthread_t thread;
	struct http *http;
	struct http_sheet *sheet;
	uint8_t *png;
	size_t png_bytes;
	char *json;
	atomic_bool done; /* release by the drawing thread, after all of the above */
};

struct http {
	void (*wake)(void *context);
	void *wake_context;
	struct address address;
	struct address_socket listener;
	char name[HTTP_NAMES][ADDRESS_HOST]; /* of this machine: whom Host may mean */
	int epoll_fd, wake_fd;
	pthread_t thread;
	bool thread_runs;
	struct MHD_Daemon *daemon;

	pthread_mutex_t lock; /* held for a few instructions */
	bool stop;
	char *published[HTTP_DOCUMENTS]; /* newer than `document`; NULL: there is none */
	uint64_t published_ns;
	bool sheet_wanted, sheet_given;
	uint32_t sheet_stream;
	struct http_sheet *sheet;

	/* the thread's own */
	struct place place[HTTP_CONNECTIONS];
	unsigned places; /* of them in use at most */
	uint64_t deaf_ns; /* the listener is not looked at until then; 0: it is */
	bool complained; /* that nobody can connect: it is said once, until somebody can again */
	char *text[HTTP_DOCUMENTS]; /* of what is served; metrics: as OpenMetrics */
	struct document served[HTTP_DOCUMENTS], prometheus, page;
	struct picture picture;
	struct drawing drawing;

	_Atomic uint64_t requests, refused, connections; /* relaxed: counters */
};

static inline void http_count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* http.c: makes the thread look at what changed. Any thread. */
void http_poke(struct http *http);
/* One turn of its loop, which waits at most so long (-1: for ever): also for a test without it. */
void http_turn(struct http *http, int timeout_ms);

/* place.c */
void place_accept(struct http *http);
/* Ends those whose time is over, and those that nothing more can come from. */
void place_sweep(struct http *http);
/* Until when nothing is due: milliseconds for epoll_wait, -1 for ever. */
int place_wait_ms(const struct http *http);
/* Tells which place a connection of libmicrohttpd's has, and that it begins and ends. */
void place_notify(void *context, struct MHD_Connection *connection, void **socket_context,
	enum MHD_ConnectionNotificationCode code);
/* An answer is complete. */
void place_answered(void *context, struct MHD_Connection *connection, void **request,
	enum MHD_RequestTerminationCode code);

/* answer.c */
enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *upload, size_t *upload_size,
	void **request);
/* Whom Host may mean. */
void answer_learn_names(struct http *http);
void answer_deinit(struct http *http);
/* A document of these bytes, which it frees where `owned`; none when memory is out. */
struct document answer_make(const char *type, const void *bytes, size_t size, bool owned);
void answer_forget(struct document *document);

/* picture.c */
enum picture_outcome {
	PICTURE_HERE, /* the document may be none: there is no such sheet */
	PICTURE_LATER, /* the connection is suspended, and answer_request is called again */
	PICTURE_CROWDED, /* too many wait */
};
/* The sheet of a stream. */
enum picture_outcome picture_of(
	struct http *http, struct place *place, uint32_t stream, bool json, struct document *ret);
/* Goes on with what the event loop or the drawing thread has done, and with what took too long. */
bool picture_turn(struct http *http); /* true: connections go on, MHD_run is due */
/* When picture_turn has something to do though nobody pokes; UINT64_MAX: never. */
uint64_t picture_due_ns(const struct http *http);
void picture_deinit(struct http *http);

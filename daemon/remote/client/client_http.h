/* client_http: the frame of an answer of HTTP/1.1 (RFC 9112): where its lines, its body and its end
 * are. What the fields of the header mean to a request is in client_answer.c.
 *
 * The caller has the bytes, and gives them as they come:
 *
 *   struct client_http http = {.head = method is HEAD};
 *   size_t used;
 *   while ((event = client_http_next(&http, bytes, size, &used)) > HTTP_MORE) {
 *           look at the first `used` bytes; bytes += used; size -= used;
 *   }
 *
 * Bytes of a body need not pass through it: client_http_room tells how many of the next bytes are
 * the body's, and client_http_took that they came.
 *
 * The bytes are not trusted. An answer that two readers could read in two ways (two lengths, a
 * length of which a part is a number, a field that is continued on the next line) is refused, or is
 * the last one of its connection. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_HEADERS_MAX = 64 << 10, /* bytes of an answer's headers, interim answers included */
	HTTP_CHUNK_LINE_MAX = 4096, /* bytes of the line before a chunk */
};

enum client_http_state {
	HTTP_STATUS, /* a status line comes */
	HTTP_FIELDS,
	HTTP_BODY, /* `left` bytes */
	HTTP_UNTIL_CLOSED,
	HTTP_CHUNK_SIZE,
	HTTP_CHUNK, /* `left` bytes */
	HTTP_CHUNK_END, /* the end of the line after a chunk */
	HTTP_TRAILER,
	HTTP_ENDED,
};

/* Zeroed, but for `head`, before the first byte. */
struct client_http {
	enum client_http_state state;
	bool head; /* the request was a HEAD: the answer has no body, whatever its header says */
	bool ends; /* the connection ends after this answer */
	bool framing; /* the last field told how long the body is */
	bool has_length, chunked;
	unsigned status, minor; /* HTTP/1.minor */
	size_t bytes; /* of headers */
	uint64_t length, left;
	const char *wrong; /* with HTTP_WRONG: why, "the answer ..." */
	bool endless; /* it is wrong because the headers do not end */
};

enum client_http_event {
	HTTP_WRONG = -1,
	HTTP_MORE, /* nothing to tell: more bytes are needed */
	HTTP_PASS, /* these bytes are neither: they are passed over */
	HTTP_LINE, /* these bytes are a line of the header, with its end */
	HTTP_HEAD, /* these bytes end the header: status and length are known */
	HTTP_BYTES, /* these bytes are the body's */
	HTTP_END, /* the answer has ended; bytes that are left are not part of it */
};

/* Looks at the bytes that follow those that were used before. *ret_used is how many of them the
 * event is about: 0 for HTTP_WRONG, HTTP_MORE and HTTP_END. After HTTP_MORE the caller gives the
 * same bytes again, with more of them. */
enum client_http_event client_http_next(
	struct client_http *http, const char *bytes, size_t size, size_t *ret_used);

/* How many of the next bytes are the body's, at most; 0: a line, or nothing, comes next. */
uint64_t client_http_room(const struct client_http *http);
void client_http_took(struct client_http *http, uint64_t bytes);

/* The connection was closed. Returns whether the answer is whole. */
bool client_http_closed(struct client_http *http);

/* client: requests to object stores and web servers, on one thread of its own.
 *
 * A map of this folder:
 *   client.[ch]          requests: begun, canceled, waited for; the thread
 *   client_request.c     the life of a request: queue, retries, redirects, hedges, time
 *   client_attempt.c     one attempt of a request: its headers, and which way it takes
 *   client_direct.c      GET and HEAD over a connection of the client's own
 *   client_transfer.c    requests with a body, and by odd ways: a transfer of libcurl
 *   client_body.c        what of an answer is stored
 *   client_connection.c  connections, made by libcurl and kept
 *   client_headers.c     the lines of a request
 *   client_signed.c      what `sign` answered, for a while
 *   client_http.[ch]     the frame of an answer: lines, body, end
 *   client_curl.c        what all handles of libcurl have in common
 *   client_loop.c        all sockets in an epoll
 *   client_sockets.c     whose each socket is
 *   client_place.c       a server: its limit of connections, waits, first-byte times
 *   client_answer.c      the headers of an answer
 *   client_error.c       what an error means, and its sentence
 *   client_impl.h        what these files share
 *   client_names.c       names of enums
 *   client_absent.c      refuses requests in builds without libcurl
 *
 * A request is what the caller wants: these bytes of that object. The client makes attempts of it
 * until one is answered, and continues a body that was cut off at the byte that is missing. It
 * retries 408, 429, 5xx, resets, refused connections and stalls, with waits that are random up to a
 * bound that doubles (full jitter), and gives up when `timeout_s` have passed without progress. A
 * second attempt of a slow request may race the first; the first one that delivers a byte of the
 * body wins, and no byte of the other is ever stored.
 *
 * Bytes are stored in the caller's buffer, once, at their place. A body is checked against what was
 * asked for: status, Content-Range, length and ETag.
 *
 * The client knows nothing of S3's signatures and credentials: `sign` adds them (remote/auth). It
 * follows redirects itself, and asks `allowed` about each. It always verifies TLS.
 *
 * HTTP/1.1 only: a store serves one object's parts faster over many connections than over one.
 * libcurl makes the connections; what is read is received without it, at its place in the caller's
 * buffer (docs/design/decisions/receiving-is-ours.md).
 *
 * Thread: all functions may be called on any thread, and `done` is called on the client's. */
#pragma once

#include "base/fault.h"
#include "base/list.h"
#include "stats/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CLIENT_URL = 10240, /* bytes of an address, with the zero */
	CLIENT_ETAG = 160, /* bytes of an ETag, with its quotes and the zero */
	CLIENT_CODE = 64, /* bytes of a store's error code: "NoSuchKey" */
	CLIENT_REGION = 64,
	CLIENT_TYPE = 64, /* bytes of a content type */
	CLIENT_WAITING = 256, /* bytes of the sentence about what is waited for */
};

struct client;
struct client_request;
struct client_headers;

enum client_method { CLIENT_GET, CLIENT_HEAD, CLIENT_PUT, CLIENT_POST, CLIENT_DELETE };

enum client_flags {
	CLIENT_UNSIGNED = 1, /* `sign` is not called: for metadata services and tokens */
	CLIENT_URGENT = 2, /* before all that wait: a listing, an index */
	CLIENT_ONCE = 4, /* one attempt: what must not happen twice, or is better not waited for */
	CLIENT_DIRECT = 8, /* not through a proxy: the metadata service of a machine */
	CLIENT_STAY = 16, /* redirects are errors: the headers or the body are secrets */
};

/* One attempt that is about to be sent, for `sign`. */
struct client_signing {
	const struct client_request *request;
	const char *method; /* "GET" */
	const char *url; /* the request's; or, where `redirected`, where a server sent it to */
	bool redirected;
	/* A redirect left the scheme, host and port of the address before: credentials that are
	 * bound to these must not be added. */
	bool foreign;
	int64_t clock_offset_s; /* add it to this machine's clock: the server's */
	unsigned attempt; /* of this request, from 0 */
	/* The address, where it is not `url`: http:// or https://, encoded. Empty at first. */
	char *ret_url; /* CLIENT_URL bytes */
	struct client_headers *headers; /* client_header_add */
	/* For how long the same answer is good for other requests for this URL, whatever their
	 * range is; 0: not at all. A refusal and client_credentials_changed end it. */
	unsigned ret_valid_s;
};

/* Adds a header ("x-amz-date", "2026..."). A value with a control character is refused. 0; -EINVAL;
 * -ENOMEM. */
int client_header_add(struct client_headers *headers, const char *name, const char *value);

/* Adds the headers that authorize an attempt, and makes the address of URLs that are not addresses
 * (s3://...). On the client's thread: does not block. 0; -EAGAIN: credentials are being fetched,
 * asks again in a moment; another negative errno: the request fails with the fault. */
typedef int client_sign_fn(void *context, struct client_signing *signing, struct fault *fault);

/* A server's answer refused who asks or the region that it was asked in. */
struct client_refusal {
	unsigned status; /* 301, 307, 400, 401, 403 */
	const char *code; /* of the store: "ExpiredToken"; "" where it gave none */
	const char *region; /* x-amz-bucket-region or the one in the error; "" where it gave none */
};

/* Whether another attempt may be answered better: the credentials are being refreshed, or `sign`
 * uses another region from now on. On the client's thread: does not block. At most 4 times for a
 * request. */
typedef bool client_refused_fn(
	void *context, const struct client_request *request, const struct client_refusal *refusal);

/* Whether a redirect may be followed. 0; a negative errno with a sentence. */
typedef int client_allowed_fn(void *context, const char *url, struct fault *fault);

struct client_options {
	/* At once to one server; 0: 64. With several servers an eighth more, and always one to a
	 * server that has none. */
	unsigned connections;
	uint64_t bandwidth; /* bytes received in a second, of all requests; 0: no limit */
	unsigned timeout_s; /* without progress until a request fails; 0: 300 */
	double hedge; /* share of requests that may be sent twice; 0: none */
	unsigned stall_ms; /* without a byte until an attempt is given up; 0: chosen */
	unsigned backoff_ms; /* bound of the first wait before a retry; 0: 100 */
	client_sign_fn *sign; /* NULL: nothing is added */
	client_refused_fn *refused; /* NULL: a refusal is final */
	client_allowed_fn *allowed; /* NULL: redirects stay on their host and port */
	void *context; /* of these three */
};

/* What a server said about an object. */
struct client_answer {
	char etag[CLIENT_ETAG]; /* as sent, with quotes; "" where there is none */
	uint64_t size; /* of the whole object; CLIENT_UNKNOWN */
	int64_t modified_s; /* Last-Modified, since 1970; -1 where there is none */
	int64_t date_s; /* Date; -1 */
	char type[CLIENT_TYPE]; /* Content-Type */
	bool ranges; /* the answer shows that ranges are served */
};
#define CLIENT_UNKNOWN UINT64_MAX

/* Zeroed, then filled by the caller; must stay where it is until `done`. */
struct client_request {
	enum client_method method;
	unsigned flags;
	const char *url; /* what `sign` takes; else http:// or https:// */
	const char *etag; /* GET: If-Match; NULL: none */
	/* GET: exactly `size` bytes from `offset` on. Size 0: the whole body, at most `room` bytes
	 * (-EFBIG if it is longer). Answers to other methods are stored in the same way. */
	uint64_t offset, size;
	uint8_t *buffer;
	size_t room; /* where size is 0 */
	/* PUT and POST. `body` NULL and body_size above 0: body_read gives the bytes; it is called
	 * on the client's thread, again from byte 0 on for a new attempt. */
	const void *body;
	uint64_t body_size;
	int (*body_read)(
		struct client_request *request, uint64_t offset, void *buffer, size_t size);
	const char *body_sha256; /* hex, for `sign`; NULL: it may hash `body` itself */
	const char *const *headers; /* "Name: value" more to send; NULL at the end; NULL: none */
	unsigned timeout_s; /* 0: the client's */
	/* Where the answer's header Link is copied to, "" if there is none; NULL: nowhere. */
	char *link;
	size_t link_room;
	void (*done)(struct client_request *request); /* must not block; may free the request */
	void *context;

	/* Results, when `done` is called. */
	int result; /* 0, or a negative errno with the fault */
	unsigned status; /* of the last answer; 0: none came */
	uint64_t received; /* bytes that are in the buffer */
	struct client_answer answer; /* of the last answer that was not an error */
	char code[CLIENT_CODE]; /* the store's error code; "" */
	struct fault fault;

	/* The client's. */
	struct {
		struct list_node node, cancel_node;
		struct client_attempt *attempt, *rival;
		struct client_place *place;
		char *location; /* where redirects led; NULL */
		uint64_t begun_ns, step_ns, step_bytes, due_ns;
		unsigned attempts, failures, stalls, wrong, redirects, refusals, state;
		bool canceling, ended, location_foreign;
	} own;
};

/* Starts the thread. 0; -ENOTSUP: this build has no libcurl; -errno. */
int client_start(const struct client_options *options, struct client **ret, struct fault *fault);

/* Cancels what runs and waits for the thread. No other function may be running or called later.
 * NULL is allowed. */
void client_stop(struct client *client);

/* Begins a request. `done` is always called, never within this function. */
void client_begin(struct client *client, struct client_request *request);

/* Ends a request early: `done` is called with -ECANCELED, or with a result that was there already.
 * The request must not have been freed: the caller makes sure that `done` does not free it while
 * this runs. When `done` is called, nothing writes to the buffer any more. */
void client_cancel(struct client *client, struct client_request *request);

/* Begins a request and waits for its end; `done` is set by this function. Not on the client's
 * thread. Returns the request's result; its fault is copied. -ECANCELED where the thread is
 * interrupted (remote/interrupt.h). */
int client_perform(struct client *client, struct client_request *request, struct fault *fault);

/* Makes requests whose `sign` answered -EAGAIN ask again now. */
void client_credentials_changed(struct client *client);

enum client_retry {
	CLIENT_RETRY_CONNECT, /* no connection: refused, unreachable, name not found */
	CLIENT_RETRY_RESET, /* the connection ended before the body did */
	CLIENT_RETRY_STALL, /* no byte came for too long, or too few */
	CLIENT_RETRY_STATUS, /* 408, 500, 502, 504 and so on */
	CLIENT_RETRY_SLOWDOWN, /* 429, 503 */
	CLIENT_RETRY_ANSWER, /* an answer that does not fit: a wrong range, HTML, endless headers */
	CLIENT_RETRY_REFUSED, /* credentials or region */
	CLIENT_RETRY_TLS, /* a handshake that failed without saying why */
	CLIENT_RETRIES
};

struct client_stats {
	uint64_t requests; /* sent, retries and hedges included */
	uint64_t done, failed, canceled; /* of the callers' */
	uint64_t bytes; /* of bodies, received */
	uint64_t bytes_wasted; /* of these, not stored: before a range, of losers, of errors */
	uint64_t retries[CLIENT_RETRIES];
	uint64_t hedges, hedges_won;
	uint64_t slowdowns; /* times that the number of connections was halved */
	uint64_t connects; /* new connections */
	uint64_t redirects;
	uint64_t throttled_ns; /* with transfers paused by the limit of bandwidth */
	uint64_t waiting_ns; /* with requests for servers that do not answer */
	unsigned connections, connections_limit; /* with a request now; allowed now */
	unsigned queued; /* requests that wait for a connection or for a retry */
	struct histogram first_byte; /* from sending a request to the first byte of its body */
	char waiting[CLIENT_WAITING]; /* "waiting for https://host: connection refused for 12 s" */
};
void client_stats_read(struct client *client, struct client_stats *ret);

/* "stall" and so on, for metrics. Pure. */
const char *client_retry_name(enum client_retry reason);

/* For `penstock --version`: "s3, gs, hf, https, http (libcurl 7.88.1, OpenSSL 3.0.19)", or why this
 * build reads no URLs. Returns `buffer`. */
enum { CLIENT_DESCRIPTION = 160 };
const char *client_describe(char buffer[CLIENT_DESCRIPTION]);

/* NULL, or the sentence that says why this build reads no URLs. Pure. */
const char *client_refused(void);

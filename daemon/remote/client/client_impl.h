/* client_impl: what the files of this folder share. Everything belongs to the client's thread,
 * except what `lock` guards.
 *
 * The files call downward only: client.c calls client_request.c and client_loop.c; the first calls
 * client_attempt.c and client_place.c, both call what sends and receives (client_direct.c,
 * client_transfer.c), and that calls client_connection.c and client_body.c. */
#pragma once

#include "remote/client/client.h"
#include "remote/client/client_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
	PLACE_MAX = 64, /* servers whose state is kept */
	PLACE_NAME = 320,
	PLACE_SAMPLES = 256, /* first-byte times that the quantiles are of */
	ANSWER_HEADERS_MAX = HTTP_HEADERS_MAX, /* bytes of an answer's headers */
	ANSWER_ERROR_MAX = 4096, /* bytes of an error's body that are looked at */
	CLIENT_HEADER = 8192, /* bytes of a header that is sent, with the zero */
	CONNECTION_IDLE_S = 4, /* S3 closes connections that are idle for 5 s */
	CLIENT_SCRATCH = 64 << 10,
	CLIENT_EXCESS = 64,
	SIGNED_MAX = 64, /* URLs for which an answer of `sign` is kept */
};

#define CLIENT_MS 1000000u
#define CLIENT_S 1000000000u
#define CLIENT_AGENT "penstock/" PENSTOCK_VERSION

/* A server: the scheme, host and port of a request's URL (for s3:// the bucket). */
struct client_place {
	char name[PLACE_NAME]; /* "" while unused */
	size_t name_size;
	char host[PLACE_NAME]; /* scheme, host and port that the last attempt was sent to */
	char why[96]; /* of the last failure */
	struct list_head queue; /* requests that wait for a connection */
	double limit; /* attempts at once */
	double tokens; /* retries that may begin now; negative: they wait */
	double refused; /* how much speaks for a store that wants fewer requests */
	uint64_t tokens_ns, halved_ns, grown_ns, gone_ns, used_ns;
	uint64_t p95_ns, p99_ns; /* of first bytes; 0: too few are known */
	int64_t clock_offset_s;
	uint32_t first_us[PLACE_SAMPLES];
	unsigned samples, running, users;
	bool worked; /* an answer came, ever */
	bool useful; /* an answer came since the limit grew */
};

/* What an answer's headers say. */
struct answer_head {
	unsigned status;
	size_t bytes; /* of headers */
	struct client_answer answer;
	uint64_t length; /* Content-Length; CLIENT_UNKNOWN */
	bool has_range;
	uint64_t range_first, range_last, range_total; /* of Content-Range; total may be unknown */
	bool multipart; /* several ranges, which were not asked for */
	unsigned retry_after_s;
	char region[CLIENT_REGION];
};

enum attempt_mode { ATTEMPT_UNDECIDED, ATTEMPT_STORE, ATTEMPT_ERROR };

/* Text of lines that end in CR LF. It grows, and is kept for the next request. */
struct client_headers {
	char *text;
	size_t used, room;
};

/* The text from a place on; "" where nothing was ever appended. */
static inline const char *client_headers_at(const struct client_headers *headers, size_t at)
{
	return headers->text ? headers->text + at : "";
}

struct client_attempt {
	/* What each tick looks at, together. */
	struct list_node node; /* of the client's running ones, or of its spare ones */
	struct client_request *request;
	uint64_t heard_ns; /* last time anything came, or was sent */
	uint64_t started_ns;
	uint64_t first_ns; /* first byte that counts; 0 */
	uint64_t mark_ns, mark_bytes; /* the window in which slow drip is noticed */
	uint64_t got; /* bytes of the body */
	bool paused, is_rival;

	bool retry_wrong; /* `wrong` may be different in another attempt */
	bool complete; /* all bytes that are wanted came: it was ended on purpose */
	bool lost; /* another attempt of the request won */
	bool tired; /* the limit of bandwidth is used up: it is to be paused */
	bool direct; /* it is sent by client_direct.c, not by client_transfer.c */
	enum attempt_mode mode;
	int wrong; /* why what the server sent ended it: a negative errno with `fault`; 0 */
	int os_error; /* errno of connecting; 0 */
	struct client *client;
	uint64_t skip; /* bytes to pass over */
	uint64_t expected; /* bytes that were in the buffer when it began */
	struct client_headers headers; /* what was asked for, without what every request has */
	struct answer_head head;
	size_t error_size;
	char error[ANSWER_ERROR_MAX + 1];
	char curl_error[CURL_ERROR_SIZE]; /* libcurl's words, or words as libcurl has them */
	char address[CLIENT_URL];
	struct fault fault;

	/* Of client_direct.c. */
	const char *path; /* in `address`: where the path begins */
	struct client_connection *connection; /* NULL: it has ended */
	struct client_http http;
	struct client_headers text; /* the whole request */
	size_t text_sent;
	char *input; /* of the header, and of lines between chunks */
	size_t input_size, input_room;
	char *location; /* the header Location; NULL */
	struct list_node over_node;
	bool over; /* on the client's list of those that have ended, with `code` */
	CURLcode code;

	/* Of client_transfer.c. */
	CURL *easy;
	struct curl_slist *list; /* `headers` as libcurl takes them */
	uint64_t sent; /* bytes of the request's body */
	bool custom; /* `easy` has settings that are not every attempt's */
	bool added; /* `easy` is in the multi handle */
};

enum connection_state { CONNECTION_MAKING, CONNECTION_BUSY, CONNECTION_IDLE };

/* A connection that the client itself sends and receives on. */
struct client_connection {
	struct list_node node; /* of those that are being made, or idle */
	struct client *client;
	struct client_attempt *attempt; /* NULL: idle */
	enum connection_state state;
	CURLM *multi; /* with `easy`: while it is made, and with TLS; NULL */
	CURL *easy;
	int fd; /* -1: it is being made */
	uint32_t events; /* that are waited for */
	bool tls;
	bool reused; /* it had a request before */
	int os_error; /* why it was not made; 0 */
	uint64_t idle_ns; /* since when */
	uint64_t timer_ns; /* when libcurl wants to be called; UINT64_MAX */
	char error[CURL_ERROR_SIZE];
	char origin[]; /* "https://host:port", as in the address */
};

/* An answer of `sign`: URL and address, each with its zero, then headers. */
struct client_signed {
	uint64_t until_ns; /* 0: unused */
	enum client_method method;
	int64_t clock_offset_s;
	struct client_headers text;
	size_t address, lines; /* where they begin */
};

struct client {
	struct client_options options;
	char *ca_file, *ca_path; /* of the environment; NULL: libcurl's */
	pthread_t thread;
	pthread_mutex_t lock; /* of these: */
	struct list_head inbox, cancels;
	struct client_stats published;
	bool stopping, credentials_changed;

	int epoll, wake; /* `wake` is an eventfd */
	struct client_connection **sockets; /* by number; NULL: of `multi`, or nothing */
	size_t sockets_room;
	CURLSH *share; /* names and TLS sessions of all handles */
	CURLM *multi; /* of libcurl's own transfers */
	uint64_t timer_ns; /* when libcurl wants to be called; UINT64_MAX */
	bool proxied; /* http:// may go through a proxy */
	struct list_head making, idle; /* connections; of idle ones the latest first */
	unsigned idle_count;
	struct list_head over; /* attempts that have ended, until client_request_ended */
	struct client_signed signed_ones[SIGNED_MAX];
	uint8_t scratch[CLIENT_SCRATCH]; /* for bytes that are not stored */
	uint8_t excess[CLIENT_EXCESS]; /* and for those after a body */
	uint64_t now_ns, tick_ns;
	uint64_t random;
	struct list_head running, spare; /* attempts */
	struct list_head waiting; /* requests until their due_ns */
	unsigned queued, active; /* requests on a list; attempts */
	bool losers; /* an attempt lost, and is still there */
	double hedge_tokens; /* requests that may be sent a second time */
	bool behind; /* the last look at the attempts was put off */
	double hedge_owed; /* of these, what the requests to come pay for */
	double bandwidth_tokens; /* bytes */
	uint64_t bandwidth_ns;
	bool throttled;
	unsigned next_place, ticks;
	unsigned places_end; /* after the last place that was ever used */
	uint64_t published_ns;
	struct client_place places[PLACE_MAX];
	struct client_stats stats;
};

/* client_answer.c: pure. */
void client_answer_reset(struct answer_head *head);
/* One line, with or without its end. -EBADMSG: more headers than ANSWER_HEADERS_MAX. */
int client_answer_header(struct answer_head *head, const char *line, size_t size);
/* Whether two ETags name the same bytes; a weak one is compared by its text. */
bool client_answer_same_etag(const char *a, const char *b);

/* client_error.c: pure. */
/* Copies text without what a terminal could obey; at most `size` bytes of it. */
void client_error_clean(const char *text, size_t size, char *buffer, size_t room);
/* Copies a URL without password and query. */
void client_error_url(const char *url, char *buffer, size_t room);
/* "https://host:port" of an address; everything up to the path. */
void client_error_origin(const char *url, char *buffer, size_t room);
struct error_body {
	char code[CLIENT_CODE], region[CLIENT_REGION], message[200];
};
void client_error_read(const char *body, size_t size, struct error_body *ret);
/* Empties what repeats a header that authorizes: some servers show the request. */
void client_error_hide(
	struct error_body *body, const struct client_headers *headers, const char *address);
/* The result and the sentence for an answer that is an error. */
int client_error_answer(const struct client_request *request, unsigned status,
	const struct error_body *body, struct fault *fault);
/* The same for an attempt that had no answer. */
int client_error_transport(const struct client_request *request, CURLcode code, const char *detail,
	struct fault *fault);
/* What to do after an error. */
enum error_class {
	ERROR_FINAL,
	ERROR_RETRY, /* with `reason` */
	ERROR_REFUSED, /* asks `refused` */
	ERROR_CLOCK, /* the request's time is too far from the server's */
};
enum error_class client_error_classify_answer(
	unsigned status, const char *code, enum client_retry *ret_reason);
enum error_class client_error_classify_transport(CURLcode code, enum client_retry *ret_reason);

/* client_place.c: pure. */
void client_place_begin(
	struct client_place *place, const char *name, unsigned connections, uint64_t now);
/* The store refused a request with 503 or the like. `plainly`: in words that are about the rate of
 * this client (429, Retry-After). Returns whether the limit was halved: where more than about a
 * tenth of the latest requests were refused, or plainly; at most once in half a second, since one
 * burst of answers is one event. */
bool client_place_slow_down(struct client_place *place, bool plainly, uint64_t now);
/* Lets the limit grow by a sixteenth of `connections` in a tenth of a second that had answers. */
void client_place_grow(struct client_place *place, unsigned connections, uint64_t now);
void client_place_first_byte(struct client_place *place, uint64_t ns);
/* How long a request waits for its first byte before it is sent a second time, where `saved` more
 * requests may be sent: the p95, and up to three times as long while few are saved, so that these
 * go to the requests that wait longest. */
uint64_t client_place_hedge_ns(const struct client_place *place, double saved);
/* How long an attempt may be without a byte until it is given up: 20 times the p99 of first bytes,
 * and 5 times while few requests fail; from 1 to 10 s. */
uint64_t client_place_stall_ns(const struct client_place *place, uint64_t now);
/* Whether a second attempt may begin now: a little beyond the limit, but not while the store wants
 * fewer requests. */
bool client_place_may_hedge(const struct client_place *place, unsigned connections, uint64_t now);
/* How long to wait before retry `failures` (from 1): random up to a bound that doubles, and longer
 * while more requests fail than are answered. Where few fail, the first retries wait less: a
 * sixteenth of the first bound, then four times as long each. */
uint64_t client_place_backoff(struct client_place *place, unsigned failures, uint64_t base_ns,
	uint64_t cap_ns, uint64_t *random, uint64_t now);
void client_place_failed(struct client_place *place, const char *why, uint64_t now);
void client_place_answered(struct client_place *place, uint64_t now);

/* client_headers.c. 0 or -ENOMEM. */
int client_headers_append(struct client_headers *headers, const char *text, size_t size);
int client_headers_text(struct client_headers *headers, const char *text);
int client_headers_number(struct client_headers *headers, uint64_t value);

/* client_signed.c. */
/* Fills the address and adds the headers that were kept for such a request. False: none were. */
bool client_signed_find(struct client_attempt *attempt);
/* Keeps the address, and the headers after the first `before` bytes. */
void client_signed_keep(struct client_attempt *attempt, size_t before, unsigned valid_s);
void client_signed_forget(struct client *client);
void client_signed_free(struct client *client);

/* client_curl.c. */
int client_curl_start(struct client *client);
void client_curl_stop(struct client *client);
/* Sets what all handles have in common. */
void client_curl_prepare(const struct client *client, CURL *easy);

/* client_sockets.c. */
/* Waits for these events on a socket of `owner`; NULL: of `multi`. 0 or -errno. */
int client_sockets_watch(
	struct client *client, int fd, uint32_t events, struct client_connection *owner);
void client_sockets_forget(struct client *client, int fd);
/* Forgets all sockets of one. */
void client_sockets_disown(struct client *client, const struct client_connection *owner);
struct client_connection *client_sockets_owner(const struct client *client, int fd);

/* client_connection.c. */
/* An idle connection to a server, unless `fresh`, or one that is being made. NULL: no memory. */
struct client_connection *client_connection_take(
	struct client *client, struct client_attempt *attempt, const char *origin, bool fresh);
/* Keeps it for the next request, or closes it. */
void client_connection_give(struct client_connection *connection);
void client_connection_close(struct client_connection *connection);
void client_connection_close_all(struct client *client);
/* Lets libcurl continue to make it, after events of a socket, or CURL_SOCKET_TIMEOUT. Returns
 * whether that has ended: CURLE_OK, and it can be used; or why not, with `error`. */
bool client_connection_advance(
	struct client_connection *connection, int fd, uint32_t events, CURLcode *ret_code);
/* Waits for these events; 0: for none. */
int client_connection_watch(struct client_connection *connection, uint32_t events);
/* Whether nothing came on an idle one. */
bool client_connection_is_quiet(struct client_connection *connection);
/* Acknowledges at once what was received. A server that sends its last, short packet only after
 * that (Nagle's algorithm) would otherwise wait for 40 ms. */
void client_connection_acknowledge(const struct client_connection *connection);
/* 0; -EAGAIN; another negative errno. */
int client_connection_send(
	struct client_connection *connection, const void *bytes, size_t size, size_t *ret_sent);
/* With TLS into the first part only. 0: *ret_got bytes came, none where the other end has closed
 * it; -EAGAIN; another negative errno. */
int client_connection_receive(struct client_connection *connection, const struct iovec *parts,
	int count, size_t *ret_got);

/* client_body.c. */
bool client_body_is_ranged(const struct client_request *request);
/* The ETag that the bytes must have: the caller's, or that of the bytes that are stored already. */
const char *client_body_etag(const struct client_request *request);
/* Ends the attempt because of what the server sent. */
__attribute__((format(printf, 4, 5))) void client_body_wrong(
	struct client_attempt *attempt, int code, bool retry, const char *format, ...);
/* The headers do not end. */
void client_body_endless(struct client_attempt *attempt);
/* A line of the header. False: the transfer stops. */
bool client_body_header(struct client_attempt *attempt, const char *line, size_t size);
/* Decides by the header what the body is, if that is not decided yet. */
void client_body_decide(struct client_attempt *attempt);
/* Bytes of the body, at `data` or already where client_body_target said. False: the transfer
 * stops. */
bool client_body_take(struct client_attempt *attempt, const char *data, size_t size);
/* Where the next bytes of the body are stored; NULL: nowhere, or they are not known to be. */
uint8_t *client_body_target(const struct client_attempt *attempt, size_t *ret_space);
/* An answer without a body: decides what it is. */
void client_body_settle(struct client_attempt *attempt);

/* client_direct.c and client_transfer.c: the two ways of an attempt. */
/* Whether it can go directly; sets its `path`. */
bool client_direct_fits(struct client_attempt *attempt);
int client_direct_begin(struct client_attempt *attempt, const char *method);
int client_transfer_begin(struct client_attempt *attempt);
/* Nothing of it is called any more. Also of one that did not begin. */
void client_direct_stop(struct client_attempt *attempt);
void client_transfer_stop(struct client_attempt *attempt);
/* After a pause. */
void client_direct_resume(struct client_attempt *attempt);
void client_transfer_resume(struct client_attempt *attempt);
/* Where a redirect leads, to be freed; NULL. */
char *client_direct_redirect(const struct client_attempt *attempt);
char *client_transfer_redirect(const struct client_attempt *attempt);
int client_transfer_os_error(const struct client_attempt *attempt);
/* Events of a connection, or CURL_SOCKET_TIMEOUT. It may be gone afterward. */
void client_direct_event(struct client_connection *connection, int fd, uint32_t events);

/* client_attempt.c. */
/* Sends an attempt of a request. 0; -EAGAIN: `sign` waits for credentials; another negative errno
 * with the fault: the request cannot be sent. */
int client_attempt_send(struct client *client, struct client_request *request, bool rival,
	struct client_attempt **ret, struct fault *fault);
/* Nothing of it is called any more. */
void client_attempt_end(struct client_attempt *attempt);
void client_attempt_resume(struct client_attempt *attempt);
void client_attempt_free_spare(struct client *client);
/* Where a redirect leads, to be freed; NULL. */
char *client_attempt_redirect(const struct client_attempt *attempt);
/* errno of connecting; 0. */
int client_attempt_os_error(const struct client_attempt *attempt);

/* client_request.c. */
void client_request_arrive(struct client *client, struct client_request *request);
void client_request_ended(struct client *client, struct client_attempt *attempt, CURLcode code);
void client_request_cancel(struct client *client, struct client_request *request);
void client_request_cancel_all(struct client *client);
void client_request_drop_losers(struct client *client);
void client_request_tick(struct client *client);
void client_request_launch(struct client *client);
void client_request_credentials_changed(struct client *client);
/* Publishes the counters. */
void client_request_publish(struct client *client);

/* client_loop.c. */
int client_loop_start(struct client *client, struct fault *fault);
void client_loop_stop(struct client *client);
void client_loop_wait(struct client *client, uint64_t until_ns);
void client_loop_due(struct client *client);

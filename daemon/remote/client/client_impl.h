/* client_impl: what the files of this folder share. Everything belongs to the client's thread,
 * except what `lock` guards.
 *
 * The files call downward only: client.c calls client_request.c, which calls client_attempt.c and
 * client_place.c; these call client_answer.c and client_error.c. */
#pragma once

#include "remote/client/client.h"

#include <curl/curl.h>
#include <pthread.h>
#include <sys/types.h>

enum {
	PLACE_MAX = 64, /* servers whose state is kept */
	PLACE_NAME = 320,
	PLACE_SAMPLES = 256, /* first-byte times that the quantiles are of */
	ANSWER_HEADERS_MAX = 64 << 10, /* bytes of an answer's headers */
	ANSWER_ERROR_MAX = 4096, /* bytes of an error's body that are looked at */
};

#define CLIENT_MS 1000000u
#define CLIENT_S 1000000000u

/* A server: the scheme, host and port of a request's URL (for s3:// the bucket). */
struct client_place {
	char name[PLACE_NAME]; /* "" while unused */
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

struct client_attempt {
	struct list_node node; /* of the client's running ones, or of its spare ones */
	struct client *client;
	struct client_request *request;
	CURL *easy;
	struct curl_slist *headers;
	struct answer_head head;
	uint64_t started_ns, heard_ns; /* heard: last time anything came, or was sent */
	uint64_t first_ns; /* first byte that counts; 0 */
	uint64_t mark_ns, mark_bytes; /* the window in which slow drip is noticed */
	uint64_t skip; /* bytes to pass over */
	uint64_t got; /* bytes of the body */
	uint64_t sent; /* bytes of the request's body */
	uint64_t expected; /* bytes that were in the buffer when it began */
	enum attempt_mode mode;
	int wrong; /* why the callbacks ended it: a negative errno with `fault`; 0 */
	bool retry_wrong; /* `wrong` may be different in another attempt */
	bool complete; /* all bytes that are wanted came: it was ended on purpose */
	bool lost; /* another attempt of the request won */
	bool paused, custom, is_rival;
	size_t error_size;
	char error[ANSWER_ERROR_MAX + 1];
	char curl_error[CURL_ERROR_SIZE];
	char address[CLIENT_URL];
	struct fault fault;
};

struct client_headers {
	struct curl_slist **list;
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
	CURLM *multi;
	uint64_t timer_ns; /* when libcurl wants to be called; UINT64_MAX */
	uint64_t now_ns, tick_ns;
	uint64_t random;
	struct list_head running, spare; /* attempts */
	struct list_head waiting; /* requests until their due_ns */
	unsigned queued, active; /* requests on a list; attempts */
	bool losers; /* an attempt lost, and is still there */
	double hedge_tokens; /* requests that may be sent a second time */
	double hedge_owed; /* of these, what the requests to come pay for */
	double bandwidth_tokens; /* bytes */
	uint64_t bandwidth_ns;
	bool throttled;
	unsigned next_place;
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
void client_error_hide(struct error_body *body, const struct curl_slist *headers);
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

/* client_attempt.c. */
/* Sends an attempt of a request. 0; -EAGAIN: `sign` waits for credentials; another negative errno
 * with the fault: the request cannot be sent. */
int client_attempt_send(struct client *client, struct client_request *request, bool rival,
	struct client_attempt **ret, struct fault *fault);
/* Takes it from libcurl; nothing of it is called any more. */
void client_attempt_end(struct client_attempt *attempt);
/* An answer without a body: decides what it is. */
void client_attempt_settle(struct client_attempt *attempt);
void client_attempt_resume(struct client_attempt *attempt);
void client_attempt_free_spare(struct client *client);

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

/* client_loop.c: libcurl's sockets in an epoll. */
int client_loop_start(struct client *client, struct fault *fault);
void client_loop_stop(struct client *client);
void client_loop_wait(struct client *client, uint64_t until_ns);
void client_loop_due(struct client *client);

/* client_request: the life of a request: queued for a connection, running, waiting for a retry,
 * done. What an attempt's end means, and when another one races it. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/quota.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum request_state {
	REQUEST_NEW,
	REQUEST_QUEUED,
	REQUEST_RUNNING,
	REQUEST_WAITING,
	REQUEST_SIGNING
};

enum {
	REQUEST_REDIRECTS = 5,
	REQUEST_REFUSALS = 4,
	REQUEST_WRONG = 4, /* answers that do not fit until a request fails */
	REQUEST_SIGN_MS = 50,
	/* Bytes that must come in four times the limit of a stall, and that begin the time of
	 * timeout_s anew. */
	REQUEST_DRIP = 16 << 10,
	REQUEST_HEDGES_SAVED = 16,
	REQUEST_TICKS = 8, /* ticks in which each attempt is watched once */
	REQUEST_PUBLISH_MS = 5, /* between two publications of counters while requests run */
	/* A thread that did not run for so long may not have seen what came: it looks at the
	 * sockets before it judges who is silent. */
	REQUEST_BEHIND_MS = 200,
};
#define REQUEST_DATE_FIRST INT64_C(1577836800) /* 2020: no server's clock is before it */
#define REQUEST_DATE_LAST INT64_C(4102444800) /* 2100 */
#define REQUEST_CAP_NS (5ull * CLIENT_S) /* the longest wait before a retry */
#define REQUEST_CAP_SLOW_NS (20ull * CLIENT_S) /* where the store wants fewer requests */
#define REQUEST_UNRESOLVED_NS (15ull * CLIENT_S) /* for the name of a server that never answered */

static struct client_request *request_of(struct list_node *node)
{
	return (struct client_request *)((char *)node - offsetof(struct client_request, own.node));
}

static struct client_attempt *attempt_of(struct list_node *node)
{
	return (struct client_attempt *)((char *)node - offsetof(struct client_attempt, node));
}

static uint64_t request_timeout_ns(
	const struct client *client, const struct client_request *request)
{
	unsigned seconds = request->timeout_s ? request->timeout_s : client->options.timeout_s;
	return (uint64_t)seconds * CLIENT_S;
}

/* Places. */

static struct client_place *request_place(struct client *client, const char *url)
{
	char name[PLACE_NAME];
	struct client_place *free_one = NULL;
	for (size_t i = 0; i < client->places_end; i++) {
		size_t size = client->places[i].name_size;
		if (size && strncmp(client->places[i].name, url, size) == 0 && url[size] == '/')
			return &client->places[i];
	}
	client_error_origin(url, name, sizeof name);
	if (!*name) /* the name of unused places */
		(void)strcpy(name, "?");
	for (size_t i = 0; i < PLACE_MAX; i++) {
		struct client_place *place = &client->places[i];
		if (strcmp(place->name, name) == 0)
			return place;
		if (place->users == 0 && (!free_one || place->used_ns < free_one->used_ns))
			free_one = place;
	}
	/* More servers at once than are kept apart share one's limits. */
	if (!free_one)
		return &client->places[0];
	client_place_begin(free_one, name, client->options.connections, client->now_ns);
	client->places_end =
		UTIL_MAX(client->places_end, (unsigned)(free_one - client->places) + 1);
	return free_one;
}

static void request_say_waiting(const struct client *client, char *buffer, size_t room)
{
	const struct client_place *longest = NULL;
	*buffer = 0;
	for (size_t i = 0; i < client->places_end; i++) {
		const struct client_place *place = &client->places[i];
		if (place->users && place->gone_ns &&
			(!longest || place->gone_ns < longest->gone_ns))
			longest = place;
	}
	if (!longest || client->now_ns - longest->gone_ns < CLIENT_S)
		return;
	(void)snprintf(buffer, room, "waiting for %.120s: %s for %llu s",
		*longest->host ? longest->host : longest->name, longest->why,
		(unsigned long long)((client->now_ns - longest->gone_ns) / CLIENT_S));
}

void client_request_publish(struct client *client)
{
	double limit = 0;
	client->published_ns = client->now_ns;
	for (size_t i = 0; i < client->places_end; i++)
		if (client->places[i].users)
			limit += client->places[i].limit;
	client->stats.connections = client->active;
	client->stats.connections_limit =
		(unsigned)(limit > 0 ? UTIL_MIN(limit, (double)client->options.connections)
				     : client->options.connections);
	client->stats.queued = client->queued;
	request_say_waiting(client, client->stats.waiting, sizeof client->stats.waiting);
	(void)pthread_mutex_lock(&client->lock);
	client->published = client->stats;
	(void)pthread_mutex_unlock(&client->lock);
}

/* States. */

static void request_queue(struct client *client, struct client_request *request, bool first)
{
	request->own.state = REQUEST_QUEUED;
	client->queued++;
	if (first)
		list_prepend(&request->own.place->queue, &request->own.node);
	else
		list_append(&request->own.place->queue, &request->own.node);
}

static void request_wait(struct client *client, struct client_request *request,
	enum request_state state, uint64_t due_ns)
{
	request->own.state = state;
	request->own.due_ns = due_ns;
	client->queued++;
	list_append(&client->waiting, &request->own.node);
}

/* Takes the request from the list that it is on. */
static void request_unlist(struct client *client, struct client_request *request)
{
	switch (request->own.state) {
	case REQUEST_QUEUED:
		list_remove(&request->own.place->queue, &request->own.node);
		client->queued--;
		break;
	case REQUEST_WAITING:
	case REQUEST_SIGNING:
		list_remove(&client->waiting, &request->own.node);
		client->queued--;
		break;
	default:
		break;
	}
	request->own.state = REQUEST_RUNNING;
}

/* Ends an attempt, whatever it has reached; the request's other one takes its place. */
static void request_drop(struct client_attempt *attempt)
{
	struct client_request *request = attempt->request;
	if (request->own.attempt == attempt) {
		request->own.attempt = request->own.rival;
		/* It may be raced like any other. */
		if (request->own.attempt)
			request->own.attempt->is_rival = false;
	}
	request->own.rival = NULL;
	request->own.place->running--;
	attempt->client->active--;
	client_attempt_end(attempt);
}

static void request_drop_all(struct client_request *request)
{
	if (request->own.rival)
		request_drop(request->own.rival);
	if (request->own.attempt)
		request_drop(request->own.attempt);
}

static void request_finish(struct client *client, struct client_request *request, int result)
{
	request_drop_all(request);
	request_unlist(client, request);
	request->own.place->users--;
	request->own.place->used_ns = client->now_ns;
	free(request->own.location);
	request->own.location = NULL;
	request->result = result;
	client->stats.done += result == 0;
	client->stats.canceled += result == -ECANCELED;
	client->stats.failed += result < 0 && result != -ECANCELED;
	/* Readers of counters see the end of the last request at once, and others soon. */
	if ((!client->active && !client->queued) ||
		client->now_ns - client->published_ns > REQUEST_PUBLISH_MS * CLIENT_MS)
		client_request_publish(client);
	(void)pthread_mutex_lock(&client->lock);
	if (request->own.canceling)
		list_remove(&client->cancels, &request->own.cancel_node);
	request->own.canceling = false;
	request->own.ended = true;
	(void)pthread_mutex_unlock(&client->lock);
	request->done(request);
}

static void request_time_out(struct client *client, struct client_request *request)
{
	uint64_t timeout = request_timeout_ns(client, request) / CLIENT_S;
	if (!*request->fault.text) {
		char url[300];
		client_error_url(request->url, url, sizeof url);
		(void)fault_set(&request->fault, -ETIMEDOUT, "%s: %s", url,
			request->own.place->gone_ns ? request->own.place->why : "no answer came");
	}
	(void)fault_prefix(&request->fault, -ETIMEDOUT,
		"gave up after %llu s without progress and %u attempts (timeout_s); the last one",
		(unsigned long long)timeout, request->own.attempts);
	request_finish(client, request, -ETIMEDOUT);
}

void client_request_arrive(struct client *client, struct client_request *request)
{
	request->own.place = request_place(client, request->url);
	request->own.place->users++;
	request->own.due_ns = client->now_ns; /* when it came, while it is queued */
	request_queue(client, request, request->flags & CLIENT_URGENT);
}

void client_request_cancel(struct client *client, struct client_request *request)
{
	(void)fault_set(&request->fault, -ECANCELED, "canceled");
	request_finish(client, request, -ECANCELED);
}

/* Sends an attempt of a request that is on no list. */
static void request_start(struct client *client, struct client_request *request)
{
	struct fault fault = {{0}};
	struct client_attempt *attempt;
	uint64_t now = client->now_ns;
	if (!request->own.begun_ns)
		request->own.begun_ns = request->own.step_ns = now;
	/* A whole body is read again from its beginning. */
	if (request->size == 0)
		request->received = 0;
	int result = client_attempt_send(client, request, false, &attempt, &fault);
	if (result == -EAGAIN) {
		if (*fault.text)
			request->fault = fault;
		request_wait(client, request, REQUEST_SIGNING, now + REQUEST_SIGN_MS * CLIENT_MS);
		return;
	}
	if (result < 0) {
		request->fault = fault;
		request_finish(client, request, result);
		return;
	}
	request->own.attempt = attempt;
	request->own.place->running++;
	client->active++;
	if (request->own.attempts++ > 0)
		return;
	if (client->hedge_owed > 0)
		client->hedge_owed -= client->options.hedge;
	else
		client->hedge_tokens = UTIL_MIN(
			client->hedge_tokens + client->options.hedge, (double)REQUEST_HEDGES_SAVED);
}

/* A server that does not answer keeps its connections for long: the others still get some. */
static bool request_may_start(const struct client *client, const struct client_place *place)
{
	return place->running < UTIL_MIN((unsigned)place->limit, client->options.connections) &&
	       quota_allows(
		       place->running, client->active, quota_total(client->options.connections), 1);
}

void client_request_launch(struct client *client)
{
	const unsigned count = client->places_end;
	for (unsigned i = 0; i < count && client->queued && !client->throttled; i++) {
		struct client_place *place = &client->places[(client->next_place + i) % count];
		while (!list_is_empty(&place->queue) && request_may_start(client, place)) {
			struct client_request *request = request_of(place->queue.first);
			request_unlist(client, request);
			request_start(client, request);
		}
	}
	client->next_place++;
}

/* What the end of an attempt means. */

/* What is left of an attempt after it has ended. */
struct ended {
	struct answer_head head;
	struct error_body body;
	enum attempt_mode mode;
	CURLcode code;
	bool progress; /* it stored bytes */
	char curl_error[CURL_ERROR_SIZE];
	char *redirect; /* where a redirect leads; NULL */
	char origin[PLACE_NAME];
	bool tls;
};

static const char *request_why(enum client_retry reason, const struct ended *ended)
{
	static char text[64]; /* on the client's thread only */
	switch (reason) {
	case CLIENT_RETRY_CONNECT:
		if (ended->code == CURLE_COULDNT_RESOLVE_HOST)
			return "its name is not found";
		if (ended->code == CURLE_OPERATION_TIMEDOUT)
			return "no connection";
		return strstr(ended->curl_error, "refused") ? "connection refused"
							    : "no connection";
	case CLIENT_RETRY_RESET:
		return "connections are reset";
	case CLIENT_RETRY_STALL:
		return "no bytes come";
	case CLIENT_RETRY_STATUS:
	case CLIENT_RETRY_SLOWDOWN:
		(void)snprintf(text, sizeof text, "status %u", ended->head.status);
		return text;
	case CLIENT_RETRY_TLS:
		return "TLS handshakes fail";
	default:
		return "wrong answers";
	}
}

/* Forgets where redirects led: links of redirects expire. */
static void request_forget_location(struct client_request *request)
{
	free(request->own.location);
	request->own.location = NULL;
	request->own.location_foreign = false;
	/* The next attempt is redirected anew: only one attempt's redirects are counted. */
	request->own.redirects = 0;
}

/* A request was refused because the store has too many of them. */
static void request_slow_down(
	struct client *client, struct client_place *place, const struct ended *ended)
{
	bool plainly = ended->head.status == 429 || ended->head.retry_after_s;
	client->stats.slowdowns += client_place_slow_down(place, plainly, client->now_ns);
}

/* Another attempt after a wait, or the end. The fault is set. */
static void request_retry(struct client *client, struct client_request *request,
	enum client_retry reason, int result, const struct ended *ended)
{
	struct client_place *place = request->own.place;
	bool wrong = reason == CLIENT_RETRY_ANSWER || reason == CLIENT_RETRY_TLS;
	if (reason != CLIENT_RETRY_ANSWER)
		client_place_failed(place, request_why(reason, ended), client->now_ns);
	if (request->flags & CLIENT_ONCE || (wrong && ++request->own.wrong >= REQUEST_WRONG) ||
		(ended->code == CURLE_COULDNT_RESOLVE_HOST && !place->worked &&
			client->now_ns - request->own.step_ns > REQUEST_UNRESOLVED_NS)) {
		request_finish(client, request, result);
		return;
	}
	client->stats.retries[reason]++;
	request->own.failures = ended->progress ? 1 : request->own.failures + 1;
	if (reason == CLIENT_RETRY_SLOWDOWN)
		request_slow_down(client, place, ended);
	uint64_t wait = client_place_backoff(place, request->own.failures,
		(uint64_t)client->options.backoff_ms * CLIENT_MS,
		reason == CLIENT_RETRY_SLOWDOWN ? REQUEST_CAP_SLOW_NS : REQUEST_CAP_NS,
		&client->random, client->now_ns);
	uint64_t asked = (uint64_t)UTIL_MIN(ended->head.retry_after_s, 30u) * CLIENT_S;
	request_forget_location(request);
	request_wait(client, request, REQUEST_WAITING, client->now_ns + UTIL_MAX(wait, asked));
}

/* Follows a redirect, or ends the request. */
static void request_redirect(
	struct client *client, struct client_request *request, struct ended *ended)
{
	char from[300], to[300], origin[PLACE_NAME];
	int result = 0;
	client_error_url(request->url, from, sizeof from);
	client_error_url(ended->redirect, to, sizeof to);
	client_error_origin(ended->redirect, origin, sizeof origin);
	bool foreign = strcmp(origin, ended->origin) != 0;
	bool tls = strncasecmp(ended->redirect, "https://", 8) == 0;
	if (request->own.redirects >= REQUEST_REDIRECTS)
		result = fault_set(&request->fault, -ELOOP,
			"%s: more than %d redirects; the last one led to %s: check the URL", from,
			REQUEST_REDIRECTS, to);
	else if (!tls && (ended->tls || strncasecmp(ended->redirect, "http://", 7) != 0))
		result = fault_set(&request->fault, -EACCES,
			"%s: the server redirects to %s, which is not https://: redirects that "
			"give up TLS are not followed",
			from, to);
	else if (client->options.allowed)
		result = client->options.allowed(
			client->options.context, ended->redirect, &request->fault);
	else if (foreign)
		result = fault_set(&request->fault, -EACCES,
			"the server redirects to %s, which is another server: use that URL", to);
	if (result < 0) {
		if (result != -ELOOP)
			(void)fault_prefix(&request->fault, result, "%s is redirected", from);
		request_finish(client, request, result);
		return;
	}
	client->stats.redirects++;
	request->own.redirects++;
	free(request->own.location);
	request->own.location = ended->redirect;
	ended->redirect = NULL;
	request->own.location_foreign |= foreign;
	request_queue(client, request, true);
}

/* The clock of the server, where its distance explains a refusal. */
static bool request_set_clock(
	struct client *client, struct client_request *request, const struct ended *ended)
{
	struct client_place *place = request->own.place;
	int64_t date = ended->head.answer.date_s;
	/* Nothing can be signed with a date that is absurd. */
	if (date < REQUEST_DATE_FIRST || date > REQUEST_DATE_LAST || !client->options.sign)
		return false;
	int64_t offset = date - (int64_t)(clock_unix_ns() / CLIENT_S);
	int64_t change = offset - place->clock_offset_s;
	if (change > -120 && change < 120)
		return false;
	place->clock_offset_s = offset;
	return true;
}

static bool request_ask_again(struct client *client, struct client_request *request,
	const struct ended *ended, enum error_class class)
{
	if (request->own.refusals >= REQUEST_REFUSALS || request->flags & CLIENT_ONCE)
		return false;
	/* A plain refusal is about the clock if the clocks are apart: rclone's server says no more
	 * than AccessDenied. */
	bool again = (class != ERROR_REFUSED || !*ended->body.code) && ended->head.status >= 400 &&
		     request_set_clock(client, request, ended);
	/* A signature that was kept may be old where the machine was suspended. */
	if (class == ERROR_CLOCK && request->own.attempts == 1 && client->options.sign)
		again = true;
	struct client_refusal refusal = {.status = ended->head.status,
		.code = ended->body.code,
		.region = *ended->head.region ? ended->head.region : ended->body.region};
	/* A redirect that names no region is an ordinary one. */
	bool told = refusal.status >= 400 || *refusal.code || *refusal.region;
	if (!again && told && class == ERROR_REFUSED && client->options.refused &&
		!(request->flags & CLIENT_UNSIGNED))
		again = client->options.refused(client->options.context, request, &refusal);
	if (again)
		client_signed_forget(client);
	request->own.refusals += again;
	return again;
}

static void request_answered_error(
	struct client *client, struct client_request *request, struct ended *ended)
{
	enum client_retry reason;
	unsigned status = ended->head.status;
	enum error_class class = client_error_classify_answer(status, ended->body.code, &reason);
	int result = client_error_answer(request, status, &ended->body, &request->fault);
	(void)snprintf(request->code, sizeof request->code, "%s", ended->body.code);
	if (class != ERROR_RETRY)
		client_place_answered(request->own.place, client->now_ns);
	bool denied = strcmp(ended->body.code, "AccessDenied") == 0;
	if ((class == ERROR_REFUSED || class == ERROR_CLOCK || denied) &&
		request_ask_again(client, request, ended, class)) {
		client->stats.retries[CLIENT_RETRY_REFUSED]++;
		request_forget_location(request);
		request_queue(client, request, true);
		return;
	}
	bool moved =
		status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
	bool follow = request->method == CLIENT_GET || request->method == CLIENT_HEAD ||
		      status == 307 || status == 308;
	if (moved && follow && ended->redirect && !(request->flags & CLIENT_STAY)) {
		request_redirect(client, request, ended);
		return;
	}
	/* The signed link of a redirect has expired: ask for another. */
	if (class != ERROR_RETRY && request->own.location && status >= 400 && status != 412 &&
		status != 416 && request->own.refusals < REQUEST_REFUSALS) {
		request->own.refusals++;
		class = ERROR_RETRY;
		reason = CLIENT_RETRY_REFUSED;
	}
	if (class == ERROR_RETRY)
		request_retry(client, request, reason, result, ended);
	else
		request_finish(client, request, result);
}

static void request_transport_error(
	struct client *client, struct client_request *request, struct ended *ended)
{
	enum client_retry reason;
	/* libcurl has the same code for a URL that it does not read. */
	if (ended->code == CURLE_UNSUPPORTED_PROTOCOL && strstr(ended->curl_error, "HTTP/0.9"))
		ended->code = CURLE_WEIRD_SERVER_REPLY;
	enum error_class class = client_error_classify_transport(ended->code, &reason);
	int result =
		client_error_transport(request, ended->code, ended->curl_error, &request->fault);
	if (class == ERROR_RETRY)
		request_retry(client, request, reason, result, ended);
	else
		request_finish(client, request, result);
}

static bool request_is_whole(const struct client_request *request)
{
	return !client_body_is_ranged(request) || request->received == request->size;
}

/* All that was asked for is there. */
static void request_whole(struct client *client, struct client_request *request)
{
	*request->fault.text = 0;
	*request->code = 0;
	request_finish(client, request, 0);
}

/* A body that came to its end before that of what was asked for. */
static void request_body_ended(
	struct client *client, struct client_request *request, struct ended *ended)
{
	if (ended->progress) { /* a part of the range: the rest is asked for */
		request_queue(client, request, true);
		return;
	}
	char url[300];
	client_error_url(request->url, url, sizeof url);
	int result = fault_set(&request->fault, -EBADMSG,
		"%s: the answer has no bytes of the range that was asked for", url);
	request_retry(client, request, CLIENT_RETRY_ANSWER, result, ended);
}

static void request_keep(struct client_attempt *attempt, CURLcode code, struct ended *ret)
{
	*ret = (struct ended){.head = attempt->head,
		.mode = attempt->mode,
		.code = code,
		.progress = attempt->mode == ATTEMPT_STORE &&
			    attempt->request->received > attempt->expected,
		.tls = strncasecmp(attempt->address, "https://", 8) == 0};
	attempt->error[attempt->error_size] = 0;
	client_error_read(attempt->error, attempt->error_size, &ret->body);
	client_error_hide(&ret->body, &attempt->headers, attempt->address);
	memcpy(ret->curl_error, attempt->curl_error, sizeof ret->curl_error);
	int error = code == CURLE_COULDNT_CONNECT ? client_attempt_os_error(attempt) : 0;
	if (error > 0)
		(void)snprintf(ret->curl_error, sizeof ret->curl_error, "%s", strerror(error));
	if (ret->head.status < 300 || ret->head.status >= 400)
		return;
	client_error_origin(attempt->address, ret->origin, sizeof ret->origin);
	ret->redirect = client_attempt_redirect(attempt);
	if (ret->redirect && strlen(ret->redirect) >= CLIENT_URL) {
		free(ret->redirect);
		ret->redirect = NULL;
	}
}

/* Another attempt of the request still runs: only what the server's state needs is noted. */
static void request_half_ended(
	struct client *client, struct client_request *request, const struct ended *ended)
{
	enum client_retry reason;
	if (ended->mode == ATTEMPT_ERROR &&
		client_error_classify_answer(ended->head.status, ended->body.code, &reason) ==
			ERROR_RETRY &&
		reason == CLIENT_RETRY_SLOWDOWN)
		request_slow_down(client, request->own.place, ended);
}

void client_request_ended(struct client *client, struct client_attempt *attempt, CURLcode code)
{
	struct client_request *request = attempt->request;
	struct ended ended;
	if (attempt->lost) {
		request_drop(attempt);
		return;
	}
	if (code == CURLE_OK)
		client_body_settle(attempt);
	bool stored = attempt->mode == ATTEMPT_STORE && (code == CURLE_OK || attempt->complete);
	int wrong = attempt->wrong;
	/* Most attempts: nothing else of it is of interest. */
	if (stored && !wrong && request_is_whole(request)) {
		request->status = attempt->head.status;
		client_place_answered(request->own.place, client->now_ns);
		request_whole(client, request);
		return;
	}
	request_keep(attempt, code, &ended);
	bool retry_wrong = attempt->retry_wrong;
	struct fault fault = attempt->fault;
	if (ended.head.status)
		request->status = ended.head.status;
	request_drop(attempt);
	if (request->own.attempt && (wrong ? retry_wrong : !stored)) {
		request_half_ended(client, request, &ended);
	} else if (wrong) {
		request->fault = fault;
		request_drop_all(request);
		if (retry_wrong)
			request_retry(client, request, CLIENT_RETRY_ANSWER, wrong, &ended);
		else
			request_finish(client, request, wrong);
	} else {
		request_drop_all(request);
		if (stored)
			client_place_answered(request->own.place, client->now_ns);
		if (stored)
			request_body_ended(client, request, &ended);
		else if (ended.mode == ATTEMPT_ERROR)
			request_answered_error(client, request, &ended);
		else
			request_transport_error(client, request, &ended);
	}
	free(ended.redirect);
}

void client_request_drop_losers(struct client *client)
{
	if (!client->losers)
		return;
	client->losers = false;
	for (struct list_node *node = client->running.first, *next; node; node = next) {
		next = node->next;
		if (attempt_of(node)->lost)
			request_drop(attempt_of(node));
	}
}

/* Time. */

/* How long no byte may come. */
static uint64_t request_stall_ns(const struct client *client, const struct client_request *request)
{
	uint64_t limit = (uint64_t)client->options.stall_ms * CLIENT_MS;
	if (!limit) {
		limit = client_place_stall_ns(request->own.place, client->now_ns);
		/* A listing, and the end of an upload, take a store longer. */
		if (request->method != CLIENT_GET || request->size == 0)
			limit = UTIL_MAX(limit, 30ull * CLIENT_S);
	}
	return limit << UTIL_MIN(request->own.stalls, 3u);
}

static void request_stalled(struct client *client, struct client_attempt *attempt, bool drips)
{
	struct client_request *request = attempt->request;
	struct ended ended;
	char url[300];
	client_error_url(request->url, url, sizeof url);
	request_keep(attempt, CURLE_OK, &ended);
	free(ended.redirect);
	ended.redirect = NULL;
	uint64_t limit = request_stall_ns(client, request);
	request->own.stalls++;
	request_drop(attempt);
	if (request->own.attempt) {
		client->stats.retries[CLIENT_RETRY_STALL]++;
		return;
	}
	int result =
		drips ? fault_set(&request->fault, -ETIMEDOUT,
				"%s: the server sends too slowly: less than %d bytes in %llu ms",
				url, REQUEST_DRIP, (unsigned long long)(limit * 4 / CLIENT_MS))
		      : fault_set(&request->fault, -ETIMEDOUT,
				"%s: the server sent nothing for %llu ms", url,
				(unsigned long long)(limit / CLIENT_MS));
	request_retry(client, request, CLIENT_RETRY_STALL, result, &ended);
}

/* Whether an attempt has been silent for so long that another one may race it. */
static bool request_is_late(const struct client *client, const struct client_attempt *attempt)
{
	uint64_t now = client->now_ns;
	uint64_t late = client_place_hedge_ns(attempt->request->own.place, client->hedge_tokens);
	if (!attempt->first_ns)
		return now > attempt->started_ns && now - attempt->started_ns > late;
	return attempt->request->size && now > attempt->heard_ns &&
	       now - attempt->heard_ns > UTIL_MAX(late * 2, 100ull * CLIENT_MS);
}

/* Sends another attempt of a request whose attempts are late; the older of two gives way. */
static void request_hedge(struct client *client, struct client_request *request)
{
	struct client_place *place = request->own.place;
	struct client_attempt *attempt;
	struct fault fault;
	/* Two attempts would write to one `link`. */
	if (client->hedge_tokens < 1 || request->flags & CLIENT_ONCE || request->link ||
		(request->method != CLIENT_GET && request->method != CLIENT_HEAD) ||
		!client_place_may_hedge(place, client->options.connections, client->now_ns))
		return;
	if (request->own.rival)
		request_drop(request->own.attempt);
	if (client_attempt_send(client, request, true, &attempt, &fault) < 0)
		return;
	client->hedge_tokens -= 1;
	client->stats.hedges++;
	place->running++;
	client->active++;
	request->own.rival = attempt;
}

/* One attempt in time. It may end its request. */
static void request_watch(struct client *client, struct client_attempt *attempt)
{
	struct client_request *request = attempt->request;
	uint64_t now = client->now_ns, stall = request_stall_ns(client, request);
	/* The client's own limit of bandwidth is no lack of progress. */
	if (request->received - request->own.step_bytes >= REQUEST_DRIP || attempt->paused) {
		request->own.step_bytes = request->received;
		request->own.step_ns = now;
	}
	if (now - request->own.step_ns > request_timeout_ns(client, request)) {
		request_time_out(client, request);
		return;
	}
	if (attempt->paused || now < attempt->heard_ns)
		return;
	uint64_t quiet = now - attempt->heard_ns;
	if (quiet > stall) {
		request_stalled(client, attempt, false);
		return;
	}
	if (now - attempt->mark_ns > 4 * stall && request->method == CLIENT_GET) {
		bool drips = attempt->got - attempt->mark_bytes < REQUEST_DRIP;
		attempt->mark_ns = now;
		attempt->mark_bytes = attempt->got;
		if (drips) {
			request_stalled(client, attempt, true);
			return;
		}
	}
	if (!attempt->is_rival && client->options.hedge > 0 && request_is_late(client, attempt) &&
		(!request->own.rival || request_is_late(client, request->own.rival)))
		request_hedge(client, request);
}

static void request_watch_waiting(struct client *client)
{
	for (struct list_node *node = client->waiting.first, *next; node; node = next) {
		struct client_request *request = request_of(node);
		next = node->next;
		if (client->now_ns - request->own.step_ns > request_timeout_ns(client, request)) {
			/* `done` may begin and cancel, but only the loop changes this list. */
			request_time_out(client, request);
		} else if (request->own.due_ns <= client->now_ns) {
			request_unlist(client, request);
			request_queue(client, request, true);
		}
	}
}

/* Requests that wait for a server that is gone: they fail as those do that are tried. */
static void request_watch_queue(struct client *client, struct client_place *place)
{
	if (!place->gone_ns)
		return;
	for (struct list_node *node = place->queue.first, *next; node; node = next) {
		struct client_request *request = request_of(node);
		uint64_t since = request->own.begun_ns
					 ? request->own.step_ns
					 : UTIL_MAX(place->gone_ns, request->own.due_ns);
		next = node->next;
		if (client->now_ns - since > request_timeout_ns(client, request))
			request_time_out(client, request);
	}
}

static void request_resume_paused(struct client *client, uint64_t passed_ns)
{
	double rate = (double)client->options.bandwidth;
	if (rate <= 0)
		return;
	client->bandwidth_tokens += rate * (double)passed_ns / CLIENT_S;
	client->bandwidth_tokens = UTIL_MIN(client->bandwidth_tokens, UTIL_MAX(rate / 20, 65536.0));
	bool paused = false;
	for (struct list_node *node = client->running.first; node; node = node->next) {
		struct client_attempt *attempt = attempt_of(node);
		if (attempt->paused && client->bandwidth_tokens > 0)
			client_attempt_resume(attempt);
		paused |= attempt->paused;
	}
	client->throttled = paused || client->bandwidth_tokens < 0;
	if (client->throttled)
		client->stats.throttled_ns += passed_ns;
}

void client_request_tick(struct client *client)
{
	uint64_t now = client->now_ns, passed = now - client->tick_ns;
	/* What has heard of its server since the last tick need not be watched each time. */
	const bool all = client->ticks++ % REQUEST_TICKS == 0;
	client->tick_ns = now;
	request_resume_paused(client, passed);
	/* What a watch ends is this attempt, or all of its request: the next one is another
	 * request's unless it is the rival, so the rival is passed over by beginning again. */
	client->behind = !client->behind && passed > REQUEST_BEHIND_MS * (uint64_t)CLIENT_MS;
	for (struct list_node *node = client->running.first, *next; node && !client->behind;
		node = next) {
		struct client_attempt *attempt = attempt_of(node);
		next = node->next;
		if (next && attempt_of(next)->request == attempt->request)
			next = next->next;
		if (all || !attempt->first_ns || attempt->paused ||
			now - passed > attempt->heard_ns)
			request_watch(client, attempt);
	}
	request_watch_waiting(client);
	bool gone = false;
	for (size_t i = 0; i < client->places_end; i++) {
		struct client_place *place = &client->places[i];
		if (!place->users)
			continue;
		client_place_grow(place, client->options.connections, now);
		request_watch_queue(client, place);
		gone |= place->gone_ns && now - place->gone_ns > CLIENT_S;
	}
	if (gone)
		client->stats.waiting_ns += passed;
	client_request_publish(client);
}

void client_request_credentials_changed(struct client *client)
{
	client_signed_forget(client);
	list_each (request, &client->waiting, struct client_request, own.node)
		if (request->own.state == REQUEST_SIGNING)
			request->own.due_ns = 0;
}

void client_request_cancel_all(struct client *client)
{
	while (!list_is_empty(&client->running))
		client_request_cancel(client, attempt_of(client->running.first)->request);
	while (!list_is_empty(&client->waiting))
		client_request_cancel(client, request_of(client->waiting.first));
	for (size_t i = 0; i < PLACE_MAX; i++)
		while (!list_is_empty(&client->places[i].queue))
			client_request_cancel(client, request_of(client->places[i].queue.first));
}

/* client_body: what of an answer is kept: its header is read and decides what the body is, and the
 * body is stored at its place.
 *
 * Nothing here ends an attempt: it is noted what was found (`wrong`, `complete`, `lost`), the
 * transfer stops, and client_request.c reads the notes afterward.
 *
 * Always true: all attempts of a request that run expect the same byte next. The first that stores
 * a byte marks the other as lost, and a lost one stores nothing. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

enum {
	BODY_ERROR_LEAST = 64 << 10, /* bytes of an error that are read to keep a connection */
	BODY_PASSED_MOST = 4 << 20, /* bytes that a server may send in front of a range */
};

bool client_body_is_ranged(const struct client_request *request)
{
	return request->method == CLIENT_GET && request->size > 0;
}

void client_body_wrong(
	struct client_attempt *attempt, int code, bool retry, const char *format, ...)
{
	char text[400], url[300];
	va_list list;
	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	client_error_url(attempt->request->url, url, sizeof url);
	attempt->wrong = fault_set(&attempt->fault, code, "%s: %s", url, text);
	attempt->retry_wrong = retry;
}

const char *client_body_etag(const struct client_request *request)
{
	if (request->etag)
		return request->etag;
	return request->received ? request->answer.etag : "";
}

static void body_decide_range(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	const struct answer_head *head = &attempt->head;
	uint64_t first = request->offset + attempt->expected;
	if (head->multipart || !head->has_range) {
		client_body_wrong(attempt, -EBADMSG, true,
			"the server answered a range with status 206 and without a Content-Range "
			"that says which one: it, or a proxy before it, does not serve ranges "
			"correctly");
		return;
	}
	if (head->range_first > first || head->range_last < first ||
		first - head->range_first > BODY_PASSED_MOST) {
		client_body_wrong(attempt, -EBADMSG, true,
			"the server sent bytes %llu to %llu where %llu to %llu were asked for: it, "
			"or a proxy before it, does not serve ranges correctly",
			(unsigned long long)head->range_first, (unsigned long long)head->range_last,
			(unsigned long long)first,
			(unsigned long long)(request->offset + request->size - 1));
		return;
	}
	uint64_t length = head->range_last - head->range_first + 1;
	if (head->length != CLIENT_UNKNOWN && head->length != length) {
		client_body_wrong(attempt, -EBADMSG, true,
			"the answer's Content-Length of %llu contradicts its Content-Range of %llu "
			"bytes",
			(unsigned long long)head->length, (unsigned long long)length);
		return;
	}
	if (request->received && request->answer.size != CLIENT_UNKNOWN &&
		head->range_total != CLIENT_UNKNOWN && request->answer.size != head->range_total) {
		client_body_wrong(attempt, -ESTALE, false,
			"the object had %llu bytes, and now has %llu: the dataset changed while it "
			"was read: open it again",
			(unsigned long long)request->answer.size,
			(unsigned long long)head->range_total);
		return;
	}
	attempt->skip = first - head->range_first;
	attempt->head.answer.size = head->range_total;
	attempt->head.answer.ranges = true;
}

/* A whole body, where a range was asked for or was not. */
static void body_decide_whole(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	const struct answer_head *head = &attempt->head;
	attempt->head.answer.size = head->length;
	if (!client_body_is_ranged(request)) {
		if (request->method == CLIENT_GET && head->status == 206) {
			client_body_wrong(attempt, -EBADMSG, true,
				"the server sent a part of the body (status 206) where all of it "
				"was "
				"asked for: it, or a proxy before it, does not serve ranges "
				"correctly");
			return;
		}
		if (request->method == CLIENT_GET && head->length != CLIENT_UNKNOWN &&
			head->length > request->room)
			client_body_wrong(attempt, -EFBIG, false,
				"the body has %llu bytes, and at most %zu are read",
				(unsigned long long)head->length, request->room);
		return;
	}
	uint64_t end = request->offset + request->size;
	if (strncasecmp(head->answer.type, "text/html", 9) == 0) {
		client_body_wrong(attempt, -EBADMSG, true,
			"the server sent a web page (text/html) instead of the data: check the "
			"URL, and whether a proxy or a login page answers for the server");
		return;
	}
	if (head->length != CLIENT_UNKNOWN && head->length < end) {
		client_body_wrong(attempt, -ENODATA, false,
			"the object has %llu bytes, and bytes up to %llu were asked for: it was "
			"replaced or truncated",
			(unsigned long long)head->length, (unsigned long long)end);
		return;
	}
	/* To pass over what comes before costs more the further the range is: a server that says
	 * that it serves ranges is asked again, and another one cannot be read from. */
	if (request->offset > BODY_PASSED_MOST) {
		client_body_wrong(attempt, -EPROTO, head->answer.ranges,
			"the server sent the whole object where a range was asked for: it, or a "
			"proxy before it, does not serve ranges; use a server that does "
			"(python -m http.server does not, nginx does)");
		return;
	}
	attempt->skip = request->offset + attempt->expected;
	attempt->head.answer.ranges = false;
}

void client_body_decide(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	const struct answer_head *head = &attempt->head;
	if (attempt->mode != ATTEMPT_UNDECIDED)
		return;
	if (head->status < 200 || head->status >= 300) {
		attempt->mode = ATTEMPT_ERROR;
		return;
	}
	attempt->mode = ATTEMPT_STORE;
	const char *etag = client_body_etag(request);
	if (*etag && *head->answer.etag && request->method == CLIENT_GET &&
		!client_answer_same_etag(etag, head->answer.etag)) {
		client_body_wrong(attempt, -ESTALE, false,
			"the object was replaced: the dataset changed while it was read: open it "
			"again; objects of a dataset in use must not be overwritten");
		return;
	}
	/* rclone's S3 server answers a range with status 200 and the right Content-Range. */
	if (client_body_is_ranged(request) && (head->status == 206 || head->has_range))
		body_decide_range(attempt);
	else
		body_decide_whole(attempt);
}

/* Copies the header Link of the latest answer. */
static void body_link(struct client_request *request, const char *line, size_t size)
{
	if (!request->link || !request->link_room)
		return;
	if (size > 5 && strncmp(line, "HTTP/", 5) == 0)
		request->link[0] = 0;
	if (size > 5 && size - 5 < request->link_room && strncasecmp(line, "link:", 5) == 0)
		client_error_clean(line + 5, size - 5, request->link, request->link_room);
}

bool client_body_header(struct client_attempt *attempt, const char *line, size_t size)
{
	if (attempt->lost)
		return false;
	body_link(attempt->request, line, size);
	if (client_answer_header(&attempt->head, line, size) == 0)
		return true;
	client_body_endless(attempt);
	return false;
}

void client_body_endless(struct client_attempt *attempt)
{
	client_body_wrong(attempt, -EBADMSG, true,
		"the headers of the answer do not end: more than %d bytes came",
		ANSWER_HEADERS_MAX);
}

/* Returns whether more of it is wanted. */
static bool body_keep_error(struct client_attempt *attempt, const char *data, size_t size)
{
	size_t kept = UTIL_MIN(size, ANSWER_ERROR_MAX - attempt->error_size);
	memcpy(attempt->error + attempt->error_size, data, kept);
	attempt->error_size += kept;
	attempt->client->stats.bytes_wasted += size;
	attempt->complete = attempt->got > BODY_ERROR_LEAST;
	return !attempt->complete;
}

/* The first byte of the body that is stored. */
static void body_first(struct client_attempt *attempt)
{
	struct client_place *place = attempt->request->own.place;
	attempt->first_ns = attempt->heard_ns;
	uint64_t took = attempt->first_ns - attempt->started_ns;
	histogram_add(&attempt->client->stats.first_byte, took);
	client_place_first_byte(place, took);
	client_place_answered(place, attempt->heard_ns);
}

/* This attempt has bytes of the body that are stored: another one has lost. Also one that began in
 * the middle of this one's body: it asked for the byte that is stored now. */
static void body_win(struct client_attempt *attempt)
{
	struct client *client = attempt->client;
	struct client_request *request = attempt->request;
	struct client_attempt *other =
		attempt == request->own.rival ? request->own.attempt : request->own.rival;
	if (!attempt->first_ns)
		body_first(attempt);
	if (!other || other == attempt || other->lost)
		return;
	other->lost = true;
	client->losers = true;
	client->stats.hedges_won += attempt->is_rival;
}

/* How much more of the body is stored. */
static uint64_t body_space(const struct client_request *request)
{
	return (client_body_is_ranged(request) ? request->size : request->room) - request->received;
}

/* Stores bytes of the body at their place, where they may be already. Returns whether more of it
 * is wanted. */
static bool body_store(struct client_attempt *attempt, const char *data, size_t size)
{
	struct client_request *request = attempt->request;
	struct client *client = attempt->client;
	bool ranged = client_body_is_ranged(request);
	size_t passed = (size_t)UTIL_MIN((uint64_t)size, attempt->skip);
	attempt->skip -= passed;
	size_t stored = (size_t)UTIL_MIN((uint64_t)(size - passed), body_space(request));
	if (stored) {
		uint8_t *to = request->buffer + request->received;
		if ((const uint8_t *)data + passed != to)
			memcpy(to, data + passed, stored);
		if (request->received == attempt->expected)
			request->answer = attempt->head.answer;
		request->received += stored;
	}
	size_t more = size - passed - stored;
	client->stats.bytes_wasted += passed + more;
	if (!ranged && more && request->method == CLIENT_GET) {
		client_body_wrong(attempt, -EFBIG, false,
			"the body has more than the %zu bytes that "
			"are read",
			request->room);
		return false;
	}
	if (!ranged || request->received < request->size)
		return true;
	/* Everything came. A body that ends here leaves a connection for the next request. */
	attempt->complete = true;
	uint64_t whole = attempt->head.length;
	return whole != CLIENT_UNKNOWN && attempt->got == whole;
}

/* Charges the limit of bandwidth. */
static void body_charge(struct client_attempt *attempt, size_t size)
{
	struct client *client = attempt->client;
	if (!client->options.bandwidth)
		return;
	client->bandwidth_tokens -= (double)size;
	attempt->tired = client->bandwidth_tokens < 0 && !attempt->complete;
}

bool client_body_take(struct client_attempt *attempt, const char *data, size_t size)
{
	attempt->client->stats.bytes += size;
	if (attempt->lost || attempt->wrong ||
		(attempt->complete && attempt->mode == ATTEMPT_STORE)) {
		attempt->client->stats.bytes_wasted += size;
		return false;
	}
	client_body_decide(attempt);
	attempt->got += size;
	if (attempt->wrong) {
		attempt->client->stats.bytes_wasted += size;
		return false;
	}
	if (attempt->mode == ATTEMPT_ERROR)
		return body_keep_error(attempt, data, size);
	if (size > attempt->skip)
		body_win(attempt);
	bool more = body_store(attempt, data, size);
	if (more)
		body_charge(attempt, size);
	return more;
}

uint8_t *client_body_target(const struct client_attempt *attempt, size_t *ret_space)
{
	const struct client_request *request = attempt->request;
	if (attempt->mode != ATTEMPT_STORE || attempt->skip || attempt->lost || attempt->wrong ||
		attempt->complete)
		return NULL;
	uint64_t space = body_space(request);
	/* What comes beyond the buffer is received elsewhere, and refused. */
	if (!space)
		return NULL;
	*ret_space = (size_t)UTIL_MIN(space, (uint64_t)SIZE_MAX / 2);
	return request->buffer + request->received;
}

void client_body_settle(struct client_attempt *attempt)
{
	if (attempt->mode != ATTEMPT_UNDECIDED || attempt->wrong || attempt->lost)
		return;
	client_body_decide(attempt);
	if (attempt->mode == ATTEMPT_STORE && !attempt->wrong && attempt->request->received == 0)
		attempt->request->answer = attempt->head.answer;
}

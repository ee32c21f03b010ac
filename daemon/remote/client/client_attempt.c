/* client_attempt: one transfer of libcurl: what is sent, what of the answer is stored.
 *
 * libcurl calls attempt_header and attempt_body while the loop calls libcurl. They never call
 * anything that could end a transfer: they note what they found (`wrong`, `complete`, `lost`) and
 * stop libcurl by an error, and client_request.c reads the notes afterward.
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
	/* Of libcurl, for each transfer. A larger one saves a few calls, but malloc then maps and
	 * unmaps it for every request, and its bytes leave the cache before they are copied. */
	ATTEMPT_BUFFER = 64 << 10,
	ATTEMPT_IDLE_S = 4, /* S3 closes connections that are idle for 5 s */
	ATTEMPT_DNS_S = 30,
	ATTEMPT_CONNECT_MS = 10000,
	ATTEMPT_ERROR_LEAST = 64 << 10, /* bytes of an error that are read to keep a connection */
};

int client_header_add(struct client_headers *headers, const char *name, const char *value)
{
	char line[8192];
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p == ':' || *p == 0x7f)
			return -EINVAL;
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return -EINVAL;
	/* "Name;" is how libcurl is told of a header without a value. */
	int size = *value ? snprintf(line, sizeof line, "%s: %s", name, value)
			  : snprintf(line, sizeof line, "%s;", name);
	if (size >= (int)sizeof line)
		return -EINVAL;
	struct curl_slist *grown = curl_slist_append(*headers->list, line);
	if (!grown)
		return -ENOMEM;
	*headers->list = grown;
	return 0;
}

static bool attempt_ranged(const struct client_request *request)
{
	return request->method == CLIENT_GET && request->size > 0;
}

/* Ends the attempt because of what the server sent. */
__attribute__((format(printf, 4, 5))) static void attempt_wrong(
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

/* The ETag that the bytes must have: the caller's, or that of the bytes that are stored already. */
static const char *attempt_etag(const struct client_request *request)
{
	if (request->etag)
		return request->etag;
	return request->received ? request->answer.etag : "";
}

static void attempt_decide_range(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	const struct answer_head *head = &attempt->head;
	uint64_t first = request->offset + attempt->expected;
	if (head->multipart || !head->has_range) {
		attempt_wrong(attempt, -EBADMSG, true,
			"the server answered a range with status 206 and without a Content-Range "
			"that says which one: it, or a proxy before it, does not serve ranges "
			"correctly");
		return;
	}
	if (head->range_first > first || head->range_last < first) {
		attempt_wrong(attempt, -EBADMSG, true,
			"the server sent bytes %llu to %llu where %llu to %llu were asked for: it, "
			"or a proxy before it, does not serve ranges correctly",
			(unsigned long long)head->range_first, (unsigned long long)head->range_last,
			(unsigned long long)first,
			(unsigned long long)(request->offset + request->size - 1));
		return;
	}
	uint64_t length = head->range_last - head->range_first + 1;
	if (head->length != CLIENT_UNKNOWN && head->length != length) {
		attempt_wrong(attempt, -EBADMSG, true,
			"the answer's Content-Length of %llu contradicts its Content-Range of %llu "
			"bytes",
			(unsigned long long)head->length, (unsigned long long)length);
		return;
	}
	if (request->received && request->answer.size != CLIENT_UNKNOWN &&
		head->range_total != CLIENT_UNKNOWN && request->answer.size != head->range_total) {
		attempt_wrong(attempt, -ESTALE, false,
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
static void attempt_decide_whole(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	const struct answer_head *head = &attempt->head;
	attempt->head.answer.size = head->length;
	if (!attempt_ranged(request)) {
		if (request->method == CLIENT_GET && head->status == 206) {
			attempt_wrong(attempt, -EBADMSG, true,
				"the server sent a part of the body (status 206) where all of it "
				"was "
				"asked for: it, or a proxy before it, does not serve ranges "
				"correctly");
			return;
		}
		if (request->method == CLIENT_GET && head->length != CLIENT_UNKNOWN &&
			head->length > request->room)
			attempt_wrong(attempt, -EFBIG, false,
				"the body has %llu bytes, and at most %zu are read",
				(unsigned long long)head->length, request->room);
		return;
	}
	uint64_t end = request->offset + request->size;
	if (strncasecmp(head->answer.type, "text/html", 9) == 0) {
		attempt_wrong(attempt, -EBADMSG, true,
			"the server sent a web page (text/html) instead of the data: check the "
			"URL, and whether a proxy or a login page answers for the server");
		return;
	}
	if (head->length != CLIENT_UNKNOWN && head->length < end) {
		attempt_wrong(attempt, -ENODATA, false,
			"the object has %llu bytes, and bytes up to %llu were asked for: it was "
			"replaced or truncated",
			(unsigned long long)head->length, (unsigned long long)end);
		return;
	}
	attempt->skip = request->offset + attempt->expected;
	attempt->head.answer.ranges = false;
}

/* Decides by the headers what the body is. */
static void attempt_decide(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	const struct answer_head *head = &attempt->head;
	if (head->status < 200 || head->status >= 300) {
		attempt->mode = ATTEMPT_ERROR;
		return;
	}
	attempt->mode = ATTEMPT_STORE;
	const char *etag = attempt_etag(request);
	if (*etag && *head->answer.etag && request->method == CLIENT_GET &&
		!client_answer_same_etag(etag, head->answer.etag)) {
		attempt_wrong(attempt, -ESTALE, false,
			"the object was replaced: the dataset changed while it was read: open it "
			"again; objects of a dataset in use must not be overwritten");
		return;
	}
	/* rclone's S3 server answers a range with status 200 and the right Content-Range. */
	if (attempt_ranged(request) && (head->status == 206 || head->has_range))
		attempt_decide_range(attempt);
	else
		attempt_decide_whole(attempt);
}

/* Copies the header Link of the latest answer. */
static void attempt_link(struct client_request *request, const char *line, size_t size)
{
	if (!request->link || !request->link_room)
		return;
	if (size > 5 && strncmp(line, "HTTP/", 5) == 0)
		request->link[0] = 0;
	if (size > 5 && size - 5 < request->link_room && strncasecmp(line, "link:", 5) == 0)
		client_error_clean(line + 5, size - 5, request->link, request->link_room);
}

static size_t attempt_header(char *data, size_t one, size_t count, void *context)
{
	struct client_attempt *attempt = context;
	size_t size = one * count;
	attempt->heard_ns = clock_ns();
	if (attempt->lost)
		return 0;
	attempt_link(attempt->request, data, size);
	if (client_answer_header(&attempt->head, data, size) == 0)
		return size;
	attempt_wrong(attempt, -EBADMSG, true,
		"the headers of the answer do not end: more than %d bytes came",
		ANSWER_HEADERS_MAX);
	return 0;
}

static size_t attempt_keep_error(struct client_attempt *attempt, const char *data, size_t size)
{
	size_t kept = UTIL_MIN(size, ANSWER_ERROR_MAX - attempt->error_size);
	memcpy(attempt->error + attempt->error_size, data, kept);
	attempt->error_size += kept;
	attempt->client->stats.bytes_wasted += size;
	if (attempt->got <= ATTEMPT_ERROR_LEAST)
		return size;
	attempt->complete = true;
	return CURL_WRITEFUNC_ERROR;
}

/* The first byte of the body that is stored. */
static void attempt_first(struct client_attempt *attempt)
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
static void attempt_win(struct client_attempt *attempt)
{
	struct client *client = attempt->client;
	struct client_request *request = attempt->request;
	struct client_attempt *other =
		attempt == request->own.rival ? request->own.attempt : request->own.rival;
	if (!attempt->first_ns)
		attempt_first(attempt);
	if (!other || other == attempt || other->lost)
		return;
	other->lost = true;
	client->losers = true;
	client->stats.hedges_won += attempt->is_rival;
}

/* Stores bytes of the body at their place. */
static size_t attempt_store(struct client_attempt *attempt, const char *data, size_t size)
{
	struct client_request *request = attempt->request;
	struct client *client = attempt->client;
	bool ranged = attempt_ranged(request);
	size_t passed = (size_t)UTIL_MIN((uint64_t)size, attempt->skip);
	attempt->skip -= passed;
	uint64_t room = (ranged ? request->size : request->room) - request->received;
	size_t stored = (size_t)UTIL_MIN((uint64_t)(size - passed), room);
	if (stored) {
		memcpy(request->buffer + request->received, data + passed, stored);
		if (request->received == attempt->expected)
			request->answer = attempt->head.answer;
		request->received += stored;
	}
	size_t more = size - passed - stored;
	client->stats.bytes_wasted += passed + more;
	if (!ranged && more && request->method == CLIENT_GET) {
		attempt_wrong(attempt, -EFBIG, false,
			"the body has more than the %zu bytes that "
			"are read",
			request->room);
		return CURL_WRITEFUNC_ERROR;
	}
	if (!ranged || request->received < request->size)
		return size;
	/* Everything came. A body that ends here leaves a connection for the next request. */
	attempt->complete = true;
	uint64_t whole = attempt->head.length;
	return whole != CLIENT_UNKNOWN && attempt->got == whole ? size : CURL_WRITEFUNC_ERROR;
}

/* Charges the limit of bandwidth, and pauses the transfer once it is used up. */
static void attempt_charge(struct client_attempt *attempt, size_t size)
{
	struct client *client = attempt->client;
	if (!client->options.bandwidth)
		return;
	client->bandwidth_tokens -= (double)size;
	if (client->bandwidth_tokens >= 0 || attempt->paused || attempt->complete)
		return;
	attempt->paused = curl_easy_pause(attempt->easy, CURLPAUSE_RECV) == CURLE_OK;
}

static size_t attempt_body(char *data, size_t one, size_t count, void *context)
{
	struct client_attempt *attempt = context;
	size_t size = one * count;
	attempt->heard_ns = clock_ns();
	attempt->client->stats.bytes += size;
	if (attempt->lost || attempt->wrong ||
		(attempt->complete && attempt->mode == ATTEMPT_STORE)) {
		attempt->client->stats.bytes_wasted += size;
		return CURL_WRITEFUNC_ERROR;
	}
	if (attempt->mode == ATTEMPT_UNDECIDED)
		attempt_decide(attempt);
	attempt->got += size;
	if (attempt->wrong) {
		attempt->client->stats.bytes_wasted += size;
		return CURL_WRITEFUNC_ERROR;
	}
	if (attempt->mode == ATTEMPT_ERROR)
		return attempt_keep_error(attempt, data, size);
	if (size > attempt->skip)
		attempt_win(attempt);
	size_t result = attempt_store(attempt, data, size);
	if (result == size)
		attempt_charge(attempt, size);
	return result;
}

void client_attempt_settle(struct client_attempt *attempt)
{
	if (attempt->mode != ATTEMPT_UNDECIDED || attempt->wrong || attempt->lost)
		return;
	attempt_decide(attempt);
	if (attempt->mode == ATTEMPT_STORE && !attempt->wrong && attempt->request->received == 0)
		attempt->request->answer = attempt->head.answer;
}

static size_t attempt_upload(char *buffer, size_t one, size_t count, void *context)
{
	struct client_attempt *attempt = context;
	struct client_request *request = attempt->request;
	size_t size = (size_t)UTIL_MIN((uint64_t)(one * count), request->body_size - attempt->sent);
	attempt->heard_ns = clock_ns();
	if (size == 0)
		return 0;
	if (request->body) {
		memcpy(buffer, (const char *)request->body + attempt->sent, size);
	} else {
		int result = request->body_read(request, attempt->sent, buffer, size);
		if (result < 0) {
			attempt_wrong(attempt, result, false, "the body to send cannot be read: %s",
				strerror(-result));
			return CURL_READFUNC_ABORT;
		}
	}
	attempt->sent += size;
	return size;
}

/* libcurl sends a body again where a connection that it reused was closed. */
static int attempt_seek(void *context, curl_off_t offset, int origin)
{
	struct client_attempt *attempt = context;
	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > attempt->request->body_size)
		return CURL_SEEKFUNC_FAIL;
	attempt->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

/* What all attempts have in common. */
static void attempt_prepare(struct client_attempt *attempt)
{
	CURL *easy = attempt->easy;
	const struct client *client = attempt->client;
	curl_easy_setopt(easy, CURLOPT_PRIVATE, attempt);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* removing does not wait for DNS */
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)ATTEMPT_BUFFER);
	curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)ATTEMPT_IDLE_S);
	curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, (long)ATTEMPT_DNS_S);
	curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)ATTEMPT_CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "penstock/" PENSTOCK_VERSION);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, attempt->curl_error);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, attempt_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, attempt);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, attempt_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, attempt);
	if (client->ca_file) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
		curl_easy_setopt(easy, CURLOPT_PROXY_CAINFO, client->ca_file);
	}
	if (client->ca_path) {
		curl_easy_setopt(easy, CURLOPT_CAPATH, client->ca_path);
		curl_easy_setopt(easy, CURLOPT_PROXY_CAPATH, client->ca_path);
	}
}

static struct client_attempt *attempt_new(struct client *client)
{
	struct list_node *node = list_take_node(&client->spare);
	if (node)
		return (struct client_attempt *)((char *)node -
						 offsetof(struct client_attempt, node));
	struct client_attempt *attempt = calloc(1, sizeof *attempt);
	if (!attempt)
		return NULL;
	attempt->client = client;
	attempt->easy = curl_easy_init();
	if (!attempt->easy) {
		free(attempt);
		return NULL;
	}
	attempt_prepare(attempt);
	return attempt;
}

static void attempt_spare(struct client_attempt *attempt)
{
	curl_slist_free_all(attempt->headers);
	attempt->headers = NULL;
	attempt->request = NULL;
	if (attempt->custom) {
		curl_easy_reset(attempt->easy);
		attempt_prepare(attempt);
		attempt->custom = false;
	}
	list_prepend(&attempt->client->spare, &attempt->node);
}

void client_attempt_free_spare(struct client *client)
{
	struct list_node *node;
	while ((node = list_take_node(&client->spare))) {
		struct client_attempt *attempt =
			(struct client_attempt *)((char *)node -
						  offsetof(struct client_attempt, node));
		curl_easy_cleanup(attempt->easy);
		free(attempt);
	}
}

static const char *attempt_method(struct client_attempt *attempt)
{
	CURL *easy = attempt->easy;
	const struct client_request *request = attempt->request;
	attempt->custom = request->method != CLIENT_GET || request->flags & CLIENT_DIRECT;
	if (request->flags & CLIENT_DIRECT)
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	switch (request->method) {
	case CLIENT_HEAD:
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
		return "HEAD";
	case CLIENT_DELETE:
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
		return "DELETE";
	case CLIENT_PUT:
	case CLIENT_POST:
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, attempt_upload);
		curl_easy_setopt(easy, CURLOPT_READDATA, attempt);
		curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, attempt_seek);
		curl_easy_setopt(easy, CURLOPT_SEEKDATA, attempt);
		curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)ATTEMPT_BUFFER);
		if (request->method == CLIENT_PUT) {
			curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
			curl_easy_setopt(
				easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->body_size);
			return "PUT";
		}
		curl_easy_setopt(easy, CURLOPT_POST, 1L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
		return "POST";
	default:
		return "GET";
	}
}

/* Headers that do not depend on who asks. */
static int attempt_headers(struct client_attempt *attempt, struct client_headers *headers)
{
	const struct client_request *request = attempt->request;
	char text[CLIENT_ETAG + 2];
	int result = 0;
	if (attempt_ranged(request)) {
		const uint64_t first = request->offset + request->received;
		const uint64_t last = request->offset + request->size - 1;
		(void)snprintf(text, sizeof text, "bytes=%llu-%llu", (unsigned long long)first,
			(unsigned long long)last);
		result = client_header_add(headers, "Range", text);
	}
	const char *etag = attempt_etag(request);
	/* A weak ETag never matches in If-Match: it is compared when the answer is there. */
	if (result == 0 && request->method == CLIENT_GET && *etag && strncmp(etag, "W/", 2) != 0) {
		bool quoted = *etag == '"';
		(void)snprintf(
			text, sizeof text, "%s%s%s", quoted ? "" : "\"", etag, quoted ? "" : "\"");
		result = client_header_add(headers, "If-Match", text);
	}
	if (request->method == CLIENT_PUT || request->method == CLIENT_POST) {
		struct curl_slist *grown = curl_slist_append(*headers->list, "Expect:");
		if (!grown)
			return -ENOMEM;
		*headers->list = grown;
	}
	/* These may authorize the request, so another server must not see them. */
	const char *const *line = request->own.location_foreign ? NULL : request->headers;
	for (; result == 0 && line && *line; line++) {
		struct curl_slist *grown =
			strpbrk(*line, "\r\n") ? NULL : curl_slist_append(*headers->list, *line);
		if (!grown)
			return -EINVAL;
		*headers->list = grown;
	}
	return result;
}

static int attempt_sign(struct client_attempt *attempt, const char *method,
	struct client_headers *headers, struct fault *fault)
{
	struct client *client = attempt->client;
	struct client_request *request = attempt->request;
	const char *url = request->own.location ? request->own.location : request->url;
	*attempt->address = 0;
	if (client->options.sign && !(request->flags & CLIENT_UNSIGNED)) {
		struct client_signing signing = {.request = request,
			.method = method,
			.url = url,
			.redirected = request->own.location,
			.foreign = request->own.location_foreign,
			.clock_offset_s = request->own.place->clock_offset_s,
			.attempt = request->own.attempts,
			.ret_url = attempt->address,
			.headers = headers};
		int result = client->options.sign(client->options.context, &signing, fault);
		if (result < 0)
			return result;
	}
	if (!*attempt->address) {
		if (strlen(url) >= sizeof attempt->address)
			return fault_set(fault, -ENAMETOOLONG, "a URL has more than %d bytes",
				CLIENT_URL - 1);
		memcpy(attempt->address, url, strlen(url) + 1);
	}
	/* libcurl would guess a scheme. */
	if (strncasecmp(attempt->address, "http://", 7) != 0 &&
		strncasecmp(attempt->address, "https://", 8) != 0) {
		char clean[300];
		client_error_url(attempt->address, clean, sizeof clean);
		return fault_set(fault, -EINVAL,
			"\"%s\" is not an address that the client can read: it begins with neither "
			"https:// nor http://",
			clean);
	}
	return 0;
}

static void attempt_clear(struct client_attempt *attempt, bool rival)
{
	attempt->head.bytes = 0;
	client_answer_reset(&attempt->head);
	attempt->started_ns = attempt->heard_ns = attempt->mark_ns = clock_ns();
	attempt->first_ns = attempt->mark_bytes = attempt->skip = attempt->got = attempt->sent = 0;
	attempt->expected = attempt->request->received;
	attempt->mode = ATTEMPT_UNDECIDED;
	attempt->wrong = 0;
	attempt->retry_wrong = attempt->complete = attempt->lost = attempt->paused = false;
	attempt->is_rival = rival;
	attempt->error_size = 0;
	*attempt->curl_error = 0;
}

int client_attempt_send(struct client *client, struct client_request *request, bool rival,
	struct client_attempt **ret, struct fault *fault)
{
	struct client_attempt *attempt = attempt_new(client);
	if (!attempt)
		return fault_set(fault, -ENOMEM, "out of memory");
	attempt->request = request;
	attempt_clear(attempt, rival);
	struct client_headers headers = {&attempt->headers};
	const char *method = attempt_method(attempt);
	int result = attempt_headers(attempt, &headers);
	if (result < 0)
		(void)fault_set(fault, result, "a header of a request cannot be made: %s",
			strerror(-result));
	else
		result = attempt_sign(attempt, method, &headers, fault);
	if (result < 0) {
		attempt_spare(attempt);
		return result;
	}
	curl_easy_setopt(attempt->easy, CURLOPT_URL, attempt->address);
	curl_easy_setopt(attempt->easy, CURLOPT_HTTPHEADER, attempt->headers);
	CURLMcode code = curl_multi_add_handle(client->multi, attempt->easy);
	if (code != CURLM_OK) {
		attempt_spare(attempt);
		return fault_set(fault, -EIO, "libcurl: %s", curl_multi_strerror(code));
	}
	client_error_origin(attempt->address, request->own.place->host, PLACE_NAME);
	list_append(&client->running, &attempt->node);
	client->stats.requests++;
	*ret = attempt;
	return 0;
}

void client_attempt_end(struct client_attempt *attempt)
{
	long connects = 0;
	(void)curl_easy_getinfo(attempt->easy, CURLINFO_NUM_CONNECTS, &connects);
	attempt->client->stats.connects += (uint64_t)UTIL_MAX(connects, 0);
	(void)curl_multi_remove_handle(attempt->client->multi, attempt->easy);
	list_remove(&attempt->client->running, &attempt->node);
	attempt_spare(attempt);
}

void client_attempt_resume(struct client_attempt *attempt)
{
	attempt->paused = false;
	attempt->heard_ns = attempt->mark_ns = clock_ns();
	(void)curl_easy_pause(attempt->easy, CURLPAUSE_CONT);
}

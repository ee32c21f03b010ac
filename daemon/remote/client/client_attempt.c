/* client_attempt: one attempt of a request: its headers, its signature, and by which way it is
 * sent: over a connection of the client's own (client_direct.c), or by libcurl
 * (client_transfer.c). */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static struct client_attempt *attempt_new(struct client *client)
{
	struct list_node *node = list_take_node(&client->spare);
	if (node)
		return (struct client_attempt *)((char *)node -
						 offsetof(struct client_attempt, node));
	struct client_attempt *attempt = calloc(1, sizeof *attempt);
	if (attempt)
		attempt->client = client;
	return attempt;
}

/* Gives back what was sent, and what makes it: it may authorize. */
static void attempt_spare(struct client_attempt *attempt)
{
	client_direct_stop(attempt);
	client_transfer_stop(attempt);
	free(attempt->location);
	attempt->location = NULL;
	attempt->request = NULL;
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
		free(attempt->headers.text);
		free(attempt->text.text);
		free(attempt->input);
		free(attempt);
	}
}

static const char *attempt_method(const struct client_request *request)
{
	static const char *const names[] = {[CLIENT_GET] = "GET",
		[CLIENT_HEAD] = "HEAD",
		[CLIENT_PUT] = "PUT",
		[CLIENT_POST] = "POST",
		[CLIENT_DELETE] = "DELETE"};
	return names[request->method];
}

/* "Range: bytes=FIRST-LAST". */
static int attempt_range(const struct client_request *request, struct client_headers *headers)
{
	int result = client_headers_text(headers, "Range: bytes=");
	if (result == 0)
		result = client_headers_number(headers, request->offset + request->received);
	if (result == 0)
		result = client_headers_text(headers, "-");
	if (result == 0)
		result = client_headers_number(headers, request->offset + request->size - 1);
	return result < 0 ? result : client_headers_text(headers, "\r\n");
}

static int attempt_match(const char *etag, struct client_headers *headers)
{
	char text[CLIENT_ETAG + 2];
	if (*etag == '"')
		return client_header_add(headers, "If-Match", etag);
	(void)snprintf(text, sizeof text, "\"%s\"", etag);
	return client_header_add(headers, "If-Match", text);
}

/* Headers that do not depend on who asks. */
static int attempt_headers(const struct client_request *request, struct client_headers *headers)
{
	int result = client_body_is_ranged(request) ? attempt_range(request, headers) : 0;
	const char *etag = client_body_etag(request);
	/* A weak ETag never matches in If-Match: it is compared when the answer is there. */
	if (result == 0 && request->method == CLIENT_GET && *etag && strncmp(etag, "W/", 2) != 0)
		result = attempt_match(etag, headers);
	/* These may authorize the request, so another server must not see them. */
	const char *const *line = request->own.location_foreign ? NULL : request->headers;
	for (; result == 0 && line && *line; line++) {
		if (strpbrk(*line, "\r\n"))
			return -EINVAL;
		result = client_headers_text(headers, *line);
		if (result == 0)
			result = client_headers_text(headers, "\r\n");
	}
	return result;
}

/* Asks `sign` for the address, and for what authorizes the request. */
static int attempt_ask_sign(
	struct client_attempt *attempt, const char *method, const char *url, struct fault *fault)
{
	struct client *client = attempt->client;
	const struct client_request *request = attempt->request;
	struct client_signing signing = {.request = request,
		.method = method,
		.url = url,
		.redirected = request->own.location,
		.foreign = request->own.location_foreign,
		.clock_offset_s = request->own.place->clock_offset_s,
		.attempt = request->own.attempts,
		.ret_url = attempt->address,
		.headers = &attempt->headers};
	const size_t before = attempt->headers.used;
	if (client_signed_find(attempt))
		return 0;
	int result = client->options.sign(client->options.context, &signing, fault);
	if (result == 0 && signing.ret_valid_s)
		client_signed_keep(attempt, before, signing.ret_valid_s);
	return result;
}

static int attempt_sign(struct client_attempt *attempt, const char *method, struct fault *fault)
{
	const struct client_request *request = attempt->request;
	const char *url = request->own.location ? request->own.location : request->url;
	*attempt->address = 0;
	if (attempt->client->options.sign && !(request->flags & CLIENT_UNSIGNED)) {
		int result = attempt_ask_sign(attempt, method, url, fault);
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
	attempt->headers.used = 0;
	attempt->started_ns = attempt->heard_ns = attempt->mark_ns = clock_ns();
	attempt->first_ns = attempt->mark_bytes = attempt->skip = attempt->got = attempt->sent = 0;
	attempt->expected = attempt->request->received;
	attempt->mode = ATTEMPT_UNDECIDED;
	attempt->wrong = attempt->os_error = 0;
	attempt->retry_wrong = attempt->complete = attempt->lost = false;
	attempt->paused = attempt->tired = false;
	attempt->is_rival = rival;
	attempt->error_size = 0;
	*attempt->curl_error = 0;
}

/* Notes the server, for the sentence about what is waited for. */
static void attempt_note_host(const struct client_attempt *attempt)
{
	char *host = attempt->request->own.place->host;
	size_t size = strlen(host);
	if (!size || strncmp(attempt->address, host, size) != 0 || attempt->address[size] != '/')
		client_error_origin(attempt->address, host, PLACE_NAME);
}

static int attempt_begin(struct client_attempt *attempt, const char *method, struct fault *fault)
{
	attempt->direct = client_direct_fits(attempt);
	int result = attempt->direct ? client_direct_begin(attempt, method)
				     : client_transfer_begin(attempt);
	return result < 0
		       ? fault_set(fault, result, "a request cannot be sent: %s", strerror(-result))
		       : 0;
}

int client_attempt_send(struct client *client, struct client_request *request, bool rival,
	struct client_attempt **ret, struct fault *fault)
{
	struct client_attempt *attempt = attempt_new(client);
	if (!attempt)
		return fault_set(fault, -ENOMEM, "out of memory");
	attempt->request = request;
	attempt_clear(attempt, rival);
	const char *method = attempt_method(request);
	int result = attempt_headers(request, &attempt->headers);
	if (result < 0)
		(void)fault_set(fault, result, "a header of a request cannot be made: %s",
			strerror(-result));
	else
		result = attempt_sign(attempt, method, fault);
	if (result == 0)
		result = attempt_begin(attempt, method, fault);
	if (result < 0) {
		attempt_spare(attempt);
		return result;
	}
	attempt_note_host(attempt);
	list_append(&client->running, &attempt->node);
	client->stats.requests++;
	*ret = attempt;
	return 0;
}

void client_attempt_end(struct client_attempt *attempt)
{
	list_remove(&attempt->client->running, &attempt->node);
	attempt_spare(attempt);
}

void client_attempt_resume(struct client_attempt *attempt)
{
	attempt->paused = false;
	attempt->heard_ns = attempt->mark_ns = clock_ns();
	if (attempt->direct)
		client_direct_resume(attempt);
	else
		client_transfer_resume(attempt);
}

char *client_attempt_redirect(const struct client_attempt *attempt)
{
	return attempt->direct ? client_direct_redirect(attempt)
			       : client_transfer_redirect(attempt);
}

int client_attempt_os_error(const struct client_attempt *attempt)
{
	return attempt->direct ? attempt->os_error : client_transfer_os_error(attempt);
}

/* client_transfer: one transfer of libcurl, for requests that client_direct.c does not take: those
 * that have a body, those over a proxy without TLS, and those at odd addresses.
 *
 * libcurl calls these functions while the loop calls libcurl. They never call anything that could
 * end a transfer: they stop libcurl by an error. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

enum { TRANSFER_BUFFER = 64 << 10 /* of bodies that are sent */ };

static size_t transfer_header(char *data, size_t one, size_t count, void *context)
{
	struct client_attempt *attempt = context;
	attempt->heard_ns = clock_ns();
	return client_body_header(attempt, data, one * count) ? one * count : 0;
}

static size_t transfer_body(char *data, size_t one, size_t count, void *context)
{
	struct client_attempt *attempt = context;
	attempt->heard_ns = clock_ns();
	bool more = client_body_take(attempt, data, one * count);
	if (attempt->tired && !attempt->paused)
		attempt->paused = curl_easy_pause(attempt->easy, CURLPAUSE_RECV) == CURLE_OK;
	attempt->tired = false;
	return more ? one * count : CURL_WRITEFUNC_ERROR;
}

static size_t transfer_upload(char *buffer, size_t one, size_t count, void *context)
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
			client_body_wrong(attempt, result, false,
				"the body to send cannot be read: %s", strerror(-result));
			return CURL_READFUNC_ABORT;
		}
	}
	attempt->sent += size;
	return size;
}

/* libcurl sends a body again where a connection that it reused was closed. */
static int transfer_seek(void *context, curl_off_t offset, int origin)
{
	struct client_attempt *attempt = context;
	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > attempt->request->body_size)
		return CURL_SEEKFUNC_FAIL;
	attempt->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

static void transfer_prepare(struct client_attempt *attempt)
{
	CURL *easy = attempt->easy;
	client_curl_prepare(attempt->client, easy);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, attempt);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, attempt->curl_error);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, transfer_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, attempt);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, transfer_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, attempt);
}

static void transfer_method(struct client_attempt *attempt)
{
	CURL *easy = attempt->easy;
	const struct client_request *request = attempt->request;
	attempt->custom = request->method != CLIENT_GET || request->flags & CLIENT_DIRECT;
	if (request->flags & CLIENT_DIRECT)
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	switch (request->method) {
	case CLIENT_HEAD:
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
		break;
	case CLIENT_DELETE:
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
		break;
	case CLIENT_PUT:
	case CLIENT_POST:
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, transfer_upload);
		curl_easy_setopt(easy, CURLOPT_READDATA, attempt);
		curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, transfer_seek);
		curl_easy_setopt(easy, CURLOPT_SEEKDATA, attempt);
		curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)TRANSFER_BUFFER);
		curl_easy_setopt(
			easy, request->method == CLIENT_PUT ? CURLOPT_UPLOAD : CURLOPT_POST, 1L);
		curl_easy_setopt(easy,
			request->method == CLIENT_PUT ? CURLOPT_INFILESIZE_LARGE
						      : CURLOPT_POSTFIELDSIZE_LARGE,
			(curl_off_t)request->body_size);
		break;
	case CLIENT_GET:
	default:
		break;
	}
}

static int transfer_add(struct client_attempt *attempt, const char *line)
{
	struct curl_slist *grown = curl_slist_append(attempt->list, line);
	if (!grown)
		return -ENOMEM;
	attempt->list = grown;
	return 0;
}

/* The headers as libcurl takes them. */
static int transfer_headers(struct client_attempt *attempt)
{
	char line[CLIENT_HEADER];
	int result = 0;
	const char *at = client_headers_at(&attempt->headers, 0);
	const char *end = at + attempt->headers.used;
	for (const char *next; result == 0 && at < end; at = next + 2) {
		next = memmem(at, (size_t)(end - at), "\r\n", 2);
		if (!next || (size_t)(next - at) >= sizeof line - 1)
			return -EINVAL;
		size_t size = (size_t)(next - at);
		memcpy(line, at, size);
		line[size] = 0;
		/* "Name;" is how libcurl is told of a header without a value. */
		if (size && line[size - 1] == ':')
			line[size - 1] = ';';
		result = transfer_add(attempt, line);
	}
	bool body =
		attempt->request->method == CLIENT_PUT || attempt->request->method == CLIENT_POST;
	return result == 0 && body ? transfer_add(attempt, "Expect:") : result;
}

int client_transfer_begin(struct client_attempt *attempt)
{
	if (!attempt->easy) {
		attempt->easy = curl_easy_init();
		if (!attempt->easy)
			return -ENOMEM;
		transfer_prepare(attempt);
	}
	transfer_method(attempt);
	int result = transfer_headers(attempt);
	if (result < 0)
		return result;
	curl_easy_setopt(attempt->easy, CURLOPT_URL, attempt->address);
	curl_easy_setopt(attempt->easy, CURLOPT_HTTPHEADER, attempt->list);
	attempt->added = curl_multi_add_handle(attempt->client->multi, attempt->easy) == CURLM_OK;
	return attempt->added ? 0 : -EIO;
}

void client_transfer_stop(struct client_attempt *attempt)
{
	if (attempt->added) {
		long connects = 0;
		(void)curl_easy_getinfo(attempt->easy, CURLINFO_NUM_CONNECTS, &connects);
		attempt->client->stats.connects += (uint64_t)UTIL_MAX(connects, 0);
		(void)curl_multi_remove_handle(attempt->client->multi, attempt->easy);
	}
	attempt->added = false;
	curl_slist_free_all(attempt->list);
	attempt->list = NULL;
	if (attempt->custom) {
		curl_easy_reset(attempt->easy);
		transfer_prepare(attempt);
		attempt->custom = false;
	}
}

void client_transfer_resume(struct client_attempt *attempt)
{
	(void)curl_easy_pause(attempt->easy, CURLPAUSE_CONT);
}

char *client_transfer_redirect(const struct client_attempt *attempt)
{
	char *redirect = NULL;
	(void)curl_easy_getinfo(attempt->easy, CURLINFO_REDIRECT_URL, &redirect);
	return redirect ? strdup(redirect) : NULL;
}

int client_transfer_os_error(const struct client_attempt *attempt)
{
	long number = 0;
	(void)curl_easy_getinfo(attempt->easy, CURLINFO_OS_ERRNO, &number);
	return (int)number;
}

/* client_direct: one transfer over a connection of the client's own (client_connection.c): the
 * request is sent, the answer's header is read, and its body is received where it is stored. The
 * way through libcurl (client_transfer.c) has two costs that this one has not: each byte is copied
 * once more, and each request prepares and passes all that a transfer of libcurl can be.
 *
 * It is taken for GET and HEAD at addresses that need nothing of libcurl but a connection. A
 * connection that was used before may have been closed by the server meanwhile: while nothing of
 * the answer has come, the request is sent again over a new one.
 *
 * As for libcurl's transfers, the end is noted, and client.c tells client_request.c of it. */
#include "remote/client/client_impl.h"

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/uio.h>

enum {
	DIRECT_INPUT = 2048, /* of headers; more where a line is longer */
	DIRECT_INPUT_LEAST = 512, /* free room to receive into */
	DIRECT_TURN = 2 << 20, /* bytes until other connections have a turn */
	DIRECT_SLOW = 64 << 10, /* bytes at once where bandwidth is limited */
};

/* Something came, or was sent. */
static void direct_heard(struct client_attempt *attempt)
{
	attempt->heard_ns = UTIL_MAX(attempt->client->now_ns, attempt->started_ns);
}

static bool direct_is_host(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '-' && c <= ':' && c != '/') ||
	       (c >= 'A' && c <= 'Z') || c == '_' || c == '[' || c == ']';
}

/* Where the path begins of an address that needs nothing that libcurl does to addresses: no user,
 * no fragment, no dots to be resolved; NULL: of another one. */
static const char *direct_path(const char *address)
{
	const char *host = strstr(address, "://") + 3, *path = host;
	while (direct_is_host(*path))
		path++;
	if (path == host || *path != '/')
		return NULL;
	bool query = false;
	for (const char *p = path; *p; p++) {
		if (*p <= ' ' || *p > '~' || *p == '#')
			return NULL;
		query |= *p == '?';
		if (*p == '/' && !query && p[1] == '.')
			return NULL;
	}
	return path;
}

/* Headers of the caller that this file sends itself, or that libcurl gives a meaning. */
static bool direct_headers(const char *const *lines)
{
	static const char *const own[] = {"host:", "user-agent:", "accept:", "connection:",
		"transfer-encoding:", "content-length:", "te:", "expect:", "upgrade:"};
	for (; lines && *lines; lines++)
		for (size_t i = 0; i < UTIL_COUNT(own); i++)
			if (strncasecmp(*lines, own[i], strlen(own[i])) == 0)
				return false;
	return true;
}

bool client_direct_fits(struct client_attempt *attempt)
{
	const struct client_request *request = attempt->request;
	bool tls = strncasecmp(attempt->address, "https://", 8) == 0;
	attempt->path = NULL;
	if ((request->method == CLIENT_GET || request->method == CLIENT_HEAD) &&
		!(request->flags & CLIENT_DIRECT) && (tls || !attempt->client->proxied) &&
		direct_headers(request->headers))
		attempt->path = direct_path(attempt->address);
	return attempt->path;
}

/* The text of the request: its first lines before the headers that are there already. */
static int direct_text(struct client_attempt *attempt, const char *method)
{
	const char *host = strstr(attempt->address, "://") + 3;
	size_t size = (size_t)(attempt->path - host);
	const char *port = attempt->connection->tls ? ":443" : ":80";
	size_t own = strlen(port);
	if (size > own && memcmp(attempt->path - own, port, own) == 0)
		size -= own;
	struct client_headers *text = &attempt->text;
	text->used = 0;
	const char *const parts[] = {method, " ", attempt->path, " HTTP/1.1\r\nHost: "};
	int result = 0;
	for (size_t i = 0; result == 0 && i < UTIL_COUNT(parts); i++)
		result = client_headers_text(text, parts[i]);
	if (result == 0)
		result = client_headers_append(text, host, size);
	if (result == 0)
		result = client_headers_text(
			text, "\r\nUser-Agent: " CLIENT_AGENT "\r\nAccept: */*\r\n");
	if (result == 0)
		result = client_headers_append(text, attempt->headers.text, attempt->headers.used);
	return result < 0 ? result : client_headers_append(text, "\r\n", 2);
}

/* Notes the end. */
static void direct_end(struct client_attempt *attempt, CURLcode code)
{
	struct client_connection *connection = attempt->connection;
	attempt->connection = NULL;
	/* A server may answer before it has the whole request. */
	const bool sent = attempt->text_sent == attempt->text.used;
	if (connection && code == CURLE_OK && !attempt->http.ends && sent)
		client_connection_give(connection);
	else if (connection)
		client_connection_close(connection);
	attempt->code = code;
	attempt->over = true;
	list_append(&attempt->client->over, &attempt->over_node);
}

__attribute__((format(printf, 3, 4))) static void direct_fail(
	struct client_attempt *attempt, CURLcode code, const char *format, ...)
{
	va_list list;
	va_start(list, format);
	(void)vsnprintf(attempt->curl_error, sizeof attempt->curl_error, format, list);
	va_end(list);
	direct_end(attempt, code);
}

/* Nothing of an answer has come. */
static bool direct_is_new(const struct client_attempt *attempt)
{
	return attempt->http.bytes == 0 && attempt->http.state == HTTP_STATUS;
}

static void direct_reset(struct client_attempt *attempt)
{
	attempt->http = (struct client_http){.head = attempt->request->method == CLIENT_HEAD};
	attempt->text_sent = attempt->input_size = 0;
}

/* The server has closed the connection while it was idle: again, over a new one. */
static bool direct_again(struct client_attempt *attempt)
{
	struct client_connection *old = attempt->connection;
	if (!old->reused || !direct_is_new(attempt))
		return false;
	attempt->connection = client_connection_take(attempt->client, attempt, old->origin, true);
	client_connection_close(old);
	direct_reset(attempt);
	if (!attempt->connection)
		direct_fail(attempt, CURLE_OUT_OF_MEMORY, "no memory for a connection");
	return true;
}

/* The connection was closed, or failed (`error` is a negative errno). */
static void direct_closed(struct client_attempt *attempt, int error)
{
	bool whole = error == 0 && client_http_closed(&attempt->http);
	const char *said = attempt->connection->error;
	if (whole)
		direct_end(attempt, CURLE_OK);
	else if (direct_again(attempt))
		return;
	else if (error < 0)
		direct_fail(attempt, CURLE_RECV_ERROR, "%s",
			attempt->connection->tls && *said ? said : strerror(-error));
	else if (client_http_room(&attempt->http) == 0 && attempt->got == 0)
		direct_fail(attempt, CURLE_GOT_NOTHING, "%s",
			direct_is_new(attempt) ? "no answer came" : "its headers ended early");
	else
		direct_fail(attempt, CURLE_PARTIAL_FILE, "%llu bytes of it came",
			(unsigned long long)attempt->got);
}

static void direct_wrong(struct client_attempt *attempt)
{
	if (attempt->http.endless) {
		client_body_endless(attempt);
		direct_end(attempt, CURLE_WRITE_ERROR);
	} else if (!direct_again(attempt)) {
		direct_fail(
			attempt, CURLE_WEIRD_SERVER_REPLY, "the answer %s", attempt->http.wrong);
	}
}

/* Where a redirect leads, until client_direct_redirect. */
static void direct_location(struct client_attempt *attempt, const char *line, size_t size)
{
	if ((*line | 0x20) != 'l' || size < 9 || size >= CLIENT_URL ||
		strncasecmp(line, "location:", 9) != 0)
		return;
	const char *value = line + 9, *end = line + size;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (unsigned char)end[-1] <= ' ')
		end--;
	const size_t used = (size_t)(end - value);
	free(attempt->location);
	attempt->location = malloc(used + 1);
	if (!attempt->location)
		return;
	memcpy(attempt->location, value, used);
	attempt->location[used] = 0;
}

/* The header has ended. Returns whether the transfer goes on. */
static bool direct_head(struct client_attempt *attempt)
{
	/* Only one of the two can be right. */
	if (attempt->http.chunked)
		attempt->head.length = CLIENT_UNKNOWN;
	/* An answer without a body is decided when it has ended. */
	if (attempt->http.state != HTTP_ENDED)
		client_body_decide(attempt);
	if (attempt->wrong)
		direct_end(attempt, CURLE_WRITE_ERROR);
	return !attempt->wrong;
}

/* Bytes of the body. Returns whether the transfer goes on. */
static bool direct_body(struct client_attempt *attempt, const char *bytes, size_t size)
{
	if (client_body_take(attempt, bytes, size))
		return true;
	direct_end(attempt, CURLE_WRITE_ERROR);
	return false;
}

/* Passes over what was received into `input`. Returns whether the transfer goes on. */
static bool direct_read(struct client_attempt *attempt)
{
	size_t at = 0, used = 0;
	for (bool goes_on = true; goes_on; at += used) {
		const char *bytes = attempt->input + at;
		switch (client_http_next(&attempt->http, bytes, attempt->input_size - at, &used)) {
		case HTTP_MORE:
			attempt->input_size -= at;
			memmove(attempt->input, bytes, attempt->input_size);
			return true;
		case HTTP_PASS:
			break;
		case HTTP_LINE:
			direct_location(attempt, bytes, used);
			goes_on = client_body_header(attempt, bytes, used);
			if (!goes_on)
				direct_end(attempt, CURLE_WRITE_ERROR);
			break;
		case HTTP_HEAD:
			goes_on = direct_head(attempt);
			break;
		case HTTP_BYTES:
			goes_on = direct_body(attempt, bytes, used);
			break;
		case HTTP_END:
			/* What follows belongs to nothing that was asked for. */
			attempt->http.ends |= at < attempt->input_size;
			direct_end(attempt, CURLE_OK);
			return false;
		case HTTP_WRONG:
		default:
			direct_wrong(attempt);
			return false;
		}
	}
	return false;
}

static int direct_grow(struct client_attempt *attempt)
{
	size_t room = attempt->input_room ? attempt->input_room * 2 : DIRECT_INPUT;
	if (attempt->input_room - attempt->input_size >= DIRECT_INPUT_LEAST)
		return 0;
	char *grown = realloc(attempt->input, room);
	if (!grown)
		return -ENOMEM;
	attempt->input = grown;
	attempt->input_room = room;
	return 0;
}

/* Where the next bytes go. Returns how many parts; `ret_body` says whether the first of them is of
 * the body. */
static int direct_parts(struct client_attempt *attempt, struct iovec parts[2], bool *ret_body)
{
	struct client *client = attempt->client;
	uint64_t room = client_http_room(&attempt->http);
	*ret_body = room > 0;
	if (!room) {
		if (direct_grow(attempt) < 0)
			return 0;
		parts[0] = (struct iovec){attempt->input + attempt->input_size,
			attempt->input_room - attempt->input_size};
		return 1;
	}
	size_t space = sizeof client->scratch;
	uint8_t *target = client_body_target(attempt, &space);
	if (!target) {
		target = client->scratch;
		space = attempt->skip ? (size_t)UTIL_MIN(attempt->skip, (uint64_t)space) : space;
	}
	if (client->options.bandwidth)
		space = UTIL_MIN(space, (size_t)DIRECT_SLOW);
	parts[0] = (struct iovec){target, (size_t)UTIL_MIN(room, (uint64_t)space)};
	parts[1] = (struct iovec){client->excess, sizeof client->excess};
	return attempt->http.state == HTTP_BODY && room <= space ? 2 : 1;
}

/* Receives once. Returns whether there may be more to receive now. */
static bool direct_receive(struct client_attempt *attempt, size_t *ret_got)
{
	struct iovec parts[2];
	bool body;
	size_t got = 0;
	struct client_connection *connection = attempt->connection;
	int count = direct_parts(attempt, parts, &body);
	if (!count) {
		direct_fail(attempt, CURLE_OUT_OF_MEMORY, "no memory for headers");
		return false;
	}
	int result = client_connection_receive(connection, parts, count, &got);
	if (result == -EAGAIN)
		return false;
	direct_heard(attempt);
	if (result < 0 || got == 0) {
		direct_closed(attempt, result);
		return false;
	}
	*ret_got = got;
	/* What the kernel has less than is asked for, it has no more of. */
	bool more = connection->tls || got >= parts[0].iov_len;
	if (!body) {
		attempt->input_size += got;
		return direct_read(attempt) && more;
	}
	size_t own = UTIL_MIN(got, parts[0].iov_len);
	attempt->http.ends |= got > own;
	client_http_took(&attempt->http, own);
	if (!direct_body(attempt, parts[0].iov_base, own))
		return false;
	return direct_read(attempt) && more;
}

static void direct_send(struct client_attempt *attempt)
{
	while (attempt->text_sent < attempt->text.used) {
		size_t sent = 0;
		int result = client_connection_send(attempt->connection,
			attempt->text.text + attempt->text_sent,
			attempt->text.used - attempt->text_sent, &sent);
		if (result == -EAGAIN) {
			(void)client_connection_watch(attempt->connection, EPOLLIN | EPOLLOUT);
			return;
		}
		if (result < 0) {
			if (!direct_again(attempt))
				direct_fail(attempt, CURLE_SEND_ERROR, "%s", strerror(-result));
			return;
		}
		direct_heard(attempt);
		attempt->text_sent += sent;
	}
	(void)client_connection_watch(attempt->connection, EPOLLIN);
}

/* Its socket can be read or written. */
static void direct_ready(struct client_attempt *attempt)
{
	const struct client_connection *connection = attempt->connection;
	size_t turn = 0, got = 0;
	if (attempt->text_sent < attempt->text.used) {
		direct_send(attempt);
		/* It ended, or began again. */
		if (attempt->connection != connection)
			return;
	}
	while (direct_receive(attempt, &got)) {
		turn += got;
		if (attempt->tired || (!connection->tls && turn > DIRECT_TURN))
			break;
	}
	if (attempt->over || attempt->connection != connection)
		return;
	if (!attempt->tired) {
		if (client_http_room(&attempt->http) > 0)
			client_connection_acknowledge(connection);
		return;
	}
	attempt->tired = false;
	attempt->paused = true;
	(void)client_connection_watch(attempt->connection, 0);
}

void client_direct_event(struct client_connection *connection, int fd, uint32_t events)
{
	struct client_attempt *attempt = connection->attempt;
	CURLcode code;
	if (connection->state == CONNECTION_MAKING) {
		if (!client_connection_advance(connection, fd, events, &code))
			return;
		if (code == CURLE_OK) {
			direct_send(attempt);
		} else {
			attempt->os_error = connection->os_error;
			direct_fail(attempt, code, "%s", connection->error);
		}
	} else if (!attempt) {
		if (!client_connection_is_quiet(connection))
			client_connection_close(connection);
	} else if (!attempt->paused) {
		direct_ready(attempt);
	}
}

int client_direct_begin(struct client_attempt *attempt, const char *method)
{
	char origin[PLACE_NAME];
	size_t size = (size_t)(attempt->path - attempt->address);
	if (size >= sizeof origin)
		return -EINVAL;
	memcpy(origin, attempt->address, size);
	origin[size] = 0;
	direct_reset(attempt);
	attempt->connection = client_connection_take(attempt->client, attempt, origin, false);
	int result = attempt->connection ? direct_text(attempt, method) : -ENOMEM;
	if (result < 0) {
		client_direct_stop(attempt);
		return result;
	}
	if (attempt->connection->state == CONNECTION_BUSY)
		direct_send(attempt);
	return 0;
}

void client_direct_stop(struct client_attempt *attempt)
{
	if (attempt->connection)
		client_connection_close(attempt->connection);
	attempt->connection = NULL;
	if (attempt->over)
		list_remove(&attempt->client->over, &attempt->over_node);
	attempt->over = false;
}

void client_direct_resume(struct client_attempt *attempt)
{
	(void)client_connection_watch(attempt->connection, EPOLLIN);
	/* TLS may have bytes that the epoll does not know of. */
	direct_ready(attempt);
}

char *client_direct_redirect(const struct client_attempt *attempt)
{
	char *found = NULL, *copy = NULL;
	CURLU *url = attempt->location ? curl_url() : NULL;
	if (url && curl_url_set(url, CURLUPART_URL, attempt->address, 0) == CURLUE_OK &&
		curl_url_set(url, CURLUPART_URL, attempt->location,
			CURLU_NON_SUPPORT_SCHEME | CURLU_ALLOW_SPACE | CURLU_URLENCODE) ==
			CURLUE_OK &&
		curl_url_get(url, CURLUPART_URL, &found, 0) == CURLUE_OK)
		copy = strdup(found);
	curl_free(found);
	curl_url_cleanup(url);
	return copy;
}
